"""Converts a program with half values back to float32, for ``verify`` to compare with.

    y = matmul(cast(x, "float16"), w), w float16   ->   y = matmul(cast(x, "float32"), w), w float32

It runs before every other pass, both on programs with half variables and on those that AMP's entry
points annotated.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.annotations import AMP
from paddle_ipu.passes.pass_base import Compilation

_HALF = (ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_NAMES = ("float16", "bfloat16")


class ConvertToFloat32:
    """Retypes half values and casts to half, and removes AMP's annotations."""

    name = "convert_to_float32"

    def run(self, compilation: Compilation) -> bool:
        changed = False
        for graph in dialect.graphs(compilation.graph):
            values = [*graph.inputs, *(value for node in graph for value in node.outputs)]
            for value in values:
                changed |= value.meta.pop(AMP, None) is not None
                if value.dtype in _HALF:
                    value.type = ir.TensorType(ir.DataType.FLOAT)
                    changed = True
            for node in graph:
                changed |= _convert(node)
        return changed


def _convert(node: ir.Node) -> bool:
    changed = node.attributes.pop(AMP, None) is not None
    for name, attribute in list(node.attributes.items()):
        if attribute.type == ir.AttributeType.STRING and attribute.value in _NAMES:
            node.attributes[name] = ir.AttrString(name, "float32")
            changed = True
    return changed
