"""Rows that a Slice throws away are not computed, and nobody sees a difference."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu import popart
from paddle_ipu.popart.schema import NEWEST_OPSETS, schemas_of_opset
from paddle_ipu.xla.rewrites import slice_pushdown
from paddle_ipu.xla.rewrites.slice_pushdown import Rows, through_reshape
from tests.unit.xla.inference_sessions import Made, chosen

Array = np.ndarray[Any, Any]


@st.composite
def _reshapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], Rows]:
    factors = draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))

    def shape() -> tuple[int, ...]:
        cuts = [draw(st.booleans()) for _ in factors[1:]]
        dims = [factors[0]]
        for is_new, factor in zip(cuts, factors[1:], strict=True):
            if is_new:
                dims.append(factor)
            else:
                dims[-1] *= factor
        return tuple(dims)

    dims, reshaped = shape(), shape()
    axis = draw(st.integers(0, len(reshaped) - 1))
    start = draw(st.integers(0, reshaped[axis] - 1))
    step = draw(st.integers(1, 3))
    count = draw(st.integers(1, (reshaped[axis] - start - 1) // step + 1))
    return dims, reshaped, Rows(axis, start, step, count)


@settings(deadline=None, max_examples=300)
@given(_reshapes())
def test_rows_of_a_reshaped_array_are_rows_of_the_array(
    case: tuple[tuple[int, ...], tuple[int, ...], Rows],
) -> None:
    dims, reshaped, rows = case
    array = np.arange(math.prod(dims)).reshape(dims)
    wanted = array.reshape(reshaped).take(rows.places, axis=rows.axis)
    found = through_reshape(dims, reshaped, rows)
    if found is not None:
        taken = array.take(found.places, axis=found.axis)
        np.testing.assert_array_equal(taken.reshape(wanted.shape), wanted)
    elif rows.count == 1 and reshaped[rows.axis] > 1 and dims == reshaped:
        raise AssertionError("a row of an array that keeps its shape")


@pytest.mark.parametrize(
    ("dims", "reshaped", "rows", "expected"),
    [
        ((6, 5), (2, 3, 5), Rows(1, 2, 1, 1), Rows(0, 2, 3, 2)),
        ((2, 3, 5), (6, 5), Rows(0, 2, 3, 2), Rows(1, 2, 1, 1)),
        ((2, 12), (2, 3, 4), Rows(0, 1, 1, 1), Rows(0, 1, 1, 1)),
        ((6, 5), (2, 3, 5), Rows(0, 0, 1, 1), Rows(0, 0, 1, 3)),
        ((6, 5), (2, 3, 5), Rows(1, 0, 1, 2), None),
        ((2, 3, 5), (6, 5), Rows(0, 0, 1, 2), None),
        ((4, 6), (3, 8), Rows(0, 0, 1, 1), None),
        ((0, 4), (0, 2, 2), Rows(1, 0, 1, 1), None),
    ],
)
def test_what_becomes_which_rows(
    dims: tuple[int, ...], reshaped: tuple[int, ...], rows: Rows, expected: Rows | None
) -> None:
    assert through_reshape(dims, reshaped, rows) == expected


BATCH, ROWS, HIDDEN = 2, 5, 8


class Program:
    """A PopART program over x [2, 5, 8]."""

    def __init__(self) -> None:
        self.builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.onnx = self.builder.aiOnnx
        self.x = self.builder.addInputTensor(popart.TensorInfo("FLOAT", [BATCH, ROWS, HIDDEN]))
        self.numbers = np.random.default_rng(0)
        self.feeds = {self.x: self.array(BATCH, ROWS, HIDDEN)}

    def array(self, *shape: int) -> Array:
        return self.numbers.standard_normal(shape, np.float32)

    def weight(self, *shape: int) -> str:
        return str(self.builder.addInitializedInputTensor(self.array(*shape)))

    def integers(self, *numbers: int) -> str:
        return str(self.onnx.constant(np.array(numbers, np.int64)))

    def linear(self, x: str) -> str:
        product = self.onnx.matmul([x, self.weight(HIDDEN, HIDDEN)])
        return self.onnx.add([product, self.weight(HIDDEN)])

    def norm(self, x: str) -> str:
        """Of each row, by way of [10, 8]."""
        rows = self.onnx.reshape([x, self.integers(BATCH * ROWS, HIDDEN)])
        own = self.builder.aiGraphcore.groupnormalization(
            [rows, self.weight(HIDDEN), self.weight(HIDDEN)], 1
        )[0]
        return self.onnx.reshape([own, self.integers(BATCH, ROWS, HIDDEN)])

    def attention(self, x: str) -> str:
        key = self.onnx.transpose([self.linear(x)], perm=(0, 2, 1))
        powers = self.onnx.softmax([self.onnx.matmul([self.linear(x), key])], axis=2)
        return self.onnx.matmul([powers, self.linear(x)])

    def sliced(self, x: str, start: int = 0, end: int = 1, axis: int = 1, step: int = 1) -> str:
        parts = [self.integers(number) for number in (start, end, axis, step)]
        return self.onnx.slice([x, *parts])


Case = Callable[[Program], list[str]]
CASES: dict[str, tuple[Case, list[int]]] = {}


def case(*rows: int) -> Callable[[Case], Case]:
    """Says how many rows each MatMul of a case makes."""

    def kept(make: Case) -> Case:
        CASES[make.__name__] = make, list(rows)
        return make

    return kept


@case(5, 5, 1, 1)
def first_token_of_a_layer(p: Program) -> list[str]:
    x = p.norm(p.x)
    x = p.norm(p.onnx.add([x, p.attention(x)]))
    x = p.norm(p.onnx.add([p.onnx.relu([p.linear(x)]), x]))
    return [p.onnx.reshape([p.sliced(x), p.integers(BATCH, HIDDEN)])]


@case(3, 3)
def last_rows_counted_from_the_end(p: Program) -> list[str]:
    return [p.sliced(p.onnx.tanh([p.linear(p.linear(p.x))]), -3, 100)]


@case(2)
def every_second_row(p: Program) -> list[str]:
    return [p.sliced(p.linear(p.x), 1, 5, 1, 2)]


@case(5)
def one_example(p: Program) -> list[str]:
    return [p.sliced(p.norm(p.linear(p.x)), 1, 2, 0)]


@case(5)
def rows_of_examples_in_reverse(p: Program) -> list[str]:
    numbers = [p.integers(*pair) for pair in ([-1, 0], [-100, 1], [0, 1], [-1, 1])]
    return [p.onnx.slice([p.linear(p.x), *numbers])]


@case(1)
def row_of_what_is_broadcast(p: Program) -> list[str]:
    sums = p.onnx.add([p.onnx.mul([p.linear(p.x), p.weight(ROWS, 1)]), p.weight(1, 1, HIDDEN)])
    return [p.sliced(sums, 3, 4)]


@case(4, 4)
def slice_of_a_slice_stops_at_the_first(p: Program) -> list[str]:
    return [p.sliced(p.sliced(p.linear(p.linear(p.x)), 1, 5), 2, 3)]


ELEMENTWISE = [
    row
    for domain in ("ai.onnx", "ai.graphcore")
    for row in schemas_of_opset(domain, NEWEST_OPSETS[domain])
    if row.elementwise and row.min_inputs == 1 and ir.DataType.FLOAT in row.input_dtypes[0]
]
ARGUMENTS: dict[str, dict[str, Any]] = {
    "Cast": {"to": "INT32"},
    "IncrementMod": {"increment": 0.5, "modulus": 0.75},
    "Scale": {"scale": 3.0},
}


@case(*[1] * len(ELEMENTWISE))
def rows_of_every_elementwise_operator(p: Program) -> list[str]:
    found = []
    for row in ELEMENTWISE:
        # From 0 to 1, where all of them have values, or from 1 on.
        x = p.onnx.sigmoid([p.linear(p.x)])
        x = p.onnx.reciprocal([x]) if row.op_type == "Acosh" else x
        operators = p.onnx if row.domain == "ai.onnx" else p.builder.aiGraphcore
        y = getattr(operators, row.builder_name)([x], **ARGUMENTS.get(row.op_type, {}))
        found.append(p.sliced(p.onnx.cast([y], "FLOAT"), 1, 2))
    return found


@case(5, 5)
def columns(p: Program) -> list[str]:
    return [p.sliced(p.linear(p.linear(p.x)), 0, 2, 2)]


@case(5, 5)
def rows_that_are_read_twice(p: Program) -> list[str]:
    x = p.linear(p.linear(p.x))
    return [p.sliced(x), p.onnx.neg([x])]


@case(5, 5)
def two_slices(p: Program) -> list[str]:
    x = p.linear(p.linear(p.x))
    return [p.sliced(x), p.sliced(x, 1, 2)]


@case(5)
def rows_that_are_a_result(p: Program) -> list[str]:
    x = p.linear(p.x)
    return [p.sliced(x), x]


@case(5)
def sum_of_all_rows(p: Program) -> list[str]:
    return [p.sliced(p.onnx.cumsum([p.linear(p.x), p.onnx.constant(np.array(1, np.int32))]))]


@case(1, 1)
def norm_by_the_mean_square(p: Program) -> list[str]:
    x = p.linear(p.x)
    square = p.onnx.reducemean([p.onnx.mul([x, x])], axes=[-1], keepdims=True)
    return [p.sliced(p.linear(p.onnx.div([x, p.onnx.sqrt([square])])), 4, 5)]


@case(1)
def rows_of_a_reduction(p: Program) -> list[str]:
    summed = p.onnx.reducesum([p.linear(p.x)], axes=[0], keepdims=False)
    return [p.sliced(summed, 1, 2, 0)]


@case(5)
def reduction_of_the_rows(p: Program) -> list[str]:
    summed = p.onnx.reducesum([p.linear(p.x)], axes=[1], keepdims=True)
    return [p.sliced(summed, 1, 3, 2)]


@case(5)
def softmax_across_the_rows(p: Program) -> list[str]:
    return [p.sliced(p.onnx.softmax([p.linear(p.x)], axis=1))]


@case(5, 1)
def rows_that_meet_each_other_further_up(p: Program) -> list[str]:
    x = p.onnx.softmax([p.linear(p.x)], axis=1)
    return [p.sliced(p.linear(x))]


@case(5)
def rows_that_a_branch_reads(p: Program) -> list[str]:
    x = p.linear(p.x)
    branch = chosen(p.builder, True, lambda onnx: onnx.abs([x]), lambda onnx: onnx.neg([x]))
    return [p.sliced(x), branch]


@case(5, 1)
def rows_behind_a_tensor_that_a_branch_reads(p: Program) -> list[str]:
    x = p.linear(p.x)
    given = chosen(p.builder, False, lambda onnx: onnx.abs([x]), lambda onnx: onnx.neg([x]))
    return [p.sliced(p.linear(x), 2, 3), given]


def made_of(make: Case, **options: Any) -> Made:
    """A case as a session."""
    program = Program()
    names = make(program)
    return Made(program.builder, program.feeds, names, **options)


def product_rows(made: Made) -> list[int]:
    """Rows of the result of each product by a weight, the products of scores left out."""
    products = [
        node
        for node in made.graph
        if node.op_type == "MatMul" and node.inputs[1].name in made.graph.initializers
    ]
    return [node.outputs[0].shape.numpy()[1] for node in products]


@pytest.mark.parametrize("name", CASES)
def test_rows_that_are_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make, rows = CASES[name]
    made = made_of(make)
    assert sorted(product_rows(made)) == sorted(rows)
    results = made.run()
    monkeypatch.setattr(slice_pushdown, "without_unread_rows", lambda graph, kept: graph)
    whole = made_of(make)
    assert set(product_rows(whole)) == {ROWS}
    for own, wanted in zip(results, whole.run(), strict=True):
        assert own.shape == wanted.shape
        assert np.linalg.norm(own - wanted) <= 1e-6 * np.linalg.norm(wanted)


def test_floating_point_checks_see_all_rows() -> None:
    assert set(product_rows(made_of(every_second_row, enableFloatingPointChecks=True))) == {ROWS}
