"""Concatenations that mostly copy what is fed, done by a kernel: a decoder's keys and values.

XLA asks for each element of the result of which operand it is, as a rule on one thread, and takes
several times as long as a copy. Where what is joined is computed, it joins while it computes, and
images keep the layout that convolutions give them; those are left to it.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import onnx_ir as ir

from paddle_ipu.xla.kernels import library
from paddle_ipu.xla.lowerings.node_values import (
    STANDARD,
    gives_its_input,
    is_float32,
    static_dims,
)
from paddle_ipu.xla.rewrites.inference_graph import InferenceGraph
from paddle_ipu.xla.rewrites.replacement import become

_LEAST_ELEMENTS = 1 << 14
"""Fewer are joined sooner than a custom call has begun."""

_SHORTEST_ROW = 256
"""Elements of a row of the result; of shorter ones a copy is mostly its beginning."""

_RESHAPES = ("Reshape", "Squeeze", "Unsqueeze")


class JoinFeeds:
    """Has a kernel join arrays where most of the result is read from the program's inputs."""

    name = "join_feeds"
    requires = ("unread rows left out",)
    ensures = ("feeds joined",)

    def run(self, program: InferenceGraph, /) -> bool:
        """Changes operators in their place, and no tensor."""
        if not program.allows_kernels or library.version() is None:
            return False
        graph = program.graph
        fed = {str(value.name) for value in graph.inputs} - {*program.weights}
        chosen = [node for node in graph if _copies_feeds(node, fed)]
        for node in chosen:
            rank = len(static_dims(node.outputs[0]))
            become(node, "Concat", axis=node.attributes["axis"].as_int() % rank)
        return bool(chosen)


def _copies_feeds(node: ir.Node, fed: Collection[str]) -> bool:
    if node.op_type != "Concat" or node.domain not in STANDARD or len(node.inputs) < 2:
        return False
    dims = static_dims(node.outputs[0])
    if not dims or not all(is_float32(value) for value in (*node.inputs, *node.outputs)):
        return False
    axis = node.attributes["axis"].as_int() % len(dims)
    elements = math.prod(dims)
    if elements < _LEAST_ELEMENTS or math.prod(dims[axis:]) < _SHORTEST_ROW:
        return False
    copied = [value for value in node.inputs if _lies_in_a_feed(value, fed)]
    return 2 * sum(math.prod(static_dims(value)) for value in copied) >= elements


def _lies_in_a_feed(value: ir.Value | None, fed: Collection[str]) -> bool:
    """Whether it is what is fed, perhaps of another shape."""
    while value is not None and value.name not in fed:
        node = value.producer()
        is_same = node is not None and (
            gives_its_input(node) or (node.op_type in _RESHAPES and node.domain in STANDARD)
        )
        value = node.inputs[0] if node is not None and is_same else None
    return value is not None
