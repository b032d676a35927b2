"""What comes back from a run: kinds of anchors, weights, gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
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
)

Array = np.ndarray[Any, Any]
LR = 0.05
KINDS: list[Any] = ["All", "Final", "Sum", ("EveryN", 2)]
SGD = {"defaultLearningRate": (LR, True)}


def training(x: Array, ls: float = 1.0) -> dict[str, Array]:
    """NumPy's values of x [batches, micro, 3, 2]: anchors [batches, micro, ...] by id.

    ``w`` is the weight before the batch's update, ``new w`` after it.
    """
    w, b = W.astype(np.float64), B.astype(np.float64)
    values: dict[str, list[Any]] = {
        name: [] for name in ("out", "loss", "w", "new w", "Gradient___w", "Gradient___out")
    }
    for batch in x:
        each = [Linear.gradients(micro, w, b) for micro in batch]
        values["out"].append([g["out"] for g in each])
        values["loss"].append([Linear.loss_of(micro, w, b) for micro in batch])
        values["w"].append([w] * len(batch))
        values["Gradient___w"].append([ls * g["w"] for g in each])
        values["Gradient___out"].append([ls * g["out"] for g in each])
        w = w - LR * sum(g["w"] for g in each)
        b = b - LR * sum(g["b"] for g in each)
        values["new w"].append([w] * len(batch))
    return {name: np.asarray(each) for name, each in values.items()}


def kept(kind: Any, values: Array) -> Array:
    """What a kind of anchor keeps of [batches, micro, ...], dimensions of one left out."""
    if kind == "Final":
        return np.asarray(values[-1, -1])
    if kind == "Sum":
        return np.asarray(values.sum((0, 1)))
    batches, micro, *dims = values.shape
    if kind == "All":
        chosen = values.reshape(-1, *dims)
    else:
        # Every second micro-batch, those of one batch in a row.
        chosen, batches = values.reshape(-1, *dims)[1::2], batches // 2
    return chosen.reshape([*(dim for dim in (batches, micro) if dim > 1), *dims])


@pytest.mark.parametrize("kind", KINDS, ids=["all", "final", "sum", "every2"])
@pytest.mark.parametrize(("batches", "micro"), [(4, 1), (2, 1), (1, 3), (4, 3), (2, 3), (1, 1)])
def test_kinds_in_training(batches: int, micro: int, kind: Any) -> None:
    if batches == 1 and kind == ("EveryN", 2):
        with pytest.raises(popart_exception, match="must be <= to the number of batches per step"):
            flow(batches, {"out": kind})
        return
    program = Linear()
    x = micro_batches(batches * micro).reshape(batches, micro, 3, 2)
    ids = {
        "out": program.out, "loss": program.loss, "w": program.w, "Gradient___w": "Gradient___w",
        "Gradient___out": f"Gradient___{program.out}",
    }  # fmt: skip
    session = train(
        program,
        popart.SGD({**SGD, "lossScaling": (4.0, True)}),
        dict.fromkeys(ids.values(), kind),
        batches=batches,
        settings=options(micro),
    )
    got = run(session, {"x": x})
    expected = training(x, ls=4.0)
    # Without accumulation a weight is seen after its update; with it before, but for Final.
    if micro == 1 or kind == "Final":
        expected["w"] = expected["new w"]
    for name, tensor in ids.items():
        wanted = kept(kind, expected[name])
        assert got[tensor].shape == wanted.shape, name
        assert got[tensor].dtype == np.float32
        np.testing.assert_allclose(got[tensor], wanted, rtol=2e-5, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("kind", KINDS, ids=["all", "final", "sum", "every2"])
def test_kinds_in_inference(kind: Any) -> None:
    program = Linear()
    x = micro_batches(4)
    anchors = {program.out: kind, program.w: kind, program.x: kind}
    got = run(infer(program.builder.model, anchors, batches=4), {"x": x})
    x = x[:, None]
    for name, values in ((program.out, x @ W + B), (program.w, W + 0 * x[..., :1, :1]), ("x", x)):
        wanted = kept(kind, values)
        assert got[name].shape == wanted.shape
        np.testing.assert_allclose(got[name], wanted, rtol=1e-5, atol=1e-6)


def test_dimensions_of_one_of_the_tensor_itself_stay() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1, 1], "x")
    y = make.aiOnnxOpset11.neg([x])
    session = infer(make.model, {y: "All"}, batches=2)
    assert session.initAnchorArrays()[y].shape == (2, 1, 1)
    assert infer(make.model, {y: "All"}).initAnchorArrays()[y].shape == (1, 1)


def test_gradients_of_inputs_weights_and_the_loss_carry_the_loss_scaling() -> None:
    program = Linear(reduction="Mean")
    names = {f"Gradient___{name}": "All" for name in ("x", "w", "b", program.out, program.loss)}
    optimizer = popart.SGD({**SGD, "lossScaling": (8.0, False)})
    session = train(program, optimizer, names)
    x = micro_batches(1)[0]
    own = Linear.gradients(x, W, B)
    own["x"] = own["out"] @ W.T
    expected = {name: own[name] / 6 for name in ("x", "w", "b")}
    expected |= {program.out: own["out"] / 6, program.loss: np.ones(())}
    got = run(session, {"x": x})
    for name, value in expected.items():
        np.testing.assert_allclose(got[f"Gradient___{name}"], 8 * value, rtol=1e-5, err_msg=name)
    # The scaling may change between runs and is undone by the update.
    session.updateOptimizerFromHost(popart.SGD({**SGD, "lossScaling": (2.0, False)}))
    session.weightsFromHost()
    got = run(session, {"x": x})
    for name, value in expected.items():
        np.testing.assert_allclose(got[f"Gradient___{name}"], 2 * value, rtol=1e-5, err_msg=name)


def test_a_gradient_of_half_keeps_the_forward_pass_in_half() -> None:
    program = Linear(np.float16)
    names = {f"Gradient___{program.out}": "All", program.out: "All"}
    x = (micro_batches(1)[0] + 0.001).astype(np.float16)
    got = run(train(program, popart.SGD(SGD), names), {"x": x})
    plain = run(train(Linear(np.float16), popart.SGD(SGD), {program.out: "All"}), {"x": x})
    assert got[f"Gradient___{program.out}"].dtype == np.float16
    np.testing.assert_array_equal(got[program.out], plain[program.out])


def test_anchors_that_do_not_exist() -> None:
    program = Linear()
    make = program.builder
    stopped = make.aiGraphcore.detach([program.x])
    aside = make.aiOnnxOpset11.neg([stopped])
    cases = {
        "nowhere": r"Anchor tensor `nowhere' not in Ir Tensors. The tensors are: .*MatMul:0, ",
        "Gradient___nowhere": "Anchor tensor `Gradient___nowhere' not in Ir Tensors",
        f"Gradient___{aside}": f"the loss '{program.loss}' has no gradient with respect to",
    }
    for anchor, match in cases.items():
        with pytest.raises(popart_exception, match=match):
            train(program, popart.SGD(SGD), {anchor: "All"})
    with pytest.raises(popart_exception, match="`Gradient___w' .* there are no gradients in infer"):
        infer(make.model, {"Gradient___w": "All"})
    with pytest.raises(popart_exception, match="User must specify an anchor tensor when doing inf"):
        popart.InferenceSession(make.model, popart.DataFlow(1, []), device())
    run(train(program, popart.SGD(SGD)), {"x": micro_batches(1)})


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("running", [False, True])
def test_accumulators_after_each_micro_batch(kind: Any, running: bool) -> None:
    settings = options(3)
    if running:
        settings.accumulationAndReplicationReductionType = popart.ReductionType.Mean
        strategy = popart.MeanReductionStrategy.Running
        settings.meanAccumulationAndReplicationReductionStrategy = strategy
    anchors = {"Accum___w": kind, "Gradient___w": "All", "lossScaling_FLOAT": "All"}
    optimizer = popart.SGD({"defaultLearningRate": (0.0, False), "lossScaling": (4.0, False)})
    session = train(Linear(), optimizer, anchors, settings=settings, batches=4)
    x = micro_batches(12)
    got = run(session, {"x": x})
    gradients = np.stack([4.0 * Linear.gradients(each, W, B)["w"] for each in x])
    gradients = gradients.reshape(4, 3, *W.shape)
    np.testing.assert_allclose(got["Gradient___w"], gradients, rtol=1e-6)
    sums = gradients.cumsum(1)
    if running:
        sums /= np.arange(1, 4)[:, None, None]
    np.testing.assert_allclose(got["Accum___w"], kept(kind, sums), rtol=1e-6)
    np.testing.assert_array_equal(got["lossScaling_FLOAT"], np.full((4, 3), 4.0))
    assert session.getInfo("Accum___w") == popart.TensorInfo("FLOAT", [2, 2])


def test_each_replica_has_an_accumulator() -> None:
    settings = options(2, enableReplicatedGraphs=True, replicatedGraphCount=2)
    session = train(Linear(), popart.SGD(SGD), {"Accum___b": "All"}, settings=settings)
    x = micro_batches(4)
    got = run(session, {"x": x})["Accum___b"]
    gradients = np.stack([Linear.gradients(each, W, B)["b"] for each in x]).reshape(2, 2, 2)
    np.testing.assert_allclose(got, gradients.cumsum(0), rtol=1e-6)


def test_where_there_is_no_accumulator_or_scale() -> None:
    program = Linear()
    combined = popart.SGD({**SGD, "defaultMomentum": (0.9, True)})
    cases: list[tuple[Any, int, str, str]] = [
        (popart.SGD(SGD), 1, "Accum___w", "without gradient accumulation there is no accumulator"),
        (combined, 2, "Accum___w", "with SGD's combined momentum that is Accl___w"),
        (popart.SGD(SGD), 2, f"Accum___{program.out}", "is no trained weight"),
        (popart.SGD(SGD), 2, "Restored___x", "without a pipeline nothing is stashed"),
        (popart.SGD({**SGD, "lossScaling": (2.0, True)}), 2, "lossScaling_FLOAT", "The tensors"),
    ]
    for optimizer, accumulation, anchor, message in cases:
        with pytest.raises(popart_exception, match=f"`{anchor}' not in Ir Tensors.*{message}"):
            train(program, optimizer, {anchor: "All"}, settings=options(accumulation))


def test_a_loss_in_half_has_its_scale_in_half() -> None:
    optimizer = popart.SGD({**SGD, "lossScaling": (8.0, False)})
    for settings, dtype in (({}, np.float16), ({"ensureFp32LossScaleTensor": True}, np.float32)):
        anchors: dict[str, Any] = {"lossScaling_FLOAT16": "Final"}
        session = train(Linear(np.float16), optimizer, anchors, settings=options(**settings))
        got = run(session, {"x": micro_batches(1)[0].astype(np.float16)})["lossScaling_FLOAT16"]
        assert (got.dtype, float(got)) == (dtype, 8.0)


def test_a_gradient_through_a_batch_norm_in_its_inference_form() -> None:
    for detached in (False, True):
        make = builder()
        x = make.addInputTensor(popart.TensorInfo("FLOAT", [2, 3, 4, 4]), "x")
        scale, bias, mean, variance = (
            make.addInitializedInputTensor(np.full(3, value, np.float32), name)
            for name, value in (("scale", 2.0), ("bias", 1.0), ("mean", 0.0), ("variance", 4.0))
        )
        (y,) = make.aiOnnxOpset11.batchnormalization([x, scale, bias, mean, variance], 1, 0.0)
        y = make.aiGraphcore.detach([y]) if detached else y
        program = type("Program", (), {"builder": make, "loss": make.aiGraphcore.identityloss([y])})
        if detached:
            session = train(program, popart.SGD(SGD), {y: "All"})
            ones = np.ones([2, 3, 4, 4], np.float32)
            np.testing.assert_allclose(run(session, {"x": ones})[y], 2.0 * ones, rtol=1e-6)
        else:
            with pytest.raises(popart_exception, match="it has to be detached first"):
                train(program, popart.SGD(SGD))


def test_one_hot_has_a_gradient_of_its_two_values() -> None:
    make = builder()
    index = make.addInputTensor(popart.TensorInfo("INT32", [4]), "index")
    values = make.addInitializedInputTensor(np.array([-1.0, 3.0], np.float32), "values")
    depth = make.aiOnnxOpset11.constant(np.array([3], np.int32))
    hot = make.aiOnnxOpset11.onehot([index, depth, values])
    weights = np.arange(12, dtype=np.float32).reshape(4, 3)
    product = make.aiOnnxOpset11.mul([hot, make.aiOnnxOpset11.constant(weights)])
    loss = make.aiGraphcore.identityloss([product], popart.ReductionType.Sum)
    program = type("Program", (), {"builder": make, "loss": loss})
    anchors: dict[str, Any] = {f"Gradient___{name}": "All" for name in (hot, "values")}
    session = train(program, popart.SGD(SGD), anchors)
    got = run(session, {"index": np.array([0, 2, 1, 7], np.int32)})
    np.testing.assert_array_equal(got[f"Gradient___{hot}"], weights)
    on = 0 + 5 + 7
    np.testing.assert_array_equal(got["Gradient___values"], [weights.sum() - on, on])
