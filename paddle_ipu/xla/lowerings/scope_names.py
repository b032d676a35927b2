"""Names by which XLA's instructions tell which PopART operator they came from.

JAX puts the scopes an operation was traced in, and what it did to them, into the instruction's
``op_name``: ``jit(whole_step)/transpose(jvp(popart.MatMul.12))/dot_general`` is the backward of the
graph's node 12. An operator in a subgraph has the scopes of the operators around it in front. The
path of the layer is a scope of its own, around the operator's:
``jvp(encoder.layers.0.linear1)/jvp(popart.MatMul.12)/dot_general``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Literal

import jax
import onnx_ir as ir

from paddle_ipu.dialect import dialect

UPDATE = "popart_update"
ACCUMULATION = "popart_accumulation"

KEY = "paddle_ipu.scope"
"""Where the ``meta`` of a node has its scope, if that is not the one of its place in the graph."""

Phase = Literal["forward", "backward", "update", "accumulation"]

_NODE = re.compile(r"popart\.(\w+)\.(\d+)")
_NO_NAME = re.compile(r"\W")
_NO_PATH = re.compile(r"[^\w.]")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an instruction comes from.

    Attributes:
        path: (type, number in its graph) of the operator, those around it in front; empty where
            it belongs to none.
        phase: of the step.
    """

    path: tuple[tuple[str, int], ...]
    phase: Phase


NOWHERE = Origin((), "forward")


def of_node(node: ir.Node, number: int) -> str:
    """The scopes of a node of a graph, those of the layer and the operator: ``layer/operator``.

    Args:
        number: its place there.
    """
    operator = f"popart.{_NO_NAME.sub('_', node.op_type)}.{number}"
    # A layer cannot be taken for an operator.
    layer = _NO_PATH.sub("_", dialect.layer_of(node)).replace("popart.", "popart_")
    return f"{layer}/{operator}" if layer else operator


@contextmanager
def entered(scope: str) -> Iterator[None]:
    """What is traced inside has a node's scopes."""
    layer, _, operator = scope.rpartition("/")
    with jax.named_scope(layer) if layer else nullcontext(), jax.named_scope(operator):
        yield


def origin_of(op_name: str) -> Origin | None:
    """What an ``op_name`` tells; None where it tells of no part of a program."""
    if UPDATE in op_name:
        return Origin((), "update")
    if ACCUMULATION in op_name:
        return Origin((), "accumulation")
    path: list[tuple[str, int]] = []
    for match in _NODE.finditer(op_name):
        node = match[1], int(match[2])
        # A loop's scope is repeated by what is traced inside of its derivative.
        if node not in path:
            path.append(node)
    if not path:
        return None
    backward = "transpose(" in op_name or "rematted_computation" in op_name
    return Origin(tuple(path), "backward" if backward else "forward")
