"""The table of optimizers, clips, regularizers and learning rate schedulers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paddle
from paddle import nn, regularizer
from paddle.optimizer import lr


@dataclass(frozen=True, slots=True)
class OptimizerCase:
    """An optimizer whose steps on the IPU are those of dynamic mode on the CPU.

    Attributes:
        kind: its name in ``paddle.optimizer``; a Paddle without it has not the row.
        options: what it is made with, beside parameters.
        covers: other classes that the row is for.
    """

    kind: str
    options: Callable[[], dict[str, Any]] = dict
    covers: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The row's name."""
        return "_".join((self.kind, *self.covers))

    def make(self, parameters: Any) -> Any:
        """The optimizer."""
        return getattr(paddle.optimizer, self.kind)(parameters=parameters, **self.options())


class _Halving(paddle.optimizer.SGD):  # type: ignore[misc]
    """An optimizer that a user derived: it halves the learning rate of each parameter."""

    def _create_param_lr(self, param_and_grad: Any) -> Any:
        return super()._create_param_lr(param_and_grad) * 0.5


class _Derived(OptimizerCase):
    def make(self, parameters: Any) -> Any:
        return _Halving(0.1, parameters=parameters)


_ALL = (
    OptimizerCase("Adadelta", lambda: {"learning_rate": 0.5}),
    OptimizerCase("Adagrad", lambda: {"learning_rate": 0.1, "initial_accumulator_value": 0.1}),
    OptimizerCase("Adam", lambda: {"learning_rate": 0.05, "beta1": 0.8}),
    OptimizerCase(
        "AdamW",
        lambda: {
            "learning_rate": 0.05,
            "weight_decay": 0.1,
            "apply_decay_param_fun": lambda name: "b_" not in name,
        },
    ),
    OptimizerCase("Adamax", lambda: {"learning_rate": 0.05}),
    OptimizerCase("Lamb", lambda: {"learning_rate": 0.05}),
    OptimizerCase("Momentum", lambda: {"learning_rate": 0.1, "use_nesterov": True}),
    OptimizerCase("NAdam", lambda: {"learning_rate": 0.05}),
    _Derived("Optimizer"),
    OptimizerCase("RAdam", lambda: {"learning_rate": 0.05}),
    OptimizerCase("RMSProp", lambda: {"learning_rate": 0.05, "momentum": 0.5, "centered": True}),
    OptimizerCase("Rprop", lambda: {"learning_rate": 0.01}),
    OptimizerCase("SGD", lambda: {"learning_rate": 0.1}),
    OptimizerCase(
        "SGD",
        lambda: {
            "learning_rate": 0.1,
            "weight_decay": regularizer.L1Decay(0.1),
            "grad_clip": nn.ClipGradByNorm(0.2),
        },
        ("L1Decay", "ClipGradByNorm"),
    ),
    OptimizerCase(
        "Adam",
        lambda: {
            "learning_rate": 0.05,
            "weight_decay": regularizer.L2Decay(0.1),
            "grad_clip": nn.ClipGradByValue(0.05),
        },
        ("L2Decay", "ClipGradByValue"),
    ),
    OptimizerCase(
        "Momentum",
        lambda: {"learning_rate": 0.1, "grad_clip": nn.ClipGradByGlobalNorm(0.2)},
        ("ClipGradByGlobalNorm",),
    ),
)

OPTIMIZERS = tuple(case for case in _ALL if hasattr(paddle.optimizer, case.kind))
"""Those of this Paddle."""

REFUSED = tuple(kind for kind in ("ASGD", "LBFGS") if hasattr(paddle.optimizer, kind))
"""Optimizers that ``set_optimizer`` refuses."""

SCHEDULERS: dict[str, Callable[[], Any]] = {
    "NoamDecay": lambda: lr.NoamDecay(16, 2, 1.0),
    "PiecewiseDecay": lambda: lr.PiecewiseDecay([1, 2], [0.1, 0.05, 0.01]),
    "NaturalExpDecay": lambda: lr.NaturalExpDecay(0.1, 0.5),
    "InverseTimeDecay": lambda: lr.InverseTimeDecay(0.1, 0.5),
    "PolynomialDecay": lambda: lr.PolynomialDecay(0.1, 4),
    "LinearWarmup": lambda: lr.LinearWarmup(lr.StepDecay(0.1, 2), 2, 0.01, 0.1),
    "ExponentialDecay": lambda: lr.ExponentialDecay(0.1, 0.5),
    "MultiStepDecay": lambda: lr.MultiStepDecay(0.1, [1, 2]),
    "StepDecay": lambda: lr.StepDecay(0.1, 1),
    "LambdaDecay": lambda: lr.LambdaDecay(0.1, lambda step: 0.5**step),
    "ReduceOnPlateau": lambda: lr.ReduceOnPlateau(0.1, patience=0, threshold=1.0),
    "CosineAnnealingDecay": lambda: lr.CosineAnnealingDecay(0.1, 4),
    "MultiplicativeDecay": lambda: lr.MultiplicativeDecay(0.1, lambda step: 0.7),
    "OneCycleLR": lambda: lr.OneCycleLR(0.1, 4),
    "CyclicLR": lambda: lr.CyclicLR(0.01, 0.1, 2),
    "LinearLR": lambda: lr.LinearLR(0.1, 4),
    "CosineAnnealingWarmRestarts": lambda: lr.CosineAnnealingWarmRestarts(0.1, 2),
}
"""Learning rate schedulers by name."""
