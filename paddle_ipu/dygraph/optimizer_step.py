"""Adds to a traced layer what ``loss.backward()`` and ``optimizer.step()`` do in dynamic mode.

The user's optimizer stays as it is: a copy of it builds the operators, with variables of the
program in place of its accumulators.
"""

from __future__ import annotations

import contextlib
import copy
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import paddle
from paddle.base import framework

from paddle_ipu.dialect.value_names import name_of
from paddle_ipu.dygraph.trace import Trace, is_float
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend.programs import is_pir

if TYPE_CHECKING:
    from paddle import Tensor
    from paddle.optimizer import Optimizer
    from paddle.static import Program, Variable

_MARK = "identity_loss"

_NOT_IN_A_CALL = {
    "ASGD": "its average needs the count of steps, which Paddle keeps in dynamic mode only",
    "LBFGS": "its step computes the loss many times, and decides by its values how often",
}
"""Optimizers of dynamic mode that cannot be part of a program, and why."""


@dataclass(frozen=True, slots=True)
class OptimizerStep:
    """What was added.

    Attributes:
        loss: name of the variable that was differentiated.
        trained: names of the parameters that are updated.
        learning_rate: name of the program's variable of the learning rate.
        states: name of a variable of optimizer state -> (accumulator, parameter): where the
            optimizer of the user keeps the same thing.
    """

    loss: str
    trained: tuple[str, ...]
    learning_rate: str
    states: Mapping[str, tuple[str, str]]


def find_loss(trace: Trace) -> Variable:
    """The loss among what a layer returns, or that it marks with ``identity_loss``.

    Raises:
        InvalidProgramError: there is none, or more than one.
    """
    marked = [variable for variable in _marked(trace.program) if _is_scalar(variable)]
    losses = marked or [
        variable
        for variable in trace.outputs.values()
        if _is_scalar(variable) and is_float(variable) and not variable.stop_gradient
    ]
    if len(losses) == 1:
        return losses[0]
    names = {id(v): k for k, v in trace.outputs.items()}
    listed = ", ".join(names.get(id(v)) or name_of(v) for v in losses)
    raise InvalidProgramError(
        "ipu_strategy.set_optimizer has each call of the layer train it, so it must return one "
        f"loss of one element; it has {len(losses)} such{': ' + listed if listed else ''}. Reduce "
        "the loss to one element in the layer, and mark it with paddle.incubate.identity_loss "
        "where there are others. For outputs alone call the layer after layer.eval(), or within "
        "paddle.no_grad(); without set_optimizer the loss may be computed outside, followed by "
        "loss.backward() and optimizer.step()."
    )


def _marked(program: Program) -> list[Variable]:
    block = program.global_block()
    if is_pir(program):
        return [op.result(0) for op in block.ops if op.name() == f"pd_op.{_MARK}"]
    return [block.var(op.output("Out")[0]) for op in block.ops if op.type == _MARK]


def _is_scalar(variable: Variable) -> bool:
    return int(np.prod(variable.shape, dtype=np.int64)) == 1


def add_optimizer_step(trace: Trace, optimizer: Optimizer) -> OptimizerStep:
    """Adds backward from the layer's loss, and the optimizer's update of what it trains.

    Raises:
        InvalidProgramError: no loss, more than one, or no parameter that the optimizer trains.
        NotSupported: the optimizer cannot be part of a program.
    """
    _check_kind(optimizer)
    loss = find_loss(trace)
    groups = [
        (group, [p.name for p in parameters if p.name in trace.tensors and not p.stop_gradient])
        for group, parameters in _groups(optimizer)
    ]
    wanted = [name for _, names in groups for name in names]
    if not wanted:
        raise InvalidProgramError(
            "the optimizer of ipu_strategy.set_optimizer trains none of the layer's parameters. "
            "Make it with parameters=layer.parameters()."
        )
    if not is_pir(trace.program):
        loss = trace.program.global_block().var(loss.name)
    added = _StaticOptimizer(optimizer, trace)
    gradients = added.backward(loss, wanted)
    if not gradients:
        raise InvalidProgramError(
            f"the loss {name_of(loss)!r} depends on none of the parameters that the optimizer of "
            "ipu_strategy.set_optimizer trains."
        )
    for group, names in groups:
        added.apply(group, [gradients[name] for name in names if name in gradients])
    return OptimizerStep(
        name_of(loss), tuple(gradients), added.learning_rate(), added.states(gradients)
    )


def _check_kind(optimizer: Optimizer) -> None:
    for kind, reason in _NOT_IN_A_CALL.items():
        # Paddle 2.6 lacks some of them.
        stock = getattr(paddle.optimizer, kind, None)
        if stock is not None and isinstance(optimizer, stock):
            raise NotSupported(
                f"paddle.optimizer.{kind} cannot be part of a call on the IPU: {reason}. Use "
                "another optimizer, or leave out set_optimizer: then backward() runs on the IPU, "
                "and optimizer.step() on the host."
            )


def _groups(optimizer: Optimizer) -> list[tuple[Mapping[str, Any] | None, list[Tensor]]]:
    """(options, parameters) of each group of the optimizer; None for the options of all."""
    groups = optimizer._param_groups
    if groups and isinstance(groups[0], dict):
        return [(group, list(group["params"])) for group in groups]
    return [(None, list(groups))]


class _StaticOptimizer:
    def __init__(self, optimizer: Optimizer, trace: Trace) -> None:
        self._trace = trace
        self._optimizer = copy.copy(optimizer)
        for name, empty in (
            ("_accumulators", defaultdict(dict)),
            ("_accumulators_holder", {}),
            ("_already_create_accumulator", set()),
            ("_already_create_accumulater", set()),
            ("_auxiliary_vars", {}),
            ("_learning_rate_map", {}),
            ("_master_weights", {}),
            ("_opti_name_list", []),
            ("_param_device_map", {}),
            ("helper", None),
            ("_parameter_list", None),
            ("_param_groups", None),
            ("_use_multi_tensor", False),
        ):
            if hasattr(optimizer, name):
                setattr(self._optimizer, name, empty)
        for name, tensor in trace.tensors.items():
            # Paddle keeps these on the tensor, and traces the parameter without them.
            for attribute in ("optimize_attr", "regularizer", "need_clip"):
                if hasattr(tensor, attribute):
                    setattr(trace.variables[name], attribute, getattr(tensor, attribute))

    def backward(self, loss: Variable, wanted: list[str]) -> dict[str, tuple[Variable, Variable]]:
        """Parameter name -> (variable, gradient), of those that the loss depends on."""
        variables = [self._trace.variables[name] for name in wanted]
        with building(self._trace):
            pairs = self._optimizer.backward(loss, self._trace.startup, parameters=variables)
        return {variable.name: (variable, g) for variable, g in pairs if g is not None}

    def apply(
        self, group: Mapping[str, Any] | None, pairs: list[tuple[Variable, Variable]]
    ) -> None:
        """Adds the update of a group of parameters, as ``Optimizer.step`` does in dynamic mode."""
        if not pairs:
            return
        optimizer = self._optimizer
        with building(self._trace):
            clip = optimizer._grad_clip if group is None else group["grad_clip"]
            if clip is not None:
                pairs = clip(pairs)
            pairs = optimizer.append_regularization_ops(pairs, optimizer.regularization)
            if group is not None:
                # It takes the group's options; a ProgramDesc is built of lists only.
                pairs = optimizer._update_param_group({**group, "params": pairs})
            if is_pir(self._trace.program):
                optimizer._pir_create_optimization_pass(pairs, param_group_idx=0)
            else:
                optimizer._create_optimization_pass(pairs, param_group_idx=0)

    def learning_rate(self) -> str:
        with building(self._trace):
            return str(self._optimizer._global_learning_rate().name)

    def states(self, trained: Collection[str]) -> dict[str, tuple[str, str]]:
        return {
            str(variable.name): (accumulator, parameter)
            for accumulator, by_parameter in self._optimizer._accumulators.items()
            for parameter, variable in by_parameter.items()
            if parameter in trained
        }


@contextlib.contextmanager
def building(trace: Trace) -> Iterator[None]:
    """Static mode, with a traced program as the one under construction."""
    with (
        # Gradients are off within backward, and what is built then has none.
        paddle.set_grad_enabled(True),
        framework._dygraph_guard(None),
        paddle.static.program_guard(trace.program, trace.startup),
    ):
        yield
