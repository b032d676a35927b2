"""Sessions used directly: the order of calls and its errors, models, weights, randomness."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception, popart_runtime_error
from tests.unit.sessions.session_programs import (
    MOMENTUM,
    B,
    Linear,
    W,
    X,
    after,
    builder,
    device,
    flow,
    infer,
    micro_batches,
    options,
    run,
    sgd,
    train,
    weights,
)

Array = np.ndarray[Any, Any]


# Construction


def test_a_device_is_needed() -> None:
    program = Linear()
    anchors = flow(1, {program.out: "All"})
    for kind, make in {
        "TrainingSession": lambda: popart.TrainingSession(
            program.builder.model, anchors, program.loss, sgd(), None
        ),
        "InferenceSession": lambda: popart.InferenceSession(program.builder.model, anchors, None),
    }.items():
        with pytest.raises(
            popart_exception, match=f"Must pass a valid deviceInfo to {kind}::createFromOnnxModel"
        ):
            make()


def test_the_loss_must_be_a_scalar_of_the_program() -> None:
    program = Linear()
    program.loss = "lost"
    with pytest.raises(popart_exception, match="Could not find loss tensor 'lost' in main graph"):
        train(program, sgd())
    program.loss = program.out
    with pytest.raises(popart_exception, match="Loss tensor, 'Add:0', must be a scalar tensor"):
        train(program, sgd())


def test_accumulation_needs_its_flag_and_training() -> None:
    settings = popart.SessionOptions()
    settings.accumulationFactor = 2
    with pytest.raises(
        popart_exception,
        match="enableGradientAccumulation is false, but accumulationFactor > 1. Either",
    ):
        train(Linear(), sgd(), settings=settings)
    with pytest.raises(popart_exception, match="Gradient Accumulation only available when train"):
        infer(Linear().builder.model, {"Add:0": "All"}, settings=options(2))


def test_an_operator_that_nobody_knows_is_refused_in_poparts_words() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2], "x")
    y = make.customOp("Other", 1, "my.domain", [x], {}, 1, "mine")[0]
    z = make.customOp("Another", 1, "my.domain", [y], {}, 1, "mine")[0]
    told = r"^No class for my.domain.Another:1, my.domain.Other:1. PopART has no such operator"
    with pytest.raises(popart_exception, match=told):
        infer(make.model, {z: "All"})


def test_a_model_is_bytes_a_file_or_the_builders() -> None:
    with pytest.raises(TypeError, match="expected a model as bytes, as a file name or as onnx_ir"):
        infer(3, {"y": "All"})


# The order of calls


def test_run_needs_a_prepared_device_and_weights() -> None:
    session = train(Linear(), sgd(), start=False)
    step = popart.PyStepIO({"x": X}, {})
    with pytest.raises(
        popart_runtime_error, match=r"Devicex::prepare\(\) must be called before Dev"
    ):
        session.run(step)
    told = (
        r"^Devicex::prepare\(\) must be called before Devicex::weightsToHost\(const "
        r"std::map<TensorId, "
        r"MutableVoidData> &\) is called.$"
    )
    with pytest.raises(popart_runtime_error, match=told):
        session.modelToHost("never.onnx")
    with pytest.raises(popart_runtime_error, match="Did you forget to call prepareDevice"):
        session.loadEngineAndConnectStreams()
    session.prepareDevice()
    session.loadEngineAndConnectStreams()
    for call, what in (
        (lambda: session.run(step), "run"),
        (session.weightsToHost, "weightsToHost"),
        (lambda: session.modelToHost("never.onnx"), "modelToHost"),
    ):
        with pytest.raises(
            popart_runtime_error,
            match=f"Must call weightsFromHost before {what} as the model has initializers and the",
        ):
            call()
    session.weightsFromHost()
    session.run(step)


def test_a_training_without_weights_needs_no_upload() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 3], "x")
    y = make.aiOnnx.exp([x])
    loss = make.aiGraphcore.identityloss([y])
    session = popart.TrainingSession(
        make.model, flow(1, {f"Gradient___{x}": "All"}), loss, popart.ConstSGD(0.1), device()
    )
    session.prepareDevice()
    values = np.asarray([[0.5, 1.0, 2.0], [0.0, -1.0, 3.0]], np.float32)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO({x: values}, anchors))
    np.testing.assert_allclose(anchors[f"Gradient___{x}"], np.exp(values) / 6, rtol=1e-6)


def test_inference_uploads_its_weights_by_itself() -> None:
    program = Linear()
    session = infer(program.builder.model, {program.out: "All"})
    np.testing.assert_allclose(run(session, {"x": X})[program.out], X @ W + B, rtol=1e-6)
    fresh = infer(program.builder.model, {program.out: "All"})
    np.testing.assert_array_equal(weights(fresh, "w")[0], W)


def test_the_ids_of_tensors() -> None:
    program = Linear()
    ids = {"x", "w", "b", program.out, program.loss}
    assert ids < infer(program.builder.model, {program.out: "All"}).getAllTensorIds()
    assert ids < train(program, sgd(), start=False).getTensorIds()


# Inputs and outputs


def test_inputs_that_nothing_reads_need_no_array() -> None:
    program = Linear()
    program.builder.addInputTensor("FLOAT", [5], "unread")
    fetched = program.builder.addInputTensor("FLOAT", [5], "fetched")
    session = infer(program.builder.model, {program.out: "All", fetched: "All"})
    five = np.arange(5, dtype=np.float32)
    for feeds in ({}, {"unread": five}):
        got = run(session, {"x": X, "fetched": five, **feeds})
        np.testing.assert_allclose(got[program.out], X @ W + B, rtol=1e-6)
        np.testing.assert_array_equal(got["fetched"], five)
    asked: list[str] = []

    def given(name: str, prefetch: bool) -> Array:
        asked.append(name)
        return X if name == "x" else five

    outputs = session.initAnchorArrays()
    session.run(
        popart.PyStepIOCallback(given, lambda name: None, outputs.__getitem__, lambda name: None)
    )
    assert asked == ["x", "fetched"]


def test_wrong_inputs_and_outputs_change_nothing() -> None:
    program = Linear()
    anchors = {program.out: "All"}
    session = train(program, sgd(), anchors, batches=2, settings=options(3))
    x = micro_batches(6)
    good = session.initAnchorArrays()
    wide = np.empty(good[program.out].shape, np.float64)
    short = np.empty((5, 3, 2), np.float32)
    cases: list[tuple[dict[str, Array], dict[str, Array], str]] = [
        ({}, good, "No tensor x provided in PyStepIO's inputs"),
        ({"x": x, "z": x}, good, "The tensor 'z' has been provided as one of the inputs to the st"),
        (
            {"x": x[:5]},
            good,
            r"Unexpected number of input elements for Tensor x. Expected 36, but received 30."
            r"[\s\S]*replication  factor = 1\n   accumulation factor = 3\n   batches per step    "
            r"= 2\n   Tensor nelms        = 6",
        ),
        (
            {"x": x.astype(np.float64)},
            good,
            "Type discrepancy for tensor x. User provided : DOUBLE and expected : FLOAT. Consider",
        ),
        ({"x": x}, {}, "No tensor Add:0 provided in PyStepIO's outputs"),
        (
            {"x": x},
            {program.out: short},
            r"Unexpected number of output elements for Tensor Add:0. Expected 36, but received 30."
            r"[\s\S]*anchor return type  = ALL",
        ),
        ({"x": x}, {program.out: wide}, "Type discrepancy for tensor Add:0. User provided : DOUB"),
    ]
    for inputs, outputs, match in cases:
        with pytest.raises(popart_runtime_error, match=match):
            session.run(popart.PyStepIO(inputs, outputs))
    with pytest.raises(popart_exception, match="is not c-contiguous"):
        popart.PyStepIO({"x": x[:, ::2]}, good)
    assert weights(session, "w")[0].tolist() == W.tolist()
    session.run(popart.PyStepIO({"x": x}, good))


def test_int64_is_narrowed() -> None:
    make = builder()
    x = make.addInputTensor("INT64", [3], "x")
    y = make.aiOnnxOpset11.add([x, x])
    session = infer(make.model, {y: "All"})
    assert session.getInfo(y).data_type() == "INT32"
    assert session.getInfo(y).shape() == [3]
    wide = {y: np.zeros(3, np.int64)}
    session.run(popart.PyStepIO({"x": np.array([1, -2, 2**30 - 1])}, wide))
    assert wide[y].tolist() == [2, -4, 2**31 - 2]
    assert run(session, {"x": np.arange(3, dtype=np.int32)})[y].tolist() == [0, 2, 4]
    with pytest.raises(popart_runtime_error, match="which the device's INT32 cannot hold"):
        run(session, {"x": np.array([1, 2, 2**31])})
    with pytest.raises(popart_exception, match="Tensor nothing not found"):
        session.getInfo("nothing")


# Models


def test_bytes_files_and_builders_give_the_same(tmp_path: Path) -> None:
    program = Linear()
    path = str(tmp_path / "model.onnx")
    program.builder.saveModelProto(path)
    runs = []
    for model in (program.builder.model, program.builder.getModelProto(), path):
        session = train(program, sgd(), {program.out: "All"}, model=model)
        run(session, {"x": X})
        runs.append((run(session, {"x": X})[program.out], weights(session, "w", "Accl___w")))
    for out, (w, accl) in runs[1:]:
        np.testing.assert_array_equal(out, runs[0][0])
        np.testing.assert_array_equal(w, runs[0][1][0])
        np.testing.assert_array_equal(accl, runs[0][1][1])


def open_model(size: str | int = "n") -> bytes:
    """``y = w * x`` as another tool writes it: inferred shapes left out, one input size open."""
    tensor = onnx.TensorProto.FLOAT
    nodes = [
        onnx.helper.make_node("Mul", ["x", "w"], ["m"]),
        onnx.helper.make_node("Neg", ["m"], ["y"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", tensor, [size, 2])],
        [onnx.helper.make_tensor_value_info("y", tensor, [size, 2])],
        [onnx.numpy_helper.from_array(W[0], "w")],
    )
    imports = [onnx.helper.make_opsetid("", 11)]
    model = onnx.helper.make_model(graph, opset_imports=imports, ir_version=4)
    serialised: bytes = model.SerializeToString()
    return serialised


@pytest.mark.parametrize("size", ["n", -1])
def test_input_shapes_the_model_leaves_open(size: str | int) -> None:
    model = open_model(size)
    with pytest.raises(
        popart_exception,
        match=r"Input tensor 'x' must be specified in InputShapeInfo, as it has shape "
        rf"\[{size}, 2\], which uses an unknown value '{size}'.",
    ):
        infer(model, {"y": "All"})
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [-3, 2]))
    with pytest.raises(popart_exception, match=r"'x' has shape \[-3 2\]. Values must be non-neg"):
        popart.InferenceSession(model, flow(1, {"y": "All"}), device(), shapes)
    shapes.add("x", popart.TensorInfo("FLOAT", [3, 2]))
    session = popart.InferenceSession(model, flow(1, {"y": "All"}), device(), shapes)
    session.prepareDevice()
    np.testing.assert_array_equal(run(session, {"x": X})["y"], -X * W[0])


def test_input_shapes_that_contradict_the_model() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [3, 2], "x")
    y = make.aiOnnx.neg([x])
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [4, 2]))
    with pytest.raises(
        popart_exception,
        match=r"'x' is TensorInfo\('FLOAT', \[3, 2\]\) in the model and TensorInfo\('FLOAT', "
        r"\[4, 2\]\) in InputShapeInfo",
    ):
        popart.InferenceSession(make.model, flow(1, {y: "All"}), device(), shapes)
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [3, 2]))
    session = popart.InferenceSession(make.model, flow(1, {y: "All"}), device(), shapes)
    session.prepareDevice()
    np.testing.assert_array_equal(run(session, {"x": X})[y], -X)


@pytest.mark.parametrize("form", ["Combined", "Separate"])
def test_a_saved_model_resumes(tmp_path: Path, form: str) -> None:
    kind = getattr(popart.SGDAccumulatorAndMomentum, form)
    program = Linear()
    optimizer = popart.SGD(
        {**MOMENTUM, "defaultWeightDecay": (0.1, True)}, accumulatorAndMomentum=kind
    )
    path = str(tmp_path / "trained.onnx")
    session = train(program, optimizer, {program.out: "All"})
    for _ in range(2):
        run(session, {"x": X})
    session.modelToHost(path)
    w, b, accl = weights(session, "w", "b", "Accl___w")
    run(session, {"x": X})

    proto = onnx.load(path)
    onnx.checker.check_model(proto)
    saved = {t.name: onnx.numpy_helper.to_array(t) for t in proto.graph.initializer}
    assert sorted(saved) == ["Accl___b", "Accl___w", "b", "w"]
    np.testing.assert_array_equal(saved["w"], w)
    np.testing.assert_array_equal(saved["Accl___w"], accl)

    resumed = train(program, optimizer, {program.out: "All"}, model=path)
    for before, now in zip((w, accl), weights(resumed, "w", "Accl___w"), strict=True):
        np.testing.assert_array_equal(now, before)
    run(resumed, {"x": X})
    for expected, now in zip(
        weights(session, "w", "Accl___w"), weights(resumed, "w", "Accl___w"), strict=True
    ):
        np.testing.assert_array_equal(now, expected)
    # Inference has no use for the state and starts from the trained weights.
    inference = infer(path, {program.out: "All"})
    np.testing.assert_allclose(run(inference, {"x": X})[program.out], X @ w + b, rtol=1e-6)


@pytest.mark.parametrize("runs", [0, 2])
def test_a_saved_model_is_what_weights_from_host_uploads(tmp_path: Path, runs: int) -> None:
    """As ``weightsToHost`` would: the step then repeats, whatever has run since."""
    session = train(program := Linear(), sgd(), {program.out: "Final"})
    first = run(session, {"x": X})[program.out]
    session.modelToHost(str(tmp_path / "model.onnx"))
    saved = {t.name: onnx.numpy_helper.to_array(t)
             for t in onnx.load(tmp_path / "model.onnx").graph.initializer}  # fmt: skip
    after = X @ saved["w"] + saved["b"]
    for _ in range(runs):
        run(session, {"x": X})
    session.weightsFromHost()
    for name, array in zip(saved, weights(session, *saved), strict=True):
        np.testing.assert_array_equal(array, saved[name])
    got = run(session, {"x": X})[program.out]
    np.testing.assert_allclose(got, after, rtol=1e-6)
    assert not np.allclose(got, first)


def test_weights_kept_in_a_file_are_rewritten_there(tmp_path: Path) -> None:
    program = Linear()
    external = tmp_path / "weights.bin"
    program.builder.saveInitializersExternally([program.b, program.w], str(external))
    session = train(program, sgd())
    run(session, {"x": X})
    b, w = weights(session, "b", "w")
    session.modelToHost(str(tmp_path / "model.onnx"))
    # The optimizer's state is behind them.
    stored = np.fromfile(external, np.float32, b.size + w.size)
    np.testing.assert_array_equal(stored, np.concatenate([b, w.reshape(-1)]))


# Weights to and from the host


def test_weights_from_host_starts_again() -> None:
    session = train(Linear(), sgd())
    for _ in range(3):
        run(session, {"x": X})
    session.weightsFromHost()
    run(session, {"x": X})
    np.testing.assert_array_equal(weights(session, "w")[0], after(1))


def test_what_was_fetched_is_the_hosts_value() -> None:
    session = train(Linear(), sgd())
    run(session, {"x": X})
    session.weightsToHost()
    for _ in range(3):
        run(session, {"x": X})
    # A snapshot that was not read yet survives runs, and goes back with its state.
    session.weightsFromHost()
    run(session, {"x": X})
    np.testing.assert_array_equal(weights(session, "w")[0], after(2))


def test_reading_needs_a_fresh_snapshot() -> None:
    session = train(Linear(), sgd())
    array = {"w": np.empty((2, 2), np.float32)}
    with pytest.raises(popart_runtime_error, match="no tensor 'w' in tensors; call weightsToHost"):
        session.readWeights(popart.PyWeightsIO(array))
    session.weightsToHost()
    run(session, {"x": X})
    session.readWeights(popart.PyWeightsIO(array))
    np.testing.assert_array_equal(array["w"], W)
    run(session, {"x": X})
    with pytest.raises(popart_runtime_error, match="no tensor 'w' in tensors; call weightsToHost"):
        session.readWeights(popart.PyWeightsIO(array))
    np.testing.assert_array_equal(weights(session, "w")[0], after(2))
    with pytest.raises(
        popart_runtime_error,
        match="Trying to read weights using tensor with non matching tensor info. Tensor ID: w",
    ):
        session.readWeights(popart.PyWeightsIO({"w": np.empty(3, np.float32)}))


def test_snapshots_of_inference_survive_runs() -> None:
    program = Linear()
    session = infer(program.builder.model, {program.out: "All"})
    session.weightsToHost()
    first = run(session, {"x": X})[program.out]
    array = {"w": np.empty((2, 2), np.float32)}
    session.readWeights(popart.PyWeightsIO(array))
    np.testing.assert_array_equal(array["w"], W)
    np.testing.assert_array_equal(run(session, {"x": X})[program.out], first)


def test_written_weights_and_state_arrive_with_weights_from_host() -> None:
    session = train(Linear(), sgd())
    run(session, {"x": X})
    kept = weights(session, "w", "b", "Accl___w", "Accl___b")
    for _ in range(2):
        run(session, {"x": X})
    names = ("w", "b", "Accl___w", "Accl___b")
    session.writeWeights(popart.PyWeightsIO(dict(zip(names, kept, strict=True))))
    session.weightsFromHost()
    run(session, {"x": X})
    np.testing.assert_array_equal(weights(session, "w")[0], after(2))


def test_writing_what_does_not_fit() -> None:
    program = Linear()
    session = train(program, sgd())
    wrong = {
        "v": (np.zeros(2, np.float32), "resetWeights, no tensor 'v' in tensors"),
        "w": (np.zeros(3, np.float32), "non matching tensor info. Tensor ID: w. Got .*expected"),
        "b": (np.zeros(2, np.complex64), "non matching tensor info. Tensor ID: b"),
        "Accl___w": (np.zeros(1, np.float32), "non matching tensor info. Tensor ID: Accl___w"),
    }
    for name, (array, match) in wrong.items():
        with pytest.raises(popart_runtime_error, match=match):
            session.writeWeights(popart.PyWeightsIO({name: array}))
    constant = infer(program.builder.model, {program.out: "All"})
    for call in (
        lambda: constant.writeWeights(popart.PyWeightsIO({"b": B})),
        lambda: constant.resetHostWeights(program.builder.getModelProto()),
    ):
        with pytest.raises(popart_exception, match="Cannot call .*Weights when constantWeights is"):
            call()


def test_state_sent_before_the_program_is_compiled_stays_on_the_device() -> None:
    program = Linear()
    trained = train(program, sgd())
    run(trained, {"x": X})
    names = ("w", "b", "Accl___w", "Accl___b")
    kept = dict(zip(names, weights(trained, *names), strict=True))
    session = train(program, sgd(), start=False)
    for name in names[2:]:
        session.sendState(name, kept[name])
        np.testing.assert_array_equal(session.sentState(name), kept[name])
    for name, match in {
        "v": "sendState, no optimizer state 'v'",
        "Accl___w": "Trying to send",
    }.items():
        with pytest.raises(popart_runtime_error, match=match):
            session.sendState(name, np.zeros(1, np.float32))
    session.prepareDevice()
    session.writeWeights(popart.PyWeightsIO({name: kept[name] for name in names[:2]}))
    session.weightsFromHost()
    run(session, {"x": X})
    np.testing.assert_array_equal(weights(session, "w")[0], after(2))


def test_weights_of_inference_change_without_constant_weights() -> None:
    program = Linear()
    settings = options(constantWeights=False)
    session = infer(program.builder.model, {program.out: "All"}, settings=settings)
    run(session, {"x": X})
    session.writeWeights(popart.PyWeightsIO({"b": 2 * B}))
    np.testing.assert_allclose(run(session, {"x": X})[program.out], X @ W + B, rtol=1e-6)
    session.weightsFromHost()
    np.testing.assert_allclose(run(session, {"x": X})[program.out], X @ W + 2 * B, rtol=1e-6)


def test_host_weights_are_reset_from_a_model() -> None:
    program = Linear()
    session = train(program, sgd())
    run(session, {"x": X})
    session.resetHostWeights(program.builder.getModelProto())
    with pytest.raises(popart_runtime_error, match="Must call weightsFromHost before run"):
        run(session, {"x": X})
    session.weightsFromHost()
    run(session, {"x": X})
    np.testing.assert_array_equal(weights(session, "w")[0], after(1))
    program.builder.addInitializedInputTensor(B, "new")
    larger = program.builder.getModelProto()
    with pytest.raises(popart_runtime_error, match="resetWeights, no tensor 'new' in tensors"):
        session.resetHostWeights(larger)
    session.resetHostWeights(larger, True)
