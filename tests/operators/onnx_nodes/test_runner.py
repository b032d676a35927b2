"""The runner of ONNX's node tests: what it unpacks, what it feeds, what it takes for a failure."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import numpy as np
import onnx
import pytest

from tests.operators.onnx_nodes import archive, run
from tests.operators.onnx_nodes.left_out import REASONS, reason_for

DATA = "onnx-1.6.0/onnx/backend/test/data"


def _archive(path: Path, members: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            tar.addfile(member, io.BytesIO(content))
        link = tarfile.TarInfo(f"{DATA}/node/test_link/model.onnx")
        link.type, link.linkname = tarfile.SYMTYPE, "../../../../etc/passwd"
        tar.addfile(link)
    return path


def test_only_models_and_their_tensors_are_unpacked(tmp_path: Path) -> None:
    file = _archive(
        tmp_path / "a.tar.gz",
        {
            "onnx-1.6.0/setup.py": b"raise SystemExit",
            f"{DATA}/node/test_a/model.onnx": b"model",
            f"{DATA}/node/test_a/test_data_set_0/input_0.pb": b"tensor",
            f"{DATA}/node/test_a/test_data_set_0/../../../../escaped.pb": b"tensor",
            f"{DATA}/node/../test_b/model.onnx": b"model",
            "/node/test_c/model.onnx": b"model",
            f"{DATA}/real/test_d/model.onnx": b"model",
        },
    )
    target = tmp_path / "out"
    assert archive.unpack_members(file, target) == 2
    found = sorted(str(path.relative_to(target)) for path in target.rglob("*") if path.is_file())
    assert found == ["test_a/model.onnx", "test_a/test_data_set_0/input_0.pb"]


def test_another_archive_is_refused(tmp_path: Path) -> None:
    file = _archive(tmp_path / "a.tar.gz", {})
    with pytest.raises(ValueError, match=r"has SHA-256 \w+, expected 3b88c3fe\w+. Delete it"):
        archive.unpack(file, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def _model(folder: Path, op_type: str, inputs: list[np.ndarray], output: np.ndarray) -> Path:
    """A stored test of one operator."""
    names = [f"x{at}" for at in range(len(inputs))]
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node(op_type, names, ["y"])],
        op_type,
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in zip(names, inputs, strict=True)
        ],
        [
            onnx.helper.make_tensor_value_info(
                "y", onnx.helper.np_dtype_to_tensor_dtype(output.dtype), output.shape
            )
        ],
    )
    opsets = [onnx.helper.make_opsetid("", 9)]
    model = onnx.helper.make_model(graph, opset_imports=opsets, ir_version=4)
    data = folder / "test_data_set_0"
    data.mkdir(parents=True)
    onnx.save(model, folder / "model.onnx")
    for at, array in enumerate(inputs):
        onnx.save_tensor(onnx.numpy_helper.from_array(array), data / f"input_{at}.pb")
    onnx.save_tensor(onnx.numpy_helper.from_array(output), data / "output_0.pb")
    return folder


def test_a_model_that_passes(tmp_path: Path) -> None:
    x = np.array([1.0, -2.0], np.float32)
    folder = _model(tmp_path / "test_neg", "Neg", [x], -x)
    assert run.attempt(folder) == run.Outcome("test_neg", "", ())


def test_what_popart_needs_constant_is_written_into_the_model(tmp_path: Path) -> None:
    x, shape = np.arange(6, dtype=np.float32), np.array([2, -1], np.int64)
    folder = _model(tmp_path / "test_reshape", "Reshape", [x, shape], x.reshape(2, 3))
    assert run.attempt(folder) == run.Outcome("test_reshape", "", ("x1",))


def test_a_wrong_number_fails(tmp_path: Path) -> None:
    x = np.array([1.0, -2.0], np.float32)
    folder = _model(tmp_path / "test_neg", "Neg", [x], np.array([-1.0, 2.1], np.float32))
    assert run.attempt(folder).error == "y: 1 of 2 elements differ"


@pytest.mark.parametrize(
    ("got", "expected", "message"),
    [
        (np.zeros((1, 2)), np.zeros(2), r"y has shape \(1, 2\), expected \(2,\)"),
        (np.zeros(2, bool), np.zeros(2), "y is bool, expected float64"),
        (np.array([1, 2]), np.array([1, 3]), "1 of 2 elements differ"),
        (np.array([np.nan, 1.0]), np.array([np.nan, np.nan]), "1 of 2 elements differ"),
    ],
)
def test_differences(got: run.Array, expected: run.Array, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        raise AssertionError(run.difference("y", got, expected))
    assert run.difference("y", expected, expected) == ""


def test_the_report_tells_passed_failed_and_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    refused = "popart_exception: No class for ai.onnx.Xor:7"
    assert run.report([run.Outcome("test_add", ""), run.Outcome("test_xor2d", refused)]) == 0
    assert "2 models run, 1 passed (0 with inputs" in capsys.readouterr().out
    assert run.report([run.Outcome("test_add", "y: 1 of 2 elements differ")]) == 1
    assert "FAILED test_add: y: 1 of 2 elements differ" in capsys.readouterr().out


@pytest.mark.parametrize("error", ["", "LoweringError: something else"])
def test_a_model_left_out_for_no_true_reason_fails(
    error: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run.report([run.Outcome("test_xor2d", error)]) == 1
    out = capsys.readouterr().out
    assert f"WRONGLY LEFT OUT test_xor2d: {error or 'it passes'}; the table says: PopART has" in out


def test_no_model_has_two_reasons() -> None:
    assert len({reason.models for reason in REASONS}) == len(REASONS)
    assert reason_for("test_add") is None
    assert reason_for("test_xor_bcast3v1d") is not None
