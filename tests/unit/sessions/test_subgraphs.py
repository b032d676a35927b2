"""If, Loop, Scan and Call, built with the builder and run by sessions."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import LoweringError, popart_exception
from tests.unit.sessions.session_programs import builder, infer, run, train, weights

X = np.array([[0.5, -1.0], [1.5, 2.0], [-0.5, 1.0]], np.float32)
W = np.array([[1.0, -0.5], [0.25, 0.75]], np.float32)


def _constant(make: Any, value: Any, dtype: Any) -> str:
    return str(make.aiOnnxOpset11.constant(np.asarray(value, dtype)))


class Conditional:
    """``loss = sum(if p: x w else: x * 3)``; ids x, p and w."""

    def __init__(self) -> None:
        self.builder = make = builder()
        self.x = make.addInputTensor("FLOAT", [3, 2], "x")
        self.p = make.addInputTensor("BOOL", [], "p")
        self.w = make.addInitializedInputTensor(W.copy(), "w")
        then, otherwise = make.createSubgraphBuilder(), make.createSubgraphBuilder()
        for branch in (then, otherwise):
            branch.addInputTensorFromParentGraph(self.x)
        then.addInputTensorFromParentGraph(self.w)
        then.addOutputTensor(then.aiOnnxOpset11.matmul([self.x, self.w]))
        three = otherwise.aiOnnxOpset11.constant(np.array(3, np.float32))
        otherwise.addOutputTensor(otherwise.aiOnnxOpset11.mul([self.x, three]))
        (self.out,) = make.aiOnnxOpset11.logical_if([self.p], 1, otherwise, then)
        self.loss = make.aiGraphcore.identityloss([self.out], popart.ReductionType.Sum)


@pytest.mark.parametrize("choice", [True, False])
def test_if_runs_one_branch(choice: bool) -> None:
    program = Conditional()
    assert program.builder.getTensorShape(program.out) == [3, 2]
    session = infer(program.builder.model, {program.out: "All"})
    got = run(session, {"x": X, "p": np.array(choice)})[program.out]
    np.testing.assert_allclose(got, X @ W if choice else X * 3, rtol=1e-6)


@pytest.mark.parametrize("choice", [True, False])
def test_a_weight_that_one_branch_reads_has_its_gradient(choice: bool) -> None:
    program = Conditional()
    session = train(program, popart.SGD({"defaultLearningRate": (0.5, False)}))
    run(session, {"x": X, "p": np.array(choice)})
    gradient = X.T @ np.ones((3, 2), np.float32) if choice else np.zeros((2, 2), np.float32)
    np.testing.assert_allclose(weights(session, "w")[0], W - 0.5 * gradient, rtol=1e-6)


def test_a_serialised_program_runs_alike() -> None:
    program = Conditional()
    session = infer(program.builder.getModelProto(), {program.out: "All"})
    got = run(session, {"x": X, "p": np.array(True)})[program.out]
    np.testing.assert_allclose(got, X @ W, rtol=1e-6)


def _power(make: Any, turns: str, going: str, x: str, w: str, *, stops: bool = False) -> list[str]:
    """A Loop that multiplies x by w in each turn and adds rows of what it carries.

    Args:
        stops: end when the carried tensor's sum is above 20; no rows then.
    """
    body = make.createSubgraphBuilder()
    body.addInputTensor("INT32", [], "turn")
    condition = body.addInputTensor("BOOL", [], "going")
    carried = body.addInputTensor("FLOAT", [3, 2], "carried")
    body.addInputTensorFromParentGraph(w)
    product = body.aiOnnxOpset11.matmul([carried, w])
    if stops:
        total = body.aiOnnxOpset11.reducesum([product], [0, 1], 0)
        condition = body.aiOnnxOpset11.less([total, _constant(body, 20, np.float32)])
    body.addOutputTensor(condition)
    body.addOutputTensor(product)
    if not stops:
        body.addOutputTensor(body.aiOnnxOpset11.reducesum([product], [1], 0))
    return list(make.aiOnnxOpset11.loop([turns, going, x], 1 if stops else 2, body))


class Repeated:
    """``loss = sum(x w w w)``; ids x and w, ``rows`` what the turns add."""

    def __init__(self) -> None:
        self.builder = make = builder()
        self.x = make.addInputTensor("FLOAT", [3, 2], "x")
        self.w = make.addInitializedInputTensor(W.copy(), "w")
        turns, going = _constant(make, 3, np.int64), _constant(make, True, np.bool_)
        self.out, self.rows = _power(make, turns, going, self.x, self.w)
        self.loss = make.aiGraphcore.identityloss([self.out], popart.ReductionType.Sum)


def test_a_counted_loop_gives_its_carried_tensor_and_its_rows() -> None:
    program = Repeated()
    assert program.builder.getTensorShape(program.rows) == [3, 3]
    session = infer(program.builder.model, {program.out: "All", program.rows: "All"})
    got = run(session, {"x": X})
    states = [X @ W, X @ W @ W, X @ W @ W @ W]
    np.testing.assert_allclose(got[program.out], states[-1], rtol=1e-5)
    np.testing.assert_allclose(got[program.rows], [s.sum(1) for s in states], rtol=1e-5, atol=1e-6)


def test_a_counted_loop_has_a_gradient() -> None:
    program = Repeated()
    session = train(program, popart.SGD({"defaultLearningRate": (1.0, False)}))
    run(session, {"x": X})
    ones = np.ones((3, 2))
    wide = W.astype(np.float64)
    expected = X.T @ ones @ (wide @ wide).T
    expected = expected + (X @ wide).T @ ones @ wide.T + (X @ wide @ wide).T @ ones
    np.testing.assert_allclose(W - weights(session, "w")[0], expected, rtol=1e-5)


class Stopping:
    """Doubles until a sum is above 20, for `turns` turns at most; ids x, w, and n if it is fed."""

    def __init__(self, turns: int | None) -> None:
        self.builder = make = builder()
        self.x = make.addInputTensor("FLOAT", [3, 2], "x")
        self.w = make.addInitializedInputTensor(np.eye(2, dtype=np.float32) * 2, "w")
        going = _constant(make, True, np.bool_)
        most = (
            make.addInputTensor("INT32", [], "n")
            if turns is None
            else _constant(make, turns, np.int64)
        )
        (self.out,) = _power(make, most, going, self.x, self.w, stops=True)
        self.loss = make.aiGraphcore.identityloss([self.out], popart.ReductionType.Sum)


@pytest.mark.parametrize(("turns", "factor"), [(100, 8), (2, 4), (0, 1)])
def test_a_loop_ends_by_its_condition_or_its_maximum(turns: int, factor: int) -> None:
    program = Stopping(turns)
    got = run(infer(program.builder.model, {program.out: "All"}), {"x": X})[program.out]
    np.testing.assert_array_equal(got, X * factor)  # The sum of x is 3.5.
    fed = Stopping(None)
    session = infer(fed.builder.model, {fed.out: "All"})
    got = run(session, {"x": X, "n": np.array(turns, np.int32)})[fed.out]
    np.testing.assert_array_equal(got, X * factor)


def test_a_loop_with_a_constant_maximum_has_a_gradient_however_often_it_runs() -> None:
    program = Stopping(10)
    session = train(program, popart.SGD({"defaultLearningRate": (1.0, False)}))
    run(session, {"x": X})
    wide = np.eye(2) * 2
    ones = np.ones((3, 2))
    expected = 3 * X.T @ ones @ (wide @ wide).T  # Products with a multiple of the identity commute.
    np.testing.assert_allclose(wide - weights(session, "w")[0], expected, rtol=1e-5)


def test_a_loop_without_a_constant_maximum_has_no_gradient() -> None:
    program = Stopping(None)
    with pytest.raises(LoweringError, match="a Loop without a constant maximum trip count"):
        train(program, popart.SGD({"defaultLearningRate": (1.0, False)}))


def test_scan_walks_along_axes_in_both_directions() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 4], "x")
    start = make.addInputTensor("FLOAT", [2], "start")
    body = make.createSubgraphBuilder()
    state, item = (body.addInputTensor("FLOAT", [2], name) for name in ("state", "item"))
    total = body.aiOnnxOpset11.add([state, item])
    body.addOutputTensor(total)
    body.addOutputTensor(body.aiOnnxOpset11.neg([total]))
    last, rows = make.aiOnnxOpset11.scan(
        [start, x], 2, body, 1, scan_input_axes=[1], scan_input_directions=[1],
        scan_output_axes=[1], scan_output_directions=[1],
    )  # fmt: skip
    assert make.getTensorShape(rows) == [2, 4]
    data = np.arange(8, dtype=np.float32).reshape(2, 4)
    got = run(infer(make.model, {last: "All", rows: "All"}),
              {"x": data, "start": np.ones(2, np.float32)})  # fmt: skip
    sums = 1 + np.cumsum(data[:, ::-1], axis=1)
    np.testing.assert_array_equal(got[last], sums[:, -1])
    np.testing.assert_array_equal(got[rows], -sums[:, ::-1])


class Called:
    """``loss = sum(f(f(x)))`` with f(t) = t w, a subgraph that is called twice."""

    def __init__(self) -> None:
        self.builder = make = builder()
        self.x = make.addInputTensor("FLOAT", [3, 2], "x")
        self.w = make.addInitializedInputTensor(W.copy(), "w")
        callee = make.createSubgraphBuilder()
        given = [callee.addInputTensor("FLOAT", shape, "given") for shape in ([3, 2], [2, 2])]
        callee.addOutputTensor(callee.aiOnnxOpset11.matmul(given))
        (once,) = make.aiGraphcore.call([self.x, self.w], 1, callee)
        (self.out,) = make.aiGraphcore.call([once, self.w], 1, callee)
        self.loss = make.aiGraphcore.identityloss([self.out], popart.ReductionType.Sum)


def test_a_subgraph_may_be_called_twice() -> None:
    program = Called()
    got = run(infer(program.builder.model, {program.out: "All"}), {"x": X})[program.out]
    np.testing.assert_allclose(got, X @ W @ W, rtol=1e-5)
    session = train(program, popart.SGD({"defaultLearningRate": (1.0, False)}))
    run(session, {"x": X})
    ones = np.ones((3, 2))
    expected = X.T @ ones @ W.T + (X @ W).T @ ones
    np.testing.assert_allclose(W - weights(session, "w")[0], expected, rtol=1e-5)


def test_ids_are_unique_over_a_builder_and_its_subgraphs() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    inner = make.createSubgraphBuilder()
    assert inner.addInputTensor("FLOAT", [2], "x") == "x/1"
    assert make.aiOnnxOpset11.sin([x]) == "Sin:0"
    assert inner.aiOnnxOpset11.sin([x]) == "Sin:0/1"
    assert inner.getTensorShape(x) == [2]


def _mismatched_branches(make: Any) -> None:
    p = make.addInputTensor("BOOL", [], "p")
    branches = []
    for size in (2, 3):
        branch = make.createSubgraphBuilder()
        branch.addOutputTensor(branch.aiOnnxOpset11.constant(np.zeros(size, np.float32)))
        branches.append(branch)
    make.aiOnnxOpset11.logical_if([p], 1, branches[0], branches[1])


def _growing(make: Any) -> None:
    x = make.addInputTensor("FLOAT", [2], "x")
    body = make.createSubgraphBuilder()
    body.addInputTensor("INT32", [], "turn")
    body.addOutputTensor(body.addInputTensor("BOOL", [], "going"))
    carried = body.addInputTensor("FLOAT", [2], "carried")
    body.addOutputTensor(body.aiOnnxOpset11.concat([carried, carried], 0))
    turns, going = _constant(make, 3, np.int64), _constant(make, True, np.bool_)
    make.aiOnnxOpset11.loop([turns, going, x], 1, body)


def _called_with_too_little(make: Any) -> None:
    x = make.addInputTensor("FLOAT", [2], "x")
    callee = make.createSubgraphBuilder()
    given = [callee.addInputTensor("FLOAT", [2], "given") for _ in range(2)]
    callee.addOutputTensor(callee.aiOnnxOpset11.add(given))
    make.aiGraphcore.call([x], 1, callee)


def _an_output_of_the_parent(make: Any) -> None:
    make.createSubgraphBuilder().addOutputTensor(make.addInputTensor("FLOAT", [2], "x"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (_mismatched_branches, r"output of its else_branch 0 is .*FLOAT.*2.*, expected .*3"),
        (_growing, r"output of its body for carried tensor 0 is .*4.*, expected .*2"),
        (_called_with_too_little, r"number of inputs \(1\) does not match that of the callee .*2"),
        (_an_output_of_the_parent, "belongs to the graph around this subgraph"),
        (
            lambda make: make.addInputTensorFromParentGraph("x"),
            "Failed to add unrecognised Tensor x from higher scope.*builder is not one that",
        ),
        (
            lambda make: make.createSubgraphBuilder().addInputTensorFromParentGraph("x"),
            "Failed to add unrecognised Tensor x from higher scope.*no graph around this",
        ),
        (
            lambda make: make.addUntypedInputTensor("x"),
            "Can not add untyped tensors to the top-level graph. Use Builder::addInputTensor",
        ),
    ],
)
def test_subgraphs_that_do_not_fit(wrong: Callable[[Any], None], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        wrong(builder())


def test_an_untyped_input_has_the_type_of_what_each_call_gives() -> None:
    make = builder()
    x, y = make.addInputTensor("FLOAT", [3, 2], "x"), make.addInputTensor("FLOAT", [4, 2], "y")
    callee = make.createSubgraphBuilder()
    given = callee.addUntypedInputTensor("given")
    product = callee.aiOnnxOpset11.matmul([given, callee.aiOnnxOpset11.constant(W)])
    callee.addOutputTensor(product)
    with pytest.raises(popart_exception, match=f"{product} is not an known tensor"):
        callee.getTensorShape(product)
    first, second = (make.aiGraphcore.call([each], 1, callee)[0] for each in (x, y))
    assert (make.getTensorShape(first), make.getTensorShape(second)) == ([3, 2], [4, 2])
    for model in (make.model, make.getModelProto(), _without_types_of_inputs(make.getModelProto())):
        wide = np.arange(8, dtype=np.float32).reshape(4, 2)
        got = run(infer(model, {first: "All", second: "All"}), {"x": X, "y": wide})
        np.testing.assert_allclose(got[first], X @ W, rtol=1e-6)
        np.testing.assert_allclose(got[second], wide @ W, rtol=1e-6)


def _without_types_of_inputs(model: bytes) -> bytes:
    """A model whose subgraphs' tensors have no types, as PopART writes it."""
    proto = onnx.load_model_from_string(model)
    for node in proto.graph.node:
        for attribute in node.attribute:
            for value in (*attribute.g.input, *attribute.g.output):
                value.ClearField("type")
            del attribute.g.value_info[:]
    return bytes(proto.SerializeToString())


def test_an_untyped_input_does_not_fit_every_call() -> None:
    make = builder()
    callee = make.createSubgraphBuilder()
    given = callee.addUntypedInputTensor()
    callee.addOutputTensor(callee.aiOnnxOpset11.matmul([given, callee.aiOnnxOpset11.constant(W)]))
    with pytest.raises(popart_exception, match="MatMul"):
        make.aiGraphcore.call([make.addInputTensor("FLOAT", [3, 5], "x")], 1, callee)


def test_what_a_call_gives_counts_and_not_the_type_of_the_input() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    callee = make.createSubgraphBuilder()
    callee.addOutputTensor(callee.aiOnnxOpset11.neg([callee.addInputTensor("FLOAT", [7, 5])]))
    (out,) = make.aiGraphcore.call([x], 1, callee)
    np.testing.assert_array_equal(run(infer(make.model, {out: "All"}), {"x": X})[out], -X)


@pytest.mark.parametrize("typed", [False, True])
def test_loops_in_loops_take_their_types_from_outside(typed: bool) -> None:
    """x, then twice: three times t -> t w, each added to what the inner loop was given."""
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    w = make.addInitializedInputTensor(W.copy(), "w")
    going = _constant(make, True, np.bool_)
    outer = make.createSubgraphBuilder()
    inner = outer.createSubgraphBuilder()

    def carried(body: Any) -> str:
        body.addInputTensor("INT64", [], "turn")
        body.addOutputTensor(body.addUntypedInputTensor(going))
        name = body.addInputTensor("FLOAT", [3, 2]) if typed else body.addUntypedInputTensor(x)
        return str(name)

    start, state = carried(outer), carried(inner)
    inner.addOutputTensor(inner.aiOnnxOpset11.add([inner.aiOnnxOpset11.matmul([state, w]), start]))
    turns = _constant(make, 3, np.int64)
    (once,) = outer.aiOnnxOpset11.loop([turns, going, start], 1, inner)
    outer.addOutputTensor(once)
    (out,) = make.aiOnnxOpset11.loop([_constant(make, 2, np.int64), going, x], 1, outer)
    assert make.getTensorShape(out) == [3, 2]
    expected = X
    for _ in range(2):
        start_of = expected
        for _ in range(3):
            expected = expected @ W + start_of
    for model in (make.model, make.getModelProto()):
        got = run(infer(model, {out: "All"}), {"x": X})[out]
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_a_scan_types_its_states_and_slices() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 4], "x")
    start = make.addInputTensor("FLOAT", [2], "start")
    body = make.createSubgraphBuilder()
    total = body.aiOnnxOpset11.add([body.addUntypedInputTensor(name) for name in ("state", "item")])
    body.addOutputTensor(total)
    body.addOutputTensor(body.aiOnnxOpset11.neg([total]))
    last, rows = make.aiOnnxOpset11.scan([start, x], 2, body, 1, scan_input_axes=[-1])
    assert (make.getTensorShape(last), make.getTensorShape(rows)) == ([2], [4, 2])
    with pytest.raises(popart_exception, match=r"axis 2 is out of range"):
        make.aiOnnxOpset11.scan([start, x], 2, body, 1, scan_input_axes=[2])


def test_a_call_may_give_something_in_place_of_a_tensor_of_the_parent() -> None:
    """f(t) = t w, called with w by its place, without it, and with another weight."""
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    w = make.addInitializedInputTensor(W.copy(), "w")
    other = make.addInitializedInputTensor(2 * W, "other")
    callee = make.createSubgraphBuilder()
    callee.addInputTensorFromParentGraph(w)
    given = callee.addInputTensor("FLOAT", [3, 2], "given")
    callee.addInputTensorFromParentGraph(w)
    callee.addOutputTensor(callee.aiOnnxOpset11.matmul([given, w]))
    results = [make.aiGraphcore.call(inputs, 1, callee)[0] for inputs in ([w, x], [x], [other, x])]
    loss = make.aiGraphcore.identityloss(
        [make.aiOnnxOpset11.sum(results)], popart.ReductionType.Sum
    )
    for model in (make.model, make.getModelProto()):
        got = run(infer(model, dict.fromkeys(results, "All")), {"x": X})
        for name, factor in zip(results, (1, 1, 2), strict=True):
            np.testing.assert_allclose(got[name], factor * (X @ W), rtol=1e-6)
    program = SimpleNamespace(builder=make, loss=loss)
    session = train(program, popart.SGD({"defaultLearningRate": (1.0, False)}))
    run(session, {"x": X})
    slope = X.T @ np.ones((3, 2))
    np.testing.assert_allclose(weights(session, w)[0], W - 2 * slope, rtol=1e-5)
    np.testing.assert_allclose(weights(session, other)[0], 2 * W - slope, rtol=1e-5)


def test_bodies_in_bodies_have_each_their_own_tensor_of_the_parent() -> None:
    """f(t) = g(2 w, t) with g(w, t) = t w, both with w by its place."""
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    w = make.addInitializedInputTensor(W.copy(), "w")
    other = make.addInitializedInputTensor(3 * W, "other")
    outer = make.createSubgraphBuilder()
    inner = outer.createSubgraphBuilder()
    for body in (outer, inner):
        body.addInputTensorFromParentGraph(w)
    given, own = (body.addInputTensor("FLOAT", [3, 2], "given") for body in (outer, inner))
    inner.addOutputTensor(inner.aiOnnxOpset11.matmul([own, w]))
    twice = outer.aiOnnxOpset11.add([w, w])
    outer.addOutputTensor(outer.aiGraphcore.call([twice, given], 1, inner)[0])
    results = [make.aiGraphcore.call(inputs, 1, outer)[0] for inputs in ([x], [other, x])]
    for model in (make.model, make.getModelProto()):
        got = run(infer(model, dict.fromkeys(results, "All")), {"x": X})
        for name, factor in zip(results, (2, 6), strict=True):
            np.testing.assert_allclose(got[name], factor * (X @ W), rtol=1e-6)


def test_what_has_no_type_in_the_end_is_named() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    body = make.createSubgraphBuilder()
    (unknown,) = body.customOp("Unheard", 1, "custom.ops", [x], {}, 1)
    body.addOutputTensor(unknown)
    (out,) = make.aiGraphcore.call([], 1, body)
    with pytest.raises(popart_exception, match=f"Call:1: the shape of '{unknown}' is not known"):
        infer(make.model, {out: "All"})


def test_rows_of_a_loop_that_may_end_earlier_are_refused() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    w = make.addInitializedInputTensor(W.copy(), "w")
    going = make.addInputTensor("BOOL", [], "p")
    _, rows = _power(make, _constant(make, 3, np.int64), going, x, w)
    with pytest.raises(LoweringError, match=r"stacks 1 output\(s\) of its body, but how often"):
        infer(make.model, {rows: "All"})
