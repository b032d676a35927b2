"""When the plugin is active, what it patches, and that it can be taken back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paddle
import pytest

import paddle_ipu
from paddle_ipu.activation import patch_table, plugin
from paddle_ipu.activation.patch import Patch
from paddle_ipu.activation.patch_table import PATCHES
from paddle_ipu.activation.places import IPUPlace
from paddle_ipu.errors import ActivationError
from paddle_ipu.runtime import cpu_notice
from tests.checkout import ROOT

ROWS = tuple(row for row in plugin._patches_for(paddle.__version__) if row.connect is None)
"""The rows for this Paddle that are always in effect."""
LEGACY = paddle.__version__.startswith("2.")
START = "import _paddle_ipu_autoload as autoload; autoload.start()\n"
ASK = "print(paddle.is_compiled_with_ipu(), paddle.base.core.is_compiled_with_ipu())\n"
REPORT_HEAVY = (
    "import sys; heavy = {'jax', 'jaxlib', 'onnx', 'onnx_ir'}\n"
    "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))\n"
)


@pytest.fixture
def _inactive() -> Iterator[None]:
    plugin.deactivate()
    yield
    plugin.activate()


def attributes_of(rows: tuple[Patch, ...]) -> dict[str, Any]:
    """What every row's target holds now, by identity; absent ones are left out."""
    found = {}
    for row in rows:
        owner, name = plugin._owner(row.module, row.attribute)
        if name in vars(owner):
            found[row.target] = vars(owner)[name]
    return found


# When it is activated


@pytest.mark.parametrize(
    ("snippet", "expected"),
    [
        (START + "import paddle\n" + ASK, "True True"),
        ("import paddle\n" + ASK, "False False"),
        ("import paddle, paddle_ipu\n" + ASK, "True True"),
        ("import paddle_ipu, paddle\n" + ASK, "True True"),
        ("import paddle_ipu; paddle_ipu.activate(); import paddle\n" + ASK, "True True"),
        ("import paddle_ipu; paddle_ipu.deactivate(); import paddle\n" + ASK, "False False"),
        ("from paddle_ipu import errors; import paddle\n" + ASK, "True True"),
        (START + "from paddle.static import Program; import paddle\n" + ASK, "True True"),
    ],
)
def test_what_activates(run_python: Any, snippet: str, expected: str) -> None:
    autoload = "1" if snippet.startswith(START) else "0"
    assert run_python(snippet, PADDLE_IPU_AUTOLOAD=autoload).stdout.strip() == expected


def test_a_start_without_paddle_pays_less_than_a_millisecond(tmp_path: Path) -> None:
    """Measured inside of the process; the best of several, since other processes run too."""
    snippet = (
        f"import os, sys; from time import perf_counter; sys.path.append({str(ROOT)!r})\n"
        f"began = perf_counter(); {START.strip()}; print(perf_counter() - began)"
    )
    environment = {**os.environ, "PADDLE_IPU_AUTOLOAD": "1"}
    # As installed: with bytecode on disk.
    environment |= {"PYTHONPYCACHEPREFIX": str(tmp_path), "PYTHONDONTWRITEBYTECODE": ""}
    seconds = [
        float(
            subprocess.run(
                [sys.executable, "-S", "-P", "-c", snippet],
                capture_output=True,
                text=True,
                env=environment,
                timeout=60,
                check=True,
            ).stdout
        )
        for _ in range(8)
    ]
    assert min(seconds) < 1e-3


def test_autoload_0_turns_the_start_off(run_python: Any) -> None:
    done = run_python(START + "import paddle\n" + ASK, PADDLE_IPU_AUTOLOAD="0")
    assert done.stdout.strip() == "False False"


def test_start_imports_only_itself(run_python: Any) -> None:
    snippet = (
        "import os, sys; before = set(sys.modules)\n"
        + START
        + "print(sorted(set(sys.modules) - before), len(sys.meta_path))\n"
        + "autoload.start(); print(len(sys.meta_path))"
    )
    # Without the .pth file of an installed paddle_ipu, which has done it before.
    stdout = run_python(snippet, flags=["-S"], PADDLE_IPU_AUTOLOAD="1").stdout
    names, finders, again = stdout.replace("\n", " ").rsplit(maxsplit=2)
    assert names == "['_paddle_ipu_autoload']"
    assert finders == again


def test_the_hook_leaves_no_trace(run_python: Any) -> None:
    snippet = (
        START + "import sys, importlib.util\n"
        "assert importlib.util.find_spec('paddle').loader.path.endswith('__init__.py')\n"
        "import paddle\n"
        "print(type(paddle.__loader__).__name__, type(paddle.__spec__.loader).__name__)\n"
        "print(any(type(f).__name__ == 'PaddleFinder' for f in sys.meta_path))"
    )
    stdout = run_python(snippet, PADDLE_IPU_AUTOLOAD="1").stdout
    assert stdout.split() == ["SourceFileLoader", "SourceFileLoader", "False"]


def test_a_missing_paddle_stays_missing(run_python: Any) -> None:
    snippet = (
        START + "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        "try: import paddle\nexcept ModuleNotFoundError as error: print(error)"
    )
    stdout = run_python(snippet, PADDLE_IPU_AUTOLOAD="1").stdout
    assert stdout.strip() == "No module named 'paddle'"


def test_activating_without_paddle_says_what_to_install(run_python: Any) -> None:
    snippet = (
        "import sys; sys.path = [p for p in sys.path if 'site-packages' not in p]\n"
        "import paddle_ipu\n"
        "try: paddle_ipu.activate()\nexcept paddle_ipu.errors.ActivationError as e: print(e)"
    )
    stdout = run_python(snippet).stdout
    assert "Paddle cannot be imported: No module named 'paddle'" in stdout
    assert "pip install paddlepaddle`, one of the versions 2.6.x, 3.0.x, 3.1" in stdout


def test_unknown_version_warns_once_and_leaves_paddle_alone(run_python: Any) -> None:
    snippet = START + (
        "import paddle_ipu.activation.plugin as plugin; plugin.SUPPORTED_VERSIONS = ('9.9',)\n"
        "import warnings\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always'); import paddle\n"
        "for warning in caught:\n"
        "    if warning.category is RuntimeWarning: print('warned:', warning.message)\n"
    )
    stdout = run_python(snippet + ASK, PADDLE_IPU_AUTOLOAD="1").stdout
    assert stdout.count("warned:") == 1
    version = paddle.__version__
    assert f"paddle_ipu stays inactive. This Paddle has version {version}; paddle_ipu" in stdout
    assert "knows 9.9.x" in stdout
    assert "PADDLE_IPU_AUTOLOAD=0" in stdout
    assert stdout.strip().endswith("False False")


def test_import_after_an_unknown_paddle_raises(run_python: Any) -> None:
    snippet = (
        "import paddle; paddle.__version__ = '2.5.0'\n"
        "try: import paddle_ipu\nexcept Exception as e: print(type(e).__name__, e)"
    )
    stdout = run_python(snippet).stdout
    assert stdout.startswith(
        "ActivationError This Paddle has version 2.5.0; paddle_ipu knows 2.6.x, 3.0.x, 3.1.x, 3.2.x"
    )


def test_neither_jax_nor_onnx_before_a_program_is_compiled(run_python: Any) -> None:
    snippet = START + (
        "import paddle, paddle_ipu\n"
        "paddle.enable_static()\n"
        "x = paddle.static.data('x', [2, 4], 'float32')\n"
        "with paddle.static.ipu_shard_guard(index=0):\n"
        "    loss = paddle.mean(paddle.nn.Linear(4, 3)(x))\n"
        "paddle.optimizer.SGD(0.1).minimize(loss)\n"
        "strategy = paddle.static.IpuStrategy()\n"
        "strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=2)\n"
        "paddle.static.Executor(paddle.IPUPlace()).run(paddle.static.default_startup_program())\n"
        "print(loss.name)\n"
    )
    stdout = run_python(snippet + REPORT_HEAVY, PADDLE_IPU_AUTOLOAD="1").stdout
    assert stdout.split()[-1] == "[]"


# What is patched


def test_every_row_is_applied_and_restored_exactly(_inactive: None) -> None:
    stock = attributes_of(ROWS)
    plugin.activate()
    assert plugin.is_active() and paddle_ipu.is_active()
    patched = attributes_of(ROWS)
    for_others = {
        row.target for row in ROWS if row.wraps and not row.required and not row.where_absent
    } - stock.keys()
    assert patched.keys() == {row.target for row in ROWS} - for_others
    assert not [name for name in stock if patched[name] is stock[name]]
    plugin.deactivate()
    assert not plugin.is_active()
    restored = attributes_of(ROWS)
    assert restored.keys() == stock.keys()
    assert all(restored[name] is stock[name] for name in stock)


@pytest.mark.usefixtures("_inactive")
def test_a_row_that_is_switched() -> None:
    stock, target = paddle.nn.Layer.__call__, ("paddle.nn", "Layer.__call__")
    plugin.activate()
    assert paddle.nn.Layer.__call__ is stock
    cpu_notice.reset()
    paddle.set_device("ipu")
    assert paddle.nn.Layer.__call__ is not stock
    assert plugin.original(*target) is stock
    plugin.deactivate()
    assert paddle.nn.Layer.__call__ is stock
    assert plugin.original(*target) is stock
    paddle.set_device("cpu")


def test_both_ways_are_idempotent(_inactive: None) -> None:
    stock = attributes_of(ROWS)
    plugin.deactivate()
    plugin.activate()
    patched = attributes_of(ROWS)
    plugin.activate()
    assert attributes_of(ROWS) == patched
    plugin.deactivate()
    plugin.deactivate()
    assert attributes_of(ROWS) == stock


def test_no_module_keeps_a_copy_of_a_patched_name(run_python: Any) -> None:
    """A name imported by value elsewhere in Paddle needs a row of its own."""
    snippet = (
        "import sys, paddle, paddle.distributed.launch, paddle.static.amp, paddle.incubate\n"
        "import paddle.distributed.fleet, paddle.inference, paddle.jit\n"
        "import paddle_ipu.activation.plugin as plugin\n"
        "stock = {id(a.original): a.patch.target for a in plugin._applied}\n"
        "stock.pop(id(plugin._ABSENT))\n"
        "print(len(stock) > 5)\n"
        "modules = [m for name, m in sys.modules.items() if (name + '.').startswith('paddle.')]\n"
        "for module in modules:\n"
        "    for attribute, value in list(vars(module).items()):\n"
        "        if id(value) in stock: print(module, attribute, stock[id(value)])\n"
    )
    assert run_python(snippet).stdout.split() == ["True"]


def test_copies_of_one_name_get_one_replacement() -> None:
    assert paddle.get_device is paddle.device.get_device
    assert paddle.static.ipu_shard_guard is paddle.base.framework.ipu_shard_guard
    assert paddle.IPUPlace is paddle.base.core.IPUPlace


def test_original_is_what_stock_paddle_has(_inactive: None) -> None:
    stock = paddle.base.executor.Executor.run
    assert plugin.original("paddle.base.executor", "Executor.run") is stock
    plugin.activate()
    assert plugin.original("paddle.base.executor", "Executor.run") is stock


@pytest.mark.parametrize("active", [True, False])
def test_original_of_what_is_not_there(active: bool) -> None:
    if not active:
        plugin.deactivate()
    try:
        with pytest.raises(KeyError, match=r"paddle\.base\.core\.nothing is not patched: no row"):
            plugin.original("paddle.base.core", "nothing")
        with pytest.raises(KeyError, match=r"stock Paddle has no paddle\.base\.core\.get_ipu_dev"):
            plugin.original("paddle.base.core", "get_ipu_device_count")
    finally:
        plugin.activate()


def test_the_table_as_markdown_has_every_row() -> None:
    lines = plugin.describe_patches().splitlines()
    assert len(lines) == len(PATCHES) + 2
    assert all(f"| `{row.target}` |" in line for row, line in zip(PATCHES, lines[2:], strict=True))
    assert len({line.count("|") for line in lines}) == 1


# A Paddle that does not fit


@pytest.mark.usefixtures("_inactive")
def test_moved_names_are_all_named_and_nothing_is_patched(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = (
        *PATCHES,
        Patch("paddle.base.core", "moved_away", IPUPlace, "a test"),
        Patch("paddle.no_such_module", "name", IPUPlace, "a test"),
        Patch("paddle.base.executor", "NoClass.run", IPUPlace, "a test"),
    )
    monkeypatch.setattr(patch_table, "PATCHES", rows)
    stock = attributes_of(ROWS)
    with pytest.raises(
        ActivationError,
        match=r"version \d\.\d\.\d, lacks names .*: paddle\.base\.core\.moved_away, "
        r"paddle\.no_such_module\.name, paddle\.base\.executor\.NoClass\.run\. Nothing was",
    ):
        plugin.activate()
    assert not plugin.is_active()
    assert attributes_of(ROWS) == stock


@pytest.mark.usefixtures("_inactive")
def test_another_form_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(self: Any, program: Any = None) -> None:
        raise AssertionError("never called")

    monkeypatch.setattr(sys.modules[__name__], "run", run, raising=False)
    row = Patch("paddle.base.executor", "Executor.run", run, "a test")
    monkeypatch.setattr(patch_table, "PATCHES", (row,))
    with pytest.raises(
        ActivationError,
        match=r"Executor\.run has the parameters self, program, feed.*expects self, program\. "
        r"Nothing was patched",
    ):
        plugin.activate()
    assert not plugin.is_active()


def test_a_part_of_the_plugin_that_cannot_be_imported(run_python: Any) -> None:
    done = run_python(
        "import sys; sys.modules['paddle_ipu.activation.places'] = None\n"
        "import _paddle_ipu_autoload, warnings\n"
        "warnings.simplefilter('ignore')\n"
        "import paddle_ipu\n"
        "try: paddle_ipu.activate()\n"
        "except paddle_ipu.errors.ActivationError as error: print(error)\n"
        "print(paddle_ipu.is_active())",
    )
    told, active = done.stdout.splitlines()[-2:]
    assert "cannot be imported" in told and "Nothing was patched. Reinstall" in told
    assert active == "False"


# The package itself


def test_public_names_resolve() -> None:
    assert paddle_ipu.errors.ActivationError is ActivationError
    assert paddle_ipu.activate is plugin.activate
    assert set(paddle_ipu.__all__) <= set(dir(paddle_ipu))
    with pytest.raises(AttributeError, match="module 'paddle_ipu' has no attribute 'no_such'"):
        _ = paddle_ipu.no_such


def test_the_page_of_patches_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    from tools import generate_docs

    assert generate_docs.main(["patches", "--check"]) == 0, capsys.readouterr().err
