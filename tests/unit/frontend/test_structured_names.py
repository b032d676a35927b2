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


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_names_of_many_parameters_by_every_protocol(tmp_path: Path, protocol: int) -> None:
    names = {f"linear_{at}.w_0": f"layers.{at}.weight" for at in range(400)}
    entries = {
        name: {"structured_name": full, "stop_gradient": False} for name, full in names.items()
    }
    assert read(tmp_path, pickle.dumps(entries, protocol)) == names


class _Evil:
    def __reduce__(self) -> tuple[object, ...]:
        return exec, ("raise SystemExit(3)",)


NESTED = b"\x80\x02})" + b"\x85" * 2**21 + b"K\x01s."
"""``{((((...),),),): 1}``, whose key has no hash: Python's stack ends first."""
FAR_PLACE = b"\x80\x02}r\xff\xff\xff\x7f."
"""``{}``, to be remembered at place 2**31 - 1 of a table of 16 GB and more."""


@pytest.mark.parametrize(
    "content",
    [pickle.dumps({"a": _Evil()}), b"", b"\x80\x02", pickle.dumps([1]), NESTED, FAR_PLACE],
    ids=["code", "empty", "cut off", "a list", "nested", "far place"],
)
def test_code_damage_and_other_values_give_no_names(tmp_path: Path, content: bytes) -> None:
    assert read(tmp_path, content) == {}


def test_no_file_and_models_in_memory_have_no_names(tmp_path: Path) -> None:
    assert structured_names.read(tmp_path / "m.pdiparams") == {}
    assert structured_names.read(b"") == {}
