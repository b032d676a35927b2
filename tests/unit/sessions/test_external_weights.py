"""Weights in a file of their own: modelToHost writes them there, with the optimizer's state."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception, popart_runtime_error
from tests.unit.sessions.session_programs import (
    B,
    Linear,
    W,
    micro_batches,
    run,
    train,
    weights,
)

Array = np.ndarray[Any, Any]
MOMENTUM = {"defaultLearningRate": (0.05, True), "defaultMomentum": (0.5, True)}
NAMES = ("w", "b", "Accl___b", "Accl___w")
X = {"x": micro_batches(1)[0]}


def _moved(file: str | Path) -> Linear:
    program = Linear()
    program.builder.saveInitializersExternally(["w", "b"], file)
    return program


def _session(program: Linear, model: Any = None) -> popart.TrainingSession:
    return train(program, popart.SGD(MOMENTUM), model=model or program.builder.getModelProto())


def _flat(session: popart.TrainingSession) -> Array:
    return np.concatenate([array.ravel() for array in weights(session, *NAMES)])


@pytest.fixture
def in_folder(tmp_path: Path) -> Iterator[Path]:
    """The working folder, for relative names."""
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def test_trained_weights_and_state_are_written_to_the_weights_file(tmp_path: Path) -> None:
    file, model = tmp_path / "weights", tmp_path / "model.onnx"
    program = _moved(file)
    np.testing.assert_array_equal(np.fromfile(file, np.float32), [*W.ravel(), *B])
    session = _session(program)
    assert file.stat().st_size == W.nbytes + B.nbytes
    for _ in range(2):
        run(session, X)
        session.modelToHost(str(model))
        np.testing.assert_array_equal(np.fromfile(file, np.float32), _flat(session))
    saved = onnx.load(str(model), load_external_data=False).graph.initializer
    assert {tensor.name for tensor in saved} == set(NAMES)
    for tensor in saved:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        assert (entries["location"], tensor.raw_data) == (str(file), b"")

    again = _session(program, str(model))
    np.testing.assert_array_equal(_flat(again), _flat(session))
    run(session, X)
    run(again, X)
    np.testing.assert_array_equal(_flat(again), _flat(session))
    again.modelToHost(str(model))
    assert file.stat().st_size == 2 * (W.nbytes + B.nbytes)


def test_a_checkpoint_goes_to_a_new_file_once_it_is_told_so(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    session = _session(_moved(first))
    run(session, X)
    session.modelToHost(str(tmp_path / "one.onnx"))
    before = first.read_bytes()
    session.updateExternallySavedTensorLocations(str(first), str(second))
    assert second.read_bytes() == before
    run(session, X)
    session.modelToHost(str(tmp_path / "two.onnx"))
    np.testing.assert_array_equal(np.fromfile(second, np.float32), _flat(session))
    assert first.read_bytes() == before


def test_where_weights_cannot_be_moved(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    session = _session(_moved(file))
    new, nothing = tmp_path / "new", tmp_path / "nothing"
    with pytest.raises(popart_runtime_error, match=f"but file '{nothing}' does not exist"):
        session.updateExternallySavedTensorLocations(str(nothing), str(new))
    with pytest.raises(popart_runtime_error, match=f"but file '{file}' already exists"):
        session.updateExternallySavedTensorLocations(str(file), str(file))
    with pytest.raises(popart_exception, match="its parent directory does not exist"):
        session.updateExternallySavedTensorLocations(str(file), str(nothing / "new"))
    session.updateExternallySavedTensorLocations(str(file), str(new))
    with pytest.raises(popart_runtime_error, match="No ONNX model initializers have external loc"):
        session.updateExternallySavedTensorLocations(str(file), str(tmp_path / "other"))


def test_a_relative_name_is_of_the_working_folder(in_folder: Path) -> None:
    session = _session(_moved("weights"))
    run(session, X)
    (in_folder / "other").mkdir()
    os.chdir(in_folder / "other")
    with pytest.raises(popart_exception, match="Unrecognised file name 'weights' for externally"):
        session.modelToHost("model.onnx")
    # Another file of that name is left alone.
    Path("weights").write_bytes(b"mine")
    with pytest.raises(popart_exception, match="Unrecognised file name 'weights' for externally"):
        session.modelToHost("model.onnx")
    assert Path("weights").read_bytes() == b"mine"
    os.chdir(in_folder)
    session.modelToHost("model.onnx")
    np.testing.assert_array_equal(np.fromfile("weights", np.float32)[:4], _flat(session)[:4])


def test_a_file_that_somebody_else_wrote_is_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # ONNX looks for what it would write over in the folder that the process is in.
    monkeypatch.chdir(tmp_path)
    program = Linear()
    model = onnx.load_model_from_string(program.builder.getModelProto())
    for tensor in model.graph.initializer:
        tensor.CopyFrom(
            onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(tensor), tensor.name)
        )
    onnx.save(
        model, str(tmp_path / "model.onnx"), save_as_external_data=True, location="data",
        size_threshold=0,
    )  # fmt: skip
    before = (tmp_path / "data").read_bytes()
    session = _session(program, str(tmp_path / "model.onnx"))
    run(session, X)
    session.modelToHost(str(tmp_path / "trained.onnx"))
    assert (tmp_path / "data").read_bytes() == before
    trained = onnx.load(str(tmp_path / "trained.onnx"), load_external_data=False)
    values = {t.name: onnx.numpy_helper.to_array(t) for t in trained.graph.initializer}
    np.testing.assert_array_equal(values["w"], weights(session, "w")[0])
