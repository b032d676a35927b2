"""A process that compiles what an earlier one compiled: the user's cache, and what is put off."""

from __future__ import annotations

import os
import subprocess
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.compiler import engine_caching
from paddle_ipu.compiler.engine_caching import cache_folder
from paddle_ipu.compiler.program_likeness import likeness
from paddle_ipu.compiler.source import Source
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.options.cache_folder import default_folder
from paddle_ipu.options.strategy import CoreIpuStrategy
from paddle_ipu.xla.step import early_load
from paddle_ipu.xla.step.early_load import EarlyLoad
from paddle_ipu.xla.step.stored_executable import StoredExecutable
from tests.journeys.training.side_by_side import build, mlp, pair, rows

RunPython = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def caches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder of caches, with nothing said of any other."""
    monkeypatch.delenv("IPU_CACHE_PATH")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(engine_caching, "_told", set())
    return tmp_path


def _values(**options: object) -> Any:
    strategy = CoreIpuStrategy()
    strategy.set_options(options)
    return strategy.snapshot()


# -- which folder -------------------------------------------------------------------------------


def test_programs_are_kept_in_the_users_folder_unless_something_else_is_said(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cache_folder(_values()) == str(caches / "paddle_ipu")
    assert cache_folder(_values(cache_path="other")) == str(caches / "paddle_ipu")
    assert cache_folder(_values(enable_engine_caching=False)) is None
    mine = _values(enable_engine_caching=True, cache_path="mine")
    assert cache_folder(mine) == "mine"
    monkeypatch.setenv("IPU_CACHE_PATH", "")
    assert cache_folder(_values()) is None
    assert cache_folder(mine) == "mine"
    monkeypatch.setenv("IPU_CACHE_PATH", "all")
    assert cache_folder(_values()) == cache_folder(mine) == "all"


def test_graphcores_own_popart_gets_no_folder_unasked(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PADDLE_IPU_DEVICE", "sdk")
    assert cache_folder(_values()) is None


@pytest.mark.parametrize("given", ["", "relative"])
def test_the_folder_of_caches_is_in_the_home_where_xdgs_variable_names_none(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", given)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_folder() == tmp_path / ".cache" / "paddle_ipu"


def test_a_user_without_a_home_has_no_cache(
    caches: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    # What a user without an entry in the table of users gets.
    monkeypatch.setattr(os.path, "expanduser", lambda path: path)
    caplog.set_level("INFO", "paddle_ipu")
    assert cache_folder(_values()) is None
    assert "this user has no home folder for compiled programs; name a folder by" in caplog.text


def test_a_folder_that_others_can_write_is_one_line_and_no_cache(
    caches: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = caches / "paddle_ipu"
    folder.mkdir()
    folder.chmod(0o777)
    caplog.set_level("INFO", "paddle_ipu")
    assert [cache_folder(_values()) for _ in range(2)] == [None, None]
    told = [r.getMessage() for r in caplog.records if r.name == "paddle_ipu"]
    assert len(told) == 1
    assert told[0].startswith("Compiled programs are not kept: the cache of compiled programs at")
    assert list(folder.iterdir()) == []


# -- what a program looks like ------------------------------------------------------------------


def _program(width: int, activation: str = "relu") -> Any:
    with paddle.utils.unique_name.guard():
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            x = paddle.static.data("x", [2, width])
            getattr(paddle.nn.functional, activation)(paddle.nn.Linear(width, 3)(x))
    return main


@pytest.mark.usefixtures("static_mode")
def test_a_look_is_of_operators_shapes_feeds_fetches_and_options() -> None:
    def look(program: Any, fetches: tuple[str, ...] = ("y",), **options: object) -> str:
        return likeness(Source(program, _values(**options), ["x"], fetches))

    first = look(_program(4))
    assert look(_program(4)) == first
    # A function is another object in each process.
    assert look(_program(4), compilation_progress_logger=lambda done, total: None) == first
    others = {
        look(_program(5)),
        look(_program(4, "sigmoid")),
        look(_program(4), ("y", "z")),
        look(_program(4), micro_batch_size=2),
    }
    assert len(others | {first}) == 5


# -- loaded early -------------------------------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each program that was looked for in the cache, whether it was loaded early."""
    taken: list[bool] = []
    take = EarlyLoad.take

    def told(early: EarlyLoad, *arguments: Any) -> Any:
        found = take(early, *arguments)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(EarlyLoad, "take", told)
    return taken


@pytest.mark.usefixtures("static_mode")
def test_what_a_program_of_this_look_had_is_loaded_early_and_computes_the_same(
    caches: Path, taken: list[bool]
) -> None:
    built = mlp(lambda rate: paddle.optimizer.Adam(rate))
    results = []
    for origin in ("compiled", "loaded"):
        both = pair(built)
        assert both.program.report().cache == origin
        results.append([array for step in range(3) for array in both.on_ipu(rows(4, step))])
    assert taken == [False, True]
    for array, expected in zip(results[1], results[0], strict=True):
        np.testing.assert_array_equal(array, expected)


@pytest.mark.usefixtures("static_mode")
def test_another_program_of_the_same_look_gets_its_own_executable(
    caches: Path, taken: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_caching, "likeness", lambda source: "all alike")
    x = np.asarray([[-1.0, 2.0]], np.float32)
    expected = {"relu": [[0.0, 2.0]], "square": [[1.0, 4.0]]}
    for name in ("relu", "square", "square", "relu", "square"):

        def make(name: str = name) -> Any:
            fed = paddle.static.data("x", [1, 2])
            y = paddle.square(fed) if name == "square" else paddle.nn.functional.relu(fed)
            return ["x"], {"y": y}, None

        both = pair(build(make), is_training=False)
        np.testing.assert_array_equal(both.on_ipu({"x": x})[0], expected[name])
    assert taken == [False, False, True, False, False]


@pytest.mark.usefixtures("static_mode")
@pytest.mark.parametrize(("feeds", "fetches"), [(None, ["y"]), (["x"], None)])
def test_wrong_lists_are_told_as_without_a_cache(caches: Path, feeds: Any, fetches: Any) -> None:
    compiler = paddle.static.IpuCompiledProgram(_program(4))
    with pytest.raises(InvalidProgramError, match="_list must be a list of names or variables"):
        compiler.compile(feeds, fetches)


@pytest.mark.usefixtures("static_mode")
def test_programs_of_a_comparison_are_not_kept(caches: Path) -> None:
    built = mlp(lambda rate: paddle.optimizer.SGD(rate))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=4)
    paddle.static.Executor(paddle.CPUPlace()).run(built.startup)
    feed = rows(4, 0)
    paddle_ipu.verify(built.main, feed=feed, fetch_list=built.fetches, ipu_strategy=strategy)
    assert not list(caches.glob("paddle_ipu/*.ipuexe"))


def test_what_is_not_taken_is_dropped(caches: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept: list[weakref.ref[StoredExecutable]] = []

    class Loaded(StoredExecutable):
        __slots__ = ("__weakref__",)

    def load(*_: object) -> StoredExecutable:
        loaded = Loaded(None, 0, b"", (None, None))  # type: ignore[arg-type]
        kept.append(weakref.ref(loaded))
        return loaded

    monkeypatch.setattr(early_load, "load_as_described", load)
    folder = str(caches / "paddle_ipu")
    early = EarlyLoad(folder, "a look")
    early.remember("0" * 64)
    again = EarlyLoad(folder, "a look")
    devices = jax.local_devices()[:1]
    assert again.take("0" * 64, (None, None), devices) is kept[0]()
    again.close()
    assert kept[0]() is None
    assert again.take("0" * 64, (None, None), devices) is None


def test_an_error_while_loading_early_is_met_again_by_who_compiles(
    caches: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("no XLA")

    monkeypatch.setattr(early_load, "load_as_described", broken)
    early = EarlyLoad(str(caches / "paddle_ipu"), "a look")
    early.remember("0" * 64)
    again = EarlyLoad(str(caches / "paddle_ipu"), "a look")
    assert again.take("0" * 64, (None, None), []) is None


# -- what is put off ----------------------------------------------------------------------------


def test_sympy_is_loaded_when_a_dimension_is_a_formula(run_python: RunPython) -> None:
    snippet = (
        "import sys\n"
        "from paddle_ipu import popart\n"
        "popart.Builder\n"
        "print('sympy.core' in sys.modules)\n"
        "import onnx_ir as ir\n"
        "print(ir.SymbolicDim('n') + 1, 'sympy.core' in sys.modules)\n"
        "import sympy\n"
        "print(sympy.Integer(2) ** 3)\n"
    )
    assert run_python(snippet).stdout.split() == ["False", "n", "+", "1", "True", "8"]
