"""Pipelines through PopART's interface: their schedule's numbers, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, device, flow, options, run, weights

Array = np.ndarray[Any, Any]
LR = 0.2
WEIGHTS = ("w0", "b0", "w1", "w2")


def initial() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {
        name: 0.6 * rng.standard_normal([2] if name == "b0" else [2, 2]).astype(np.float32)
        for name in WEIGHTS
    }


class Net:
    """tanh(x w0 + b0), tanh(. w1), . w2 - x and half the sum of squares, a stage each.

    Tied, the last product is with w0 transposed, and its stage lies on the first one's IPU.
    """

    def __init__(self, tied: bool, places: dict[int, tuple[int, int]] | None = None) -> None:
        make = builder()
        self.tied, self.builder = tied, make
        places = places or {0: (0, 0), 1: (1, 1), 2: (0 if tied else 2, 2)}
        self.ipus = 1 + max(ipu for ipu, _ in places.values())
        x = make.addInputTensor("FLOAT", [3, 2], "x")
        ids = {
            name: make.addInitializedInputTensor(array, name)
            for name, array in initial().items()
            if not (tied and name == "w2")
        }
        ops = make.aiOnnxOpset11

        def at(number: int, output: str) -> str:
            ipu, stage = places[number]
            make.virtualGraph(output, ipu)
            make.pipelineStage(output, stage)
            return output

        h = at(0, ops.add([at(0, ops.matmul([x, ids["w0"]])), ids["b0"]]))
        h = at(0, ops.tanh([h]))
        self.h1 = h = at(1, ops.tanh([at(1, ops.matmul([h, ids["w1"]]))]))
        last = at(2, ops.transpose([ids["w0"]], [1, 0])) if tied else ids["w2"]
        self.out = at(2, ops.sub([at(2, ops.matmul([h, last])), x]))
        square = at(2, ops.mul([self.out, self.out]))
        self.loss = at(2, make.aiGraphcore.identityloss([at(2, make.aiGraphcore.scale([square],
                       0.5))], popart.ReductionType.Sum))  # fmt: skip

    def session(self, batches: int, **settings: Any) -> popart.TrainingSession:
        accumulation = settings.pop("accumulation", 1)
        anchors = {self.out: "All", **dict.fromkeys(settings.pop("anchors", ()), "All")}
        settings = {
            "enablePipelining": True,
            "virtualGraphMode": popart.VirtualGraphMode.Manual,
            **settings,
        }
        made = options(accumulation, **settings)
        session = popart.TrainingSession(
            self.builder.model,
            flow(batches, anchors),
            self.loss,
            popart.SGD({"defaultLearningRate": (LR, True)}),
            device(self.ipus * made.getGlobalReplicationFactor()),
            userOptions=made,
        )
        session.prepareDevice()
        session.weightsFromHost()
        return session

    @property
    def weights(self) -> list[str]:
        return [name for name in WEIGHTS if not (self.tied and name == "w2")]


def scheduled(x: Array, w: dict[str, Array], tied: bool) -> tuple[dict[str, Array], Array]:
    """One run of :class:`Net` cycle by cycle: the weights afterwards, and each micro-batch's out.

    Stage t of micro-batch k runs in cycle k + t, lower stages first: 0, 1, 2 are the forwards,
    2 also the last one's backward, 3 and 4 the others'.
    """
    w = {name: array.astype(np.float64) for name, array in w.items()}
    count = len(x)
    kept: list[dict[str, Array]] = [{} for _ in range(count)]
    out = np.zeros((count, 3, 2))
    for cycle in range(count + 4):
        for stage in range(5):
            k = cycle - stage
            if not 0 <= k < count:
                continue
            own = kept[k]
            if stage == 0:
                own["h0"] = np.tanh(x[k] @ w["w0"] + w["b0"])
            elif stage == 1:
                own["h1"] = np.tanh(own["h0"] @ w["w1"])
            elif stage == 2:
                # The transposed weight is an activation, which is kept.
                own["last"] = (w["w0"].T if tied else w["w2"]).copy()
                out[k] = own["h1"] @ own["last"] - x[k]
            if stage == 2:
                last = own["last"] if tied else w["w2"]
                own["d"] = (out[k] @ last.T) * (1 - own["h1"] ** 2)
                gradient = own["h1"].T @ out[k]
                if tied:
                    own["of w0"] = gradient.T
                else:
                    w["w2"] = w["w2"] - LR * gradient
            elif stage == 3:
                gradient = own["h0"].T @ own["d"]
                own["d"] = (own["d"] @ w["w1"].T) * (1 - own["h0"] ** 2)
                w["w1"] = w["w1"] - LR * gradient
            elif stage == 4:
                gradient = x[k].T @ own["d"] + (own["of w0"] if tied else 0)
                w["w0"] = w["w0"] - LR * gradient
                w["b0"] = w["b0"] - LR * own["d"].sum(0)
    return w, out


def data(count: int) -> Array:
    return np.random.default_rng(0).standard_normal((count, 3, 2)).astype(np.float32)


@pytest.mark.parametrize("tied", [False, True], ids=["three IPUs", "two stages on one"])
def test_without_accumulation_weights_are_those_of_the_schedule(tied: bool) -> None:
    net, w = Net(tied), initial()
    x = data(14).reshape(2, 7, 3, 2)
    session = net.session(7)
    for fed in x:
        # A run empties the pipeline: the next one starts without anything under way.
        got = run(session, {"x": fed})[net.out]
        w, out = scheduled(fed, w, tied)
        np.testing.assert_allclose(got, out, rtol=3e-5, atol=1e-5)
        for name, array in zip(net.weights, weights(session, *net.weights), strict=True):
            np.testing.assert_allclose(array, w[name], rtol=3e-5, atol=1e-5, err_msg=name)


def test_stale_weights_are_not_those_of_a_sequence() -> None:
    x = data(7)
    piped = Net(tied=False).session(7)
    run(piped, {"x": x})
    plain = Net(tied=False).session(
        7, enablePipelining=False, virtualGraphMode=popart.VirtualGraphMode.Manual
    )
    run(plain, {"x": x})
    for name in ("w0", "w1"):
        (stale,), (sequence,) = weights(piped, name), weights(plain, name)
        assert np.linalg.norm(stale - sequence) > 4e-3 * np.linalg.norm(sequence)


@pytest.mark.parametrize("replicas", [1, 2])
def test_with_accumulation_a_pipeline_changes_no_number(replicas: int) -> None:
    x = data(2 * 5 * replicas).reshape(2, 5, replicas, 3, 2)
    settings: dict[str, Any] = {"accumulation": 5}
    if replicas > 1:
        settings |= {"enableReplicatedGraphs": True, "replicatedGraphCount": replicas}
    piped = Net(tied=True).session(2, **settings)
    plain = Net(tied=True).session(2, enablePipelining=False, **settings)
    results = [run(session, {"x": x}) for session in (piped, plain)]
    for first, second in zip(*(result.values() for result in results), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6)
    for first, second in zip(weights(piped, "w0", "w1"), weights(plain, "w0", "w1"), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6)


def test_stages_that_follow_one_another_on_one_ipu_are_one() -> None:
    places = {0: (0, 0), 1: (0, 1), 2: (1, 2)}
    net = Net(tied=False, places=places)
    net.session(3)
    with pytest.raises(popart_exception, match=r"depth \(batchesPerStep\) must equal .* \(3\)"):
        net.session(2)
    # With a program that is only the forward stages the last has a backward stage; none are joined.
    alone = {"createImplicitPipeliningFwdOnlyProgram": True}
    with pytest.raises(popart_exception, match=r"at least the number of pipeline stages \(6\)"):
        net.session(1, accumulation=5, **alone)
    net.session(1, accumulation=6, **alone)


@pytest.mark.parametrize(
    ("places", "settings", "message"),
    [
        (None, {}, r"depth \(batchesPerStep\) must equal at least the .* stages \(5\)"),
        (None, {"accumulation": 4}, r"depth \(gradient accumulation factor\) .* stages \(5\)"),
        (
            {0: (0, 0), 1: (1, 0), 2: (1, 1)},
            {},
            r"^Ops \[Op\(ai.onnx.MatMul:9, .*\)\] have the same pipeline stage 0, but different "
            r"virtual graph ids \[0, 1\]. All ops with the same pipeline stage must also have",
        ),
        ({0: (0, 0), 1: (1, 1), 2: (1, 3)}, {}, "contains 3 stages, but stage 2 is missing"),
        ({0: (0, 0), 1: (1, 1), 2: (1, -1)}, {}, "Op has bad pipeline stage -1: Op"),
        ({0: (0, 1), 1: (1, 0), 2: (1, 2)}, {}, "consumed in an earlier pipeline stage than it"),
        ({0: (0, 0), 1: (0, 1), 2: (0, 2)}, {}, r"requires more than 1 IPU \(currently 1\)"),
        (
            None,
            {"virtualGraphMode": popart.VirtualGraphMode.Off},
            "requires more than 1 IPU|virtual graphs are disabled",
        ),
    ],
)
def test_pipelines_that_popart_refuses(
    places: dict[int, tuple[int, int]] | None, settings: dict[str, Any], message: str
) -> None:
    with pytest.raises(popart_exception, match=message):
        Net(tied=False, places=places).session(4, **settings)


def test_a_variable_stands_on_one_ipu() -> None:
    net = Net(tied=True, places={0: (0, 0), 1: (1, 1), 2: (2, 2)})
    with pytest.raises(
        popart_exception,
        match="Can not copy variable tensor w0 between virtual graphs .* virtual graphs 0, 2$",
    ):
        net.session(6)
    net.session(6, enablePipelining=False)


@pytest.mark.parametrize("of_input", [False, True])
def test_what_overlapped_exchange_takes(of_input: bool) -> None:
    def session(strategy: Any, **settings: Any) -> popart.InferenceSession:
        make = builder()
        asked = popart.InputSettings(popart.TileSet.Compute, strategy)
        info = popart.TensorInfo("FLOAT", [2])
        x = make.addInputTensor(info, asked) if of_input else make.addInputTensor(info)
        y = make.aiOnnxOpset11.neg([x])
        make.virtualGraph(y, 0)
        kept = popart.AnchorReturnType(
            "All",
            popart.TileSet.Compute,
            popart.ExchangeStrategy.JustInTime if of_input else strategy,
        )
        return popart.InferenceSession(
            make.getModelProto(),
            popart.DataFlow(1, {y: kept}),
            popart.DeviceManager().createIpuModelDevice({}),
            userOptions=options(**settings),
        )

    strategies = popart.ExchangeStrategy
    with pytest.raises(popart_exception, match="ExchangeStrategy::OverlapStep is not yet support"):
        session(strategies.OverlapStep)
    with pytest.raises(popart_exception, match="ExchangeStrategy::OverlapInnerLoop, .* require"):
        session(strategies.OverlapLoops)
    session(
        strategies.OverlapLoops,
        useHostCopyOps=True,
        enableExplicitMainLoops=True,
        virtualGraphMode=popart.VirtualGraphMode.Manual,
    )


@pytest.mark.parametrize("accumulation", [1, 6])
@pytest.mark.parametrize("recomputed", [False, True])
def test_what_is_restored_for_backward_is_what_forward_stashed(
    accumulation: int, recomputed: bool
) -> None:
    net = Net(tied=False)
    names = ["x", net.h1]
    settings = {
        "accumulation": accumulation,
        "anchors": [*names, *(f"Restored___{n}" for n in names)],
    }
    if recomputed:
        settings["autoRecomputation"] = popart.RecomputationType.Pipeline
    got = run(net.session(6, **settings), {"x": data(6 * accumulation)})
    for name in names:
        np.testing.assert_array_equal(got[f"Restored___{name}"], got[name])
    np.testing.assert_array_equal(got["x"].reshape(-1, 3, 2), data(6 * accumulation))
    with pytest.raises(popart_exception, match="keeps no '.*' for a later stage"):
        net.session(6, anchors=[f"Restored___{net.out}"])


def test_a_virtual_graph_that_the_device_has_not_is_found_as_it_is_prepared() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    first, second = make.aiOnnx.neg([x]), make.aiOnnx.abs([x], "second")
    total = make.aiOnnx.add([first, second])
    for name, index in ((first, 0), (second, 2), (total, 1)):
        make.virtualGraph(name, index)
    session = popart.InferenceSession(
        make.getModelProto(),
        flow(1, {total: "All"}),
        device(2),
        userOptions=options(virtualGraphMode=popart.VirtualGraphMode.Manual),
    )
    told = (
        r"^Op\(second \(ai.onnx.Abs:6\), inputs=\[x\], outputs=\[Abs:0\]\) has been assigned to an "
        r"invalid virtual graph 2. numIPUs = 2.$"
    )
    with pytest.raises(popart_exception, match=told):
        session.prepareDevice()


def test_every_n_is_no_anchor_of_a_pipeline() -> None:
    net = Net(tied=False)
    with pytest.raises(popart_exception, match="EVERYN is not valid for pipelined models"):
        popart.TrainingSession(
            net.builder.model,
            flow(8, {net.out: ("EveryN", 2)}),
            net.loss,
            popart.SGD({"defaultLearningRate": (LR, True)}),
            device(3),
            userOptions=options(
                enablePipelining=True, virtualGraphMode=popart.VirtualGraphMode.Manual
            ),
        )


def test_operators_without_a_place() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    first = make.aiOnnxOpset11.neg([x])
    second = make.aiOnnxOpset11.neg([first])
    manual = options(virtualGraphMode=popart.VirtualGraphMode.Manual)

    def session() -> None:
        popart.InferenceSession(make.model, flow(1, {second: "All"}), device(2),
                                userOptions=manual)  # fmt: skip

    with pytest.raises(popart_exception, match="no Ops have been annotated with virtual graph"):
        session()
    make.virtualGraph(first, 0)
    with pytest.raises(popart_exception, match=r"per virtual graph id\n  -1 : 1\n  0 : 1\nOps wit"):
        session()
    make.virtualGraph(second, 1)
    session()
    make.pipelineStage(first, 0)
    manual.enablePipelining = True
    with pytest.raises(popart_exception, match="Only some ops have had their pipeline stage set"):
        session()


def test_the_forward_only_program_leaves_weights_alone() -> None:
    net = Net(tied=False)
    session = net.session(1, accumulation=6, createImplicitPipeliningFwdOnlyProgram=True)
    x = data(6)
    before = weights(session, *net.weights)
    outputs = session.initAnchorArrays()
    stepio = popart.PyStepIO({"x": x}, outputs)
    session.run("implicitPipeliningFwdOnly", stepio, "named")
    session.run(programHandle="implicitPipeliningFwdOnly", stepio=stepio, debugName="named")
    w = dict(zip(net.weights, before, strict=True))
    expected = np.tanh(np.tanh(x @ w["w0"] + w["b0"]) @ w["w1"]) @ w["w2"] - x
    np.testing.assert_allclose(outputs[net.out], expected, rtol=1e-5, atol=1e-6)
    for array, name in zip(before, net.weights, strict=True):
        np.testing.assert_array_equal(weights(session, name)[0], array)
    np.testing.assert_allclose(run(session, {"x": x})[net.out], expected, rtol=1e-5, atol=1e-6)
    assert not np.array_equal(weights(session, "w0")[0], before[0])
    with pytest.raises(popart_exception, match="Program evaluation not found"):
        session.run("evaluation", popart.PyStepIO({"x": x}, outputs))
    with pytest.raises(popart_exception, match="Program implicitPipeliningFwdOnly not found"):
        Net(tied=False).session(5).run(
            "implicitPipeliningFwdOnly", popart.PyStepIO({"x": data(5)}, {})
        )
    with pytest.raises(TypeError, match="run takes .stepio, debugName. or"):
        session.run()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"enablePipelining": False, "accumulation": 6}, "without implicit pipelining"),
        ({"explicit": True, "accumulation": 6}, "with explicit pipelining"),
        ({}, "without gradient accumulation"),
    ],
)
def test_where_there_is_no_forward_only_program(settings: dict[str, Any], message: str) -> None:
    settings = dict(settings)
    if settings.pop("explicit", False):
        settings |= {"useHostCopyOps": True, "enableExplicitMainLoops": True}
    with pytest.raises(popart_exception, match=f"forward-only program is not supported {message}"):
        Net(tied=False).session(6, createImplicitPipeliningFwdOnlyProgram=True, **settings)


def test_an_automatic_placement_needs_an_operator_for_each_ipu() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    y = make.aiOnnx.abs([make.aiOnnx.neg([x])])
    settings = options(virtualGraphMode=popart.VirtualGraphMode.Auto)

    def session(ipus: int) -> None:
        popart.InferenceSession(
            make.getModelProto(), flow(1, {y: "All"}), device(ipus), userOptions=settings
        )

    session(2)
    told = (
        r"^\[AutoVirtualGraph\] Couldn't find enough splits for 4 IPUs. Only found 1. The program "
        r"has "
        "2 operators to place"
    )
    with pytest.raises(popart_exception, match=told):
        session(4)


def test_an_automatic_placement_has_a_stage_on_each_ipu() -> None:
    x = data(2 * 5).reshape(2, 5, 3, 2)
    automatic = {"virtualGraphMode": popart.VirtualGraphMode.Auto}
    nets = [Net(tied=False), Net(tied=False)]
    piped = nets[0].session(2, accumulation=5, **automatic)
    plain = nets[1].session(2, accumulation=5, enablePipelining=False, **automatic)
    for session in (piped, plain):
        run(session, {"x": x})
    for first, second in zip(weights(piped, "w0", "w2"), weights(plain, "w0", "w2"), strict=True):
        np.testing.assert_allclose(first, second, rtol=1e-6)
    with pytest.raises(popart_exception, match=r"at least the number of pipeline stages \(5\)"):
        Net(tied=False).session(2, accumulation=4, **automatic)
