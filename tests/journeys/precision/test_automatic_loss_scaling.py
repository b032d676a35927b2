"""Automatic loss scaling: PopART's rule, through its own interface and by the strategy's options.

The programs are ``loss = sum(x * w)``: with a scale s the gradient of w is s * x. Nothing needs the
gradient of x, and that of the product is made of the scale, so it is not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import paddle
import pytest

import paddle_ipu
from paddle_ipu import popart
from paddle_ipu.errors import InvalidProgramError, popart_exception
from paddle_ipu.runtime.weights.owner import WeightOwner
from tests.journeys.precision.half_program import session_options

paddle_ipu.activate()

Array = np.ndarray[Any, Any]

FACTOR, FINAL = "lossScaleUpdateFactor", "finalLossScale"
COUNTER, STATISTICS = "ai.graphcore.Histogram:1_counter", "Accum___autoLossScaleStats"
EDGE = 65504 * 0.125


class Trained:
    """A session that has trained ``w`` on batches of ``x``, [steps, ...]."""

    def __init__(
        self,
        x: Array,
        w: Array,
        *,
        scaling: tuple[float, bool] = (10.0, False),
        dtype: str = "FLOAT16",
        micro: int = 1,
        replicas: int = 1,
        model: str | None = None,
        gradient: bool = False,
        statistics: bool = False,
        rate: float = 0.0,
        options: dict[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.x = builder.addInputTensor(dtype, list(w.shape), "x")
        self.w = builder.addInitializedInputTensor(w, "w")
        factors = [self.x, self.w]
        if dtype == "FLOAT":
            # Gradients in half, of weights in float32.
            factors = [builder.aiOnnxOpset11.cast([each], "FLOAT16") for each in factors]
        product = builder.aiOnnxOpset11.mul(factors)
        if dtype == "FLOAT":
            product = builder.aiOnnxOpset11.cast([product], "FLOAT")
        loss = builder.aiGraphcore.identityloss([product], reduction=popart.ReductionType.Sum)
        anchors = [FINAL, f"Gradient___{self.w}"] if gradient else [FINAL]
        anchors += [STATISTICS] if statistics else []
        made = session_options(options or {})
        made.automaticLossScalingSettings.enabled = True
        for name, value in settings.items():
            setattr(made.automaticLossScalingSettings, name, value)
        made.enableGradientAccumulation, made.accumulationFactor = micro > 1, micro
        made.enableReplicatedGraphs, made.replicatedGraphCount = replicas > 1, replicas
        steps = len(x) // (micro * replicas)
        self.session = popart.TrainingSession(
            model or builder.getModelProto(),
            popart.DataFlow(steps, {name: popart.AnchorReturnType("All") for name in anchors}),
            loss,
            popart.SGD({"defaultLearningRate": (rate, False), "lossScaling": scaling}),
            popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas}),
            userOptions=made,
        )
        self.session.prepareDevice()
        self.session.weightsFromHost()
        self.shape = w
        self.run(x)

    def run(self, x: Array) -> None:
        self.anchors = self.session.initAnchorArrays()
        self.session.run(popart.PyStepIO({self.x: x}, self.anchors))

    @property
    def scales(self) -> Array:
        return np.asarray(self.anchors[FINAL])

    def read(self, name: str, like: Array) -> Array:
        array = np.empty_like(like)
        self.session.weightsToHost()
        self.session.readWeights(popart.PyWeightsIO({name: array}))
        return array

    @property
    def factor(self) -> float:
        return float(self.read(FACTOR, np.empty((), np.float32)))


def _ones(*shape: int, dtype: Any = np.float16) -> Array:
    return np.ones(shape, dtype)


def _written_out(
    scaling: float, sizes: Sequence[Array], threshold: float = 1e-7, edge: float = EDGE
) -> list[float]:
    """Scales by the rule; `sizes` are a batch's gradients without a scale."""
    factor, scales = 1.0, []
    for batch in sizes:
        scales.append(scaling * factor)
        upper = int((np.abs(batch.astype(np.float64)) * scaling * factor >= edge).sum())
        lower = batch.size - upper
        shrinks = upper > lower * threshold / (1 - threshold)
        factor = min(factor * (0.5 if shrinks else 2.0), 2.0**15 / scaling)
    return scales


def test_small_gradients_double_the_scale() -> None:
    trained = Trained(_ones(8, 4), _ones(4))
    np.testing.assert_array_equal(trained.scales, 10.0 * 2.0 ** np.arange(8))
    assert trained.factor == 2.0**8


def test_the_scale_hovers_where_gradients_reach_the_edge() -> None:
    x = np.tile(np.asarray([8, 1, 1, 1], np.float16), (12, 1))
    trained = Trained(x, _ones(4), scaling=(16.0, False))
    sizes = list(x)
    expected = _written_out(16.0, sizes)
    assert 512.0 in expected
    assert 1024.0 in expected
    np.testing.assert_array_equal(trained.scales, expected)


def test_edge_and_threshold() -> None:
    x = np.tile(np.asarray([8, 8, 1, 1], np.float16), (12, 1))
    sizes = list(x)
    for threshold, edge in ((0.25, 0.125), (0.2, 0.125), (1e-7, 0.25), (1.0, 0.125)):
        trained = Trained(
            x, _ones(4), scaling=(16.0, False), binEdgeLocation=edge,
            thresholdUpperCountProportion=threshold,
        )  # fmt: skip
        share = threshold if threshold < 1 else 1 - 1e-12
        expected = _written_out(16.0, sizes, share, edge * 65504)
        np.testing.assert_array_equal(trained.scales, expected, f"{threshold} {edge}")


@pytest.mark.parametrize(("micro", "replicas"), [(3, 1), (1, 2), (2, 2)])
def test_counts_are_of_all_micro_batches(micro: int, replicas: int) -> None:
    # One gradient in one micro-batch is large.
    count = micro * replicas
    x = _ones(6 * count, 4)
    x[1 + 2 * count, 0] = 4000
    trained = Trained(x, _ones(4), micro=micro, replicas=replicas)
    scales = trained.scales.reshape(6, count)
    assert (scales == scales[:, :1]).all()
    np.testing.assert_array_equal(scales[:, 0], [10, 20, 40, 20, 40, 80])


def test_a_period_leaves_the_scale_between() -> None:
    trained = Trained(_ones(8, 4), _ones(4), updatePeriod=2)
    np.testing.assert_array_equal(trained.scales, [10, 20, 20, 40, 40, 80, 80, 160])


@pytest.mark.parametrize("micro", [1, 2])
def test_a_period_goes_on_from_run_to_run_and_from_a_saved_model(tmp_path: Any, micro: int) -> None:
    scales = []
    model = None
    for run in range(3):
        trained = Trained(_ones(2 * micro, 4), _ones(4), updatePeriod=3, micro=micro, model=model)
        scales += trained.scales.reshape(2, micro)[:, 0].tolist()
        counter = int(trained.read(COUNTER, np.empty((), np.int32)))
        assert counter == (2 * micro * (run + 1) - 1) % (3 * micro)
        model = str(tmp_path / f"{run}.onnx")
        trained.session.modelToHost(model)
        (saved,) = (t for t in onnx.load(model).graph.initializer if t.name == COUNTER)
        assert saved.int32_data == [counter]
    assert scales == [10, 20, 20, 20, 40, 40]


def test_statistics_are_summed_over_the_micro_batches_of_a_batch() -> None:
    x = _ones(6, 4)
    x[1, 0] = x[2, :2] = x[5] = 4000
    trained = Trained(x, _ones(4), micro=3, statistics=True)
    assert trained.scales[:, 0].tolist() == [10, 5]
    large = np.cumsum([[0, 1, 2], [0, 0, 4]], axis=1)
    counts = np.stack([4 * np.arange(1, 4) - large, large], axis=-1)
    np.testing.assert_array_equal(trained.anchors[STATISTICS], counts)


@pytest.mark.parametrize("dtype", ["FLOAT16", "FLOAT"])
def test_with_half_the_scale_is_bounded(dtype: str) -> None:
    kind = np.float16 if dtype == "FLOAT16" else np.float32
    x = np.full((20, 2), 1e-3, kind)
    trained = Trained(
        x, np.full(2, 1e-3, kind), dtype=dtype, scaling=(1.0, False), binEdgeLocation=1.0
    )
    expected = 2.0 ** np.arange(20)
    # From 2**16 on the gradient of the product itself overflows.
    expected[17:] = [2.0**15, 2.0**16, 2.0**15]
    if dtype == "FLOAT16":
        expected = np.minimum(expected, 2.0**15)
    np.testing.assert_array_equal(trained.scales, expected)


def test_a_gradient_that_is_no_number_is_large() -> None:
    x = _ones(4, 4)
    x[1, 0] = np.nan
    assert Trained(x, _ones(4)).scales.tolist() == [10, 20, 10, 20]


def test_weights_train_as_without() -> None:
    x = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float16).astype(np.float32)
    w = _ones(4, dtype=np.float32)
    scaling = (8.0, False)
    trained = Trained(x, w, dtype="FLOAT", scaling=scaling, rate=0.1, gradient=True)
    np.testing.assert_allclose(trained.read("w", w), w - 0.1 * x.sum(0), rtol=1e-6)
    # PopART gives the gradients of the scaled loss.
    got = trained.anchors["Gradient___w"] / trained.scales[:, None]
    np.testing.assert_allclose(got, x, rtol=1e-6)


def test_the_factor_goes_on_from_run_to_run_and_from_a_saved_model(tmp_path: Any) -> None:
    trained = Trained(_ones(2, 4), _ones(4))
    trained.run(_ones(2, 4))
    np.testing.assert_array_equal(trained.scales, [40, 80])
    path = str(tmp_path / "model.onnx")
    trained.session.modelToHost(path)
    again = Trained(_ones(2, 4), _ones(4), model=path)
    np.testing.assert_array_equal(again.scales, [160, 320])


def test_the_gradients_that_are_counted() -> None:
    x = _ones(3, 4)
    x[:, 0] = 4000
    assert Trained(x, _ones(4)).scales.tolist() == [10, 5, 2.5]
    by_name = popart.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
    named = Trained(x, _ones(4), gradientTensorTrackingMethod=by_name, toTrackTensors=["w"])
    assert named.scales.tolist() == [10, 5, 2.5]
    x[:] = 1
    large = np.full(4, 4000, np.float16)
    # Nothing before w needs the gradient of x.
    assert Trained(x, large).scales.tolist() == [10, 20, 40]
    matrices = popart.GradientTensorTrackingMethod.ConvAndMatmulGradients
    with pytest.raises(
        popart_exception, match="No tracked gradient tensors of type fp16 were found"
    ):
        Trained(x, large, gradientTensorTrackingMethod=matrices)


def test_only_gradients_in_half_are_counted() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2], "x")
    w = builder.addInitializedInputTensor(np.ones(2, np.float32), "w")
    loss = builder.aiGraphcore.identityloss([builder.aiOnnxOpset11.mul([x, w])])
    options = session_options({})
    options.automaticLossScalingSettings.enabled = True

    def prepare() -> None:
        popart.TrainingSession(
            builder.getModelProto(),
            popart.DataFlow(1, {}),
            loss,
            popart.SGD({"lossScaling": (1.0, False)}),
            popart.DeviceManager().createIpuModelDevice({}),
            userOptions=options,
        ).prepareDevice()

    with pytest.raises(popart_exception, match="No tracked gradient tensors of type fp16 were fou"):
        prepare()
    settings = options.automaticLossScalingSettings
    methods = popart.GradientTensorTrackingMethod
    settings.gradientTensorTrackingMethod = methods.GradientsOfUserSpecifiedTensors
    settings.toTrackTensors = ["w"]
    with pytest.raises(popart_exception, match="Unsupported data type FLOAT for .* 'Gradient___w'"):
        prepare()


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"scaling": (10.0, True)}, "The optimizer must have non-const loss scaling"),
        ({"binEdgeLocation": 1.5}, r"Out of range value for 'binEdgeLocation'.* 1\.5"),
        ({"thresholdUpperCountProportion": -1.0}, "'thresholdUpperCountProportion'"),
        ({"updatePeriod": 0}, "updatePeriod is 0, which should be at least 1"),
        (
            {
                "gradientTensorTrackingMethod":
                popart.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors
            },
            "but 'toTrackTensors' has not been set",
        ),
        ({"toTrackTensors": ["w"]}, "gradientTensorTrackingMethod has not been set to"),
        ({"toTrackTensors": []}, "An empty list was set as the value of 'toTrackTensors'"),
        ({"toTrackTensors": ["nobody"]}, r"do not exist in the model.*\['nobody'\]"),
        (
            {
                "gradientTensorTrackingMethod":
                popart.GradientTensorTrackingMethod.GradientsOfUserSpecifiedTensors,
                "toTrackTensors": ["finalLossScale"],
            },
            "toTrackTensors names finalLossScale, of which the loss has no gradient",
        ),
    ],
)  # fmt: skip
def test_settings_that_make_no_sense_are_refused(keywords: Any, message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        Trained(_ones(2, 4), _ones(4), **keywords)


def test_inference_has_no_loss_to_scale() -> None:
    builder = popart.Builder(opsets={"ai.onnx": 11})
    x = builder.addInputTensor("FLOAT16", [2], "x")
    out = builder.aiOnnxOpset11.add([x, x])
    options = popart.SessionOptions()
    options.automaticLossScalingSettings.enabled = True
    with pytest.raises(popart_exception, match="Only compatible when doing training"):
        popart.InferenceSession(
            builder.getModelProto(),
            popart.DataFlow(1, {out: popart.AnchorReturnType("All")}),
            popart.DeviceManager().createIpuModelDevice({}),
            userOptions=options,
        )


ON = {"automatic_loss_scaling_settings.enabled": True}
SCALE = "w.loss_scale"
"""The variable of the Scope: the scale, and the option it started from."""


class Program:
    """A Paddle program ``loss = sum(x * w)`` with an optimizer, trained for some steps."""

    def __init__(
        self,
        rule: str = "SGD",
        steps: int = 3,
        scope: Any = None,
        parameter: str = "w",
        **options: Any,
    ):
        paddle.enable_static()
        self.scope = scope or paddle.static.Scope()
        main, startup = paddle.static.Program(), paddle.static.Program()
        with (
            paddle.static.program_guard(main, startup),
            paddle.utils.unique_name.guard(),
            paddle.static.scope_guard(self.scope),
        ):
            x = paddle.static.data("x", [4], "float32")
            one = paddle.nn.initializer.Constant(1.0)
            attribute = paddle.ParamAttr(name=parameter, initializer=one)
            w = paddle.create_parameter([4], "float32", attr=attribute)
            loss = paddle.sum(x * w)
            getattr(paddle.optimizer, rule)(0.1).minimize(loss)
            if self.scope.find_var(parameter) is None:
                paddle.static.Executor(paddle.CPUPlace()).run(startup)
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=True)
        strategy.set_options({"loss_scaling": 4.0, **options})
        gradient = f"Gradient___{parameter}"
        self.ipu = paddle.static.IpuCompiledProgram(main, self.scope, strategy)
        program = self.program = self.ipu.compile(["x"], [loss, gradient])
        executor = paddle.static.Executor(paddle.IPUPlace())
        self.x = np.asarray([1, 2, 3, 4], np.float32)
        self.gradients = [
            executor.run(program, feed={"x": self.x}, fetch_list=[gradient])[0]
            for _ in range(steps)
        ]
        self.ipu._backend.weights_to_host()

    def variable(self, name: str) -> Array:
        return np.array(self.scope.find_var(name).get_tensor())


@pytest.mark.parametrize("rule", ["SGD", "Adam"])
def test_a_paddle_program_has_the_scale_in_its_scope(rule: str) -> None:
    plain, adapted = Program(rule), Program(rule, **ON)
    np.testing.assert_allclose(adapted.variable("w"), plain.variable("w"), rtol=1e-6)
    for gradient in adapted.gradients:
        np.testing.assert_allclose(gradient, adapted.x, rtol=1e-6)
    assert adapted.variable(SCALE).tolist() == [4 * 8, 4]
    again = Program(rule, steps=1, scope=adapted.scope, **ON)
    assert again.variable(SCALE).tolist() == [4 * 16, 4]
    assert plain.scope.find_var(SCALE) is None


def test_another_loss_scaling_starts_from_itself_in_the_same_scope() -> None:
    first = Program(steps=2, **ON)
    assert first.program.loss_scale == 16
    resumed = Program(steps=0, scope=first.scope, **{**ON, "loss_scaling": 16.0})
    assert resumed.program.loss_scale == 16
    started = Program(steps=1, scope=first.scope, **{**ON, "loss_scaling": 2.0})
    assert started.program.loss_scale == 4


def test_programs_that_train_other_parameters_have_scales_of_their_own() -> None:
    w = Program(steps=2, **ON)
    v = Program(steps=1, scope=w.scope, parameter="v", **ON)
    assert (w.program.loss_scale, v.program.loss_scale) == (16, 8)


@pytest.mark.parametrize("before", [False, True])
def test_the_scope_keeps_its_scale_where_compiling_fails(
    before: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Program(steps=1, **(ON if before else {}))

    def fails(self: Any) -> None:
        raise RuntimeError("no device")

    monkeypatch.setattr(WeightOwner, "_upload_states", fails)
    with pytest.raises(RuntimeError, match="no device"):
        Program(scope=first.scope, **{**ON, "loss_scaling": 2.0})
    if before:
        assert first.variable(SCALE).tolist() == [8, 4]
    else:
        assert first.scope.find_var(SCALE) is None


def test_half_gradients_bound_the_scale() -> None:
    got = Program(steps=16, enable_fp16=True, **ON)
    # The largest gradient is 4 times the scale, which from 2048 on is above the edge.
    assert got.variable(SCALE)[0] in (1024, 2048)
    for gradient in got.gradients:
        np.testing.assert_array_equal(gradient, got.x)


def test_one_rule_at_a_time_adapts_the_scale() -> None:
    paddle.enable_static()
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [2, 4], "float32")
        loss = paddle.mean(paddle.static.nn.fc(x, 2))
        paddle.static.amp.decorate(paddle.optimizer.SGD(0.1)).minimize(loss, startup)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=True)
    strategy.set_options(ON)
    with pytest.raises(InvalidProgramError, match="each by a rule of its own.*loss_scaling=False"):
        paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [loss])
