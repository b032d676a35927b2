"""What PopART's optimizers are made of: values, maps of values per weight, clip settings."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from paddle_ipu.errors import popart_exception

_log = logging.getLogger("popart.ir")


class OptimizerValue:
    """A number that is baked into the program (`isConst`) or may be changed between runs.

    ``OptimizerValue()``, a constant 0, ``OptimizerValue(val[, isConst])``, constant unless told
    otherwise, or ``OptimizerValue((val, isConst))``.
    """

    __slots__ = ("_const", "_value")

    def __init__(self, val: float | tuple[float, bool] = 0.0, isConst: bool = True) -> None:
        value, const = val if isinstance(val, tuple) else (val, isConst)
        self._value = float(value)
        self._const = bool(const)

    def val(self) -> float:
        """The number."""
        return self._value

    def isConst(self) -> bool:
        """Whether it is fixed for the life of a session."""
        return self._const

    def check_replacement(self, other: OptimizerValue) -> None:
        """Raises unless `other` may take this value's place at run time."""
        if self._const != other._const:
            raise popart_exception("Can not replace a constant value with a non constant value.")
        if self._const and self._value != other._value:
            raise popart_exception("Values are constant but do not match.")

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, OptimizerValue)
            and self._const == other._const
            and self._value == other._value
        )

    def __hash__(self) -> int:
        return hash((self._value, self._const))

    def __repr__(self) -> str:
        return f"OptimizerValue({self._value}, isConst={self._const})"


class OptimizerValueMap:
    """A default value and values of single weights."""

    def __init__(self, default: OptimizerValue) -> None:
        self._default = default
        self._specifics: dict[str, OptimizerValue] = {}

    def getDefault(self) -> OptimizerValue:
        """The value of weights without their own."""
        return self._default

    def get(self, id: str) -> OptimizerValue:
        """The value of one weight."""
        return self._specifics.get(id, self._default)

    def hasSpecific(self, id: str | None = None) -> bool:
        """Whether a weight, or any weight, has its own value."""
        return bool(self._specifics) if id is None else id in self._specifics

    def getSpecifics(self) -> dict[str, OptimizerValue]:
        """The weights' own values."""
        return dict(self._specifics)

    def insertSpecific(self, id: str, value: OptimizerValue) -> None:
        """Gives one weight its own value, once."""
        if id in self._specifics:
            raise popart_exception(
                f"Attempt to insert specific value for optimization Tensor {id} failed as there "
                f"is already a specific value for {id} present. Bailing, in case this is an error."
            )
        self._specifics[id] = value

    def check_replacement(self, other: OptimizerValueMap) -> None:
        """Raises unless `other` may take this map's place at run time."""
        try:
            self._default.check_replacement(other._default)
        except popart_exception as error:
            raise popart_exception(f"Default value is not a valid replacement. {error}") from error
        if len(self._specifics) != len(other._specifics):
            raise popart_exception(
                "Replacement OptimizerValueMap has a different number of specific tensors."
            )
        for name, value in self._specifics.items():
            if name not in other._specifics:
                raise popart_exception(
                    f"Could not find tensor {name} in replacement OptimizerValueMap."
                )
            try:
                value.check_replacement(other._specifics[name])
            except popart_exception as error:
                raise popart_exception(
                    f"OptimizerValue for tensor {name} is not a valid replacement. {error}"
                ) from error


class ClipNormSettings:
    """Clipping of a group of gradients by their global norm.

    `weightIds` is empty and `all_weights` true for `clipAllWeights`.
    """

    def __init__(self, weightIds: Sequence[str], maxNorm: float) -> None:
        _log.warning(
            "Using deprecated constructor ClipNormSettings(weightIds, maxNorm). Please use the "
            "static creation methods, 'clipWeights' and 'clipAllWeights' instead."
        )
        self._set(weightIds, maxNorm, False)

    def _set(self, weight_ids: Sequence[str], max_norm: float, all_weights: bool) -> None:
        self.weightIds = list(weight_ids)
        self.maxNorm = float(max_norm)
        self.all_weights = all_weights

    @staticmethod
    def _make(weight_ids: Sequence[str], max_norm: float, all_weights: bool) -> ClipNormSettings:
        settings = object.__new__(ClipNormSettings)
        settings._set(weight_ids, max_norm, all_weights)
        return settings

    @staticmethod
    def clipWeights(weightIds: Sequence[str], maxNorm: float) -> ClipNormSettings:
        """Clips the gradients of these weights together."""
        return ClipNormSettings._make(weightIds, maxNorm, False)

    @staticmethod
    def clipAllWeights(maxNorm: float) -> ClipNormSettings:
        """Clips the gradients of all weights together."""
        return ClipNormSettings._make([], maxNorm, True)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ClipNormSettings)
            and self.weightIds == other.weightIds
            and self.all_weights == other.all_weights
            and math.isclose(self.maxNorm, other.maxNorm)
        )

    def __hash__(self) -> int:
        return hash((tuple(self.weightIds), self.all_weights))


def values_from_dict(values: Mapping[str, Any]) -> dict[str, OptimizerValue]:
    """PopART's ``{key: (value, isConst)}`` dictionaries."""
    typed = {}
    for key, value in values.items():
        if not isinstance(key, str):
            raise popart_exception(
                "A key in the optimizer map input must be a py::str (in "
                "getOptimizerValueDictionary)"
            )
        if not isinstance(value, tuple) or len(value) != 2:
            raise popart_exception(
                "A value in the optimizer map must be a py::tuple (in getOptimizerValueDictionary)"
            )
        typed[key] = OptimizerValue(value[0], value[1])
    return typed
