"""Replicas in one process: a program's copies, each with micro-batches of its own."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import IndexRangeError, LoweringError, NumericalError, popart_exception
from tests.unit.sessions.session_programs import (
    B,
    Linear,
    W,
    builder,
    device,
    flow,
    infer,
    micro_batches,
    options,
    run,
    train,
    weights,
)

Array = np.ndarray[Any, Any]
LR = 0.05
SGD = {"defaultLearningRate": (LR, True)}


def replicated(replicas: int, accumulation: int = 1, **settings: Any) -> popart.SessionOptions:
    return options(
        accumulation, enableReplicatedGraphs=True, replicatedGraphCount=replicas, **settings
    )


def trained(x: Array, mean: bool) -> tuple[Array, Array, dict[str, Array]]:
    """NumPy's w and b after x [batches, micro, replicas, 3, 2], and values at each place of x."""
    w, b = W.astype(np.float64), B.astype(np.float64)
    values: dict[str, list[Any]] = {"out": [], "Gradient___w": [], "w": []}
    for batch in x:
        each = [[Linear.gradients(own, w, b) for own in micro] for micro in batch]
        values["out"].append([[g["out"] for g in row] for row in each])
        values["Gradient___w"].append([[g["w"] for g in row] for row in each])
        values["w"].append([[w for _ in row] for row in each])
        flat = [g for row in each for g in row]
        scale = LR / len(flat) if mean else LR
        w = w - scale * sum(g["w"] for g in flat)
        b = b - scale * sum(g["b"] for g in flat)
    return w, b, {name: np.asarray(array) for name, array in values.items()}


MEANS = [("Sum", "Post"), ("Mean", "Post"), ("Mean", "Running"), ("NoReduction", "Post")]


@pytest.mark.parametrize(("reduction", "strategy"), MEANS)
@pytest.mark.parametrize("accumulation", [1, 3])
def test_weights_and_anchors(accumulation: int, reduction: str, strategy: str) -> None:
    program = Linear()
    x = micro_batches(2 * accumulation * 2).reshape(2, accumulation, 2, 3, 2) / 2
    names = {"out": program.out, "Gradient___w": "Gradient___w", "w": "w"}
    session = train(
        program,
        popart.SGD(SGD),
        dict.fromkeys(names.values(), "All"),
        batches=2,
        settings=replicated(
            2,
            accumulation,
            accumulationAndReplicationReductionType=getattr(popart.ReductionType, reduction),
            meanAccumulationAndReplicationReductionStrategy=getattr(
                popart.MeanReductionStrategy, strategy
            ),
        ),
    )
    got = run(session, {"x": x})
    w, b, values = trained(x, mean=reduction == "Mean")
    for name, array in zip("wb", weights(session, "w", "b"), strict=True):
        np.testing.assert_allclose(array, {"w": w, "b": b}[name], rtol=2e-5)
    if accumulation == 1:
        # Without accumulation a weight is seen after its update.
        values["w"] = np.concatenate([values["w"][1:], np.broadcast_to(w, (1, 1, 2, *w.shape))])
    for name, tensor in names.items():
        expected = values[name].reshape(*(d for d in (2, accumulation) if d > 1), 2,
                                        *values[name].shape[3:])  # fmt: skip
        assert got[tensor].shape == expected.shape
        np.testing.assert_allclose(got[tensor], expected, rtol=3e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["Final", "Sum", ("EveryN", 2)])
def test_kinds_of_anchors_keep_the_replicas(kind: Any) -> None:
    program = Linear()
    x = micro_batches(4 * 2 * 3).reshape(4, 2, 3, 3, 2) / 4
    session = train(
        program, popart.SGD(SGD), dict.fromkeys([program.out, "w"], kind), batches=4,
        settings=replicated(3, 2),
    )  # fmt: skip
    got = run(session, {"x": x})
    w, _, values = trained(x, mean=False)
    out = values["out"]

    def every_second(each: Array) -> Array:
        return each.reshape(-1, *each.shape[2:])[1::2].reshape(2, *each.shape[1:])

    expected = {"Final": out[-1, -1], "Sum": out.sum((0, 1))}.get(str(kind), every_second(out))
    assert session.initAnchorArrays()[program.out].shape == expected.shape
    np.testing.assert_allclose(got[program.out], expected, rtol=3e-5, atol=2e-5)
    seen = values["w"]
    copies = np.broadcast_to(w, (3, *w.shape))
    kept = {"Final": copies, "Sum": seen.sum((0, 1))}.get(str(kind), every_second(seen))
    np.testing.assert_allclose(got["w"], kept, rtol=3e-5)


def test_inference_has_replicas_too() -> None:
    program = Linear()
    x = micro_batches(6).reshape(3, 2, 3, 2)
    session = infer(program.builder.model, {program.out: "All"}, batches=3, settings=replicated(2))
    assert session.replicationFactor == 2
    np.testing.assert_allclose(run(session, {"x": x})[program.out], x @ W + B, rtol=1e-6)


def test_an_input_of_all_replicas_is_fed_once() -> None:
    make = builder()
    own = make.addInputTensor(popart.TensorInfo("FLOAT", [2]), "own")
    shared = make.addInputTensor(
        popart.TensorInfo("FLOAT", [2]),
        popart.InputSettings(popart.ReplicatedStreamMode.Broadcast),
        "shared",
    )
    y = make.aiOnnxOpset11.add([own, shared])
    session = infer(make.model, {y: "All"}, batches=3, settings=replicated(2))
    x = np.arange(12, dtype=np.float32).reshape(3, 2, 2)
    alike = np.arange(6, dtype=np.float32).reshape(3, 2) * 100
    expected = x + alike[:, None]
    np.testing.assert_array_equal(run(session, {own: x, shared: alike})[y], expected)
    # The callbacks are asked in the order of the micro-batches, for a shared input once.
    asked: list[str] = []
    arrays = {own: iter(x.reshape(-1, 2)), shared: iter(alike)}
    got: list[Array] = []

    def given(name: str, prefetch: bool) -> Array:
        asked.append(name)
        return next(arrays[name])

    def taken(name: str) -> Array:
        got.append(np.empty(2, np.float32))
        return got[-1]

    session.run(popart.PyStepIOCallback(given, lambda name: None, taken, lambda name: None))
    assert asked == [own, shared, own] * 3
    np.testing.assert_array_equal(np.asarray(got).reshape(expected.shape), expected)


def masks(replicas: int, seed: int = 7) -> Array:
    """Dropout of ones in training, [batches 2, micro-batches 2, replicas, 64]."""
    make = builder()
    x = make.addInputTensor("FLOAT", [64], "x")
    w = make.addInitializedInputTensor(np.ones(64, np.float32), "w")
    (dropped,) = make.aiOnnxOpset11.dropout([make.aiOnnxOpset11.mul([x, w])], 1, 0.5)
    loss = make.aiGraphcore.identityloss([dropped])
    session = popart.TrainingSession(
        make.model,
        flow(2, {dropped: "All"}),
        loss,
        popart.SGD({"defaultLearningRate": (0.0, False)}),
        device(replicas),
        userOptions=replicated(replicas, 2),
    )
    session.prepareDevice()
    session.setRandomSeed(seed)
    session.weightsFromHost()
    x = np.ones((2, 2, replicas, 64), np.float32)
    first, second = (run(session, {"x": x})[dropped] for _ in range(2))
    return np.concatenate([first, second])


def test_replicas_and_micro_batches_draw_masks_of_their_own() -> None:
    drawn = masks(2)
    assert drawn.shape == (4, 2, 2, 64)
    assert len({row.tobytes() for row in drawn.reshape(-1, 64)}) == 16
    np.testing.assert_array_equal(masks(2), drawn)
    assert not np.array_equal(masks(2, seed=8), drawn)


def test_the_seed_of_the_next_run() -> None:
    program = Linear()
    session = train(program, popart.SGD(SGD), batches=3, settings=replicated(4, 2))
    session.setRandomSeed(5 | 9 << 32)
    run(session, {"x": np.zeros((3, 2, 4, 3, 2), np.float32)})
    # The low word goes up by the replicas of each micro-batch, the high word by one.
    assert session.getRandomSeed() == (5 + 6 * 4) | (9 + 6) << 32


def test_each_replica_has_batch_norm_statistics_of_its_own() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [4, 2, 1], "x")
    names = ("scale", "offset", "mean", "variance")
    starts = (np.ones(2), np.zeros(2), np.zeros(2), np.ones(2))
    ids = [
        make.addInitializedInputTensor(start.astype(np.float32), name)
        for name, start in zip(names, starts, strict=True)
    ]
    y, *_ = make.aiOnnxOpset11.batchnormalization([x, *ids], 5, 1e-5, 0.75)
    loss = make.aiGraphcore.identityloss([make.aiOnnxOpset11.mul([y, y])])
    session = popart.TrainingSession(
        make.model,
        flow(2, {"mean": "Final"}),
        loss,
        popart.SGD(SGD),
        device(2),
        userOptions=replicated(2, 2),
    )
    session.prepareDevice()
    session.weightsFromHost()
    fed = np.random.default_rng(0).standard_normal((2, 2, 2, 4, 2, 1)).astype(np.float32)
    got = run(session, {"x": fed})["mean"]
    means = np.zeros((2, 2))
    for turn in fed.reshape(4, 2, 4, 2):
        means = 0.75 * means + 0.25 * turn.mean(1)
    np.testing.assert_allclose(got, means, rtol=1e-5)
    np.testing.assert_allclose(weights(session, "mean")[0], means[0], rtol=1e-5)
    # What the host brings is the start of each.
    session.writeWeights(popart.PyWeightsIO({"mean": np.ones(2, np.float32)}))
    session.weightsFromHost()
    got = run(session, {"x": np.zeros_like(fed)})["mean"]
    np.testing.assert_allclose(got, np.full((2, 2), 0.75**4), rtol=1e-5)


def test_an_index_or_a_number_that_is_wrong_names_its_replica() -> None:
    make = builder()
    indices = make.addInputTensor("INT32", [2], "indices")
    table = make.addInitializedInputTensor(np.ones((5, 2), np.float32), "table")
    rows = make.aiOnnxOpset11.gather([table, indices])
    session = infer(make.model, {rows: "All"}, batches=3, settings=replicated(2))
    fed = np.zeros((3, 2, 2), np.int32)
    fed[2, 1, 0] = 5
    with pytest.raises(IndexRangeError, match="got index 5 in micro-batch 2 of replica 1, exp"):
        run(session, {"indices": fed})
    program = Linear()
    session = train(
        program, popart.SGD(SGD), batches=2, settings=replicated(2, enableFloatingPointChecks=True)
    )
    x = np.zeros((2, 2, 3, 2), np.float32)
    x[1, 0, 0, 0] = np.inf
    with pytest.raises(NumericalError, match=r"MatMul .* in micro-batch 1 of replica 0\. Weights"):
        run(session, {"x": x})
    np.testing.assert_array_equal(weights(session, "w")[0], W)


def test_numbers_of_ipus_that_do_not_fit() -> None:
    program = Linear()

    def session(ipus: int, settings: popart.SessionOptions) -> None:
        popart.TrainingSession(
            program.builder.model,
            flow(1, {}),
            program.loss,
            popart.SGD(SGD),
            device(ipus),
            userOptions=settings,
        )

    with pytest.raises(popart_exception, match="IPUs must be divisible by the replication factor"):
        session(3, replicated(2))
    with pytest.raises(
        popart_exception,
        match=r"replicated graph count \(2\) needs to be equal to the number of IPUs \(4\)",
    ):
        session(4, replicated(2))
    with pytest.raises(popart_exception, match="is false, but replicatedGraphCount > 1"):
        session(2, options(replicatedGraphCount=2))


ADD = popart.CollectiveOperator.Add
GROUPS = [
    (None, [[0, 1, 2, 3]]),
    (popart.CommGroup(popart.CommGroupType.All, 0), [[0, 1, 2, 3]]),
    (popart.CommGroup(popart.CommGroupType.Consecutive, 2), [[0, 1], [2, 3]]),
    (popart.CommGroup(popart.CommGroupType.Orthogonal, 2), [[0, 2], [1, 3]]),
    (popart.CommGroup(popart.CommGroupType.Ungrouped, 0), [[0], [1], [2], [3]]),
]


def test_replicas_exchange_values() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [3], "x")
    reductions = {
        "Add": np.sum, "Mean": np.mean, "Mul": np.prod, "Min": np.min, "Max": np.max,
        "SquareAdd": lambda a, axis: (a * a).sum(axis),
    }  # fmt: skip
    wanted = {}
    fed = np.random.default_rng(0).standard_normal((2, 4, 3)).astype(np.float32)
    for name, reduction in reductions.items():
        operator = getattr(popart.CollectiveOperator, name)
        for group, members in GROUPS:
            settings = {} if group is None else {"commGroup": group}
            y = make.aiGraphcore.replicatedallreduce([x], operator, **settings)
            wanted[y] = np.empty_like(fed)
            for numbers in members:
                wanted[y][:, numbers] = reduction(fed[:, numbers], axis=1)[:, None]
    wanted[make.aiGraphcore.replicatedallreduce([x], popart.CollectiveOperator.Local)] = fed
    anchors = dict.fromkeys(wanted, "All")
    got = run(infer(make.model, anchors, batches=2, settings=replicated(4)), {"x": fed})
    for name, expected in wanted.items():
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)
    # A replica without others is a group of its own.
    alone = run(infer(make.model, anchors, batches=2), {"x": fed[:, 0].copy()})
    assert all(array.shape == (2, 3) for array in alone.values())


def test_groups_that_do_not_divide_the_replicas() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [3], "x")
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 3)
    y = make.aiGraphcore.replicatedallreduce([x], ADD, commGroup=group)
    with pytest.raises(LoweringError, match="groups of 3 replicas, which do not divide the 4"):
        infer(make.model, {y: "All"}, settings=replicated(4))


def test_members_of_a_group_have_a_part_each_of_what_it_reduces() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 5], "x")
    fed = np.random.default_rng(0).standard_normal((4, 2, 5)).astype(np.float32)
    wanted = {}
    for name in ("Add", "Mean", "Local"):
        operator = getattr(popart.CollectiveOperator, name)
        for group, members in GROUPS:
            settings = {} if group is None else {"commGroup": group}
            y = make.aiGraphcore.replicatedreducescatter([x], operator, **settings)
            # How long a part is, and what is computed of it, only a session knows.
            with pytest.raises(popart_exception, match="is not an known tensor"):
                make.getTensorShape(y)
            y = make.aiOnnx.neg([y])
            size = len(members[0])
            length = -(-10 // size)
            wanted[y] = np.empty((4, length), np.float32)
            for numbers in members:
                for place, number in enumerate(numbers):
                    values = fed[[number] if name == "Local" else numbers]
                    whole = values.mean(0) if name == "Mean" else values.sum(0)
                    whole = np.pad(whole.reshape(-1), (0, length * size - 10))
                    wanted[y][number] = -whole[place * length : (place + 1) * length]
    got = run(
        infer(make.getModelProto(), dict.fromkeys(wanted, "All"), settings=replicated(4)),
        {"x": fed},
    )
    for name, expected in wanted.items():
        np.testing.assert_allclose(got[name], expected, rtol=1e-5, atol=1e-6, err_msg=name)


def test_groups_scatter_weights_of_their_own() -> None:
    make = builder()
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
    kept = np.arange(12, dtype=np.float32).reshape(2, 6)
    w = make.addInitializedInputTensor(kept, popart.VariableSettings(group), "w")
    y = make.aiGraphcore.replicatedreducescatter([w], ADD, commGroup=group)
    make.addOutputTensor(w)
    make.addOutputTensor(y)
    session = infer(make.getModelProto(), {y: "All"}, settings=replicated(4))
    session.weightsFromHost()
    np.testing.assert_array_equal(run(session, {})[y].reshape(2, 6), 2 * kept)


def test_a_replica_without_others_has_all_of_what_is_scattered() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 5], "x")
    y = make.aiGraphcore.replicatedreducescatter([x])
    fed = np.arange(10, dtype=np.float32).reshape(2, 5)
    four = run(infer(make.model, {y: "All"}, settings=replicated(4)), {"x": np.stack([fed] * 4)})
    np.testing.assert_array_equal(four[y].reshape(-1)[:10], 4 * fed.reshape(-1))
    # The builder's model is there by reference, and takes the shapes of each session.
    np.testing.assert_array_equal(
        run(infer(make.model, {y: "All"}), {"x": fed})[y], fed.reshape(-1)
    )


def test_a_part_of_ones_own_has_the_gradient_of_all_parts() -> None:
    """Replica r's loss is the sum of r + 1 times its part, so all know what each part counts."""
    make = builder()
    factor = make.addInputTensor("FLOAT", [1], "factor")
    w = make.addInitializedInputTensor(np.arange(5, dtype=np.float32), "w")
    part = make.aiGraphcore.replicatedreducescatter([w], popart.CollectiveOperator.Local)
    product = make.aiOnnx.mul([part, factor])
    loss = make.aiGraphcore.identityloss([product], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        make.model, flow(1, {"Gradient___w": "All", part: "All"}), loss, popart.SGD(SGD),
        device(2), userOptions=replicated(2),
    )  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    got = run(session, {"factor": np.asarray([[1], [2]], np.float32)})
    np.testing.assert_array_equal(got[part], [[0, 1, 2], [3, 4, 0]])
    np.testing.assert_array_equal(got["Gradient___w"], [[1, 1, 1, 2, 2]] * 2)


def test_parts_meet_tensors_of_their_own_length() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [6], "x")
    y = make.addInputTensor("FLOAT", [3], "y")
    inner = make.createSubgraphBuilder()
    inside = inner.addInputTensor("FLOAT", [6])
    inner.addOutputTensor(inner.aiGraphcore.replicatedreducescatter([inside], ADD))
    (of_call,) = make.aiGraphcore.call([x], 1, inner)
    both = make.aiOnnxOpset11.add([make.aiGraphcore.replicatedreducescatter([x]), of_call])
    z = make.aiOnnxOpset11.mul([both, y])
    fed = np.arange(12, dtype=np.float32).reshape(2, 6)
    own = np.array([[1, 2, 3], [4, 5, 6]], np.float32)
    model = make.getModelProto()
    for source in (make.model, model, popart.Builder(model).getModelProto()):
        session = infer(source, {z: "All"}, settings=replicated(2))
        expected = 2 * fed.sum(0).reshape(2, 3) * own
        np.testing.assert_array_equal(run(session, {"x": fed, "y": own})[z], expected)
    with pytest.raises(popart_exception, match="Mul"):
        infer(make.model, {z: "All"})


def test_reduce_scatters_that_popart_refuses() -> None:
    make = builder()
    w = make.addInitializedInputTensor(np.arange(4, dtype=np.float32), "w")
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 3)
    y = make.aiGraphcore.replicatedreducescatter([w], ADD, commGroup=group)
    with pytest.raises(popart_exception, match="groups of 3 replicas, which do not divide the 4"):
        infer(make.model, {y: "All"}, settings=replicated(4))
    make = builder()
    w = make.addInitializedInputTensor(np.arange(4, dtype=np.float32), "w")
    y = make.aiGraphcore.replicatedreducescatter([w], ADD)
    loss = make.aiGraphcore.identityloss([y])
    told = (
        "^ReplicatedReduceScatterOp: grad op is only implemented when "
        "CollectiveOperator==CollectiveOperator::Local. Op.*; detach what it reads$"
    )
    with pytest.raises(popart_exception, match=told):
        popart.TrainingSession(
            make.model, flow(1, {}), loss, popart.SGD(SGD), device(2), userOptions=replicated(2)
        )


@pytest.mark.parametrize("strategy", ["Post", "Running"])
def test_training_with_an_exchange(strategy: str) -> None:
    """The loss of each replica is the product of its x w and the sum of all replicas'."""
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    w = make.addInitializedInputTensor(np.array([0.5, -1.0], np.float32), "w")
    own = make.aiOnnxOpset11.mul([x, w])
    everybody = make.aiGraphcore.replicatedallreduce([own], ADD)
    product = make.aiOnnxOpset11.mul([own, everybody])
    loss = make.aiGraphcore.identityloss([product], popart.ReductionType.Sum)
    settings = replicated(
        2,
        3,
        accumulationAndReplicationReductionType=popart.ReductionType.Mean,
        meanAccumulationAndReplicationReductionStrategy=getattr(
            popart.MeanReductionStrategy, strategy
        ),
    )
    session = popart.TrainingSession(
        make.model, flow(1, {everybody: "All"}), loss, popart.SGD(SGD), device(2),
        userOptions=settings,
    )  # fmt: skip
    session.prepareDevice()
    session.weightsFromHost()
    fed = np.random.default_rng(1).standard_normal((3, 2, 2)).astype(np.float32)
    got = run(session, {"x": fed})[everybody]
    start = np.array([0.5, -1.0])
    total = (fed * start).sum(1, keepdims=True)
    np.testing.assert_allclose(got, np.broadcast_to(total, fed.shape), rtol=1e-5)
    # PopART has no gradient of what was exchanged.
    gradient = (total * fed).mean((0, 1))
    np.testing.assert_allclose(weights(session, "w")[0], start - LR * gradient, rtol=1e-5)
