"""Optimizers of dynamic mode, while the IPU trains with them or beside them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import paddle

from paddle_ipu.dygraph import autograd, dispatch, host_writes, left_on_cpu, registration
from paddle_ipu.dygraph.layer_program import note_state_written, sync_state_to_host
from paddle_ipu.errors import InvalidProgramError

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.optimizer import Optimizer
    from paddle.static import Program

    Gradients = list[tuple[Tensor, Tensor]]


def applying(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Optimizer._apply_optimize``, through which every ``step`` and ``minimize`` goes."""

    @functools.wraps(original)
    def apply(
        self: Optimizer,
        loss: Tensor | None,
        startup_program: Program | None,
        params_grads: Gradients | dict[str, Gradients],
        *rest: Any,
        **keywords: Any,
    ) -> object:
        if not paddle.in_dynamic_mode():
            return original(self, loss, startup_program, params_grads, *rest, **keywords)
        pairs = params_grads["params"] if isinstance(params_grads, dict) else params_grads
        updated = set() if registration.current() is None else {*dispatch.updated_by_calls()}
        # `clear_grad` leaves zeros, of earlier steps on the CPU.
        pairs[:] = [
            pair for pair in pairs if not (pair[0].name in updated and _drop_zero_gradient(*pair))
        ]
        names = [parameter.name for parameter, _ in pairs]
        if names:
            left_on_cpu.note_step(names, dispatch.held_by_layers)
        if registration.current() is None:
            return original(self, loss, startup_program, params_grads, *rest, **keywords)
        autograd.note_optimizer_step()
        twice = sorted({*names} & updated)
        if twice:
            raise InvalidProgramError(
                f"optimizer.step() has gradients of {', '.join(map(repr, twice[:5]))}"
                f"{', ...' if len(twice) > 5 else ''}, which calls of the layer update already, as "
                "ipu_strategy.set_optimizer asks for: a step would update them twice. Compute the "
                "whole loss in the layer, or leave out set_optimizer."
            )
        idle = sorted({*_parameters(self)} & updated)
        if idle and getattr(registration.current(), "_optimizer", self) is not self:
            raise InvalidProgramError(
                f"optimizer.step() finds no gradients of {', '.join(map(repr, idle[:5]))}"
                f"{', ...' if len(idle) > 5 else ''}: calls of the layer update them with another "
                "optimizer, that of ipu_strategy.set_optimizer. Give it this one, or leave it out."
            )
        sync_state_to_host(self)
        try:
            return original(self, loss, startup_program, params_grads, *rest, **keywords)
        finally:
            note_state_written(self)
            host_writes.note(names)

    return apply


def _drop_zero_gradient(parameter: Tensor, gradient: Tensor) -> bool:
    """Drops a gradient that is zero; whether it was."""
    if not gradient.is_dense() or gradient.numpy().any():
        return False
    parameter.clear_gradient(False)
    return True


def _parameters(optimizer: Optimizer) -> Iterator[str]:
    """Names of the parameters of an optimizer."""
    for item in optimizer._parameter_list or ():
        for parameter in item["params"] if isinstance(item, dict) else (item,):
            yield parameter.name


def reading_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Optimizer.state_dict`` with the state that is on a device."""

    @functools.wraps(original)
    def state_dict(self: Optimizer, *args: Any, **keywords: Any) -> object:
        sync_state_to_host(self)
        return original(self, *args, **keywords)

    return state_dict


def writing_state(original: Callable[..., Any]) -> Callable[..., Any]:
    """``Optimizer.set_state_dict`` after which the device takes the state from the host."""

    @functools.wraps(original)
    def set_state_dict(self: Optimizer, *args: Any, **keywords: Any) -> object:
        sync_state_to_host(self)
        try:
            return original(self, *args, **keywords)
        finally:
            note_state_written(self)

    return set_state_dict
