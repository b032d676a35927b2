"""Element types of 8 and 16 bits, of which PopLibs 3.4 has no elementwise arithmetic.

Such tensors are moved, cast and sent. The host computes what only constants go into.
"""

from __future__ import annotations

import onnx_ir as ir

from paddle_ipu.errors import poplar_exception
from paddle_ipu.popart.op_schema import ONNX
from paddle_ipu.popart.schema import debug_name
from paddle_ipu.popart.shape_inference.constants import constant_of

_BYTES = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_SHORTS = frozenset({ir.DataType.INT16, ir.DataType.UINT16})
_ARITHMETIC = frozenset("Add Sub Mul Div Max Min Pow Sum Less Greater".split())
_EQUALITY = frozenset({"Equal"})


def check_vertices(graph: ir.Graph) -> None:
    """Checks that PopLibs computes the elementwise operators of a program, in its subgraphs too.

    Raises:
        poplar_exception: one of them takes integers of 8 or 16 bits.
    """
    for node in graph.all_nodes():
        missing = _BYTES if node.op_type in _EQUALITY else _BYTES | _SHORTS
        is_known = node.op_type in _ARITHMETIC | _EQUALITY and node.domain in ("", ONNX)
        if not is_known or len(node.inputs) < 2 or _is_constant(node):
            continue
        for value in node.inputs:
            if value is not None and value.dtype in missing:
                raise poplar_exception(
                    f"PopLibs has no vertex for {debug_name(node)}: its input '{value.name}' is "
                    f"{value.dtype.name}, expected a type of 32 bits, or FLOAT16. Cast the inputs "
                    "first."
                )


def _is_constant(node: ir.Node) -> bool:
    return all(value is None or constant_of(value) is not None for value in node.inputs)
