"""PopART's versions, default opsets and reserved tensor-name prefixes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paddle_ipu.popart.tensorinfo import TensorInfo

defaultAiOnnxOpset = 10
defaultAiOnnxMlOpset = 1
defaultAiGraphcoreOpset = 1

_PREFIXES: list[str] = []


def _prefix(text: str, meaning: str) -> Callable[[], str]:
    def prefix() -> str:
        return text

    prefix.__doc__ = meaning
    _PREFIXES.append(text)
    return prefix


reservedGradientPrefix = _prefix("Gradient___", "Before a tensor's id: its gradient.")
reservedUpdatedVarPrefix = _prefix(
    "UpdatedVar___", "Before a variable's id: its value after the update."
)
reservedAccumPrefix = _prefix("Accum___", "Before a weight's id: its gradient accumulator.")
reservedAcclPrefix = _prefix("Accl___", "Before a weight's id: SGD's velocity.")
reservedAccl1Prefix = _prefix("Accl1___", "Before a weight's id: the first moment.")
reservedAccl2Prefix = _prefix("Accl2___", "Before a weight's id: the second moment.")
reservedAccl3Prefix = _prefix(
    "Accl3___", "Before a weight's id: the third state of an adaptive optimizer."
)
reservedStepPrefix = _prefix("Step___", "Before a weight's id: Adam's step count.")
reservedAcclToReducePrefix = _prefix(
    "AcclIntoReduce___", "Before a weight's id: SGD's velocity before replicas are summed."
)
reservedAcclToUpdatePrefix = _prefix(
    "AcclIntoUpdate___", "Before a weight's id: SGD's velocity before its own update."
)
reservedAcclFinalOutPrefix = _prefix(
    "AcclOutOfAcclUpdate___", "Before a weight's id: SGD's velocity after its own update."
)
reservedFinalReducedGradPrefix = _prefix(
    "FinalReducedGradient___", "Before a weight's id: its gradient, summed over replicas."
)
reservedAdamUpdaterPrefix = _prefix(
    "AdamUpdater___", "Before a weight's id: Adam's update without the learning rate."
)
reservedLambR1SqPrefix = _prefix(
    "LambR1Sq___", "Before a weight's id: the weight's squared norm, for Lamb."
)
reservedLambR2SqPrefix = _prefix(
    "LambR2Sq___", "Before a weight's id: the update's squared norm, for Lamb."
)
reservedStashedPrefix = _prefix("Stashed___", "Before a tensor's id: its stash under pipelining.")
reservedRestoredPrefix = _prefix("Restored___", "Before a tensor's id: its restored stash.")
reservedLossScalingPrefix = _prefix("lossScaling_", "The loss scaling, followed by its type.")
reservedAutomaticLossScalePrefix = _prefix(
    "AutomaticLossScaleProxy___", "Before a tensor's id: what automatic loss scaling looks at."
)
reservedRandomSeedPrefix = _prefix("randomSeed___", "The random seed.")
reservedSeedModifierPrefix = _prefix(
    "randomSeedModifier___", "What tells the seed of one operator from another's."
)
reservedRemoteArgPrefix = _prefix(
    "RemoteArg___", "Before a tensor's id: its place in a remote buffer."
)
reservedCounterPrefix = _prefix("Counter___", "Before a weight's id: the accumulation counter.")


def _of_all(number: str, meaning: str) -> Callable[[], str]:
    return _prefix(
        f"{number}___default___", f"A number of the optimizer, for all weights: {meaning}."
    )


def _of_one(number: str, meaning: str) -> Callable[[], str]:
    return _prefix(
        f"{number}___specific___",
        f"A number of the optimizer, before the id of the weight it is for: {meaning}.",
    )


reservedDefaultWeightDecayScaleFactor0Prefix = _of_all(
    "weightDecayScaleFactor0", "SGD0's factor of the weight"
)
reservedSpecificWeightDecayScaleFactor0Prefix = _of_one(
    "weightDecayScaleFactor0", "SGD0's factor of the weight"
)
reservedDefaultScaledLearningRate0Prefix = _of_all(
    "scaledLearningRate0", "SGD0's learning rate over the loss scaling"
)
reservedSpecificScaledLearningRate0Prefix = _of_one(
    "scaledLearningRate0", "SGD0's learning rate over the loss scaling"
)
reservedDefaultScaledWeightDecay1Prefix = _of_all(
    "scaledWeightDecay1", "SGD1's weight decay in the velocity's units"
)
reservedSpecificScaledWeightDecay1Prefix = _of_one(
    "scaledWeightDecay1", "SGD1's weight decay in the velocity's units"
)
reservedDefaultScaledLearningRate1Prefix = _of_all(
    "scaledLearningRate1", "SGD1's learning rate in the velocity's units"
)
reservedSpecificScaledLearningRate1Prefix = _of_one(
    "scaledLearningRate1", "SGD1's learning rate in the velocity's units"
)
reservedDefaultDampeningScaleFactor1Prefix = _of_all(
    "dampeningScaleFactor1", "SGD1's factor of a gradient"
)
reservedSpecificDampeningScaleFactor1Prefix = _of_one(
    "dampeningScaleFactor1", "SGD1's factor of a gradient"
)
reservedDefaultScaledMomentum1Prefix = _of_all("scaledMomentum1", "SGD1's momentum")
reservedSpecificScaledMomentum1Prefix = _of_one("scaledMomentum1", "SGD1's momentum")
reservedDefaultLearningRatePrefix = _of_all("learningRate", "the learning rate")
reservedSpecificLearningRatePrefix = _of_one("learningRate", "the learning rate")
reservedDefaultWeightDecayPrefix = _of_all("weightDecay", "the weight decay")
reservedSpecificWeightDecayPrefix = _of_one("weightDecay", "the weight decay")
reservedDefaultLossScalingPrefix = _of_all("lossScaling", "the loss scaling")
reservedSpecificLossScalingPrefix = _of_one("lossScaling", "the loss scaling")
reservedDefaultMaxWeightNormPrefix = _of_all("maxWeightNorm", "Lamb's largest weight norm")
reservedSpecificMaxWeightNormPrefix = _of_one("maxWeightNorm", "Lamb's largest weight norm")
reservedDefaultAdamBeta1Prefix = _of_all("adamBeta1", "Adam's beta1")
reservedSpecificAdamBeta1Prefix = _of_one("adamBeta1", "Adam's beta1")
reservedDefaultAdamBeta2Prefix = _of_all("adamBeta2", "Adam's beta2")
reservedSpecificAdamBeta2Prefix = _of_one("adamBeta2", "Adam's beta2")
reservedDefaultAdamEpsPrefix = _of_all("adamEps", "Adam's epsilon")
reservedSpecificAdamEpsPrefix = _of_one("adamEps", "Adam's epsilon")
reservedDefaultStepPrefix = _of_all("step", "the step count")
reservedSpecificStepPrefix = _of_one("step", "the step count")

GRADIENT_PREFIX, ACCUMULATED_PREFIX = reservedGradientPrefix(), reservedAccumPrefix()
RESTORED_PREFIX, LOSS_SCALING_PREFIX = reservedRestoredPrefix(), reservedLossScalingPrefix()
STATISTICS = f"{ACCUMULATED_PREFIX}autoLossScaleStats"
"""The tensor that automatic loss scaling counts gradients in, over the micro-batches of a batch."""


def of_tensor(anchor: str) -> str:
    """The tensor whose value or gradient an anchor is, or is made of."""
    for prefix in (GRADIENT_PREFIX, ACCUMULATED_PREFIX, RESTORED_PREFIX):
        if anchor.startswith(prefix):
            return anchor.removeprefix(prefix)
    return anchor


SCALED_STATE = f"{reservedLossScalingPrefix()}Adam"
"""The loss scaling whose units Adam's scaled state is in, where that may change."""


def reservedPrefixes() -> tuple[str, ...]:
    """All reserved prefixes; a tensor of the user's must not contain one."""
    return tuple(_PREFIXES)


def versionNumber() -> tuple[int, int, int]:
    """The version of PopART whose interface this is."""
    return (3, 4, 0)


def versionString() -> str:
    """The version and the package hash."""
    return f"{'.'.join(map(str, versionNumber()))} ({packageHash()})"


def packageHash() -> str:
    """Names the implementation, where PopART names its build."""
    return "paddle_ipu"


def getTensorInfo(array: np.ndarray[Any, Any]) -> TensorInfo:
    """The type of an array."""
    return TensorInfo(array)
