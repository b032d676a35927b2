"""PopART's optimizers as descriptions: SGD, ConstSGD, Adam, Adaptive.

The update equations are the session's; here are the parameters, their defaults and checks.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.enums import (
    AdamMode,
    AdaptiveMode,
    DataType,
    SGDAccumulatorAndMomentum,
    WeightDecayMode,
)
from paddle_ipu.popart.optimizer_values import (
    ClipNormSettings,
    OptimizerValue,
    OptimizerValueMap,
    values_from_dict,
)

__all__ = [
    "SGD",
    "Adam",
    "Adaptive",
    "ClipNormSettings",
    "ConstSGD",
    "Optimizer",
    "OptimizerValue",
    "OptimizerValueMap",
]

_log = logging.getLogger("popart.ir")


class Optimizer:
    """Base of the optimizers.

    Attributes:
        clip_norm_settings: groups of gradients clipped together.
        maps: value map by specific key, for instance ``learningRate``.
    """

    # Constructor key -> default.
    _defaults: ClassVar[dict[str, float]]
    # PopART's name in messages; the same for a class and those derived from it.
    _kind: ClassVar[str]

    def __init__(
        self, values: Mapping[str, Any], clip_norm_settings: Sequence[ClipNormSettings]
    ) -> None:
        given = values_from_dict(values)
        for key in given:
            if key not in self._defaults:
                allowed = " ".join(self._allowed_keys())
                raise popart_exception(
                    f"Invalid {self._kind} key, {key}, the allowed keys are ( {allowed} )"
                )
        complete = {
            key: given.get(key, OptimizerValue(default)) for key, default in self._defaults.items()
        }
        self._loss_scaling = complete["lossScaling"]
        if self._loss_scaling.val() == 0:
            raise popart_exception("Loss scaling cannot be 0")
        if any(not isinstance(item, ClipNormSettings) for item in clip_norm_settings):
            raise TypeError("clip_norm_settings takes ClipNormSettings")
        if len(clip_norm_settings) > 1 and any(item.all_weights for item in clip_norm_settings):
            raise popart_exception(
                "Multiple clip groups specified, but one has the mode 'ClipAllWeights'. When using "
                "ClipNormSettings.clipAllWeights(...), only one group should be specified."
            )
        self.clip_norm_settings = list(clip_norm_settings)
        self.maps = {
            key: OptimizerValueMap(complete[name]) for key, name in self._specific_keys().items()
        }
        self._check({key: item.getDefault() for key, item in self.maps.items()})

    def _allowed_keys(self) -> list[str]:
        return list(self._defaults)

    def _specific_keys(self) -> dict[str, str]:
        """Key of a weight's own value -> constructor key: learningRate -> defaultLearningRate."""
        keys = [key for key in self._defaults if key != "lossScaling"]
        names = [key.removeprefix("default") for key in keys]
        return {name[0].lower() + name[1:]: key for name, key in zip(names, keys, strict=True)}

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        rate = values["learningRate"]
        if rate.val() < 0:
            raise popart_exception(
                f"Negative learning rate ({rate.val()}) in {self._kind}, bailing as this might be "
                "a user error."
            )
        if rate.val() == 0 and rate.isConst():
            raise popart_exception(
                f"Constant, zero learning rate in {self._kind}, bailing as this might be a user "
                "error."
            )
        self._not_negative(values, "weightDecay", "weight decay")

    def _not_negative(self, values: Mapping[str, OptimizerValue], key: str, what: str) -> None:
        if values[key].val() < 0:
            raise popart_exception(
                f"Negative {what} ({values[key].val()}) in {self._kind}, bailing as this might be "
                "a user error"
            )

    def _positive(self, values: Mapping[str, OptimizerValue], key: str, what: str) -> None:
        if values[key].val() <= 0:
            raise popart_exception(
                f"Non-positive {what} ({values[key].val()}) in {self._kind} is not supported"
            )

    def insertSpecific(self, id: str, values: Mapping[str, Any]) -> None:
        """Gives one weight its own values; keys left out take the optimizer's defaults."""
        given = values_from_dict(values)
        for key in given:
            if key not in self._specific_keys():
                allowed = " ".join(self._specific_keys())
                raise popart_exception(
                    f"Invalid key {key} in {self._kind}::insertSpecific. Permitted keys are "
                    f"( {allowed} )"
                )
        complete = {key: given.get(key, item.getDefault()) for key, item in self.maps.items()}
        self._check(complete)
        for key, value in complete.items():
            self.maps[key].insertSpecific(id, value)

    def getLossScalingVal(self) -> float:
        """The factor on the loss."""
        return self._loss_scaling.val()

    def lossScaling(self) -> OptimizerValue:
        """The factor on the loss and whether it is fixed."""
        return self._loss_scaling

    def learningRates(self) -> OptimizerValueMap:
        """Learning rates."""
        return self.maps["learningRate"]

    def weightDecays(self) -> OptimizerValueMap:
        """Weight decays."""
        return self.maps["weightDecay"]

    def modes(self) -> dict[str, object]:
        """What must agree between an optimizer and its replacement, by PopART's wording."""
        return {}

    def validReplacement(self, other: Optimizer) -> None:
        """popart_runtime_error unless `other` may replace this optimizer between runs."""
        start = "New optimizer is not a valid replacement. "
        if self.clip_norm_settings != other.clip_norm_settings:
            raise popart_runtime_error(start + "Clip norm settings do not match.")
        if self._kind != other._kind:
            raise popart_runtime_error(
                f"{start}Can not replace optimizer of type {self._kind} with new optimizer of type "
                f"{other._kind}"
            )
        theirs = other.modes()
        for what, mode in self.modes().items():
            if mode != theirs[what]:
                raise popart_runtime_error(f"{start}{what} do not match")
        try:
            self._loss_scaling.check_replacement(other._loss_scaling)
        except popart_exception as error:
            raise popart_runtime_error(f"{start}Problem with loss scaling. {error}") from error
        for key, item in self.maps.items():
            try:
                item.check_replacement(other.maps[key])
            except popart_exception as error:
                raise popart_runtime_error(f"{start}Problem with {key}. {error}") from error


class SGD(Optimizer):
    """Stochastic gradient descent, with momentum where it is not a constant 0.

    Attributes:
        accumulatorAndMomentum: one lagged tensor (Combined) or a velocity of its own (Separate).
        accumType: type of the gradient accumulator, UNDEFINED for the weight's.
        accl1Type: type of the velocity, UNDEFINED for the weight's.
    """

    _kind = "SGD"
    _defaults = {
        "defaultLearningRate": 0.1,
        "defaultWeightDecay": 0.0,
        "defaultMomentum": 0.0,
        "defaultDampening": 0.0,
        "defaultVelocityScaling": 1.0,
        "lossScaling": 1.0,
        "nesterov": 0.0,
    }

    def __init__(
        self,
        pyd: Mapping[str, Any],
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum.Combined,
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: str = "sgd",
    ) -> None:
        super().__init__(pyd, clip_norm_settings)
        self.accumulatorAndMomentum = accumulatorAndMomentum
        self.accumType = accumType
        self.accl1Type = accl1Type
        self.debugContext = debugContext

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        super()._check(values)
        self._not_negative(values, "momentum", "momentum")
        self._not_negative(values, "dampening", "dampening")
        self._positive(values, "velocityScaling", "velocity scaling")
        dampening = values["dampening"].val()
        if values["nesterov"].val() != 0 and dampening > 0:
            raise popart_exception(
                f"When enable nesterov momentum, dampening ({dampening}) in SGD shouled be zero"
            )

    def momentums(self) -> OptimizerValueMap:
        """Momentums."""
        return self.maps["momentum"]

    def dampenings(self) -> OptimizerValueMap:
        """Dampenings."""
        return self.maps["dampening"]

    def velocityScalings(self) -> OptimizerValueMap:
        """Velocity scalings."""
        return self.maps["velocityScaling"]

    def nesterov(self) -> OptimizerValueMap:
        """Non-zero where Nesterov momentum is on."""
        return self.maps["nesterov"]

    def hasMomentum(self, id: str) -> bool:
        """Whether a weight has a velocity: its momentum is not a constant 0."""
        momentum = self.momentums().get(id)
        return not momentum.isConst() or momentum.val() != 0

    def modes(self) -> dict[str, object]:
        return {
            "SGDAccumulatorAndMomentum": self.accumulatorAndMomentum,
            "sgdAccumType": self.accumType,
            "sgd2Accl1Type": self.accl1Type,
        }


class ConstSGD(SGD):
    """SGD with constant values and without momentum; deprecated in favour of SGD."""

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        loss_scaling: float = 1.0,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
    ) -> None:
        super().__init__(
            {
                "defaultLearningRate": (learning_rate, True),
                "defaultWeightDecay": (weight_decay, True),
                "lossScaling": (loss_scaling, True),
            },
            clip_norm_settings,
        )


class Adam(Optimizer):
    """Adam, AdamNoBias, AdaMax, Lamb and LambNoBias, by `mode`.

    Attributes:
        mode: which of them.
        weight_decay_mode: decay added to the update, or L2 added to the gradient.
        accum_type: type of the gradient accumulator, UNDEFINED for the weight's.
        accl1_type: type of the first moment.
        accl2_type: type of the second moment.
        scaled_optimizer_state: moments are kept multiplied by the loss scaling.
    """

    _kind = "Adam"
    _defaults = {
        "defaultLearningRate": 0.1,
        "defaultWeightDecay": 0.0,
        "defaultBeta1": 0.9,
        "defaultBeta2": 0.999,
        "defaultEps": 1e-6,
        "lossScaling": 1.0,
        "defaultMaxWeightNorm": 10.0,
    }

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdamMode = AdamMode.Adam,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        scaled_optimizer_state: bool = False,
        debugContext: str = "adam",
    ) -> None:
        renamed = dict(values)
        if "maxWeightNorm" in renamed:
            _log.warning(
                "Using 'maxWeightNorm' as a key in the Adam constructor is deprecated. Please use "
                "'defaultMaxWeightNorm' instead."
            )
            renamed["defaultMaxWeightNorm"] = renamed.pop("maxWeightNorm")
        super().__init__(renamed, clip_norm_settings)
        self.mode = mode
        self.weight_decay_mode = weight_decay_mode
        self.accum_type = accum_type
        self.accl1_type = accl1_type
        self.accl2_type = accl2_type
        self.scaled_optimizer_state = bool(scaled_optimizer_state)
        self.debugContext = debugContext

    def _allowed_keys(self) -> list[str]:
        return [*self._defaults, "maxWeightNorm"]

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        super()._check(values)
        self._not_negative(values, "beta1", "beta1")
        self._not_negative(values, "beta2", "beta2")
        self._positive(values, "eps", "eps")

    def beta1s(self) -> OptimizerValueMap:
        """Decay rates of the first moment."""
        return self.maps["beta1"]

    def beta2s(self) -> OptimizerValueMap:
        """Decay rates of the second moment. (PopART's Python binding returns beta1s here.)"""
        return self.maps["beta2"]

    def epss(self) -> OptimizerValueMap:
        """Epsilons."""
        return self.maps["eps"]

    def maxWeightNorms(self) -> OptimizerValueMap:
        """Largest weight norms of Lamb."""
        return self.maps["maxWeightNorm"]

    def modes(self) -> dict[str, object]:
        return {
            "Adam modes": self.mode,
            "Weight decay modes": self.weight_decay_mode,
            "Accumulator types": self.accum_type,
            "First moment types": self.accl1_type,
            "Second moment types": self.accl2_type,
            "Scaled optimizer states": self.scaled_optimizer_state,
        }


class Adaptive(Optimizer):
    """AdaGrad, RMSProp, CenteredRMSProp and AdaDelta, by `mode`; without clipping.

    Attributes:
        rmsprop_tf_variant: epsilon inside the square root, learning rate inside the momentum.
    """

    _kind = "Adaptive"
    _defaults = {
        "defaultLearningRate": 0.01,
        "defaultWeightDecay": 0.0,
        "defaultAlpha": 0.99,
        "defaultMomentum": 0.0,
        "defaultEps": 1e-6,
        "lossScaling": 1.0,
    }

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdaptiveMode = AdaptiveMode.RMSProp,
        weight_decay_mode: WeightDecayMode = WeightDecayMode.Decay,
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        accl3_type: DataType = DataType.UNDEFINED,
        rmsprop_tf_variant: bool = False,
        debugContext: str = "adaptive",
    ) -> None:
        if rmsprop_tf_variant and mode not in (
            AdaptiveMode.RMSProp,
            AdaptiveMode.CenteredRMSProp,
        ):
            raise popart_exception(
                "The rmspropTFVariant parameter is only valid with the RMSProp and "
                "CenteredRMSProp optimizers."
            )
        super().__init__(values, ())
        self.mode = mode
        self.weight_decay_mode = weight_decay_mode
        self.accum_type = accum_type
        self.accl1_type = accl1_type
        self.accl2_type = accl2_type
        self.accl3_type = accl3_type
        self.rmsprop_tf_variant = bool(rmsprop_tf_variant)
        self.debugContext = debugContext

    def _check(self, values: Mapping[str, OptimizerValue]) -> None:
        super()._check(values)
        self._not_negative(values, "alpha", "alpha")
        self._not_negative(values, "momentum", "momentum")
        self._positive(values, "eps", "eps")

    def alphas(self) -> OptimizerValueMap:
        """Decay rates of the squared gradient."""
        return self.maps["alpha"]

    def momentums(self) -> OptimizerValueMap:
        """Momentums."""
        return self.maps["momentum"]

    def epss(self) -> OptimizerValueMap:
        """Epsilons."""
        return self.maps["eps"]

    def modes(self) -> dict[str, object]:
        return {
            "Adaptive modes": self.mode,
            "Weight decay modes": self.weight_decay_mode,
            "Accumulator types": self.accum_type,
            "State types": (self.accl1_type, self.accl2_type, self.accl3_type),
            "TF variants of RMSProp": self.rmsprop_tf_variant,
        }
