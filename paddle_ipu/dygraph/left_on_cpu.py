"""What of dynamic mode runs on the CPU although the IPU was asked for, and who notices it.

Paddle's operators of dynamic mode have no hook in Python. So the first layer that is called after
``paddle.set_device("ipu")`` is noticed, and a step of an optimizer whose parameters no layer on the
IPU has.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable
from typing import Any

from paddle_ipu.dygraph import registration
from paddle_ipu.runtime import cpu_notice

_WHAT_TO_DO = (
    "Make the layer one of paddle.jit.to_static, or train by paddle.Model, and make a "
    "paddle.static.IpuStrategy() in dynamic mode. For the CPU on purpose call "
    'paddle.set_device("cpu").'
)

_watched: Any = None
"""``Layer.__call__`` of Paddle, while another function stands for it."""


def setting_device(original: Callable[..., Any]) -> Callable[..., Any]:
    """``paddle.set_device`` that watches for a layer in dynamic mode, once the IPU is chosen."""

    @functools.wraps(original)
    def set_device(device: Any) -> Any:
        place = original(device)
        rest()
        if str(device).startswith("ipu") and not cpu_notice.is_told("layer"):
            _watch()
        return place

    return set_device


def rest() -> None:
    """Puts ``Layer.__call__`` back."""
    global _watched
    if _watched is not None:
        import paddle

        paddle.nn.Layer.__call__ = _watched
        _watched = None


registration.when_it_changes(rest)


def _watch() -> None:
    global _watched
    import paddle

    original = _watched = paddle.nn.Layer.__call__

    @functools.wraps(original)
    def call(self: Any, *args: Any, **keywords: Any) -> Any:
        if paddle.in_dynamic_mode():
            rest()
            if registration.current() is None:
                cpu_notice.tell(
                    "layer",
                    f"{type(self).__name__} runs on the CPU, as all of dynamic mode does after "
                    'paddle.set_device("ipu") while no strategy is registered. ' + _WHAT_TO_DO,
                )
        return original(self, *args, **keywords)

    # A layer of to_static calls it, and does not rewrite it.
    paddle.nn.Layer.__call__ = paddle.jit.not_to_static(call)


def note_step(names: Iterable[str], on_ipu: Callable[[], Collection[str]]) -> None:
    """Tells of a step in dynamic mode, with the IPU as device, that trains nothing on the IPU.

    Args:
        names: of the parameters that are updated.
        on_ipu: gives the names of those that layers on the IPU have.
    """
    import paddle

    if cpu_notice.is_told("step") or not paddle.get_device().startswith("ipu"):
        return
    if {*on_ipu()}.isdisjoint(names):
        cpu_notice.tell(
            "step",
            "optimizer.step() updates parameters that no layer on the IPU has: their layers, "
            "backward and the step run on the CPU. " + _WHAT_TO_DO,
        )
