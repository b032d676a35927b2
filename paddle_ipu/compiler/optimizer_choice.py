"""Which optimizer a session is given: Paddle's own rule, or PopART's where the strategy asks.

PopART's is what an IPU build of Paddle used: popart.SGD for sgd and momentum, popart.Adam for adam,
adamw, adamax and lamb, popart.Adaptive for adagrad, adadelta and rmsprop. Unlike there, decay,
clips, learning rates of single parameters and RMSProp's learning rate are all kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.enums import DataType, WeightDecayMode
from paddle_ipu.popart.optimizer import SGD, Adam, Adaptive, Optimizer
from paddle_ipu.popart.optimizer_values import ClipNormSettings
from paddle_ipu.popart.options import LOSS_SCALE_UPDATE_FACTOR
from paddle_ipu.popart.paddle_optimizer import (
    FAMILIES,
    MASTER,
    RULES,
    Clip,
    PaddleOptimizer,
    ParameterUpdate,
)
from paddle_ipu.runtime.weights.state_binding import (
    LossScaleBinding,
    StateBinding,
    StepBinding,
    VelocityBinding,
)

Make = Callable[[PaddleOptimizer, float], Optimizer | PaddleOptimizer]
"""Makes a session's optimizer of what the program says and a learning rate."""


@dataclass(frozen=True, slots=True)
class ChosenOptimizer:
    """An optimizer for a session.

    Attributes:
        make: makes it of what the program says and a learning rate.
        states: variables of the Scope that it changes -> what the device has for them.
        is_paddles: it follows Paddle's own rule, which no hardware runs.
    """

    make: Make
    states: Mapping[str, StateBinding]
    is_paddles: bool


def choose(
    popart: ModuleType,
    optimizer: PaddleOptimizer,
    weights: Mapping[str, str],
    written: Collection[str],
    fetches_gradients: bool,
    options: Mapping[str, Any],
) -> ChosenOptimizer:
    """The optimizer for a session.

    Args:
        popart: the module of the session.
        optimizer: what the program says.
        weights: parameter -> weight tensor, of all weights of the session.
        written: weights that the graph itself writes, which no optimizer updates.
        fetches_gradients: a run returns gradients, which PopART leaves scaled.
        options: the strategy's values.

    Raises:
        NotSupported: PopART's rule is asked for, and PopART has none for what the program says.
    """
    trained = {update.parameter for update in optimizer.updates}
    kept = [name for name in weights if name not in trained and name not in written]
    # PopART returns gradients of the scaled loss, and here the scale is not known beforehand.
    known = not (optimizer.automatic_loss_scaling and fetches_gradients)
    if optimizer.automatic_loss_scaling and optimizer.scaled_state:
        raise NotSupported(
            "scaled_optimizer_state and automatic_loss_scaling_settings.enabled do not go "
            "together: turn one of them off."
        )
    if options["optimizer_rule"] == "popart":
        if not known:
            raise NotSupported(
                "with optimizer_rule 'popart' and automatic loss scaling no gradients can be "
                "fetched: PopART returns them with a scale that is not known beforehand."
            )
        return _Popart(popart, optimizer, weights, kept, options).chosen()
    if optimizer.is_plain_sgd and not kept and known:
        return ChosenOptimizer(
            lambda described, rate: popart.SGD(_common(described, rate)),
            _scale_state(optimizer),
            False,
        )
    states = _own_states(optimizer) | _scale_state(optimizer)
    return ChosenOptimizer(lambda described, rate: described.with_learning_rate(rate), states, True)


def _common(described: PaddleOptimizer, rate: float) -> dict[str, tuple[float, bool]]:
    """Values of all of PopART's optimizers; those that may change are not constant."""
    scaling = (described.loss_scaling, not described.automatic_loss_scaling)
    return {"defaultLearningRate": (rate, False), "lossScaling": scaling}


def _scale_state(optimizer: PaddleOptimizer) -> dict[str, StateBinding]:
    if not optimizer.automatic_loss_scaling:
        return {}
    scaling = optimizer.loss_scaling
    binding = LossScaleBinding(LOSS_SCALE_UPDATE_FACTOR, loss_scaling=scaling)
    return {optimizer.loss_scale_variable: binding}


def _own_states(optimizer: PaddleOptimizer) -> dict[str, StateBinding]:
    """State of Paddle's own rule, which the device has in the same arrays."""
    states = {}
    for update in optimizer.updates:
        for state, name in update.states.items():
            dtype = optimizer.state_type(update.rule, state)
            power = _UNITS.get((update.rule, state), 0)
            states[name] = StateBinding(name, dtype, optimizer.units(update.rule) ** power)
    if optimizer.loss_scale is not None:
        states |= {name: StateBinding(name) for name in optimizer.loss_scale.variables}
    return states


_UNITS: Mapping[tuple[str, str], int] = {
    **{(rule, "moment1"): 1 for rule in ("adam", "adamw", "lamb", "nadam", "radam")},
    **{(rule, "moment2"): 2 for rule in ("adam", "adamw", "lamb", "nadam", "radam")},
    **{(rule, "moment2_max"): 2 for rule in ("adam", "adamw")},
    ("adamax", "moment"): 1,
    ("adamax", "inf_norm"): 1,
}
"""(rule, state) -> the power of the gradient's unit that the state has."""

_PREFIXES: Mapping[str, Mapping[str, str]] = {
    "adam": {"moment1": "Accl1___", "moment2": "Accl2___"},
    "adamw": {"moment1": "Accl1___", "moment2": "Accl2___"},
    "lamb": {"moment1": "Accl1___", "moment2": "Accl2___"},
    "adamax": {"moment": "Accl1___", "inf_norm": "Accl2___"},
    "adagrad": {"moment": "Accl1___"},
    "adadelta": {"avg_squared_grad": "Accl1___", "avg_squared_update": "Accl2___"},
    "rmsprop": {"mean_square": "Accl1___", "mean_grad": "Accl2___", "moment": "Accl3___"},
}
"""Paddle's states of a rule -> the prefixes of PopART's."""


class _Popart:
    """PopART's optimizer for a program.

    Args:
        popart: the module of the session.
        optimizer: what the program says.
        weights: parameter -> weight tensor.
        kept: weights that the program does not update, and PopART otherwise would.
        options: the strategy's values.
    """

    def __init__(
        self,
        popart: ModuleType,
        optimizer: PaddleOptimizer,
        weights: Mapping[str, str],
        kept: Collection[str],
        options: Mapping[str, Any],
    ) -> None:
        self._popart, self._optimizer, self._options = popart, optimizer, options
        self._weights, self._kept = weights, kept
        self._rule = self._one_rule()
        self._family = FAMILIES.get(self._rule, "SGD")
        self._settings = self._one_setting()
        for update in optimizer.updates:
            self._check(update)
        self._clips = self._clip_settings()
        kinds = Counter((self._factor(u), self._decay(u)) for u in optimizer.updates)
        # What most weights have is the default; each weight of its own costs time to compile.
        self._usual = kinds.most_common(1)[0][0] if kinds else (1.0, 0.0)

    def chosen(self) -> ChosenOptimizer:
        makers: Mapping[str, Callable[[float], Optimizer]] = {
            "SGD": self._sgd, "Adam": self._adam, "Adaptive": self._adaptive,
        }  # fmt: skip
        make = makers[self._family]

        def with_specifics(described: PaddleOptimizer, rate: float) -> Optimizer:
            optimizer = make(rate)
            for name, values in self._specifics(rate).items():
                optimizer.insertSpecific(name, values)
            return optimizer

        states = self._states() | _scale_state(self._optimizer)
        return ChosenOptimizer(with_specifics, states, False)

    # -- what PopART has no rule for -----------------------------------------------------------

    def _refuse(self, what: str) -> NotSupported:
        return NotSupported(
            f"optimizer_rule is 'popart', but PopART has no {what}. Leave the option at 'paddle' "
            "for Paddle's own rule."
        )

    def _one_rule(self) -> str:
        rules = {update.rule for update in self._optimizer.updates}
        known = {"sgd", "momentum", *_PREFIXES}
        if not rules:
            return "sgd"
        if len(rules) > 1:
            raise self._refuse(f"optimizer of several rules, {', '.join(sorted(rules))}")
        (rule,) = rules
        if rule not in known:
            raise self._refuse(f"rule {rule}; it has {', '.join(sorted(known))}")
        return rule

    def _one_setting(self) -> Mapping[str, float]:
        """The numbers that PopART has once for all weights, where all weights share them."""
        own = {"l2", "coeff", "weight_decay", "lr_ratio"}
        found = [
            {name: number for name, number in update.settings.items() if name not in own}
            for update in self._optimizer.updates
        ]
        if any(each != found[0] for each in found):
            raise self._refuse("optimizer whose betas, epsilons or momentums differ by parameter")
        return found[0] if found else {}

    def _check(self, update: ParameterUpdate) -> None:
        if update.l1:
            raise self._refuse(f"L1 decay, which {update.parameter} has")
        if update.settings.get("rescale_grad", 1.0) != 1.0:
            raise self._refuse("rescale_grad")
        if update.settings.get("always_adapt"):
            raise self._refuse("choice whether Lamb always adapts")
        if "moment2_max" in update.states:
            raise self._refuse("AMSGrad")
        if MASTER in update.states:
            raise self._refuse(
                f"float32 copy of a half weight, which {update.parameter} has by multi_precision"
            )
        if self._optimizer.loss_scale is not None:
            raise self._refuse(
                "loss scaling that leaves bad steps out, which the program has; the option "
                "loss_scaling is PopART's"
            )

    def _clip_settings(self) -> list[ClipNormSettings]:
        settings = self._popart.ClipNormSettings
        groups = []
        for index, clip in enumerate(self._optimizer.clips):
            members = [u.parameter for u in self._optimizer.updates if u.clip == index]
            if members:
                self._check_clip(clip)
                groups.append((members, clip.high))
        if len(groups) == 1 and len(groups[0][0]) == len(self._weights):
            return [settings.clipAllWeights(groups[0][1])]
        return [settings.clipWeights([self._weights[n] for n in m], c) for m, c in groups]

    def _check_clip(self, clip: Clip) -> None:
        if clip.kind != "global_norm":
            raise self._refuse(f"clip by {clip.kind}; it has ClipGradByGlobalNorm")
        if self._family == "Adaptive":
            raise self._refuse(f"clip for {self._rule}")

    # -- the optimizers ------------------------------------------------------------------------

    def _specifics(self, rate: float) -> dict[str, dict[str, tuple[float, bool]]]:
        """Weight tensor -> its own rate and decay, of those that differ from the rest."""
        found = {
            self._weights[update.parameter]: {
                "learningRate": (rate * self._factor(update), False),
                "weightDecay": (self._decay(update), False),
            }
            for update in self._optimizer.updates
            if (self._factor(update), self._decay(update)) != self._usual
        }
        frozen = {"learningRate": (0.0, False), "weightDecay": (0.0, False)}
        return found | {self._weights[name]: frozen for name in self._kept}

    @staticmethod
    def _factor(update: ParameterUpdate) -> float:
        return update.learning_rate_scale * update.settings.get("lr_ratio", 1.0)

    @staticmethod
    def _decay(update: ParameterUpdate) -> float:
        own = sum(update.settings.get(name, 0.0) for name in ("l2", "coeff", "weight_decay"))
        return update.l2 + update.decay + own

    def _common(self, rate: float) -> dict[str, tuple[float, bool]]:
        factor, decay = self._usual
        return {**_common(self._optimizer, rate * factor), "defaultWeightDecay": (decay, False)}

    def _sgd(self, rate: float) -> SGD:
        values = self._common(rate)
        values["defaultMomentum"] = (self._settings.get("mu", 0.0), True)
        if self._settings.get("use_nesterov"):
            values["nesterov"] = (1.0, True)
        made: SGD = self._popart.SGD(values, clip_norm_settings=self._clips)
        return made

    def _adam(self, rate: float) -> Adam:
        modes = self._popart.AdamMode
        corrected = self._optimizer.bias_correction
        mode = {
            "adamax": modes.AdaMax,
            "lamb": modes.Lamb if corrected else modes.LambNoBias,
        }.get(self._rule, modes.Adam if corrected else modes.AdamNoBias)
        values = self._common(rate) | {
            "defaultBeta1": (self._settings["beta1"], False),
            "defaultBeta2": (self._settings["beta2"], False),
            "defaultEps": (self._settings["epsilon"], True),
            "defaultMaxWeightNorm": (float(self._options["max_weight_norm"]), True),
        }
        made: Adam = self._popart.Adam(
            values,
            mode=mode,
            weight_decay_mode=self._decay_mode(),
            accl1_type=self._type(1),
            accl2_type=self._type(2),
            clip_norm_settings=self._clips,
            scaled_optimizer_state=self._optimizer.scaled_state,
        )
        return made

    def _adaptive(self, rate: float) -> Adaptive:
        modes = self._popart.AdaptiveMode
        centered = bool(self._settings.get("centered"))
        mode = {
            "adagrad": modes.AdaGrad,
            "adadelta": modes.AdaDelta,
        }.get(self._rule, modes.CenteredRMSProp if centered else modes.RMSProp)
        alpha = self._settings.get("rho", self._settings.get("decay", 0.99))
        values = self._common(rate) | {
            "defaultAlpha": (alpha, True),
            "defaultMomentum": (self._settings.get("momentum", 0.0), True),
            "defaultEps": (self._settings["epsilon"], True),
        }
        made: Adaptive = self._popart.Adaptive(
            values,
            mode=mode,
            weight_decay_mode=self._decay_mode(),
            accl1_type=self._type(1),
            accl2_type=self._type(2),
            accl3_type=self._type(3),
        )
        return made

    def _decay_mode(self) -> WeightDecayMode:
        modes: type[WeightDecayMode] = self._popart.WeightDecayMode
        asked = self._options["weight_decay_mode"]
        if not asked:
            asked = "decay" if self._rule in ("adamw", "lamb") else "l2_regularization"
        return modes.Decay if asked == "decay" else modes.L2Regularization

    def _type(self, number: int) -> DataType:
        found: DataType = getattr(self._popart.DataType, self._options[f"accl{number}_type"])
        return found

    # -- state ---------------------------------------------------------------------------------

    def _states(self) -> dict[str, StateBinding]:
        states: dict[str, StateBinding] = {}
        for update in self._optimizer.updates:
            tensor = self._weights[update.parameter]
            if self._rule == "momentum" and self._settings["mu"]:
                states[update.states["velocity"]] = VelocityBinding(
                    f"Accl___{tensor}",
                    parameter=update.parameter,
                    momentum=self._settings["mu"],
                    decay=self._decay(update),
                )
            states |= self._moments(update, tensor) | self._steps(update, tensor)
        return states

    def _moments(self, update: ParameterUpdate, tensor: str) -> dict[str, StateBinding]:
        prefixes = _PREFIXES.get(self._rule, {})
        if self._rule == "rmsprop" and not self._settings["momentum"]:
            prefixes = {state: prefix for state, prefix in prefixes.items() if state != "moment"}
        units = self._optimizer.units(self._rule)
        return {
            update.states[state]: StateBinding(
                prefix + tensor,
                self._optimizer.state_types[int(prefix[4]) - 1],
                units ** _UNITS.get((self._rule, state), 0),
            )
            for state, prefix in prefixes.items()
            if state in update.states
        }

    def _steps(self, update: ParameterUpdate, tensor: str) -> dict[str, StateBinding]:
        counts = self._rule == "adamax" or self._optimizer.bias_correction
        if self._family != "Adam" or not counts:
            return {}
        powers = RULES[self._rule].powers
        determining = sorted(
            ((update.states[power], self._settings[beta]) for power, beta in powers.items()),
            key=lambda found: -found[1],
        )
        first = next(iter(powers))
        return {
            update.states[power]: StepBinding(
                f"Step___{tensor}",
                beta=self._settings[beta],
                powers=tuple(determining) if power == first else (),
            )
            for power, beta in powers.items()
        }
