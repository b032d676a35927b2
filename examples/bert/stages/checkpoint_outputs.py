"""The custom operator `checkpointoutput`: what it reads, recomputation keeps.

The published scripts compile it with Paddle's C++ extensions; on the IPU Model and on IPUs it is
known by its name.
"""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import paddle

SOURCE = Path(__file__).parent / "checkpointoutput.cc"


@cache
def checkpoint_output() -> Callable[[Any], Any]:
    """The operator, compiled into Paddle's own folder of extensions or found there.

    Raises:
        ValueError: there is no C++ compiler.
    """
    if shutil.which("g++") is None:
        raise ValueError(
            "--checkpoint_outputs: expected a C++ compiler, found no g++; "
            "install one, or give --checkpoint_outputs False"
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # setuptools and Paddle warn of their own ways
        module = paddle.utils.cpp_extension.load(name="bert_stage_ops", sources=[str(SOURCE)])
    operator: Callable[[Any], Any] = module.checkpointoutput
    return operator
