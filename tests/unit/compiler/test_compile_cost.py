"""What compiling leaves out to be quick."""

from __future__ import annotations

import gc
import subprocess
from collections.abc import Callable
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import FeedError

pytestmark = pytest.mark.usefixtures("static_mode")


def _compiler() -> tuple[Any, Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        y = paddle.static.data("x", [2], "float32") + 1.0
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False)
    return paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy), y


def test_no_garbage_is_collected_while_compiling() -> None:
    enabled: list[bool] = []
    compiler, y = _compiler()
    compiler._ipu_strategy.set_options(
        {"compilation_progress_logger": lambda done, total: enabled.append(gc.isenabled())}
    )
    compiler.compile(["x"], [y])
    assert enabled[0]
    assert enabled[-1]
    assert len(enabled) > 4
    assert not any(enabled[1:-1])
    assert gc.isenabled()


def test_collection_goes_on_where_compiling_fails() -> None:
    compiler, y = _compiler()
    with pytest.raises(FeedError, match="declares 'x'"):
        compiler.compile(["z"], [y])
    assert gc.isenabled()


def test_collection_stays_off_where_it_was() -> None:
    compiler, y = _compiler()
    gc.disable()
    try:
        compiler.compile(["x"], [y])
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_a_start_brings_neither_the_predictor_nor_a_reader_of_other_programs(
    run_python: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    run_python(
        "import sys, paddle\n"
        "from paddle_ipu.frontend.programs import is_pir\n"
        "paddle.enable_static()\n"
        "y = paddle.static.data('x', [2], 'float32') + 1.0\n"
        "main = paddle.static.default_main_program()\n"
        "strategy = paddle.static.IpuStrategy()\n"
        "strategy.set_graph_config(num_ipus=1, is_training=False)\n"
        "paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(['x'], [y])\n"
        "left_out = {'paddle_ipu.cost_model.program', 'paddle_ipu.cost_model.report.contents',\n"
        "    'paddle_ipu.cost_model.report.directory', 'paddle_ipu.sessions.profile'}\n"
        "if is_pir(main):\n"
        "    left_out |= {'paddle_ipu.frontend.program_desc', 'paddle_ipu.frontend.saved_model',\n"
        "        'paddle_ipu.frontend.vocabulary.table'}\n"
        "assert not left_out & set(sys.modules), left_out & set(sys.modules)\n"
    )
