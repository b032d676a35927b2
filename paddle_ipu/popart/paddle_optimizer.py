"""The optimizer of the ``ai.paddle_ipu`` domain: Paddle's own update rules, told as data.

PopART's optimizers place epsilon, clipping and decay elsewhere than Paddle, so a Paddle program
keeps its own rule unless the two agree. The description below is all that a session needs; the
equations stand in ``paddle_ipu.xla.optimizer``. A program with this optimizer is not
portable, so a session is given PopART's
SGD where :attr:`PaddleOptimizer.is_plain_sgd` says the two are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

RULES: Mapping[str, tuple[str, ...]] = {
    "sgd": (),
    "momentum": ("velocity",),
    "adam": ("moment1", "moment2", "beta1_pow", "beta2_pow"),
    "adamw": ("moment1", "moment2", "beta1_pow", "beta2_pow"),
    "lamb": ("moment1", "moment2", "beta1_pow", "beta2_pow"),
}
"""Update rules and the state each keeps for a parameter."""

MASTER = "master_param"
"""The state of any rule that holds a half parameter in float32."""


@dataclass(frozen=True, slots=True)
class Clip:
    """One gradient clip: ``global_norm`` over a group, ``norm`` or ``value`` of each gradient.

    Attributes:
        kind: which of the three.
        low: lower bound, for ``value``.
        high: upper bound, for ``value``; the largest norm otherwise.
    """

    kind: str
    high: float
    low: float = 0.0


@dataclass(frozen=True, slots=True)
class ParameterUpdate:
    """How one parameter is updated.

    Attributes:
        parameter: the parameter's name.
        rule: a key of :data:`RULES`.
        settings: the rule's numbers (``beta1``, ``epsilon``, ``mu``, ``coeff``, …).
        states: state name in :data:`RULES`, or :data:`MASTER` -> its variable in the scope.
        learning_rate_scale: the parameter's own factor on the learning rate.
        l2: coefficient of L2 decay added to the gradient after clipping.
        clip: index in :attr:`PaddleOptimizer.clips`, None for no clipping.
    """

    parameter: str
    rule: str
    settings: Mapping[str, float]
    states: Mapping[str, str]
    learning_rate_scale: float = 1.0
    l2: float = 0.0
    clip: int | None = None


@dataclass(frozen=True, slots=True)
class LossScale:
    """Paddle's loss scaling: a factor in a variable, and how it adapts.

    An update with a gradient that is not finite is left out.

    Attributes:
        variable: holds the factor in the scope.
        good_steps: counts the steps with finite gradients since the last change; "" where the
            factor is constant.
        bad_steps: counts the others.
        incr_every: after so many good steps the factor is multiplied by `incr_ratio`.
        decr_every: after so many bad ones by `decr_ratio`, but not below 1.
    """

    variable: str
    good_steps: str = ""
    bad_steps: str = ""
    incr_every: int = 0
    decr_every: int = 0
    incr_ratio: float = 1.0
    decr_ratio: float = 1.0

    @property
    def variables(self) -> tuple[str, ...]:
        """Names of the variables that belong to it."""
        return tuple(name for name in (self.variable, self.good_steps, self.bad_steps) if name)


@dataclass(frozen=True, slots=True)
class PaddleOptimizer:
    """Every parameter's update, with the learning rate and loss scale that may change by the run.

    Attributes:
        updates: one for each trained parameter.
        clips: the gradient clips that updates refer to.
        learning_rate: of the next run.
        learning_rate_name: the variable that holds it in the scope.
        loss_scaling: the loss's gradient starts from it and updates divide by it.
        bias_correction: False leaves it out of Adam, AdamW and Lamb.
        loss_scale: the program's own loss scaling, which multiplies `loss_scaling`.
    """

    updates: tuple[ParameterUpdate, ...]
    clips: tuple[Clip, ...] = ()
    learning_rate: float = 0.0
    learning_rate_name: str = ""
    loss_scaling: float = 1.0
    bias_correction: bool = True
    gradients: Mapping[str, str] = field(default_factory=dict)
    """Name of a raw gradient in the program -> its parameter."""
    loss_scale: LossScale | None = None

    def with_learning_rate(self, learning_rate: float) -> PaddleOptimizer:
        """The same optimizer with another learning rate."""
        return replace(self, learning_rate=learning_rate)

    @property
    def state_names(self) -> list[str]:
        """Variables of the scope that updates change, besides the parameters."""
        scale = () if self.loss_scale is None else self.loss_scale.variables
        return [*(name for update in self.updates for name in update.states.values()), *scale]

    @property
    def is_plain_sgd(self) -> bool:
        """True where PopART's SGD computes the same: no state, clip, decay or factor anywhere."""
        return (
            not self.clips
            and self.loss_scale is None
            and all(
                update.rule == "sgd" and update.learning_rate_scale == 1.0 and update.l2 == 0.0
                for update in self.updates
            )
        )
