"""Layers are numbered as Paddle 2 numbers them where a script is written for its IPU build."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paddle
import pytest

from paddle_ipu.activation import plugin
from paddle_ipu.compiler import cpp_extension
from paddle_ipu.errors import ActivationError
from paddle_ipu.legacy import layer_numbers
from paddle_ipu.runtime import target_selection
from tests.checkout import ROOT
from tests.versions import layer_names
from tests.versions.test_same_programs import OTHER

pytestmark = pytest.mark.skipif(
    paddle.__version__.startswith("2."), reason="Paddle 2 numbers so by itself"
)
LINEAR = ["linear_0.b_0", "linear_0.w_0", "linear_2.b_0", "linear_2.w_0", "linear_4.b_0",
          "linear_4.w_0"]  # fmt: skip


def _names(python: str, **environment: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [python, "-W", "ignore", "-m", "tests.versions.layer_names"],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def _linear() -> list[str]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main), paddle.utils.unique_name.guard():
        layer_names.NETWORKS["one after the other"]()
    every = sorted(parameter.name for parameter in main.global_block().all_parameters())
    return [name for name in every if name.startswith("linear")]


@pytest.fixture
def _numbers_stay(static_mode: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(layer_numbers.SETTING, raising=False)
    layer_numbers._tell.cache_clear()
    yield
    _number_as_paddle_2(False)


def _number_as_paddle_2(on: bool) -> None:
    for switch in layer_numbers._switches.values():
        switch(on)


@pytest.mark.long
@pytest.mark.skipif(not OTHER, reason="PADDLE_IPU_PADDLE26_PYTHON names no Python")
def test_names_are_those_of_paddle_2() -> None:
    expected = _names(OTHER, PADDLE_IPU_AUTOLOAD="0")
    start = (
        "import paddle_ipu, runpy; runpy.run_module('tests.versions.layer_names', {}, '__main__')"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", start],
        cwd=ROOT,
        env={**os.environ, layer_numbers.SETTING: "2"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == expected
    assert _names(sys.executable, PADDLE_IPU_AUTOLOAD="0") != expected


def test_a_script_written_for_paddle_2(_numbers_stay: None, caplog: Any) -> None:
    before = _linear()
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        layer_numbers.written_for_paddle_2("The script that loads my_ops")
        layer_numbers.written_for_paddle_2("The script that loads my_ops")
    assert _linear() == LINEAR != before
    assert [record.message for record in caplog.records] == [
        "The script that loads my_ops is written for an IPU build of Paddle 2: layers are numbered "
        "as there, where a second linear layer may be linear_2. PADDLE_IPU_LAYER_NUMBERS=3 numbers "
        "them as Paddle 3 does."
    ]
    _number_as_paddle_2(False)
    assert _linear() == before


def test_loading_sources_with_a_half_for_popart_shows_it(
    _numbers_stay: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_selection, "sdk_installed", lambda: False)
    sources = [str(tmp_path / name) for name in ("plain.cc", "popart.cc")]
    Path(sources[0]).write_text('#include "paddle/extension.h"\n')
    Path(sources[1]).write_text("#include <popart/op.hpp>\n")
    assert list(cpp_extension._without_sdk("mine", sources, ())[0]) == sources[:1]
    assert _linear() == LINEAR


def test_the_setting_decides(_numbers_stay: None, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _linear()
    monkeypatch.setenv(layer_numbers.SETTING, "3")
    layer_numbers.written_for_paddle_2("The script that loads my_ops")
    assert _linear() == before
    monkeypatch.setenv(layer_numbers.SETTING, "2")
    plugin.deactivate()
    plugin.activate()
    assert _linear() == LINEAR


def test_layers_in_dynamic_mode_take_one_number(_numbers_stay: None) -> None:
    _number_as_paddle_2(True)
    paddle.disable_static()
    with paddle.utils.unique_name.guard():
        for number in range(2):
            layer = paddle.nn.Linear(2, 2)
            layer(paddle.ones([1, 2]))
            assert layer.weight.name.startswith(f"linear_{number}.")


def test_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(layer_numbers.SETTING, "1.8")
    with pytest.raises(ActivationError, match="PADDLE_IPU_LAYER_NUMBERS is '1.8', expected 2 or 3"):
        layer_numbers.counting("linear")


def test_paddle_stays_as_it_is_under_another_version(run_python: Any) -> None:
    done = run_python(
        "import _paddle_ipu_autoload as autoload; autoload.start()\n"
        "import paddle; print(paddle.is_compiled_with_ipu())",
        PADDLE_IPU_AUTOLOAD="1",
        PADDLE_IPU_LAYER_NUMBERS="5",
    )
    assert done.stdout.split() == ["False"]
    assert "paddle_ipu stays inactive. PADDLE_IPU_LAYER_NUMBERS is '5', expected" in done.stderr
