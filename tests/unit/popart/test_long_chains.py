"""Chains of thousands of operators, and operators that read a value twice, one behind another.

What goes through them must look at each operator once: else these tests do not end, or end in a
RecursionError.
"""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.popart.integer_widths import computed_in_64_bits

LONG, DOUBLED = 3000, 100


def builder() -> popart.Builder:
    return popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})


def test_a_shape_behind_a_long_chain() -> None:
    build = builder()
    x = build.addInputTensor("FLOAT", [2, 6], "x")
    shape = build.aiOnnx.constant(np.array([3, 4], np.int64))
    for _ in range(LONG):
        shape = build.aiOnnx.identity([shape])
    assert build.getTensorShape(build.aiOnnx.reshape([x, shape])) == [3, 4]


def test_a_shape_that_reads_itself_again_and_again() -> None:
    build = builder()
    x = build.addInputTensor("FLOAT", [2, 6], "x")
    first = build.aiOnnx.constant(np.array([0], np.int64))
    for _ in range(DOUBLED):
        first = build.aiOnnx.gather([first, first])
    shape = build.aiOnnx.concat([first, build.aiOnnx.constant(np.array([6], np.int64))], 0)
    assert build.getTensorShape(build.aiOnnx.reshape([x, shape])) == [2, 6]


@pytest.mark.parametrize("is_picked", [True, False])
def test_the_width_of_a_long_chain_of_integers(is_picked: bool) -> None:
    build = builder()
    table = build.addInputTensor("FLOAT", [8, 2], "table")
    i = build.addInputTensor("INT64", [3], "i")
    chain = [i]
    for _ in range(LONG):
        chain.append(build.aiOnnx.identity([chain[-1]]))
    last = build.aiOnnx.gather([table, chain[-1]]) if is_picked else chain[-1]
    build.addOutputTensor(last)
    wide = computed_in_64_bits(build.model.graph, fetched=[last])
    # Indices need 32 bits only; what is fetched has all that was fed.
    assert wide == (frozenset() if is_picked else frozenset(chain))


def test_the_width_of_integers_that_are_read_twice() -> None:
    build = builder()
    table = build.addInputTensor("FLOAT", [8, 2], "table")
    which = build.addInputTensor("BOOL", [3], "which")
    i = build.addInputTensor("INT64", [3], "i")
    for _ in range(DOUBLED):
        i = build.aiOnnx.where([which, i, i])
    is_first = build.aiOnnx.equal([i, build.aiOnnx.constant(np.array([7], np.int64))])
    for tensor in (is_first, build.aiOnnx.gather([table, i])):
        build.addOutputTensor(tensor)
    assert computed_in_64_bits(build.model.graph) == frozenset()
