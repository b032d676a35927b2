"""PopART's versions, default opsets and reserved tensor-name prefixes."""

from __future__ import annotations

from typing import Any

import numpy as np

from paddle_ipu.popart.tensorinfo import TensorInfo

defaultAiOnnxOpset = 10
defaultAiGraphcoreOpset = 1

_PREFIXES = {
    "Gradient": "Gradient___",
    "UpdatedVar": "UpdatedVar___",
    "Accum": "Accum___",
    "Accl": "Accl___",
    "Accl1": "Accl1___",
    "Accl2": "Accl2___",
    "Accl3": "Accl3___",
    "Step": "Step___",
    "Stashed": "Stashed___",
    "Restored": "Restored___",
    "LossScaling": "lossScaling_",
    "RandomSeed": "randomSeed___",
    "Counter": "Counter___",
}

SCALED_STATE = f"{_PREFIXES['LossScaling']}Adam"
"""The loss scaling whose units Adam's scaled state is in, where that may change."""


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


def reservedGradientPrefix() -> str:
    """Before a tensor's id: its gradient."""
    return _PREFIXES["Gradient"]


def reservedUpdatedVarPrefix() -> str:
    """Before a variable's id: its value after the update."""
    return _PREFIXES["UpdatedVar"]


def reservedAccumPrefix() -> str:
    """Before a weight's id: its gradient accumulator."""
    return _PREFIXES["Accum"]


def reservedAcclPrefix() -> str:
    """Before a weight's id: SGD's velocity."""
    return _PREFIXES["Accl"]


def reservedAccl1Prefix() -> str:
    """Before a weight's id: the first moment."""
    return _PREFIXES["Accl1"]


def reservedAccl2Prefix() -> str:
    """Before a weight's id: the second moment."""
    return _PREFIXES["Accl2"]


def reservedAccl3Prefix() -> str:
    """Before a weight's id: the third state of an adaptive optimizer."""
    return _PREFIXES["Accl3"]


def reservedStepPrefix() -> str:
    """Before a weight's id: Adam's step count."""
    return _PREFIXES["Step"]


def reservedStashedPrefix() -> str:
    """Before a tensor's id: its stash under pipelining."""
    return _PREFIXES["Stashed"]


def reservedRestoredPrefix() -> str:
    """Before a tensor's id: its restored stash."""
    return _PREFIXES["Restored"]


def reservedLossScalingPrefix() -> str:
    """The loss scaling, followed by its type."""
    return _PREFIXES["LossScaling"]


def reservedRandomSeedPrefix() -> str:
    """The random seed."""
    return _PREFIXES["RandomSeed"]


def reservedCounterPrefix() -> str:
    """Before a weight's id: the accumulation counter."""
    return _PREFIXES["Counter"]


def reservedPrefixes() -> tuple[str, ...]:
    """All reserved prefixes; a tensor of the user's must not contain one."""
    return tuple(_PREFIXES.values())
