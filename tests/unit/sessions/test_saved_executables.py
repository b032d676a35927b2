"""Executables in files: a loaded one runs as the one that was saved, and no other is loaded."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx_ir as ir
import pytest
from jax.experimental.compilation_cache import compilation_cache

from paddle_ipu import popart
from paddle_ipu.errors import CacheError, popart_exception, popart_runtime_error
from paddle_ipu.xla.step import stored_step
from tests.unit.sessions.session_programs import (
    Linear,
    W,
    builder,
    flow,
    micro_batches,
    options,
    run,
    weights,
)

SGD = {"defaultLearningRate": (0.05, False), "defaultMomentum": (0.9, True)}


def _training(
    program: Linear | None = None,
    optimizer: Any = None,
    settings: popart.SessionOptions | None = None,
    batches: int = 1,
    device: popart.DeviceInfo | None = None,
) -> popart.TrainingSession:
    program = program or Linear()
    return popart.TrainingSession(
        program.builder.getModelProto(),
        flow(batches, {program.loss: "All"}),
        program.loss,
        optimizer or popart.SGD(SGD),
        device or popart.DeviceManager().acquireAvailableDevice(1),
        userOptions=settings or options(),
    )


def _inference(program: Linear, settings: popart.SessionOptions | None = None) -> Any:
    return popart.InferenceSession(
        program.builder.getModelProto(),
        flow(1, {program.out: "All"}),
        popart.DeviceManager().acquireAvailableDevice(1),
        userOptions=settings or options(),
    )


@pytest.fixture(autouse=True)
def without_jaxs_own_cache() -> Iterator[None]:
    """What JAX may have loaded from a cache of its own is compiled once more when it is saved."""
    before = jax.config.values["jax_compilation_cache_dir"]
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One item for each step that XLA compiles."""
    steps: list[str] = []
    compile_step: Callable[..., Any] = stored_step.compile_step

    def counted(*arguments: Any) -> Any:
        steps.append("compiled")
        return compile_step(*arguments)

    monkeypatch.setattr(stored_step, "compile_step", counted)
    return steps


def test_a_session_that_loads_an_executable_compiles_nothing_and_runs_alike(
    tmp_path: Path, compilations: list[str]
) -> None:
    file = tmp_path / "saved.popef"
    x = {"x": micro_batches(1)[0]}
    first = _training()
    first.prepareDevice()
    first.weightsFromHost()
    first.saveExecutable(str(file))
    expected = [run(first, x) for _ in range(2)]
    assert len(compilations) == 1

    second = _training()
    second.loadExecutable(str(file))
    second.prepareDevice()
    second.weightsFromHost()
    assert second.executableOrigin() == "loaded"
    for each in expected:
        for name, array in run(second, x).items():
            np.testing.assert_array_equal(array, each[name])
    names = ("w", "b", "Accl___w", "Accl___b")
    for array, other in zip(weights(second, *names), weights(first, *names), strict=True):
        np.testing.assert_array_equal(array, other)
    assert len(compilations) == 1


def test_the_variables_are_those_of_the_device_when_it_was_saved(tmp_path: Path) -> None:
    x = {"x": micro_batches(1)[0]}
    first = _training()
    first.prepareDevice()
    first.weightsFromHost()
    run(first, x)
    first.saveExecutable(str(tmp_path / "trained"))
    first.saveExecutable(str(tmp_path / "bare"), saveVariables=False)
    trained = weights(first, "w", "Accl___w")
    assert not np.array_equal(trained[0], W)
    expected = run(first, x)

    second = _training()
    second.loadExecutable(str(tmp_path / "trained"))
    second.prepareDevice()
    second.weightsFromHost()
    for array, other in zip(weights(second, "w", "Accl___w"), trained, strict=True):
        np.testing.assert_array_equal(array, other)
    for name, array in run(second, x).items():
        np.testing.assert_array_equal(array, expected[name])

    third = _training()
    third.loadExecutable(str(tmp_path / "bare"))
    third.prepareDevice()
    third.weightsFromHost()
    np.testing.assert_array_equal(weights(third, "w")[0], W)


def test_constant_weights_are_part_of_the_executable(tmp_path: Path) -> None:
    x = micro_batches(1)[0]
    first = _inference(Linear(), options(constantWeights=True))
    first.prepareDevice()
    first.saveExecutable(str(tmp_path / "constant"), saveVariables=False)
    changed = Linear()
    changed.builder.model.graph.initializers["w"].const_value = ir.tensor(2 * W)
    for constant in (True, False):
        second = _inference(changed, options(constantWeights=constant))
        if not constant:
            second.prepareDevice()
            second.saveExecutable(str(tmp_path / "variable"), saveVariables=False)
            second = _inference(Linear(), options(constantWeights=False))
        second.loadExecutable(str(tmp_path / ("constant" if constant else "variable")))
        second.prepareDevice()
        (got,) = run(second, {"x": x}).values()
        np.testing.assert_allclose(got, x @ W + [0.5, -1.0], rtol=1e-6)


def test_an_executable_is_exported_for_a_device_that_is_not_there(
    tmp_path: Path, compilations: list[str]
) -> None:
    device = popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 1})
    offline = _training(device=device)
    offline.compileAndExport(str(tmp_path / "new" / "exported.popef"))
    offline.compileAndExport(str(tmp_path))
    assert (tmp_path / "executable.popef").stat().st_mode & 0o777 == 0o600
    made = len(compilations)
    for file in (tmp_path / "new" / "exported.popef", tmp_path / "executable.popef"):
        session = _training()
        session.loadExecutable(str(file))
        session.prepareDevice()
        session.weightsFromHost()
        run(session, {"x": micro_batches(1)[0]})
    assert len(compilations) == made


def test_another_learning_rate_is_the_same_program_and_another_constant_is_not(
    tmp_path: Path,
) -> None:
    first = _training()
    first.compileAndExport(str(tmp_path / "file"))
    second = _training(optimizer=popart.SGD({**SGD, "defaultLearningRate": (0.5, False)}))
    second.loadExecutable(str(tmp_path / "file"))
    second.prepareDevice()
    second.weightsFromHost()
    x = {"x": micro_batches(1)[0]}
    run(second, x)
    fresh = _training(optimizer=popart.SGD({**SGD, "defaultLearningRate": (0.5, False)}))
    fresh.prepareDevice()
    fresh.weightsFromHost()
    run(fresh, x)
    np.testing.assert_array_equal(weights(second, "w")[0], weights(fresh, "w")[0])


def _other_options() -> popart.TrainingSession:
    return _training(settings=options(2))


def _other_batches() -> popart.TrainingSession:
    return _training(batches=2)


def _other_type() -> popart.TrainingSession:
    return _training(Linear(np.float16))


def _other_reduction() -> popart.TrainingSession:
    return _training(Linear(reduction="Mean"))


def _other_optimizer() -> popart.TrainingSession:
    return _training(optimizer=popart.Adam({"defaultLearningRate": (0.05, False)}))


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        (_other_options, "option accumulationFactor is 1, not 2"),
        (_other_batches, "session batchesPerStep is 1, not 2"),
        (_other_type, "input x is .*float32.*, not .*float16"),
        (_other_reduction, r"operator IdentityLoss:0 is .*reduction=.*, not .*reduction="),
        (_other_optimizer, "optimizer kind is SGD, not Adam"),
    ],
)
def test_an_executable_of_another_program_is_refused_with_what_differs(
    tmp_path: Path, other: Callable[[], popart.TrainingSession], difference: str
) -> None:
    _training().compileAndExport(str(tmp_path / "file"))
    session = other()
    with pytest.raises(popart_exception, match=difference):
        session.loadExecutable(str(tmp_path / "file"))
    session.prepareDevice()
    assert session.executableOrigin() == ""


def test_an_executable_of_another_version_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _training().compileAndExport(str(tmp_path / "file"))
    monkeypatch.setattr("paddle_ipu.__version__", "0.0.1")
    with pytest.raises(popart_exception, match=r"surroundings paddle_ipu is .*, not 0\.0\.1"):
        _training().loadExecutable(str(tmp_path / "file"))


def test_a_file_that_is_none_or_damaged_or_open_to_others_is_not_loaded(tmp_path: Path) -> None:
    file = tmp_path / "file"
    session = _training()
    session.prepareDevice()
    with pytest.raises(popart_exception, match=f"Could not open file {file}"):
        session.loadExecutable(str(file))
    session.saveExecutable(str(file))
    good = file.read_bytes()
    file.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    with pytest.raises(popart_exception, match="damaged, its digest is another"):
        session.loadExecutable(str(file))
    file.write_bytes(b"something else")
    with pytest.raises(popart_exception, match="of another kind or version"):
        session.loadExecutable(str(file))
    file.write_bytes(good)
    file.chmod(0o622)
    with pytest.raises(popart_exception, match="other users can write it.*chmod go-w"):
        session.loadExecutable(str(file))
    session.saveVariables(str(tmp_path))
    with pytest.raises(popart_exception, match="does not contain poplar executable"):
        session.loadExecutable(str(tmp_path / "variables.popef"))
    session.saveExecutable(str(file), savePopartMetadata=False)
    with pytest.raises(popart_exception, match="does not contain popart metadata"):
        session.loadExecutable(str(file))


@pytest.mark.skipif(os.geteuid() != 0, reason="gives a file to another user")
def test_a_file_of_another_user_is_not_loaded(tmp_path: Path) -> None:
    session = _training()
    session.compileAndExport(str(tmp_path / "file"))
    os.chown(tmp_path / "file", 1, 1)
    with pytest.raises(popart_exception, match="it belongs to user 1"):
        session.loadExecutable(str(tmp_path / "file"))


def test_what_popart_does_not_save_is_refused_by_its_words(tmp_path: Path) -> None:
    program = Linear()
    model, anchors = program.builder.getModelProto(), flow(1, {program.out: "All"})
    manager = popart.DeviceManager()
    for device, kind in ((manager.createCpuDevice(), "Cpu"),
                         (manager.createIpuModelDevice({"numIPUs": 1}), "IpuModel")):  # fmt: skip
        session = popart.InferenceSession(model, anchors, device)
        for save in (session.compileAndExport, session.saveExecutable, session.saveVariables):
            message = f"Executables for device type {kind} cannot be saved"
            with pytest.raises(popart_exception, match=message):
                save(str(tmp_path / "file"))
    unprepared = _training()
    for save in (unprepared.saveExecutable, unprepared.saveVariables):
        with pytest.raises(popart_runtime_error, match="There is no executatable"):
            save(str(tmp_path / "file"))
    assert not (tmp_path / "file").exists()


def test_a_program_that_calls_python_cannot_be_saved(tmp_path: Path) -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [1]), "x")
    out = make.aiGraphcore.printtensor([x])
    device = popart.DeviceManager().acquireAvailableDevice(1)
    session = popart.InferenceSession(make.getModelProto(), flow(1, {out: "All"}), device)
    with pytest.raises(popart_exception, match="PrintTensor runs on the host"):
        session.compileAndExport(str(tmp_path / "file"))


def test_the_step_without_updates_is_saved_where_the_options_ask_for_it(
    tmp_path: Path, compilations: list[str]
) -> None:
    x = {"x": micro_batches(1)[0]}
    first = _training()
    first.prepareDevice()
    first.weightsFromHost()
    expected = first.runArrays(x, updating=False)
    first.saveExecutable(str(tmp_path / "file"))
    made = len(compilations)
    second = _training()
    second.loadExecutable(str(tmp_path / "file"))
    second.prepareDevice()
    second.weightsFromHost()
    for name, array in second.runArrays(x, updating=False).items():
        np.testing.assert_array_equal(array, expected[name])
    assert len(compilations) == made


def test_a_loaded_executable_is_saved_again(tmp_path: Path) -> None:
    _training().compileAndExport(str(tmp_path / "first"))
    again = _training()
    again.loadExecutable(str(tmp_path / "first"))
    again.prepareDevice()
    again.saveExecutable(str(tmp_path / "second"))
    last = _training()
    last.loadExecutable(str(tmp_path / "second"))
    last.prepareDevice()
    last.weightsFromHost()
    run(last, {"x": micro_batches(1)[0]})


def test_the_executable_cache_is_looked_at_again(tmp_path: Path) -> None:
    session = _training(settings=options(enableEngineCaching=True, cachePath=str(tmp_path)))
    session.updateEngineCache()
    session.prepareDevice()
    assert session.executableOrigin() == "compiled"
    other = _training(settings=options(enableEngineCaching=True, cachePath=str(tmp_path)))
    other.updateEngineCache()
    other.prepareDevice()
    assert other.executableOrigin() == "loaded"
    tmp_path.chmod(0o777)
    with pytest.raises(CacheError, match="can be written by other users"):
        other.updateEngineCache()
    _training().updateEngineCache()


def test_nothing_is_done_in_place_in_a_way_that_shows() -> None:
    session = _inference(Linear())
    session.prepareDevice()
    session.checkInplacingAmbiguity()


def test_the_log_tells_a_compilation_from_an_executable_that_is_loaded(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "popart")
    cached = options(enableEngineCaching=True, cachePath=str(tmp_path / "cache"))
    compiled = ["Starting compilation", "Graph compiled", "Engine loaded"]
    first = _training()
    first.prepareDevice()
    first.saveExecutable(str(tmp_path / "file"))
    _training(settings=cached).prepareDevice()
    assert caplog.messages == 2 * compiled
    caplog.clear()
    second = _training()
    second.loadExecutable(str(tmp_path / "file"))
    second.prepareDevice()
    _training(settings=cached).prepareDevice()
    start = "Loading serialized PopART executable from"
    assert caplog.messages == [
        f"{start} {tmp_path / 'file'}", "Engine loaded",
        f"{start} {tmp_path / 'cache'}", "Engine loaded",
    ]  # fmt: skip


def test_groups_of_replicas_get_their_own_weights_back(tmp_path: Path) -> None:
    group = popart.CommGroup(popart.CommGroupType.Consecutive, 1)
    own = popart.VariableSettings(group, popart.VariableRetrievalMode.AllReplicas)
    start = np.stack([W, 2 * W])
    settings = options(enableReplicatedGraphs=True, replicatedGraphCount=2)

    def made() -> popart.TrainingSession:
        program = Linear(w=start, settings=(own, None))
        return popart.TrainingSession(
            program.builder.model, flow(1, {program.loss: "All"}), program.loss,
            popart.SGD(SGD), popart.DeviceManager().acquireAvailableDevice(2),
            userOptions=settings,
        )  # fmt: skip

    def read(session: popart.TrainingSession) -> Any:
        arrays = {name: np.empty_like(start) for name in ("w", "Accl___w")}
        session.weightsToHost()
        session.readWeights(popart.PyWeightsIO(arrays))
        return [*arrays.values()]

    x = {"x": micro_batches(2)}
    first = made()
    first.prepareDevice()
    first.weightsFromHost()
    run(first, x)
    first.saveExecutable(str(tmp_path / "file"))
    second = made()
    second.loadExecutable(str(tmp_path / "file"))
    second.prepareDevice()
    second.weightsFromHost()
    for _ in range(2):
        for array, expected in zip(read(second), read(first), strict=True):
            np.testing.assert_array_equal(array, expected)
        run(first, x)
        run(second, x)
