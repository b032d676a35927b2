"""Layers numbered as Paddle 2 numbers them, for scripts that know parameters by those names.

In a static program of Paddle 2 each call of a layer takes a number of its kind, too: of two linear
layers, each called before the next is made, the second is ``linear_2`` there and ``linear_1`` in
Paddle 3. A script that loads custom operators with a half for PopART was written for Paddle 2, the
only one with an IPU build; ``PADDLE_IPU_LAYER_NUMBERS`` decides for any script.
"""

from __future__ import annotations

import functools
import inspect
import logging
import os
from collections.abc import Callable
from typing import Any

import paddle
from paddle.base import unique_name

from paddle_ipu.errors import ActivationError

SETTING = "PADDLE_IPU_LAYER_NUMBERS"
KINDS = {
    "linear": "linear",
    "layer_norm": "layer_norm",
    "group_norm": "group_norm",
    "embedding": "embedding",
    "bilinear": "bilinear",
    "conv1d": "conv2d",
    "conv1d_transpose": "conv2d_transpose",
    "conv2d_transpose": "conv2d_transpose",
    "conv3d_transpose": "conv3d_transpose",
}
"""Function of ``paddle.nn.functional`` -> the kind whose number a call takes in Paddle 2.

Those of other functions are numbers that no layer with parameters has.
"""

_LOG = logging.getLogger("paddle_ipu")
_switches: dict[str, Callable[[bool], None]] = {}
"""Function -> what patches it, or restores it; none before the plugin is active."""


def counting(kind: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """What makes a function of Paddle one whose calls in static mode take numbers of a kind.

    Args:
        kind: without one it is the call's argument `op_type`.

    Raises:
        ActivationError: ``PADDLE_IPU_LAYER_NUMBERS`` is neither 2 nor 3.
    """
    _asked()

    def patched(original: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(original)

        @functools.wraps(original)
        def counted(*args: Any, **keywords: Any) -> Any:
            if not paddle.in_dynamic_mode():
                unique_name.generate(kind or _kind_of(signature.bind(*args, **keywords)))
            return original(*args, **keywords)

        return counted

    return patched


def _kind_of(call: inspect.BoundArguments) -> str:
    call.apply_defaults()
    return str(call.arguments["op_type"])


def connecting(function: str) -> Callable[[Callable[[bool], None]], None]:
    """Takes what patches a function, or restores it; patches it where the setting says so."""

    def connect(switch: Callable[[bool], None]) -> None:
        _switches[function] = switch
        if _asked() == "2":
            switch(True)

    return connect


def written_for_paddle_2(script: str) -> None:
    """Numbers as Paddle 2 did from here on, unless the setting says otherwise.

    Args:
        script: what shows that it was, for the log.
    """
    if _asked() or not _switches:
        return
    for switch in _switches.values():
        switch(True)
    _tell(script)


@functools.cache
def _tell(script: str) -> None:
    _LOG.warning(
        "%s is written for an IPU build of Paddle 2: layers are numbered as there, where a second "
        "linear layer may be linear_2. %s=3 numbers them as Paddle 3 does.",
        script,
        SETTING,
    )


def _asked() -> str:
    asked = os.environ.get(SETTING, "")
    if asked not in ("", "2", "3"):
        raise ActivationError(f"{SETTING} is {asked!r}, expected 2 or 3, a version of Paddle.")
    return asked
