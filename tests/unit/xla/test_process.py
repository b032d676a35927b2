"""What is changed of the whole process: nothing by importing, and nothing that is left alone."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu.options.process_changes import CHANGES
from paddle_ipu.xla import process

STATE = """
import gc, logging, signal, sys, threading
import jax
def state():
    return (
        dict(jax.config.values), gc.isenabled(), signal.getsignal(signal.SIGINT),
        signal.getsignal(signal.SIGTERM), sys.excepthook, threading.active_count(),
        [(logging.getLogger(n).level, len(logging.getLogger(n).filters)) for n in (
            "", "jax", "jax._src.xla_bridge", "jax._src.compilation_cache", "jax._src.callback",
            "jax._src.debugging")],
    )
"""

COMPILE = """
import os
TRAINING = os.environ.get("TRAINING") == "1"
import numpy as np, paddle, paddle_ipu
paddle_ipu.activate()
paddle.enable_static()
x = paddle.static.data("x", [2, 2])
y = paddle.tanh(x)
before = state()
loss = paddle.mean(paddle.static.nn.fc(y, 1)) if TRAINING else None
if TRAINING:
    paddle.optimizer.SGD(0.1).minimize(loss)
    paddle.static.Executor(paddle.CPUPlace()).run(paddle.static.default_startup_program())
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=TRAINING)
fetched = [loss if TRAINING else y]
program = paddle.static.IpuCompiledProgram(ipu_strategy=strategy).compile(["x"], fetched)
program.run({"x": np.ones((2, 2), np.float32)}, fetched)
"""


def test_importing_every_module_changes_nothing(run_python: Any) -> None:
    snippet = (
        "import numpy as np, warnings; warnings.simplefilter('ignore')\n"
        "import paddle\n" + STATE + "before = state(); numbers = np.random.get_state()[1].copy()\n"
        "import importlib, pkgutil, paddle_ipu\n"
        "for found in pkgutil.walk_packages(paddle_ipu.__path__, 'paddle_ipu.'):\n"
        "    if not found.name.endswith('_kernels'):\n"
        "        importlib.import_module(found.name)\n"
        "assert (np.random.get_state()[1] == numbers).all()\n"
        "after = state()\n"
        "print([(a, b) for a, b in zip(before, after) if a != b])\n"
    )
    assert run_python(snippet).stdout.splitlines()[-1] == "[]"


def test_all_of_it_can_be_left_alone(run_python: Any) -> None:
    names = ",".join(change.name for change in CHANGES)
    snippet = (
        "import warnings; warnings.simplefilter('ignore')\n" + STATE + COMPILE + "after = state()\n"
        "print([(a, b) for a, b in zip(before[:5], after[:5]) if a != b], before[6] == after[6])\n"
    )
    told = run_python(snippet, PADDLE_IPU_LEAVE_ALONE=names).stdout.splitlines()[-1]
    assert told == "[] True"


@pytest.mark.parametrize(
    "environment",
    [{"TRAINING": "1"}, {"TRAINING": "0"}, {"TRAINING": "0", "PADDLE_IPU_ONEDNN": "0"}],
    ids=lambda environment: ",".join(f"{k}={v}" for k, v in environment.items()),
)
def test_compiling_asks_jax_to_run_in_the_calling_thread(
    run_python: Any, environment: dict[str, str]
) -> None:
    snippet = (
        "import warnings; warnings.simplefilter('ignore')\n" + STATE + COMPILE + "after = state()\n"
        "print(sorted(k for k in after[0] if after[0][k] != before[0][k]))\n"
        "assert after[1:5] == before[1:5]"
    )
    told = run_python(snippet, **environment).stdout.splitlines()[-1]
    assert told == "['jax_cpu_enable_async_dispatch']"


@pytest.mark.parametrize(
    "what", ["paddle_ipu.serving", "paddle_ipu.cli.main", "paddle_ipu.compiler.predicted_program"]
)
def test_what_needs_no_jax_does_not_import_it(run_python: Any, what: str) -> None:
    snippet = (
        "import warnings; warnings.simplefilter('ignore')\n"
        f"import {what}, sys; print('jax' in sys.modules)"
    )
    assert run_python(snippet).stdout.splitlines()[-1] == "False"


def test_an_unknown_name_is_told_with_those_there_are(run_python: Any) -> None:
    snippet = (
        "import warnings; warnings.simplefilter('ignore')\n"
        "from paddle_ipu.xla import process\n"
        "try: process.prepare()\n"
        "except Exception as error: print(type(error).__name__, error)"
    )
    told = run_python(snippet, PADDLE_IPU_LEAVE_ALONE="memory, weather").stdout.splitlines()[-1]
    assert told.startswith("OptionError PADDLE_IPU_LEAVE_ALONE names 'weather'; it takes, with")
    assert all(change.name in told for change in CHANGES)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.name)
def test_each_change_says_when_what_and_why(change: process.Change) -> None:
    assert change.when and change.what and len(change.why) > 30


INTERRUPTED = """
import _thread, gc, os, signal, threading, time
from paddle_ipu.xla import process
process.prepare()
"""


def test_an_interrupt_that_a_collection_of_garbage_swallows_comes_again(run_python: Any) -> None:
    snippet = INTERRUPTED + (
        "def interrupted(phase, info):\n"
        "    gc.callbacks.remove(interrupted)\n"
        "    raise KeyboardInterrupt\n"
        "gc.callbacks.append(interrupted)\n"
        "try:\n"
        "    gc.collect()\n"
        "    time.sleep(20)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    assert run_python(snippet).stdout.splitlines()[-1] == "interrupted"


def test_what_an_interrupt_leaves_is_done_to_its_end(run_python: Any) -> None:
    """By a thread; the interrupt is raised at once."""
    snippet = INTERRUPTED + (
        "done, started = [], threading.Event()\n"
        "def work():\n"
        "    started.set()\n"
        "    time.sleep(0.5)\n"
        "    done.append(threading.current_thread() is threading.main_thread())\n"
        "def interrupt():\n"
        "    started.wait()\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "threading.Thread(target=interrupt).start()\n"
        "try:\n"
        "    process.beside(work)\n"
        "except KeyboardInterrupt:\n"
        "    print(done)\n"
        "time.sleep(1)\n"
        "print(done, process.beside(lambda: 3))\n"
    )
    assert run_python(snippet).stdout.splitlines()[-2:] == ["[]", "[False] 3"]


def test_errors_of_what_is_done_beside_are_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="^no$"):
        process.beside(fail)
