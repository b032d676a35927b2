"""What the scripts do around their work: checks, one run at a time, errors and exit codes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import paddle
from rich.console import Console

from examples.bert.files import DataError
from examples.bert.folder_lock import only_run_in
from examples.bert.stages.device import Device
from examples.bert.stages.interruption import InterruptedRunError, interruptible
from examples.bert.stages.settings import Settings
from examples.command import NO_BACKEND, DivergedError
from examples.display import say

EXIT_CODES = """\
exit codes:
  0 done; 1 a file could not be written, or training diverged; 2 wrong arguments, missing or damaged
  input; 130 and 143 interrupted by SIGINT and SIGTERM, after naming the last good checkpoint
"""

Work = Callable[[Settings, Device, Console], int]


def run(settings: Settings, device: Device, work: Work, option: str = "--output_dir") -> int:
    """Do the work in static mode and turn what goes wrong into a message and an exit code.

    Args:
        settings: their ``output_dir`` is locked while the work runs.
        device: where to run; ``"ipu"`` needs a Paddle with the backend.
        work: returns the exit code.
        option: the argument that names the output folder, for messages.
    """
    # Under poprun, output is printed line by line, although mpirun gives the instances a terminal.
    launched = "POPDIST_NUM_TOTAL_REPLICAS" in os.environ
    console = Console(force_terminal=False if launched else None)
    # Instance 0 prints; the others print errors only.
    is_first = os.environ.get("POPDIST_REPLICA_INDEX_OFFSET", "0") == "0"
    with contextlib.suppress(ImportError):
        import paddle_ipu  # noqa: F401 - in a source checkout nothing else activates the plugin
    if device == "ipu" and not paddle.is_compiled_with_ipu():
        say(console, f"{NO_BACKEND}, or use --device cpu.")
        return 2
    if device == "cpu" and settings.ipu_enable_fp16:
        say(console, "device cpu: float32 in place of half, which Paddle's CPU kernels do not have")
    paddle.enable_static()
    try:
        with interruptible(), contextlib.ExitStack() as stack:
            if is_first:
                stack.enter_context(only_run_in(Path(settings.output_dir), option))
            return work(settings, device, console if is_first else Console(quiet=True))
    except InterruptedRunError as error:
        say(console, str(error))
        return error.exit_code
    except (DataError, ModuleNotFoundError, FileNotFoundError, ValueError) as error:
        say(console, f"error: {error}")
        return 2
    except (DivergedError, OSError) as error:
        say(console, f"error: {error}")
        return 1
