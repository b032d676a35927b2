"""Drops the annotations of serialised matmuls if ``enable_serialized_matmuls`` is off."""

from __future__ import annotations

from paddle_ipu.dialect import dialect
from paddle_ipu.passes.pass_base import Compilation

_ATTRIBUTES = ("serialize_factor", "serialize_mode")


class DropMatmulSerialization:
    """Removes the annotations that split a matmul into parts.

    PopART's own switch is in its C++ interface only.
    """

    name = "drop_matmul_serialization"
    requires = ()
    ensures = ()

    def run(self, compilation: Compilation) -> bool:
        if compilation.options["enable_serialized_matmuls"]:
            return False
        dropped = [
            node.attributes.pop(name)
            for node in dialect.walk(compilation.graph)
            for name in _ATTRIBUTES
            if name in node.attributes
        ]
        return bool(dropped)
