"""Weights that differ between groups of replicas: each group's is trained as if it were alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import (
    NotSupported,
    popart_exception,
    popart_internal_exception,
    popart_runtime_error,
)
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.sessions.weight_groups import replica_values
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
CONSECUTIVE = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
ORTHOGONAL = popart.CommGroup(popart.CommGroupType.Orthogonal, 2)
UNGROUPED = popart.CommGroup(popart.CommGroupType.Ungrouped, 0)
EVERY = popart.VariableRetrievalMode.AllReplicas
# replicas, group -> the replicas of each group
GROUPS = [
    (4, CONSECUTIVE, [[0, 1], [2, 3]]),
    (4, ORTHOGONAL, [[0, 2], [1, 3]]),
    (3, UNGROUPED, [[0], [1], [2]]),
]
LR = 0.05
SGD = {"defaultLearningRate": (LR, True)}


def entries(array: Array, groups: int) -> Array:
    """Another start for each group, [groups, *shape]."""
    return np.stack([array + 0.25 * number for number in range(groups)]).astype(np.float32)


def grouped(settings: Any, groups: int, settings_of_b: Any = None) -> Linear:
    """:class:`Linear` with a w, and maybe a b, of its own for each group of replicas."""
    b = B if settings_of_b is None else entries(B, groups)
    return Linear(w=entries(W, groups), b=b, settings=(settings, settings_of_b))


def replicated(replicas: int, accumulation: int = 1, **settings: Any) -> popart.SessionOptions:
    if replicas > 1:
        settings |= {"enableReplicatedGraphs": True, "replicatedGraphCount": replicas}
    return options(accumulation, **settings)


def read(session: Any, **shapes: tuple[int, ...]) -> dict[str, Array]:
    """What the host reads of weights and state, in arrays of the shapes."""
    session.weightsToHost()
    arrays = {name: np.full(shape, np.nan, np.float32) for name, shape in shapes.items()}
    session.readWeights(popart.PyWeightsIO(arrays))
    return arrays


def adam(mode: str, **numbers: float) -> popart.Adam:
    values = {"defaultLearningRate": 0.05, "defaultWeightDecay": 0.01, **numbers}
    return popart.Adam(
        {name: (value, True) for name, value in values.items()},
        mode=getattr(popart.AdamMode, mode),
    )


def adaptive(mode: str) -> popart.Adaptive:
    values = {"defaultLearningRate": 0.02, "defaultMomentum": 0.5, "defaultWeightDecay": 0.01}
    return popart.Adaptive(
        {name: (value, True) for name, value in values.items()},
        mode=getattr(popart.AdaptiveMode, mode),
    )


def sgd(kind: str, **numbers: float) -> popart.SGD:
    values = {"defaultLearningRate": LR, "defaultWeightDecay": 0.02, **numbers}
    return popart.SGD(
        {name: (value, True) for name, value in values.items()},
        accumulatorAndMomentum=getattr(popart.SGDAccumulatorAndMomentum, kind),
    )


OPTIMIZERS = {
    "SGD": lambda: sgd("Separate"),
    "momentum": lambda: sgd("Separate", defaultMomentum=0.9, defaultDampening=0.1),
    "Adam": lambda: adam("Adam"),
    "AdamNoBias": lambda: adam("AdamNoBias"),
    "AdaMax": lambda: adam("AdaMax"),
    "Lamb": lambda: adam("Lamb", defaultMaxWeightNorm=1.5),
    "LambNoBias": lambda: adam("LambNoBias", defaultMaxWeightNorm=1.5),
    "AdaGrad": lambda: adaptive("AdaGrad"),
    "RMSProp": lambda: adaptive("RMSProp"),
    "CenteredRMSProp": lambda: adaptive("CenteredRMSProp"),
    "AdaDelta": lambda: adaptive("AdaDelta"),
}
STATES = ("Accl___", "Accl1___", "Accl2___", "Accl3___")


def states(session: Any) -> list[str]:
    """The optimizer state of w and b, but for counts of steps."""
    executable = session._executable
    return [p + name for p in STATES for name in "wb" if executable.has_state(p + name)]


def shape_of(name: str) -> tuple[int, ...]:
    """Of a weight on a replica, and of its state."""
    return W.shape if name.endswith("w") else B.shape


def trained_alone(
    groups: list[list[int]], x: Array, optimizer: Any, accumulation: int
) -> dict[str, Array]:
    """What the groups become in trainings of their own, each with its replicas' micro-batches.

    Args:
        groups: the replicas of each.
        x: [batches, micro-batches, replicas, 3, 2].
        optimizer: makes one.
        accumulation: micro-batches of an update.
    """
    found = []
    for number, members in enumerate(groups):
        w, b = (entries(start, len(groups))[number] for start in (W, B))
        settings = replicated(len(members), accumulation)
        session = train(Linear(w=w, b=b), optimizer(), batches=len(x), settings=settings)
        run(session, {"x": np.ascontiguousarray(x[:, :, members])})
        found.append(read(session, **{n: shape_of(n) for n in ("w", "b", *states(session))}))
    return {name: np.stack([each[name] for each in found]) for name in found[0]}


def check_against_trainings_alone(
    replicas: int, group: Any, groups: list[list[int]], name: str, accumulation: int
) -> None:
    settings = popart.VariableSettings(group)
    x = micro_batches(3 * accumulation * replicas) / 4
    x = x.reshape(3, accumulation, replicas, 3, 2)
    session = train(
        grouped(settings, len(groups), settings), OPTIMIZERS[name](), batches=3,
        settings=replicated(replicas, accumulation),
    )  # fmt: skip
    run(session, {"x": x})
    expected = trained_alone(groups, x, OPTIMIZERS[name], accumulation)
    got = read(session, **{n: array.shape for n, array in expected.items()})
    assert not np.allclose(got["w"][0], got["w"][1], atol=1e-3)
    for tensor, array in expected.items():
        np.testing.assert_allclose(got[tensor], array, rtol=2e-5, atol=2e-6, err_msg=tensor)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_groups_are_trainings_of_their_own(name: str) -> None:
    check_against_trainings_alone(*GROUPS[1], name, accumulation=2)


@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize(("replicas", "group", "groups"), GROUPS)
def test_every_kind_of_group(
    replicas: int, group: Any, groups: list[list[int]], accumulation: int
) -> None:
    check_against_trainings_alone(replicas, group, groups, "momentum", accumulation)


def by_hand(x: Array, groups: list[list[int]], mean: str) -> tuple[Array, Array]:
    """NumPy's w [groups, ...] and shared b after x [batches, micro-batches, replicas, 3, 2].

    PopART divides by the micro-batches of all replicas, but with a running mean, which knows only
    those of the group.
    """
    w, b = entries(W, len(groups)).astype(np.float64), B.astype(np.float64)
    for batch in x:
        count = batch.shape[0] * batch.shape[1]
        of_w, of_b = np.zeros_like(w), np.zeros_like(b)
        for number, members in enumerate(groups):
            for own in batch[:, members].reshape(-1, 3, 2):
                gradients = Linear.gradients(own, w[number], b)
                of_w[number] += gradients["w"]
                of_b += gradients["b"]
        if mean == "Post":
            of_w /= count
        elif mean == "Running":
            of_w /= count // len(groups)
        w, b = w - LR * of_w, b - LR * (of_b / count if mean else of_b)
    return w, b


@pytest.mark.parametrize("exchange", [False, True])
@pytest.mark.parametrize("mean", ["", "Post", "Running"])
def test_a_shared_weight_beside_one_of_groups(mean: str, exchange: bool) -> None:
    groups = GROUPS[0][2]
    program = grouped(popart.VariableSettings(CONSECUTIVE), 2)
    if exchange:
        # Replicas that exchange values are computed together.
        add = popart.CollectiveOperator.Add
        program.builder.aiGraphcore.replicatedallreduce([program.out], add)
    x = micro_batches(2 * 2 * 4).reshape(2, 2, 4, 3, 2) / 4
    settings = replicated(4, 2)
    if mean:
        settings.accumulationAndReplicationReductionType = popart.ReductionType.Mean
        strategy = getattr(popart.MeanReductionStrategy, mean)
        settings.meanAccumulationAndReplicationReductionStrategy = strategy
    names = {program.out: "All", "Gradient___w": "All", "w": "All"}
    session = train(program, popart.SGD(SGD), names, batches=2, settings=settings)
    anchors = run(session, {"x": x})
    w, b = by_hand(x, groups, mean)
    got = read(session, w=w.shape, b=b.shape)
    np.testing.assert_allclose(got["w"], w, rtol=2e-5)
    np.testing.assert_allclose(got["b"], b, rtol=2e-5)
    # Every replica computes with the values of its group.
    w, b = by_hand(x[:1], groups, mean)
    of_replica = [0, 0, 1, 1]
    for turn in np.ndindex(2, 4):
        own = Linear.gradients(x[1][turn], w[of_replica[turn[1]]], b)
        np.testing.assert_allclose(anchors[program.out][1][turn], own["out"], rtol=3e-5, atol=1e-5)
        np.testing.assert_allclose(anchors["Gradient___w"][1][turn], own["w"], rtol=3e-5, atol=1e-5)
        np.testing.assert_allclose(anchors["w"][1][turn], w[of_replica[turn[1]]], rtol=3e-5)


def test_the_combined_velocity_of_a_group() -> None:
    """PopART divides a velocity by all replicas and, in the next update, adds the group's only."""
    momentum, groups = 0.9, GROUPS[0][2]
    program = grouped(popart.VariableSettings(CONSECUTIVE), 2)
    x = micro_batches(3 * 2 * 4).reshape(3, 2, 4, 3, 2) / 4
    optimizer = sgd("Combined", defaultWeightDecay=0.0, defaultMomentum=momentum)
    session = train(program, optimizer, batches=3, settings=replicated(4, 2))
    run(session, {"x": x})
    w, b = entries(W, 2).astype(np.float64), B.astype(np.float64)
    of_w, of_b = np.zeros_like(w), np.zeros_like(b)
    for batch in x:
        of_w, of_b = of_w * momentum / 2, of_b * momentum
        for number, members in enumerate(groups):
            for own in batch[:, members].reshape(-1, 3, 2):
                gradients = Linear.gradients(own, w[number], b)
                of_w[number] += gradients["w"]
                of_b += gradients["b"]
        w, b = w - LR * of_w, b - LR * of_b
    got = read(session, w=w.shape, b=b.shape)
    np.testing.assert_allclose(got["w"], w, rtol=2e-5)
    np.testing.assert_allclose(got["b"], b, rtol=2e-5)


def test_a_pipeline_without_accumulation() -> None:
    """Weights of earlier updates are those of the group."""
    momentum = {"defaultLearningRate": (0.02, True)}
    x = micro_batches(6 * 2).reshape(6, 2, 3, 2) / 4

    def session(replicas: int, start: Array, *settings: Any) -> Any:
        make = builder()
        fed = make.addInputTensor("FLOAT", [3, 2], "x")
        w = make.addInitializedInputTensor(start, *settings, "w")
        with make.virtualGraph(0), make.pipelineStage(0):
            first = make.aiOnnxOpset11.matmul([fed, w])
        with make.virtualGraph(1), make.pipelineStage(1):
            loss = make.aiGraphcore.identityloss([make.aiOnnxOpset11.mul([first, first])])
        chosen = replicated(
            replicas, enablePipelining=True, virtualGraphMode=popart.VirtualGraphMode.Manual
        )
        made = popart.TrainingSession(
            make.model, flow(6, {}), loss, popart.SGD(momentum), device(2 * replicas),
            userOptions=chosen,
        )  # fmt: skip
        made.prepareDevice()
        made.weightsFromHost()
        return made

    starts = entries(W, 2)
    together = session(2, starts, popart.VariableSettings(UNGROUPED))
    run(together, {"x": x})
    for number, array in enumerate(read(together, w=(2, 2, 2))["w"]):
        alone = session(1, starts[number])
        run(alone, {"x": np.ascontiguousarray(x[:, number])})
        np.testing.assert_allclose(array, weights(alone, "w")[0], rtol=2e-5)


@pytest.mark.parametrize(("replicas", "group", "groups"), GROUPS)
def test_inference_and_what_the_host_reads(
    replicas: int, group: Any, groups: list[list[int]]
) -> None:
    x = micro_batches(2 * replicas).reshape(2, replicas, 3, 2)
    of_replica = np.zeros(replicas, int)
    for number, members in enumerate(groups):
        of_replica[members] = number
    start = entries(W, len(groups))
    for mode in ("OnePerGroup", "AllReduceReplicas", "AllReplicas"):
        settings = popart.VariableSettings(group, getattr(popart.VariableRetrievalMode, mode))
        program = grouped(settings, len(groups))
        chosen = replicated(replicas, constantWeights=False)
        session = infer(program.builder.model, {program.out: "All"}, batches=2, settings=chosen)
        assert session.getInfo("w").shape() == [2, 2]
        assert session.getInfo(program.out).shape() == [3, 2]
        for given in (start, start[::-1].copy()):
            session.writeWeights(popart.PyWeightsIO({"w": given}))
            session.weightsFromHost()
            expected = x @ given[of_replica] + B
            got = run(session, {"x": x})[program.out]
            np.testing.assert_allclose(got, expected, rtol=1e-6)
            returned = given[of_replica] if mode == "AllReplicas" else given
            np.testing.assert_array_equal(read(session, w=returned.shape)["w"], returned)
            # What was read is what is uploaded again.
            session.weightsToHost()
            session.weightsFromHost()
            np.testing.assert_allclose(run(session, {"x": x})[program.out], expected, rtol=1e-6)
    with pytest.raises(popart_runtime_error, match="Trying to read weights using tensor with non"):
        read(session, w=(replicas + 1, 2, 2))


def test_every_replica_returns_weights_and_state() -> None:
    for group, size in ((popart.CommGroup(), 4), (CONSECUTIVE, 2)):
        count = 4 // size
        start = entries(W, count) if count > 1 else W
        settings = popart.VariableSettings(group, EVERY)
        program = Linear(w=start, settings=(settings, None))
        session = train(program, OPTIMIZERS["momentum"](), settings=replicated(4))
        run(session, {"x": micro_batches(4)})
        got = read(session, w=(4, 2, 2), b=B.shape, Accl___w=(4, 2, 2), Accl___b=B.shape)
        plain = Linear(w=start, settings=(popart.VariableSettings(group), None))
        other = train(plain, OPTIMIZERS["momentum"](), settings=replicated(4))
        run(other, {"x": micro_batches(4)})
        expected = read(other, w=start.shape, Accl___w=start.shape)
        for name, array in expected.items():
            each = np.repeat(array.reshape(count, 2, 2), size, axis=0)
            np.testing.assert_array_equal(got[name], each)
        # A snapshot goes back to the device in the form in which the host gives weights.
        session.weightsFromHost()
        np.testing.assert_array_equal(read(session, w=(4, 2, 2))["w"], got["w"])


@pytest.mark.parametrize("reads_all", [False, True])
def test_a_variable_that_the_graph_writes(reads_all: bool) -> None:
    """Each replica starts from its group's count, and adds up what it is fed."""
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    mode = EVERY if reads_all else popart.VariableRetrievalMode.OnePerGroup
    start = np.array([[10.0], [20.0]], np.float32)
    settings = popart.VariableSettings(ORTHOGONAL, mode)
    count = make.addInitializedInputTensor(start, settings, "count")
    total = make.aiOnnxOpset11.reducesum([x], [0], 1)
    make.aiGraphcore.copyvarupdate([count, make.aiOnnxOpset11.add([count, total])])
    y = make.aiOnnxOpset11.identity([count])
    session = infer(
        make.model, {y: "All"}, batches=2, settings=replicated(4, constantWeights=False)
    )
    fed = np.arange(16, dtype=np.float32).reshape(2, 4, 2)
    got = run(session, {"x": fed})[y]
    first = np.array([10, 20, 10, 20])[:, None] + np.zeros((4, 1))
    np.testing.assert_array_equal(got, [first, first + fed[0].sum(1, keepdims=True)])
    last = first + fed.sum((0, 2))[:, None]
    expected = last if reads_all else last[:2]
    np.testing.assert_array_equal(read(session, count=expected.shape)["count"], expected)


def test_a_saved_model_keeps_the_settings(tmp_path: Path) -> None:
    path = str(tmp_path / "model.onnx")
    settings = popart.VariableSettings(CONSECUTIVE, EVERY)
    program = grouped(settings, 2)

    def session(model: Any) -> Any:
        optimizer = OPTIMIZERS["momentum"]()
        return train(program, optimizer, settings=replicated(4), model=model)

    one = session(program.builder.getModelProto())
    x = micro_batches(8).reshape(2, 4, 3, 2) / 4
    run(one, {"x": x[0]})
    one.modelToHost(path)
    saved = onnx.load(path)
    dims = {each.name: list(each.dims) for each in saved.graph.initializer}
    assert (dims["w"], dims["Accl___w"], dims["b"]) == ([2, 2, 2], [2, 2, 2], [2])
    metadata = {each.key: each.value for each in saved.metadata_props}
    assert metadata == settings.metadata("w")
    run(one, {"x": x[1]})
    shapes: dict[str, tuple[int, ...]] = {"w": (4, 2, 2), "b": (2,), "Accl___w": (4, 2, 2)}
    expected = read(one, **shapes)
    # Another session goes on from the file, and so does one that reads it as its own weights.
    other = session(path)
    third = session(program.builder.model)
    third.resetHostWeights(path)
    third.weightsFromHost()
    for again in (other, third):
        run(again, {"x": x[1]})
        for name, array in read(again, **shapes).items():
            np.testing.assert_array_equal(array, expected[name])
    # A builder takes it up, too: a weight has no shape before the replicas are known.
    taken = popart.Builder(path)
    assert taken.getTensorShape("w") == [2, 2, 2]
    with pytest.raises(popart_exception, match="is not an known tensor"):
        taken.getTensorShape(program.out)
    started = read(session(taken.getModelProto()), w=(4, 2, 2))["w"]
    array = next(each for each in saved.graph.initializer if each.name == "w")
    np.testing.assert_array_equal(started[::2], onnx.numpy_helper.to_array(array))


def test_one_program_for_several_numbers_of_replicas() -> None:
    start = entries(W, 2)
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    w = make.addInitializedInputTensor(start, popart.VariableSettings(CONSECUTIVE), "w")
    y = make.aiOnnxOpset11.matmul([x, w])
    fed = micro_batches(4)
    for replicas in (4, 2, 4):
        session = infer(make.model, {y: "All"}, settings=replicated(replicas))
        if replicas == 4:
            assert session.getInfo(y).shape() == [3, 2]
            np.testing.assert_allclose(run(session, {"x": fed})[y], fed @ start[[0, 0, 1, 1]])
        else:
            # All replicas are one group, and the whole array is its weight.
            assert session.getInfo(y).shape() == [2, 3, 2]
            expected = fed[:2, None] @ start
            np.testing.assert_allclose(run(session, {"x": fed[:2]})[y], expected)
        with pytest.raises(popart_exception, match="is not an known tensor"):
            make.getTensorShape(y)
    with pytest.raises(
        popart_internal_exception, match='of Tensor: "w". should match numGroups: 3'
    ):
        infer(make.model, {y: "All"}, settings=replicated(6))
    with pytest.raises(popart_exception, match="divisible by the product of the stride"):
        infer(make.model, {y: "All"}, settings=replicated(3))


def test_weights_of_one_group_are_typed_at_once() -> None:
    make = builder()
    w = make.addInitializedInputTensor(W, popart.VariableSettings(EVERY), debugContext="w")
    v = make.addInitializedInputTensor(initVal=W, variableSettings=popart.VariableSettings())
    assert make.getTensorShape(make.aiOnnxOpset11.matmul([w, v])) == [2, 2]
    for arguments in ((W, 3), (W, popart.VariableSettings(), 3), (W, "w", "v")):
        with pytest.raises(TypeError, match="incompatible function arguments"):
            make.addInitializedInputTensor(*arguments)


def test_a_subgraph_takes_and_reads_weights_of_groups() -> None:
    settings, start = popart.VariableSettings(CONSECUTIVE), entries(W, 2)
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    w = make.addInitializedInputTensor(start, settings, "w")
    v = make.addInitializedInputTensor(start + 1, settings, "v")
    body = make.createSubgraphBuilder()
    taken = [body.addUntypedInputTensor(), body.addUntypedInputTensor()]
    body.addInputTensorFromParentGraph(v)
    product = body.aiOnnxOpset11.matmul(taken)
    body.addOutputTensor(body.aiOnnxOpset11.matmul([product, v]))
    (y,) = make.aiGraphcore.call([x, w], 1, body)
    make.addOutputTensor(w)
    fed, own = micro_batches(4), start[[0, 0, 1, 1]]
    for model in (make.model, make.getModelProto()):
        session = infer(model, {y: "All", w: "All"}, settings=replicated(4))
        got = run(session, {"x": fed})
        np.testing.assert_allclose(got[y], fed @ own @ (own + 1), rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(got[w], own)


def test_what_cannot_be_done_says_why() -> None:
    settings = popart.VariableSettings(CONSECUTIVE)
    clips = [popart.ClipNormSettings.clipAllWeights(1.0)]
    with pytest.raises(NotSupported, match="ClipNormSettings of the weight 'w'"):
        train(
            grouped(settings, 2), popart.SGD(SGD, clip_norm_settings=clips), settings=replicated(4)
        )
    clips = [popart.ClipNormSettings.clipWeights(["b"], 1.0)]
    train(grouped(settings, 2), popart.SGD(SGD, clip_norm_settings=clips), settings=replicated(4))
    with pytest.raises(NotSupported, match="'w' has VariableSettings .* PaddleOptimizer"):
        train(grouped(settings, 2), PaddleOptimizer([], 0.1), settings=replicated(4))
    with pytest.raises(popart_exception, match="not initialised using a `popart::CommGroup`"):
        grouped(popart.VariableSettings(1, 2, EVERY), 2)
    program = grouped(settings, 2)
    with pytest.raises(popart_exception, match="VariableSettings are of the weights of the main"):
        program.builder.createSubgraphBuilder().addInitializedInputTensor(W, settings, "v")
    transformer = popart.GraphTransformer(program.builder.getModelProto())
    with pytest.raises(popart_exception, match="'w' differs between groups of replicas"):
        transformer.convertInitializersToConstants(["w"])
    for each in (settings, popart.VariableSettings(EVERY)):
        model = grouped(each, 4).builder.model
        with pytest.raises(NotSupported, match="'w' has VariableSettings.* and 2 processes"):
            replica_values(model, popart.SessionOptions(), 4, instances=2, training=True)


def test_numbers_that_operators_take_as_constants_are_the_same_on_all_replicas() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [6], "x")
    settings = popart.VariableSettings(UNGROUPED)
    shape = make.addInitializedInputTensor(np.array([[2, 3], [3, 2]], np.int64), settings, "shape")
    y = make.aiOnnxOpset11.reshape([x, shape])
    with pytest.raises(popart_exception, match="Reshape"):
        infer(make.model, {y: "All"}, settings=replicated(2))


@pytest.mark.parametrize("where", ["weight", "optimizerState", "override"])
def test_shards_of_values_that_replicas_do_not_share(where: str) -> None:
    def session(domain: Any, group: Any, replicas: int = 4) -> None:
        location = popart.TensorLocation(
            popart.TensorStorage.OffChip, popart.ReplicatedTensorSharding.On, domain
        )
        settings = replicated(replicas)
        if where == "override":
            settings.tensorLocationSettingsOverride = {"w": location}
        else:
            chosen = popart.TensorLocationSettings(location, 0, 2)
            setattr(settings, f"{where}TensorLocationSettings", chosen)
        train(
            grouped(popart.VariableSettings(group), 2), popart.SGD(SGD), settings=settings,
            start=False,
        )  # fmt: skip

    session(CONSECUTIVE, CONSECUTIVE)
    session(popart.CommGroup(), UNGROUPED, replicas=2)
    with pytest.raises(
        popart_internal_exception, match="Could not return a supported ReplicaGrouping transpose"
    ):
        session(popart.CommGroup(), CONSECUTIVE)
