"""Where an operator of a PopART program comes from. It imports no ONNX: running needs it, too."""

from __future__ import annotations

from typing import NamedTuple


class NodeOrigin(NamedTuple):
    """What an operator of a PopART program was translated from; "" where that is not known.

    Attributes:
        operator: Paddle's, for instance ``layer_norm``.
        source: ``file:line`` of the user's call.
        layer: the path of the layer.
    """

    operator: str = ""
    source: str = ""
    layer: str = ""

    @property
    def where(self) -> str:
        """The layer and the user's line, as far as they are known."""
        return ", ".join(filter(None, (self.layer, self.source)))

    def name(self, op_type: str) -> str:
        """What a report calls an operator of PopART: as Paddle does, where that is another name."""
        mine, popart = (name.replace("_", "").lower() for name in (self.operator, op_type))
        return op_type if not mine or mine == popart else f"{self.operator} ({op_type})"


def folded(layer: str) -> str:
    """A path with ``*`` for its numbers: layers of a list that are built alike have one."""
    return ".".join("*" if part.isdecimal() else part for part in layer.split("."))
