"""Gradient clipping by value for PIR programs, which Paddle 3 writes for dynamic mode only."""

from __future__ import annotations

from typing import Any


def clip_by_value(self: Any, params_grads: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """``ClipGradByValue._pir_clip``: clips as the dynamic form does, by operators of the program.

    Args:
        self: the ``paddle.nn.ClipGradByValue``.
        params_grads: parameters and their gradients; parameters with ``need_clip`` off keep theirs.
    """
    import paddle

    clipped = []
    for parameter, gradient in params_grads:
        if gradient is None:
            continue
        if getattr(parameter, "need_clip", True):
            gradient = paddle.clip(gradient, self.min, self.max)
        clipped.append((parameter, gradient))
    return clipped
