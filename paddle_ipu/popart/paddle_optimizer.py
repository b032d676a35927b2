"""The optimizer of the ``ai.paddle_ipu`` domain: Paddle's own update rules, described as data.

PopART's optimizers place epsilon, clipping and decay elsewhere than Paddle, so a Paddle program
keeps its own rule unless the two agree. The description below is all that a session needs; the
equations stand in ``paddle_ipu.xla.optimizers.update_rules``. A program with this optimizer is not
portable, so a session is given PopART's SGD where `PaddleOptimizer.is_plain_sgd` says the two
are the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Rule:
    """What an update rule keeps for a parameter.

    Attributes:
        states: arrays of the parameter's shape, in the order of PopART's ``Accl1___`` to
            ``Accl3___``.
        powers: powers of one element -> the setting they are powers of, which they start from.
        optional: state -> the setting without which a parameter has no such state.
        ones: the states that start as ones instead of zeros.
        skips_bad_steps: under Paddle's loss scaling an update with a gradient that is not finite is
            left out; the other rules take a gradient of zero then.
    """

    states: tuple[str, ...] = ()
    powers: Mapping[str, str] = field(default_factory=dict)
    optional: Mapping[str, str] = field(default_factory=dict)
    ones: tuple[str, ...] = ()
    skips_bad_steps: bool = False


_POWERS: Mapping[str, str] = {"beta1_pow": "beta1", "beta2_pow": "beta2"}
_ADAM = Rule(
    ("moment1", "moment2", "moment2_max"),
    _POWERS,
    {"moment2_max": "amsgrad"},
    skips_bad_steps=True,
)
_NADAM = ("momentum_decay_pow", "beta2_pow", "mu_product")
_RADAM = ("beta1_pow", "beta2_pow", "rho")

RULES: Mapping[str, Rule] = {
    "sgd": Rule(),
    "momentum": Rule(("velocity",)),
    "lars_momentum": Rule(("velocity",)),
    "adam": _ADAM,
    "adamw": _ADAM,
    "lamb": Rule(("moment1", "moment2"), _POWERS, skips_bad_steps=True),
    "adamax": Rule(("moment", "inf_norm"), {"beta1_pow": "beta1"}),
    "nadam": Rule(("moment1", "moment2", *_NADAM), ones=_NADAM),
    "radam": Rule(("moment1", "moment2", *_RADAM), ones=_RADAM),
    "adagrad": Rule(("moment",)),
    "decayed_adagrad": Rule(("moment",)),
    "adadelta": Rule(("avg_squared_grad", "avg_squared_update")),
    "rmsprop": Rule(("mean_square", "mean_grad", "moment"), optional={"mean_grad": "centered"}),
    "rprop": Rule(("prev", "learning_rate")),
}
"""Update rules by the names of Paddle's operators."""

FAMILIES: Mapping[str, str] = {
    "adam": "Adam",
    "adamw": "Adam",
    "adamax": "Adam",
    "lamb": "Adam",
    "nadam": "Adam",
    "radam": "Adam",
    "adagrad": "Adaptive",
    "decayed_adagrad": "Adaptive",
    "adadelta": "Adaptive",
    "rmsprop": "Adaptive",
}
"""Rules -> PopART's optimizer of that kind, whose options of the strategy they follow."""

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
        rule: a key of `RULES`.
        settings: the rule's numbers (``beta1``, ``epsilon``, ``mu``, ``coeff``, …).
        states: state name in `RULES`, or `MASTER` -> its variable in the scope.
        learning_rate_scale: the parameter's own factor on the learning rate.
        l2: coefficient of L2 decay added to the gradient after clipping.
        l1: coefficient of L1 decay, the sign of the weight, likewise.
        decay: coefficient of a decay of the weight itself, times the learning rate.
        clip: index in `PaddleOptimizer.clips`, None for no clipping.
    """

    parameter: str
    rule: str
    settings: Mapping[str, float]
    states: Mapping[str, str]
    learning_rate_scale: float = 1.0
    l2: float = 0.0
    l1: float = 0.0
    decay: float = 0.0
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
        learning_rate_name: the variable that holds it in the scope; "" where no rule reads one.
        loss_scaling: the loss's gradient starts from it and updates divide by it.
        bias_correction: False leaves it out of Adam, AdamW and Lamb.
        loss_scale: the program's own loss scaling, which multiplies `loss_scaling`.
        automatic_loss_scaling: the session adapts a factor on `loss_scaling`.
        state_types: element types of the first three states of a rule of `FAMILIES`.
        scaled_state: Adam and its kin keep their state multiplied by `loss_scaling`.
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
    automatic_loss_scaling: bool = False
    state_types: tuple[str, str, str] = ("float32", "float32", "float32")
    scaled_state: bool = False

    def state_type(self, rule: str, state: str) -> str:
        """The element type of a rule's state on the device."""
        row = RULES[rule]
        moments = [name for name in row.states if name not in row.ones]
        if rule not in FAMILIES or state not in moments:
            return "float32"
        return self.state_types[moments.index(state)]

    def units(self, rule: str) -> float:
        """What gradients are multiplied by before a rule that keeps scaled state."""
        return self.loss_scaling if self.scaled_state and FAMILIES.get(rule) == "Adam" else 1.0

    def with_learning_rate(self, learning_rate: float) -> PaddleOptimizer:
        """The same optimizer with another learning rate."""
        return replace(self, learning_rate=learning_rate)

    @property
    def loss_scale_variable(self) -> str:
        """Variable of the Scope that keeps what automatic loss scaling came to, "" without it.

        Named after a trained parameter: programs that train others have scales of their own.
        """
        if not self.automatic_loss_scaling:
            return ""
        return f"{min(update.parameter for update in self.updates)}.loss_scale"

    @property
    def is_plain_sgd(self) -> bool:
        """True where PopART's SGD computes the same: no state, clip, decay or factor anywhere."""
        return (
            not self.clips
            and self.loss_scale is None
            and all(
                update.rule == "sgd"
                and update.learning_rate_scale == 1.0
                and update.l1 == update.l2 == update.decay == 0.0
                and not update.states
                for update in self.updates
            )
        )
