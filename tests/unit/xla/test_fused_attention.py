"""Which attentions a graph's search finds, and that nobody sees a difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.xla.kernels import library
from tests.unit.xla.inference_sessions import XLAS_OWN, Made

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    not library.lanes(), reason=f"no kernel here: {library.why_not() or 'no AVX2'}"
)

BATCH, HEADS, ROWS, DEPTH = 2, 3, 6, 8
HIDDEN = HEADS * DEPTH


class Program:
    """A PopART program of attentions over three inputs [2, 6, 24]."""

    def __init__(self) -> None:
        self.builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.onnx = self.builder.aiOnnx
        self.feeds: dict[str, Array] = {}
        self.inputs = [self.input(BATCH, ROWS, HIDDEN) for _ in range(3)]

    def input(self, *shape: int) -> str:
        name = self.builder.addInputTensor(popart.TensorInfo("FLOAT", list(shape)))
        random = np.random.default_rng(len(self.feeds))
        self.feeds[name] = random.standard_normal(shape, np.float32)
        return name

    def constant(self, *numbers: float, kind: Any = np.float32) -> str:
        array = np.array(numbers if len(numbers) > 1 else numbers[0], kind)
        return str(self.onnx.constant(array))

    def shaped(self, x: str, *shape: int) -> str:
        return self.onnx.reshape([x, self.constant(*shape, kind=np.int64)])

    def heads(self, number: int, *perm: int) -> str:
        """One of the inputs by heads, [2, 3, 6, 8] unless another order is asked for."""
        split = self.shaped(self.inputs[number], BATCH, ROWS, HEADS, DEPTH)
        return self.onnx.transpose([split], perm=perm or (0, 2, 1, 3))

    def scores(self) -> str:
        return self.onnx.matmul([self.heads(0), self.heads(1, 0, 2, 3, 1)])

    def scaled(self, x: str, by: float = 0.3) -> str:
        return self.onnx.mul([x, self.constant(by)])

    def context(self, scores: str, axis: int = 3) -> str:
        powers = self.onnx.softmax([scores], axis=axis)
        return self.onnx.matmul([powers, self.heads(2)])

    def joined(self, context: str) -> str:
        turned = self.onnx.transpose([context], perm=(0, 2, 1, 3))
        return self.shaped(turned, BATCH, ROWS, HIDDEN)


Case = Callable[[Program], list[str]]
FOUND: dict[str, Case] = {}
LEFT: dict[str, Case] = {}


def found(make: Case) -> Case:
    FOUND[make.__name__] = make
    return make


def left(make: Case) -> Case:
    LEFT[make.__name__] = make
    return make


@found
def berts(p: Program) -> list[str]:
    masked = p.onnx.add([p.scaled(p.scores()), p.input(BATCH, 1, 1, ROWS)])
    return [p.joined(p.context(masked))]


@found
def key_turned_twice_and_a_divisor(p: Program) -> list[str]:
    key = p.onnx.transpose([p.heads(1)], perm=(0, 1, 3, 2))
    scores = p.onnx.matmul([p.heads(0), key])
    return [p.joined(p.context(p.onnx.div([scores, p.constant(8.0)])))]


@found
def scaled_query_and_key(p: Program) -> list[str]:
    query, key = p.scaled(p.heads(0)), p.scaled(p.heads(1, 0, 2, 3, 1), 0.7)
    return [p.joined(p.context(p.scaled(p.onnx.matmul([query, key]), 2.0)))]


@found
def dropouts_and_factors_on_the_way(p: Program) -> list[str]:
    scores = p.onnx.identity([p.scaled(p.onnx.identity([p.scores()]))])
    powers = p.onnx.dropout([p.onnx.softmax([scores], axis=3)], num_outputs=1)[0]
    value = p.scaled(p.onnx.identity([p.heads(2)]), 1.5)
    return [p.joined(p.onnx.matmul([p.scaled(powers, 0.9), value]))]


@found
def mask_first_in_its_sum(p: Program) -> list[str]:
    return [p.joined(p.context(p.onnx.add([p.input(ROWS, ROWS), p.scores()])))]


@found
def context_as_it_is(p: Program) -> list[str]:
    return [p.context(p.scores())]


@found
def context_that_is_read_twice(p: Program) -> list[str]:
    context = p.context(p.scores())
    return [p.joined(context), p.onnx.neg([context])]


@found
def context_turned_so_that_rows_are_last(p: Program) -> list[str]:
    return [p.onnx.transpose([p.context(p.scores())], perm=(0, 1, 3, 2))]


@found
def operands_that_are_read_elsewhere(p: Program) -> list[str]:
    query, key = p.heads(0), p.heads(1, 0, 2, 3, 1)
    context = p.context(p.onnx.matmul([query, key]))
    return [context, p.onnx.neg([query]), p.onnx.neg([key])]


@found
def heads_without_examples(p: Program) -> list[str]:
    query, key, value = p.input(HEADS, 5, DEPTH), p.input(HEADS, 7, DEPTH), p.input(HEADS, 7, 9)
    turned = p.onnx.transpose([key], perm=(0, 2, 1))
    powers = p.onnx.softmax([p.onnx.matmul([query, turned])], axis=2)
    return [p.onnx.matmul([powers, value])]


@found
def one_key_for_all_heads(p: Program) -> list[str]:
    key, value = p.input(BATCH, 1, ROWS, DEPTH), p.input(1, 1, ROWS, DEPTH)
    scores = p.onnx.matmul([p.heads(0), p.onnx.transpose([key], perm=(0, 1, 3, 2))])
    return [p.onnx.matmul([p.onnx.softmax([scores], axis=3), value])]


@found
def one_row_of_queries(p: Program) -> list[str]:
    query, key = p.input(HEADS, 1, DEPTH), p.input(HEADS, 7, DEPTH)
    scores = p.onnx.matmul([query, p.onnx.transpose([key], perm=(0, 2, 1))])
    return [p.onnx.matmul([p.onnx.softmax([scores], axis=2), p.input(HEADS, 7, DEPTH)])]


@found
def query_behind_a_dropout_of_a_product(p: Program) -> list[str]:
    weights = np.random.default_rng(0).standard_normal((256, 256), np.float32) / 16
    product = p.onnx.matmul([p.input(3, ROWS, 256), p.builder.addInitializedInputTensor(weights)])
    biased = p.onnx.add([product, p.input(256)])
    query = p.shaped(p.onnx.dropout([biased], num_outputs=1)[0], 3, ROWS, 4, 64)
    key = p.onnx.transpose([p.input(3, 4, ROWS, 64)], perm=(0, 1, 3, 2))
    scores = p.onnx.matmul([p.onnx.transpose([query], perm=(0, 2, 1, 3)), key])
    powers = p.onnx.softmax([p.scaled(scores)], axis=3)
    return [p.onnx.matmul([powers, p.input(3, 4, ROWS, 64)])]


@found
def examples_in_reverse(p: Program) -> list[str]:
    numbers = [p.constant(*n, kind=np.int64) for n in ([-1, 0], [-9, 5], [0, 2], [-1, 1])]
    key = p.onnx.slice([p.input(BATCH, HEADS, ROWS, DEPTH), *numbers])
    scores = p.onnx.matmul([p.heads(0), p.onnx.transpose([key], perm=(0, 1, 3, 2))])
    value = p.onnx.slice([p.input(BATCH, HEADS, ROWS, DEPTH), *numbers])
    return [p.onnx.matmul([p.onnx.softmax([scores], axis=3), value])]


@left
def dropout_of_powers_whose_mask_is_a_result(p: Program) -> list[str]:
    kept, mask = p.onnx.dropout([p.onnx.softmax([p.scores()], axis=3)], num_outputs=2)
    return [p.onnx.matmul([kept, p.heads(2)]), mask]


@left
def dropout_of_scores_whose_mask_is_a_result(p: Program) -> list[str]:
    kept, mask = p.onnx.dropout([p.scores()], num_outputs=2)
    return [p.context(kept), mask]


@left
def scores_that_are_read_twice(p: Program) -> list[str]:
    scores = p.scores()
    return [p.context(scores), p.onnx.neg([scores])]


@left
def scores_that_are_a_result(p: Program) -> list[str]:
    scores = p.scores()
    return [p.context(scores), scores]


@left
def powers_that_are_a_result(p: Program) -> list[str]:
    powers = p.onnx.softmax([p.scores()], axis=3)
    return [p.onnx.matmul([powers, p.heads(2)]), powers]


@left
def softmax_of_two_axes(p: Program) -> list[str]:
    return [p.context(p.scores(), axis=2)]


@left
def scale_behind_the_mask(p: Program) -> list[str]:
    return [p.context(p.scaled(p.onnx.add([p.scores(), p.input(ROWS)])))]


@left
def scale_that_is_fed(p: Program) -> list[str]:
    return [p.context(p.onnx.mul([p.scores(), p.input(1)]))]


@left
def two_masks(p: Program) -> list[str]:
    return [p.context(p.onnx.add([p.onnx.add([p.scores(), p.input(ROWS)]), p.input(ROWS)]))]


@left
def scores_of_less_than_the_mask(p: Program) -> list[str]:
    query, key = p.input(1, HEADS, ROWS, DEPTH), p.input(1, HEADS, DEPTH, ROWS)
    scores = p.onnx.matmul([query, key])
    return [p.context(p.onnx.add([scores, p.input(BATCH, 1, 1, ROWS)]))]


@left
def key_with_neighbours_along_its_rows(p: Program) -> list[str]:
    return [p.context(p.onnx.matmul([p.heads(0), p.input(BATCH, HEADS, DEPTH, ROWS)]))]


@left
def powers_on_the_right(p: Program) -> list[str]:
    powers = p.onnx.softmax([p.scores()], axis=3)
    value = p.onnx.transpose([p.heads(2)], perm=(0, 1, 3, 2))
    return [p.onnx.matmul([value, powers])]


@left
def half(p: Program) -> list[str]:
    query, key = (p.onnx.cast([x], "FLOAT16") for x in (p.heads(0), p.heads(1, 0, 2, 3, 1)))
    powers = p.onnx.softmax([p.onnx.matmul([query, key])], axis=3)
    context = p.onnx.matmul([powers, p.onnx.cast([p.heads(2)], "FLOAT16")])
    return [p.onnx.cast([context], "FLOAT")]


def made_of(make: Case, **options: Any) -> Made:
    """A case as a session."""
    program = Program()
    names = make(program)
    return Made(program.builder, program.feeds, names, **options)


@pytest.mark.parametrize("name", FOUND)
def test_attention_is_found_and_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_of(FOUND[name])
    assert made.count("Attention") == 1
    results = made.run()
    monkeypatch.setattr(library, "lanes", lambda: 0)
    by_xla = made_of(FOUND[name])
    assert by_xla.count("Attention") == 0
    for own, wanted in zip(results, by_xla.run(), strict=True):
        assert own.shape == wanted.shape
        assert np.linalg.norm(own - wanted) <= 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_xla(name: str) -> None:
    made = made_of(LEFT[name])
    assert made.count("Attention") == 0
    made.session.prepareDevice()


@pytest.mark.parametrize("options", XLAS_OWN, ids=str)
def test_options_that_leave_it_to_xla(options: dict[str, Any]) -> None:
    assert made_of(berts, **options).count("Attention") == 0
