"""``minimize(no_grad_set=...)``: marks the values where backward stops.

Paddle builds backward without gradients of these values and keeps no other trace of them. The
device derives gradients itself and stops where a value's ``stop_gradient`` says so.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import paddle

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.optimizer import Optimizer
    from paddle.static import Program


def marking(backward: Callable[..., Any]) -> Callable[..., Any]:
    """``Optimizer.backward`` that leaves ``stop_gradient`` on the values of ``no_grad_set``."""

    @functools.wraps(backward)
    def marking_backward(
        self: Optimizer,
        loss: Tensor,
        startup_program: Program | None = None,
        parameters: list[Tensor] | None = None,
        no_grad_set: set[Tensor | str] | None = None,
        callbacks: object = None,
    ) -> list[tuple[Tensor, Tensor]]:
        pairs: list[tuple[Tensor, Tensor]]
        pairs = backward(self, loss, startup_program, parameters, no_grad_set, callbacks)
        if not paddle.in_dynamic_mode():
            for item in no_grad_set or ():
                value = loss.block.var(item) if isinstance(item, str) else item
                # A parameter that is not trained is in no update and needs no mark.
                if not value.persistable:
                    value.stop_gradient = True
        return pairs

    return marking_backward
