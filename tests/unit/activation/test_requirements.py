"""Packages of versions that paddle_ipu does not take are refused by name, before they are used."""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.activation import requirements
from paddle_ipu.activation.requirements import REQUIREMENTS, Requirement
from paddle_ipu.errors import ActivationError
from tests.checkout import ROOT

ANY = Requirement("some", "some", "0.8", "0.13")


def test_the_table_is_what_pip_is_told() -> None:
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    assert [it for it in told if not it.startswith("paddlepaddle")] == [
        required.specifier for required in REQUIREMENTS
    ]


@pytest.mark.parametrize("required", REQUIREMENTS, ids=lambda required: required.package)
def test_what_is_installed_is_found_and_taken(required: Requirement) -> None:
    version = requirements.installed(required)
    assert version == importlib.metadata.version(required.package)
    assert required.takes(version)


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ("0.7.2", False), ("0.8", True), ("0.8.0", True), ("0.8.0rc1", True), ("0.10.2", True),
        ("0.12.0.1", True), ("0.13.0", False), ("0.13", False), ("1.0", False), ("0.80", False),
    ],
)  # fmt: skip
def test_which_versions_are_taken(version: str, taken: bool) -> None:
    assert ANY.takes(version) is taken


def test_without_an_upper_bound_any_later_one_is_taken() -> None:
    assert Requirement("some", "some", "4.25").takes("99.1")


def test_a_package_that_nothing_tells_the_version_of_is_left_to_itself() -> None:
    assert requirements.installed(Requirement("tests", "tests", "1")) is None
    assert requirements.installed(Requirement("no-such", "no_such_module", "1")) is None


def test_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(requirements, "installed", lambda required: "0.7.2")
    with pytest.raises(ActivationError) as raised:
        requirements.check()
    assert str(raised.value) == (
        "paddle_ipu takes jax>=0.10.1,<0.13, and jax 0.7.2 is installed. Run `pip install "
        "'jax>=0.10.1,<0.13'`, or set PADDLE_IPU_AUTOLOAD=0 to use Paddle without the IPU."
    )


def test_paddle_stays_as_it_is_where_jax_is_too_old(tmp_path: Path, run_python: Any) -> None:
    (tmp_path / "jax").mkdir()
    (tmp_path / "jax" / "__init__.py").write_text("raise ImportError('not to be imported')")
    (tmp_path / "jax-0.7.2.dist-info").mkdir()
    done = run_python(
        f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "import _paddle_ipu_autoload as autoload; autoload.start()\n"
        "import paddle; print(paddle.is_compiled_with_ipu())",
        PADDLE_IPU_AUTOLOAD="1",
    )
    assert done.stdout.split() == ["False"]
    (told,) = [line for line in done.stderr.splitlines() if "paddle_ipu stays inactive" in line]
    assert "paddle_ipu stays inactive. paddle_ipu takes jax>=0.10.1,<0.13" in told
