"""Saved models for predictors, made once, and Paddle's own predictor beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest
from paddle import inference


def _save(folder: Path) -> None:
    paddle.enable_static()
    paddle.seed(3)
    with paddle.utils.unique_name.guard("saved_"), paddle.static.scope_guard(paddle.static.Scope()):
        _save_both(folder)
    paddle.disable_static()


def _save_both(folder: Path) -> None:
    executor = paddle.static.Executor()
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        x = paddle.static.data("x", [-1, 3], "float32")
        shift = paddle.static.data("shift", [-1, 1], "int64")
        hidden = paddle.tanh(paddle.static.nn.fc(x, 4))
        results = [hidden + shift.astype("float32"), paddle.argmax(hidden, axis=-1)]
        executor.run(paddle.static.default_startup_program())
        paddle.static.save_inference_model(str(folder / "rows"), [x, shift], results, executor)
    with paddle.static.program_guard(paddle.static.Program(), paddle.static.Program()):
        words = paddle.static.data("words", [-1, -1], "int64")
        table = paddle.static.create_parameter([10, 4], "float32")
        results = [paddle.nn.functional.embedding(words, table).mean(1)]
        executor.run(paddle.static.default_startup_program())
        paddle.static.save_inference_model(str(folder / "words"), [words], results, executor)


@pytest.fixture(scope="session")
def models(made_once: Callable[..., Path]) -> Path:
    """A folder with ``rows``, whose inputs have a dynamic first dimension, and ``words``."""
    return made_once("predictor_models", _save)


@pytest.fixture(scope="session")
def config_of(models: Path) -> Callable[[str], Any]:
    """A config without the IPU for one of the models."""

    def make(name: str) -> Any:
        suffix = ".json" if (models / f"{name}.json").exists() else ".pdmodel"
        config = inference.Config(str(models / (name + suffix)), str(models / f"{name}.pdiparams"))
        config.disable_glog_info()
        return config

    return make


@pytest.fixture(scope="session")
def _made() -> list[Any]:
    return []


@pytest.fixture
def predictor(config_of: Callable[[str], Any], _made: list[Any]) -> Any:
    """A predictor of ``rows`` on the IPU, compiled for 4 rows; tests take clones of it."""
    # Tests of other folders reset the devices of all programs of their process.
    if not _made or not all(p.backend.is_attached for p in _made[0]._model._programs.values()):
        config = config_of("rows")
        config.enable_ipu(1, 4)
        _made[:] = [inference.create_predictor(config)]
    return _made[0]


@pytest.fixture(scope="session")
def on_cpu(config_of: Callable[[str], Any]) -> Any:
    """Paddle's own predictor of ``rows``."""
    return inference.create_predictor(config_of("rows"))


def rows(number: int, seed: int = 0) -> dict[str, Any]:
    """Inputs of ``rows``."""
    draw = np.random.default_rng(seed)
    return {
        "x": draw.normal(size=(number, 3)).astype(np.float32),
        "shift": draw.integers(-9, 9, (number, 1)),
    }


def run(predictor: Any, feeds: dict[str, Any]) -> list[Any]:
    """The outputs of one run."""
    for name, array in feeds.items():
        predictor.get_input_handle(name).copy_from_cpu(array)
    predictor.run()
    return [
        predictor.get_output_handle(name).copy_to_cpu() for name in predictor.get_output_names()
    ]


def assert_alike(got: list[Any], expected: list[Any], within: float = 1e-6) -> None:
    """The same shapes and types, and differences of at most `within`."""
    assert [(a.shape, a.dtype) for a in got] == [(a.shape, a.dtype) for a in expected]
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=within)
