"""Warnings about dynamic mode that runs on the CPU although the IPU is the device.

Paddle's operators of dynamic mode have no hook in Python. So the warnings are about the first layer
that is called after ``paddle.set_device("ipu")``, and about a step of an optimizer whose parameters
no layer on the IPU has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any

import paddle

from paddle_ipu.dygraph import registration
from paddle_ipu.runtime import cpu_notice

if TYPE_CHECKING:
    from paddle.nn import Layer

_WHAT_TO_DO = (
    "Make the layer one of paddle.jit.to_static, or train by paddle.Model, and make a "
    "paddle.static.IpuStrategy() in dynamic mode. For the CPU on purpose call "
    'paddle.set_device("cpu").'
)

_switches: list[Callable[[bool], None]] = []
"""Switches the patch of ``Layer.__call__``; none before the plugin is active."""


def connect(switch: Callable[[bool], None]) -> None:
    """Takes the function that patches ``Layer.__call__`` with :func:`noticing`, or restores it.

    Args:
        switch: True to patch, False to restore.
    """
    _switches[:] = [switch]


def _watch_layers(on: bool) -> None:
    for switch in _switches:
        switch(on)


registration.before_change(lambda: _watch_layers(False))


def setting_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.set_device`` that watches for a layer in dynamic mode, once the IPU is chosen."""

    @functools.wraps(original)
    def set_device(device: object) -> object:
        place = original(device)
        _watch_layers(str(device).startswith("ipu") and not cpu_notice.is_warned("layer"))
        return place

    return set_device


def noticing(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Layer.__call__`` that warns of the first layer on the CPU, and then restores Paddle's."""

    @functools.wraps(original)
    def call(self: Layer, *args: Any, **keywords: Any) -> object:
        if paddle.in_dynamic_mode():
            _watch_layers(False)
            if registration.current() is None:
                cpu_notice.warn_once(
                    "layer",
                    f"{type(self).__name__} runs on the CPU, as all of dynamic mode does after "
                    'paddle.set_device("ipu") while no strategy is registered. ' + _WHAT_TO_DO,
                )
        return original(self, *args, **keywords)

    return call


def note_step(names: Iterable[str], on_ipu: Callable[[], Collection[str]]) -> None:
    """Warns of a step in dynamic mode that trains nothing on the IPU although that is the device.

    Args:
        names: of the parameters that are updated.
        on_ipu: returns the names of those that layers on the IPU have.
    """
    if cpu_notice.is_warned("step") or not paddle.get_device().startswith("ipu"):
        return
    if {*on_ipu()}.isdisjoint(names):
        cpu_notice.warn_once(
            "step",
            "optimizer.step() updates parameters that no layer on the IPU has: their layers, "
            "backward and the step run on the CPU. " + _WHAT_TO_DO,
        )
