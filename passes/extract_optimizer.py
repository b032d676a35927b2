"""Reads the optimizer operators of a training program into a description.

PIR programs mark neither the loss nor the operators of backward and optimizer, so they are
recognised by structure; ProgramDesc programs mark them by roles (``support/roles.py``), which have
priority. ``support/update_operators.py`` reads an operator's settings. Its gradient is traced back
through regularisation and clips (``support/gradient_changes.py``), through AMP's loss scaling
(``support/loss_scaling.py``), and to the seed of backward (``support/find_loss.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from paddle_ipu.dialect.dialect import attribute, describe, scalar_constant
from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support import gradient_changes
from paddle_ipu.passes.support.find_loss import find_loss
from paddle_ipu.passes.support.gradient_changes import GradientChange
from paddle_ipu.passes.support.loss_scaling import LOSS_SCALING, loss_scale, without_scale
from paddle_ipu.passes.support.optimizer_options import with_options
from paddle_ipu.passes.support.update_operators import Update, is_update, updates_of
from paddle_ipu.popart.paddle_optimizer import (
    RULES,
    Clip,
    LossScale,
    PaddleOptimizer,
    ParameterUpdate,
)


class ExtractOptimizer:
    """Sets ``compilation.optimizer`` and ``compilation.loss``; the graph stays as it is.

    Raises:
        InvalidProgramError: training without an optimizer, or two rules for the loss scale.
        NotSupported: several learning rates, a parameter with two updates, or gradients that are
            changed in another way than by clips and decay.
    """

    name = "extract_optimizer"
    requires = ()
    ensures = ("optimizer described",)

    def run(self, compilation: Compilation) -> bool:
        if not compilation.training or compilation.optimizer is not None:
            return False
        nodes = [node for node in compilation.graph if is_update(node)]
        if not nodes:
            raise InvalidProgramError(
                "the strategy asks for training, but the program has no optimizer: call "
                "optimizer.minimize(loss) before compiling, or "
                "set_graph_config(is_training=False) for inference. If it was called, Paddle found "
                "no parameter behind the loss: a while_loop whose first values all have "
                "stop_gradient=True cuts the gradients of what its body reads."
            )
        reading = _Reading()
        updates = tuple(reading.update(update) for node in nodes for update in updates_of(node))
        _check_updated_once(updates)
        names = set(reading.learning_rates)
        if len(names) > 1:
            raise NotSupported(
                f"the program has more than one learning-rate variable: {', '.join(sorted(names))}."
                " Give each optimizer a program of its own: compiled for one Scope they share "
                "their weights. Or use one optimizer; ParamAttr(learning_rate=...) gives single "
                "parameters a factor."
            )
        described = PaddleOptimizer(
            updates=updates,
            clips=tuple(reading.clips),
            learning_rate_name=names.pop() if names else "",
            gradients=reading.raw_gradients,
            loss_scale=reading.loss_scale,
            automatic_loss_scaling=_adapts(compilation, reading.loss_scale),
        )
        compilation.optimizer = with_options(described, compilation.options)
        loss = find_loss(compilation.graph, list(reading.raw_values.values()))
        differentiated = gradient_changes.with_gradients([compilation.value(loss)])
        for raw, parameter in reading.read:
            gradient_changes.check_unchanged(raw, parameter, differentiated)
        compilation.loss = without_scale(compilation.graph, loss, reading.loss_scale)
        return True


def _adapts(compilation: Compilation, scale: LossScale | None) -> bool:
    """Whether the session adapts the loss scale; it may not if the program does."""
    adapts = bool(compilation.options["automatic_loss_scaling_settings.enabled"])
    if adapts and scale is not None and scale.good_steps:
        raise InvalidProgramError(
            "automatic_loss_scaling_settings.enabled is on, and the program adapts its loss scale "
            f"'{scale.variable}' itself, each by a rule of its own. Turn the option off, or "
            "decorate the optimizer with use_dynamic_loss_scaling=False."
        )
    return adapts


def _check_updated_once(updates: Sequence[ParameterUpdate]) -> None:
    seen: set[str] = set()
    for update in updates:
        if update.parameter in seen:
            raise NotSupported(
                f"parameter {update.parameter!r} is updated more than once a step. Under Paddle 3 "
                f"each layer that is given ParamAttr(name={update.parameter!r}) makes a parameter "
                "and updates it alone: use one layer of paddle.nn, or its weight, in all places; "
                "and call minimize once."
            )
        seen.add(update.parameter)


@dataclass
class _Reading:
    """What tracing the gradients has collected."""

    clips: list[Clip] = field(default_factory=list)
    learning_rates: dict[str, None] = field(default_factory=dict)
    raw_gradients: dict[str, str] = field(default_factory=dict)
    raw_values: dict[str, ir.Value] = field(default_factory=dict)
    read: list[tuple[ir.Value, ir.Value]] = field(default_factory=list)
    loss_scale: LossScale | None = None
    _groups: dict[object, int] = field(default_factory=dict)

    def update(self, update: Update) -> ParameterUpdate:
        rule = update.rule
        parameter, gradient = update.required("param"), update.required("grad")
        factor = 1.0
        if "learning_rate" not in RULES[rule].states:
            learning_rate, factor = _learning_rate(update.required("learning_rate"))
            self.learning_rates[learning_rate] = None
        change = gradient_changes.follow(gradient, parameter)
        raw = self._unscaled(change.before)
        self.read.append((raw, parameter))
        self.raw_gradients[str(raw.name)] = str(parameter.name)
        self.raw_values[str(raw.name)] = raw
        return ParameterUpdate(
            parameter=str(parameter.name),
            rule=rule,
            settings=update.settings(),
            states=update.states(),
            learning_rate_scale=factor,
            l2=change.l2,
            l1=change.l1,
            clip=self._clip(change),
        )

    def _unscaled(self, gradient: ir.Value) -> ir.Value:
        """The gradient before AMP's unscaling, that of the scaled loss."""
        node = gradient.producer()
        while node is not None and str(node.op_type).rstrip("_") in LOSS_SCALING:
            if self.loss_scale is None:
                self.loss_scale = loss_scale(node)
            # Gradients come first among operands and among results.
            operand = node.inputs[list(node.outputs).index(gradient)]
            assert operand is not None
            gradient, node = operand, operand.producer()
        return gradient

    def _clip(self, change: GradientChange) -> int | None:
        if change.clip is None:
            return None
        if change.group not in self._groups:
            self._groups[change.group] = len(self.clips)
            self.clips.append(change.clip)
        return self._groups[change.group]


def _learning_rate(value: ir.Value) -> tuple[str, float]:
    """The learning-rate variable, and the product of constant factors applied to it."""
    factor = 1.0
    node = value.producer()
    while node is not None:
        operands = [operand for operand in node.inputs if operand is not None]
        constants = [scalar_constant(operand) for operand in operands]
        numbers = [number for number in constants if number is not None]
        rest = [
            operand for operand, number in zip(operands, constants, strict=True) if number is None
        ]
        plain_scale = node.op_type == "scale" and attribute(node, "bias", 0.0) == 0.0
        if (plain_scale or node.op_type == "multiply") and len(numbers) == len(rest) == 1:
            factor *= numbers[0]
            value = rest[0]
        elif node.op_type in ("cast", "assign") and len(rest) == 1:
            value = rest[0]
        else:
            raise NotSupported(
                f"{describe(node)}: the learning rate is computed inside the program. Use a "
                "scheduler of paddle.optimizer.lr, whose value is fed before each run."
            )
        node = value.producer()
    return str(value.name), factor
