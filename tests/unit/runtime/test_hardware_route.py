"""The road to hardware, with a recording stand-in for Graphcore's popart in place of the SDK."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import onnx
import paddle
import pytest

from paddle_ipu.errors import BackendUnavailableError, NotPortableError
from tests.journeys.placement.networks import PLACES, compiled, staged
from tests.journeys.training.side_by_side import (
    Built,
    Pair,
    build,
    initialised,
    mlp,
    pair,
    read,
    rows,
    sgd,
    snapshot,
    strategy,
    variables,
)
from tests.popart_stand_in import StandIn, make_popart

pytestmark = pytest.mark.usefixtures("static_mode")


@pytest.fixture
def popart(graphcores: StandIn) -> StandIn:
    """What the program's module is called for is read here."""
    return graphcores


def _scheduled() -> Built:
    return mlp(sgd, scheduler=lambda: paddle.optimizer.lr.StepDecay(0.5, 1, 0.1))


def _names(popart: StandIn) -> list[str]:
    return [call.name for call in popart.calls]


def _one(popart: StandIn, name: str) -> Any:
    (call,) = popart.named(name)
    return call


def test_a_portable_program_is_compiled_by_popart(popart: StandIn) -> None:
    both = pair(_scheduled(), {"batches_per_step": 2, "loss_scaling": 8.0, "random_seed": 7})
    assert both.program.portable
    names = _names(popart)
    order = [
        "Builder",
        "Builder.addInputTensor",
        "ai.onnx.matmul",
        "ai.onnx.tanh",
        "ai.graphcore.nllloss",
        "Builder.getModelProto",
        "TrainingSession",
        "_Session.prepareDevice",
        "_Session.setRandomSeed",
        "_Session.weightsFromHost",
    ]
    found = [names.index(name) for name in order if name in names]
    assert len(found) == len(order), set(order) - set(names)
    assert found == sorted(found)
    assert names.index("Builder.addInitializedInputTensor") < names.index("ai.onnx.matmul")
    assert _one(popart, "Builder").kwargs == {"opsets": {"ai.onnx": 11, "ai.graphcore": 1}}
    assert _one(popart, "DataFlow").args[0] == 2
    assert set(_one(popart, "DataFlow").args[1]) == {
        fetch.anchor for fetch in both.program.fetches.values()
    }
    assert _one(popart, "_Session.setRandomSeed").args == (7,)


def test_the_session_gets_the_serialised_model_and_popart_s_own_objects(popart: StandIn) -> None:
    pair(_scheduled(), {"loss_scaling": 8.0, "enable_outlining": False})
    arguments = _one(popart, "TrainingSession").kwargs
    model = onnx.load_model_from_string(arguments["fnModel"])
    onnx.checker.check_model(model)
    assert len(model.graph.initializer) == 4
    assert "ai.paddle_ipu" not in {node.domain for node in model.graph.node}
    assert arguments["loss"] in {name for node in model.graph.node for name in node.output}
    assert type(arguments["optimizer"]) is popart.SGD
    assert type(arguments["userOptions"]) is popart.SessionOptions
    assert arguments["userOptions"].enableOutlining is False
    assert type(arguments["patterns"]) is popart.Patterns
    assert type(arguments["deviceInfo"]) is popart.DeviceInfo
    assert _one(popart, "DeviceManager.tryAcquireAvailableDevice").args == (1,)
    settings = popart.named("SGD")[0].args[0]
    assert settings == {"defaultLearningRate": (0.5, False), "lossScaling": (8.0, True)}


def test_a_run_sends_feeds_learning_rate_and_takes_anchors(popart: StandIn) -> None:
    both = pair(_scheduled())
    del popart.calls[:]
    feed = rows(4)
    loss, logits = both.on_ipu(feed)
    both.built.scheduler.step()
    both.on_ipu(feed)
    # The stand-in writes zeros of the shapes it knows.
    assert (loss.shape, logits.shape) == ((), (4, 4))
    assert not np.any(logits)
    rates = [call.args[0]["defaultLearningRate"] for call in popart.named("SGD")]
    assert rates[-1] == (pytest.approx(0.05), False)
    assert len(popart.named("TrainingSession.updateOptimizerFromHost")) in (1, 2)
    assert len(popart.named("_Session.run")) == 2
    inputs = popart.named("PyStepIO")[0].args[0]
    np.testing.assert_array_equal(inputs["x"], feed["x"])
    np.testing.assert_array_equal(inputs["y"], feed["y"])
    assert inputs["y"].dtype == np.int32
    assert set(popart.named("PyStepIO")[0].args[1]) == {
        fetch.anchor for fetch in both.program.fetches.values()
    }


def test_weights_come_back_by_popart_s_calls(popart: StandIn) -> None:
    both = pair(_scheduled())
    before = snapshot(both.ipu, both.built.parameters)
    both.on_ipu(rows(4))
    del popart.calls[:]
    both.weights_to_host()
    names = _names(popart)
    assert names.index("_Session.weightsToHost") < names.index("_Session.readWeights")
    # The stand-in does not train: what it was given comes back.
    for name, array in before.items():
        np.testing.assert_array_equal(read(both.ipu, name), array)


def test_reset_gives_the_device_back(popart: StandIn) -> None:
    both = pair(_scheduled())
    del popart.calls[:]
    both.program.backend.reset()
    assert _names(popart) == ["DeviceInfo.detach"]
    with pytest.raises(BackendUnavailableError, match="it was reset. Compile the program again"):
        both.on_ipu(rows(4))


def test_inference_uses_an_inference_session(popart: StandIn) -> None:
    both = pair(mlp(None), is_training=False)
    assert "TrainingSession" not in _names(popart)
    assert "optimizer" not in _one(popart, "InferenceSession").kwargs
    assert both.on_ipu(rows(4))[1].shape == (4, 4)


def test_options_placement_and_memory_are_recorded(popart: StandIn, tmp_path: Path) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 4], "float32")
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            x = paddle.nn.Linear(4, 4)(x)
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            loss = paddle.nn.Linear(4, 1)(x).mean()
        paddle.optimizer.SGD(0.1).minimize(loss)
        return ["x"], {"loss": loss}, None

    both = pair(
        build(make),
        {
            "enable_pipelining": True,
            "enable_gradient_accumulation": True,
            "accumulation_factor": 4,
            "available_memory_proportion": 0.25,
            "enable_stochastic_rounding": False,
            "auto_recomputation": 3,
        },
        num_ipus=2,
        enable_manual_shard=True,
    )
    options = _one(popart, "TrainingSession").kwargs["userOptions"]
    assert options.enablePipelining is True
    assert options.enableGradientAccumulation is True
    assert options.accumulationFactor == 4
    assert options.virtualGraphMode is popart.VirtualGraphMode.Manual
    assert options.autoRecomputation is popart.RecomputationType.Pipeline
    assert _one(popart, "DeviceManager.tryAcquireAvailableDevice").args == (2,)
    assert {call.args[0] for call in popart.named("Builder.virtualGraph")} == {0, 1}
    assert {call.args[0] for call in popart.named("Builder.pipelineStage")} == {0, 1}
    assert len(popart.named("Builder.setAvailableMemoryProportion")) == 2
    both.program.backend.save_model_proto(tmp_path / "model.onnx")
    places = {
        node.op_type: tuple(
            onnx.helper.get_attribute_value(a)
            for name in ("__ipu_number", "__pipeline_stage")
            for a in node.attribute
            if a.name == name
        )
        for node in onnx.load(str(tmp_path / "model.onnx")).graph.node
    }
    assert places["ReduceMean"] == (1, 1)


def test_an_evaluation_has_no_learning_rate(popart: StandIn) -> None:
    both = pair(_scheduled())
    rates = []
    for evaluating in (False, True, True, False):
        both.compiler._ipu_strategy.set_options({"runtime_options.enable_eval": evaluating})
        del popart.calls[:]
        both.on_ipu(rows(4))
        sent = [call.args[0]["defaultLearningRate"][0] for call in popart.named("SGD")]
        rates.append(sent)
        assert len(popart.named("_Session.run")) == 1
    assert rates == [[0.5], [0.0], [], [0.5]]


def test_an_evaluation_of_a_pipeline_is_its_forward_only_program(popart: StandIn) -> None:
    both = compiled(
        staged(PLACES["two"], lambda: paddle.optimizer.SGD(0.1)), 2, accumulation=4, replicas=2,
        batches=3, pipelining=True, options={"create_implicit_pipelining_fwd_only_program": True},
    )  # fmt: skip
    options = _one(popart, "TrainingSession").kwargs["userOptions"]
    assert options.createImplicitPipeliningFwdOnlyProgram is True
    assert (options.enableReplicatedGraphs, options.replicatedGraphCount) == (True, 2)
    assert _one(popart, "DeviceManager.tryAcquireAvailableDevice").args == (4,)
    feed = rows(2 * 3 * 4 * 2)
    both.on_ipu(feed)
    both.compiler._ipu_strategy.set_options({"runtime_options.enable_eval": True})
    del popart.calls[:]
    (loss,) = both.on_ipu(feed)
    assert loss.shape == (3, 4, 2)
    assert _one(popart, "_Session.run").args[0] == "implicitPipeliningFwdOnly"
    assert not popart.named("SGD")


@pytest.mark.parametrize(
    ("optimizer", "kind", "state"),
    [
        (lambda rate: paddle.optimizer.Momentum(rate), "SGD", {"Accl___"}),
        (
            lambda rate: paddle.optimizer.Lamb(rate, grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)),
            "Adam",
            {"Accl1___", "Accl2___", "Step___"},
        ),
        (
            lambda rate: paddle.optimizer.RMSProp(rate, centered=True, momentum=0.5),
            "Adaptive",
            {"Accl1___", "Accl2___", "Accl3___"},
        ),
    ],
    ids=["momentum", "lamb", "rmsprop"],
)
def test_popart_s_rule_is_popart_s_own_optimizer(
    popart: StandIn, optimizer: Any, kind: str, state: set[str]
) -> None:
    both = pair(mlp(optimizer), {"optimizer_rule": "popart"})
    made = _one(popart, "TrainingSession").kwargs["optimizer"]
    assert type(made) is getattr(popart, kind)
    both.on_ipu(rows(4))
    del popart.calls[:]
    both.weights_to_host()
    read = {name for call in popart.named("PyWeightsIO") for name in call.args[0]}
    prefixes = {name.partition("___")[0] + "___" for name in read if "___" in name}
    assert prefixes == state


@pytest.mark.parametrize(
    ("optimizer", "why"),
    [
        (lambda rate: paddle.optimizer.Adam(rate), r"Paddle's own update rule \(adam\)"),
        (
            lambda rate: paddle.optimizer.SGD(rate, grad_clip=paddle.nn.ClipGradByNorm(1.0)),
            r"Paddle's own update rule \(sgd\)",
        ),
    ],
)
def test_a_program_that_is_not_portable_is_refused(
    popart: StandIn, optimizer: Any, why: str
) -> None:
    built = mlp(optimizer)
    scope = initialised(built)
    before = snapshot(scope, variables(built.main))
    compiler = paddle.static.IpuCompiledProgram(built.main, scope, strategy())
    with pytest.raises(
        NotPortableError,
        match=f"not portable to Graphcore's SDK: {why}. Run it on the IPU Model "
        r"\(PADDLE_IPU_DEVICE=model\), or ask for PopART's update rule: "
        r"set_options\({'optimizer_rule': 'popart'}\)",
    ):
        compiler.compile(built.feeds, built.fetches)
    assert not popart.named("TrainingSession")
    assert not popart.named("DeviceManager.tryAcquireAvailableDevice")
    for name, array in before.items():
        np.testing.assert_array_equal(read(scope, name), array)


def test_a_compilation_that_fails_gives_the_device_back(
    popart: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**arguments: Any) -> None:
        raise popart.popart_exception("Out of memory on all IPUs")

    monkeypatch.setattr(popart, "InferenceSession", refuse)
    with pytest.raises(popart.popart_exception, match="Out of memory on all IPUs"):
        pair(mlp(None), is_training=False)
    assert _names(popart)[-1] == "DeviceInfo.detach"


def test_no_hardware_is_said_clearly(popart: StandIn, monkeypatch: pytest.MonkeyPatch) -> None:
    nothing = SimpleNamespace(tryAcquireAvailableDevice=lambda count: None)
    monkeypatch.setattr(popart, "DeviceManager", lambda: nothing)
    built = mlp(None)
    compiler = paddle.static.IpuCompiledProgram(
        built.main, initialised(built), strategy(is_training=False)
    )
    with pytest.raises(
        BackendUnavailableError, match="Can't attach IPU, ipu_num = 1. Check `gc-monitor` for free"
    ):
        compiler.compile(built.feeds, built.fetches)


def test_the_sdk_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PADDLE_IPU_DEVICE", "sdk")
    monkeypatch.setattr("paddle_ipu.runtime.target_selection.sdk_installed", lambda: False)
    built = mlp(None)
    compiler = paddle.static.IpuCompiledProgram(
        built.main, initialised(built), strategy(is_training=False)
    )
    with pytest.raises(
        BackendUnavailableError,
        match="PADDLE_IPU_DEVICE=sdk, but Graphcore's popart cannot be imported. Source the Poplar",
    ):
        compiler.compile(built.feeds, built.fetches)


POPART = """
import sys
if "onnx" in sys.modules:
    raise ImportError("popart must be imported before onnx.")
from tests.popart_stand_in import make_popart
globals().update(vars(make_popart()))
"""
"""Graphcore's package refuses to be imported after onnx; the stand-in is what it has."""

PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
{first}
import numpy as np
import paddle
import paddle_ipu
paddle_ipu.activate()
paddle.enable_static()
x = paddle.static.data("x", [2, 3], "float32")
y = paddle.nn.functional.relu(x)
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=2)
program = paddle.static.IpuCompiledProgram(ipu_strategy=strategy)
try:
    compiled = program.compile(["x"], [y])
except paddle_ipu.errors.BackendUnavailableError as error:
    assert {first!r} and "popart must be imported before onnx. Import popart at" in str(error)
else:
    assert not {first!r}
    assert compiled.run({{"x": np.ones((2, 3), np.float32)}}, [y])[0].shape == (2, 3)
"""


@pytest.mark.parametrize("first", ["", "import onnx"])
def test_graphcores_module_is_imported_before_onnx(
    run_python: Any, tmp_path: Path, first: str
) -> None:
    (tmp_path / "popart").mkdir()
    (tmp_path / "popart" / "__init__.py").write_text(POPART)
    run_python(PROGRAM.format(folder=str(tmp_path), first=first), PADDLE_IPU_DEVICE="sdk")


def test_both_modules_are_given_the_same_program(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def dumped(name: str) -> tuple[list[Any], Pair]:
        path = tmp_path / f"{name}.onnx"
        both = pair(_scheduled(), {"onnx_dump_path": str(path)})
        nodes = onnx.load(str(path)).graph.node
        # On the hardware int64 is int32 already, which the label's Cast makes of it here.
        return [(n.domain, n.op_type) for n in nodes if n.op_type != "Cast"], both

    ours, _ = dumped("ours")
    monkeypatch.setitem(sys.modules, "popart", make_popart())
    monkeypatch.setenv("PADDLE_IPU_DEVICE", "sdk")
    theirs, _ = dumped("theirs")
    assert ours == theirs
    assert len(ours) > 5


def test_operators_are_given_popart_s_own_argument_names(popart: StandIn) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [4, 3], "float32")
        chosen = paddle.static.nn.cond(paddle.mean(x) > 0, lambda: x * 2.0, lambda: x + 1.0)
        return ["x"], {"out": paddle.static.Print(chosen, message="seen", summarize=7)}, None

    pair(build(make), is_training=False)
    assert _one(popart, "ai.onnx.logical_if").kwargs["name"]
    printed = _one(popart, "ai.graphcore.printtensor").kwargs
    assert (printed["title"], printed["summariseThreshold"]) == ("seen", 7)
    assert printed["debugContext"] != "seen"


def test_both_modules_are_given_the_same_subgraphs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        control_flow = paddle.static.nn
        x = paddle.static.data("x", [4, 3], "float32")
        weight = paddle.create_parameter([3, 3], "float32")
        chosen = control_flow.cond(
            paddle.mean(x) > 0, lambda: paddle.matmul(x, weight), lambda: x * 2.0
        )
        start = [paddle.full([1], 0, "int32"), paddle.assign(chosen)]
        turned = control_flow.while_loop(
            lambda i, y: i < 3, lambda i, y: [i + 1, paddle.tanh(y)], start
        )
        return ["x"], {"out": turned[1]}, None

    built = build(make)

    def dumped(name: str) -> list[tuple[Any, ...]]:
        path = tmp_path / f"{name}.onnx"
        pair(built, {"onnx_dump_path": str(path)}, is_training=False)
        return _nodes(onnx.load(str(path)).graph)

    ours = dumped("ours")
    monkeypatch.setitem(sys.modules, "popart", make_popart())
    monkeypatch.setenv("PADDLE_IPU_DEVICE", "sdk")
    assert ours == dumped("theirs")
    kinds = [node[1] for node in ours]
    assert "If" in kinds and "Loop" in kinds


def _nodes(graph: Any) -> list[tuple[Any, ...]]:
    """The nodes of a graph, and those of their subgraphs behind them."""
    found: list[tuple[Any, ...]] = []
    for node in graph.node:
        found.append((node.domain, node.op_type, list(node.input), list(node.output)))
        blocks = [attribute for attribute in node.attribute if attribute.HasField("g")]
        for attribute in sorted(blocks, key=lambda attribute: str(attribute.name)):
            found.append((attribute.name, [value.name for value in attribute.g.output]))
            found += _nodes(attribute.g)
    return found
