"""Gradient clipping by value for PIR programs, which Paddle 3 writes for dynamic mode only."""

from __future__ import annotations

from typing import TYPE_CHECKING

import paddle

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.nn import ClipGradByValue


def clip_by_value(
    self: ClipGradByValue, params_grads: list[tuple[Tensor, Tensor | None]]
) -> list[tuple[Tensor, Tensor]]:
    """``ClipGradByValue._pir_clip``: clips as the dynamic form does, by operators of the program.

    Args:
        self: the clip, with its bounds.
        params_grads: parameters and their gradients; those of parameters with ``need_clip`` off
            are not clipped.

    Returns:
        Parameters and their gradients, without those that have none.
    """
    clipped = []
    for parameter, gradient in params_grads:
        if gradient is None:
            continue
        if getattr(parameter, "need_clip", True):
            gradient = paddle.clip(gradient, self.min, self.max)
        clipped.append((parameter, gradient))
    return clipped
