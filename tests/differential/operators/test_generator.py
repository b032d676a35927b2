"""Drawn cases: the same again from seed and number, valid, judged and shrunk."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import ml_dtypes
import numpy as np
import paddle
import pytest

import paddle_ipu
from tests.differential.operators.choice import Choice
from tests.differential.operators.draw import Drawing, with_other_values
from tests.differential.operators.explained import explanation
from tests.differential.operators.ipu_model import Outcome
from tests.differential.operators.neighbours import last_alone, moved
from tests.differential.operators.program import write
from tests.differential.operators.shrink import shrunk
from tests.differential.operators.signature import pir
from tests.differential.operators.slopes import is_slope, slopes, stepped
from tests.differential.operators.ties import same_but_for_ties
from tests.differential.operators.use import Case, Result, Tensor, Use
from tests.differential.operators.verdict import (
    compare,
    is_all_rounding,
    is_rounding,
    nearest,
)
from tests.differential.operators.worker import NOT_TRIED, Answer, Paddle, Runner, run

pytestmark = [pytest.mark.newest, pytest.mark.usefixtures("static_mode")]


@pytest.fixture(scope="module")
def drawing() -> Iterator[Drawing]:
    """What cases are drawn from."""
    paddle_ipu.activate()
    paddle.enable_static()
    yield Drawing.from_case_table()
    paddle.disable_static()


def test_a_case_is_made_again_from_seed_and_number(drawing: Drawing) -> None:
    for number in range(30):
        first, second = (list(map(str, drawing.draw(5, number))) for _ in range(2))
        assert first == second
    assert str(next(drawing.draw(5, 0))) != str(next(drawing.draw(6, 0)))


def test_more_to_choose_from_leaves_the_other_choices_as_they_are() -> None:
    few, many = (Choice(range(count), map(str, range(count))) for count in (20, 25))
    before, after = (
        [things.draw(np.random.default_rng([7, number])) for number in range(2000)]
        for things in (few, many)
    )
    assert all(new in (old, 20, 21, 22, 23, 24) for old, new in zip(before, after, strict=True))
    counts = np.bincount(after, minlength=25)
    assert counts.min() > 40
    assert counts.max() < 130


def test_other_values_leave_the_program_as_it_is(drawing: Drawing) -> None:
    for number in range(30):
        case = next(drawing.draw(5, number))
        first, again, other = (with_other_values(case, 5, number, at) for at in (0, 0, 1))
        assert str(first) == str(again)
        for use, changed in zip(case.steps, other.steps, strict=True):
            assert (changed.op, changed.attributes) == (use.op, use.attributes)
            pairs = zip(use.tensors(), changed.tensors(), strict=True)
            for (_, _, before), (_, _, after) in pairs:
                assert (before.dtype, before.array.shape) == (after.dtype, after.array.shape)
                if before.constant:
                    np.testing.assert_array_equal(before.array, after.array)


def test_every_example_is_a_use_that_paddle_takes(drawing: Drawing) -> None:
    refused = []
    for op in drawing.subjects[::7]:
        try:
            write([Case((drawing.uses[op][0],))])
        except Exception as error:
            refused.append(f"{op}: {error}")
    assert not refused


def _relu(*numbers: float) -> Case:
    name = "x" if paddle.framework.in_pir_mode() else "X"
    operand = Tensor(np.asarray(numbers, np.float32), "float32")
    operands = {name: operand if name == "x" else (operand,)}
    return Case((Use("relu", operands, {}, {"Out" if name == "X" else "0": ("",)}),))


def test_paddles_side_answers_and_outlives_a_crash(drawing: Drawing) -> None:
    paddles = Paddle()
    try:
        good = _relu(-1.0, 2.0)
        bad = Case((Use("no such operator", {}, {}),))
        answers = paddles.answers([good, bad, good])
    finally:
        paddles.close()
    np.testing.assert_array_equal(answers[0].results["output 0"], np.asarray([0, 2], np.float32))
    assert answers[1].refused
    assert not answers[1].results
    assert answers[2].results.keys() == answers[0].results.keys()


def test_a_program_is_run_again_with_other_values(drawing: Drawing) -> None:
    runner = Runner()
    for numbers in ((-1.0, 2.0), (3.0, -4.0), (5.0,)):
        results = runner.run(_relu(*numbers))
        np.testing.assert_array_equal(results["output 0"], np.maximum(numbers, 0))
    (use,) = _relu(-1.0, 2.0).steps
    ((name, at, tensor),) = use.tensors()
    for number in (6.0, -7.0):
        constant = Tensor(np.full(2, number, np.float32), "float32", constant=True)
        results = runner.run(Case((use.with_operand(name, at, constant),)))
        np.testing.assert_array_equal(results["output 0"], max(number, 0))


def test_a_wrong_number_is_a_finding(drawing: Drawing) -> None:
    case = _relu(-1.0, 2.0)
    answer = Answer(case, results=run(write([case])))
    right = Outcome(results={"output 0": np.asarray([0.0, 2.0], np.float32)})
    wrong = Outcome(results={"output 0": np.asarray([0.0, 2.5], np.float32)})
    assert compare(answer, right, frozenset()).outcome == "agrees"
    assert compare(answer, wrong, frozenset()).title == "relu: numbers of float32"
    assert compare(answer, wrong, frozenset(["relu"])).outcome == "agrees"
    assert compare(answer, Outcome(error="KeyError: 3"), frozenset()).outcome == "fails"


def test_which_number_a_sum_beyond_the_range_is_has_its_own_title() -> None:
    one = Tensor(np.ones((2, 2), np.float32), "float32")
    case = Case((Use("matmul", {"x": one, "y": one}, {}),))
    paddles = np.asarray([np.inf, np.nan, -np.inf, 1.0], np.float32)
    answer = Answer(case, results={"output 0": paddles})
    titles = {
        "NaN or infinity": [np.nan, np.inf, -np.inf, 1.0],
        "NaN": [np.nan, np.inf, -np.inf, 2.0],
        "infinity": [1.0, np.nan, -np.inf, 1.0],
        "numbers of float32": [-np.inf, np.nan, -np.inf, 1.0],
    }
    for title, numbers in titles.items():
        outcome = Outcome(results={"output 0": np.asarray(numbers, np.float32)})
        verdict = compare(answer, outcome, frozenset())
        assert verdict.title == f"matmul: {title}"
        is_explained = title == "NaN or infinity"
        assert (explanation(case, verdict.title, verdict.detail) is not None) is is_explained
    assert explanation(_relu(1.0), "relu: NaN or infinity", "") is None


def test_kinds_of_matrices_explain(drawing: Drawing) -> None:
    for array, is_explained in ((np.ones((3, 3)), True), (np.eye(3), False)):
        stack = np.stack([np.eye(3), array]).astype(np.float32)
        case = Case((Use("qr", {"x": Tensor(stack, "float32")}, {"mode": "reduced"}),))
        found = explanation(case, "qr: numbers of float32", "")
        assert (found is not None) is is_explained


def test_rounding_is_no_finding() -> None:
    exact = {"y": np.asarray([1.0, 1.0])}
    paddles = {"y": np.asarray([1.0, 1.00001], np.float32)}
    near = {"y": np.asarray([1.00001, 1.0], np.float32)}
    far = {"y": np.asarray([1.01, 1.0], np.float32)}
    assert is_rounding("y", near, paddles, exact)
    assert not is_rounding("y", far, paddles, exact)


def test_a_result_that_cancels_is_all_rounding() -> None:
    paddles = {"y": np.asarray([1e-8, 0.0], np.float32), "z": np.asarray([1.0, 1e-8], np.float32)}
    wides = {"y": np.asarray([1e-17, 0.0]), "z": np.asarray([1.0, 0.0])}
    assert is_all_rounding("y", paddles, wides)
    zeros = {"y": np.zeros(2, np.float32)}
    assert is_all_rounding("y", zeros, zeros)
    assert not is_all_rounding("z", paddles, wides)
    assert not is_all_rounding("y", paddles, {})


@pytest.mark.parametrize(("count", "steps"), [(1, 1), (4, 2), (100, 10)])
def test_operands_move_by_their_last_bits_in_both_directions(count: int, steps: int) -> None:
    use = _relu(*np.linspace(-3.0, 7.0, count)).steps[0]
    ((name, at, tensor),) = use.tensors()
    step = steps * np.spacing(np.abs(tensor.array))
    for dtype in ("float32", "float64"):
        start = Tensor(tensor.array.astype(dtype), dtype)
        case = Case((use.with_operand(name, at, start),))
        arrays = [got.array for each in moved(case) for _, _, got in each.steps[0].tensors()]
        moves = [np.round((array - tensor.array) / step) for array in arrays]
        for one, other in zip(moves[::2], moves[1::2], strict=True):
            np.testing.assert_array_equal(np.abs(one), 1)
            np.testing.assert_array_equal(one, -other)
        np.testing.assert_array_equal(moves[-2], np.sign(tensor.array))


def test_where_paddle_overflows_alone_its_double_precision_is_the_measure() -> None:
    exact = {"y": np.asarray([1e30, 1.0, np.nan])}
    paddles = {"y": np.asarray([np.nan, 1.0, np.nan], np.float32)}
    ours = {"y": np.asarray([1e30, 1.0, np.nan], np.float32)}
    assert is_rounding("y", ours, paddles, exact)
    assert not is_rounding("y", {"y": np.full(3, 1.0, np.float32)}, paddles, exact)
    assert not is_rounding("y", paddles, ours, exact)
    assert is_rounding("y", paddles, paddles, exact)
    wrong = np.asarray([1e29, 1.0, np.nan], np.float32)
    assert not is_rounding("y", {"y": wrong}, paddles, exact)


def test_where_both_overflow_neither_is_the_measure() -> None:
    exact = {"y": np.asarray([1e30, 1.0])}
    paddles = {"y": np.asarray([np.nan, 1.0], np.float32)}
    assert is_rounding("y", {"y": np.asarray([-np.inf, 1.0], np.float32)}, paddles, exact)
    endless = {"y": np.asarray([np.inf, 1.0])}
    assert not is_rounding("y", {"y": np.asarray([-np.inf, 1.0], np.float32)}, paddles, endless)


def test_of_equal_elements_any_may_be_taken() -> None:
    x = np.asarray([[1.0, 2.0, 2.0, 0.0]], np.float32)
    attributes = {"axis": 1, "k": 1}
    case = Case((Use("topk", {"x": Tensor(x, "float32")}, attributes),), training=True)

    def same(got: Sequence[Sequence[float]], expected: Sequence[Sequence[float]]) -> bool:
        is_place = isinstance(got[0][0], int)
        arrays = (np.asarray(each, None if is_place else np.float32) for each in (got, expected))
        what = "output 1" if is_place else "gradient of 0_x"
        return same_but_for_ties(case, what, *arrays)

    assert same([[1]], [[2]])
    assert not same([[0]], [[2]])
    assert not same([[4]], [[2]])
    assert not same([[1, 1]], [[1, 2]])
    assert same([[0.0, 3.0, 0.0, 1.0]], [[0.0, 0.0, 3.0, 1.0]])
    assert not same([[0.0, 3.0, 0.0, 1.0]], [[0.0, 0.0, 2.0, 1.0]])
    assert not same_but_for_ties(_relu(1.0), "output 0", np.ones(1, int), np.zeros(1, int))


def test_the_last_operator_of_a_chain_is_tried_alone() -> None:
    first = _relu(1.0, -1.0).steps[0]
    case = Case((first, Use("exp", {"x": Result(0, 0)}, {})))
    array = np.asarray([1.0, 0.0], np.float32)
    alone = last_alone(case, [{"output 0": array}])
    assert str(alone) == str(Case((Use("exp", {"x": Tensor(array, "float32")}, {}),)))


def test_each_number_agrees_with_one_of_the_answers() -> None:
    case = _relu(1e-40)
    tiny, zero = np.asarray([1e-40, 2.0], np.float32), np.asarray([0.0, 2.0], np.float32)
    paddles = Answer(case, results={"output 0": tiny[::-1], "output 1": tiny})
    flushed = Answer(case, results={"output 0": zero[::-1], "output 1": zero})
    wide = Answer(case, results={"output 0": tiny, "output 1": zero.astype(np.float64)})
    mixed = Outcome(results={"output 0": tiny[::-1], "output 1": zero})
    wrong = Outcome(results={"output 0": tiny[::-1], "output 1": zero + 1})
    none = frozenset[str]()
    assert not compare(nearest([paddles, flushed], mixed), mixed, none).title
    assert not compare(nearest([paddles, wide], mixed), mixed, none).title
    assert compare(nearest([paddles, flushed, wide], wrong), wrong, none).title
    assert compare(nearest([paddles, Answer(case)], wrong), wrong, none).title


def test_a_number_near_no_answer_agrees_with_none() -> None:
    case = _relu(1.0)
    one, nan = np.asarray([1.0, 2.0], np.float32), np.asarray([np.nan, 2.0], np.float32)
    answers = [Answer(case, results={"output 0": array}) for array in (one, nan)]
    for got, agrees in ((nan, True), (one, True), (one[::-1], False), (one * np.inf, False)):
        outcome = Outcome(results={"output 0": got})
        verdict = compare(nearest(answers, outcome), outcome, frozenset())
        assert (verdict.outcome == "agrees") is agrees


def test_paddle_takes_denormals_for_zeros_when_it_is_asked_to(drawing: Drawing) -> None:
    case = Case((replace(_relu(1e-20, 1.0).steps[0], op="square"),))
    paddles = Paddle()
    try:
        kept, flushed = (paddles.answers([case], flush=flush)[0] for flush in (False, True))
    finally:
        paddles.close()
    assert kept.results["output 0"][0] > 0
    assert flushed.results["output 0"].tolist() == [0.0, 1.0]


def _crash() -> Case:
    """A program whose kernel reads memory that is not there."""
    if not pir():
        rows = Tensor(np.full((1, 1), 1 << 40, np.int64), "int64")
        operands = {"Ids": rows, "W": Tensor(np.ones((5, 3), np.float32), "float32")}
        return Case((Use("lookup_table_v2", operands, {"padding_idx": 0}, {"Out": ("",)}),))
    lengths = Tensor(np.ones(1, np.int32), "int32")
    operands = {
        "input": Tensor(np.zeros((2, 3, 3, 4), np.float32), "float32"),
        "label": Tensor(np.ones((1, 2), np.int32), "int32"),
        "input_lengths": lengths,
        "label_lengths": lengths,
    }
    attributes = {"blank": 0, "fastemit_lambda": 0.0}
    return Case((Use("warprnnt", operands, attributes, {"0": ("",)}),))


def test_a_program_that_crashes_is_soon_left(drawing: Drawing) -> None:
    crashes = _crash()
    paddles = Paddle()
    try:
        answers = paddles.answers([crashes, crashes, crashes, _relu(1.0)])
    finally:
        paddles.close()
    assert [answer.crashed for answer in answers] == ["SIGSEGV", "SIGSEGV", NOT_TRIED, ""]
    assert answers[-1].results


def test_bfloat16_is_fed_by_its_bits() -> None:
    use = _relu(0.0).steps[0]
    ((name, at, _),) = use.tensors()
    tensor = Tensor(np.asarray([1.5, -2.0], np.float32), "bfloat16")
    written = write([Case((use.with_operand(name, at, tensor),))])
    (bits,) = written.feed.values()
    assert bits.dtype == np.uint16
    np.testing.assert_array_equal(bits.view(ml_dtypes.bfloat16), tensor.array)


def test_slopes_come_from_differences_of_paddles_results(drawing: Drawing) -> None:
    x = Tensor(np.asarray([[2.0, 0.0], [3.0, 4.0]], np.float32), "float32")
    if pir():
        attributes = {"axis": [1], "keepdim": False, "reduce_all": False}
        product, name = Use("prod", {"x": x}, attributes, {"0": ("",)}), "x"
    else:
        attributes = {"dim": [1], "keep_dim": False, "reduce_all": False}
        product, name = Use("reduce_prod", {"X": x}, attributes, {"Out": ("",)}), "X"
    case = Case((product,), training=True)
    fetch, places = f"gradient of 0_{name}", [(0, 1), (1, 0)]
    cases = [each for place in places for each in stepped(case, fetch, place)]
    found = slopes(case, fetch, places, [Runner().run(each) for each in cases])
    (weights,) = (
        array for name, array in write([case]).feed.items() if name.endswith("cotangent_0")
    )
    assert is_slope(weights * np.asarray([2.0, 4.0]), found)
    assert not is_slope(weights * np.asarray([2.0, 4.1]), found)


def test_a_case_is_shrunk_to_what_matters() -> None:
    def numbers(case: Case) -> int:
        return sum(tensor.array.size for use in case.steps for _, _, tensor in use.tensors())

    def titles(cases: Sequence[Case]) -> list[str]:
        return ["large" if numbers(case) > 30 else "" for case in cases]

    assert numbers(shrunk(_relu(*range(64)), "large", titles)) == 31


def test_what_is_explained_is_explained_by_operator() -> None:
    assert explanation(_relu(1.0), "relu: shape", "") is None
    assert explanation(Case((Use("viterbi_decode", {}, {}),)), "viterbi_decode: shape", "")
