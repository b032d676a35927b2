"""The names of parameters that jit.save keeps, read without running what a pickle says."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from paddle_ipu.frontend import structured_names


def read(folder: Path, content: bytes) -> dict[str, str]:
    (folder / "m.pdiparams.info").write_bytes(content)
    return structured_names.read(folder / "m.pdiparams")


def test_names(tmp_path: Path) -> None:
    entry = {"structured_name": "fc.weight", "stop_gradient": False, "trainable": True}
    content = pickle.dumps({"linear_0.w_0": entry, "lr": {"stop_gradient": True}}, protocol=2)
    assert read(tmp_path, content) == {"linear_0.w_0": "fc.weight"}


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("raise SystemExit(3)",)


@pytest.mark.parametrize(
    "content", [pickle.dumps({"a": _Evil()}), b"", b"\x80\x02", pickle.dumps([1])]
)
def test_code_damage_and_other_values_give_no_names(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == {}


def test_no_file_and_models_in_memory_have_no_names(tmp_path: Path) -> None:
    assert structured_names.read(tmp_path / "m.pdiparams") == {}
    assert structured_names.read(b"") == {}
