"""Data flow, options, patterns and optimizers of the popart stand-in."""

# The names are PopART's, and enumerations are made at run time.
# ruff: noqa: B006, F821, N802, N803

from __future__ import annotations

from typing import Any

from tests.popart_stand_in.builder import TensorInfo
from tests.popart_stand_in.core import (
    ENUMS,
    Call,
    Calls,
    Recorded,
    fits,
    popart_exception,
    record_methods,
)
from tests.popart_stand_in.tables import (
    LOCATION,
    LOCATION_FIELDS,
    NESTED,
    OPTIONS,
    PATTERN_NAMES,
    PATTERN_PROPERTIES,
    fields_of,
)

# -- data flow, options, patterns -----------------------------------------------------------------


@record_methods
class AnchorReturnType(Recorded):
    """AnchorReturnType(name[, period][, tileSet][, exchangeStrategy])."""

    def __init__(
        self,
        anchorReturnTypeString: str,
        *args: Any,
        returnPeriod: int | None = None,
    ) -> None:
        kinds = {item.name.lower(): item for item in ENUMS["AnchorReturnTypeId"]}
        kind = kinds.get(anchorReturnTypeString.lower())
        if kind is None:
            raise popart_exception(
                f"Invalid anchor return type ID supplied: {anchorReturnTypeString}"
            )
        rest = list(args)
        period = rest.pop(0) if rest and isinstance(rest[0], int) else returnPeriod
        for item, expected in zip(rest, ("TileSet", "ExchangeStrategy"), strict=False):
            if not isinstance(item, ENUMS[expected]):
                raise TypeError(f"AnchorReturnType(): incompatible function arguments: {args}")
        if (kind.name == "EveryN") != (period is not None):
            raise popart_exception("A return period goes with EveryN only")
        self._kind, self._period = kind, period

    def id(self) -> Any:
        return self._kind

    def rp(self) -> int:
        return int(self._period or 0)


@record_methods
class DataFlow(Recorded):
    """DataFlow(batchesPerStep, {id: type}) or DataFlow(batchesPerStep, [ids], type)."""

    def __init__(
        self,
        batchesPerStep: int,
        anchorTensors: dict[str, AnchorReturnType] | list[str],
        anchorReturnType: AnchorReturnType | None = None,
    ) -> None:
        if batchesPerStep < 1:
            raise popart_exception("'Batches per step' must be greater than zero")
        self._batches = batchesPerStep
        if isinstance(anchorTensors, dict):
            if anchorReturnType is not None:
                raise TypeError("DataFlow(): incompatible function arguments")
            self._anchors = dict(sorted(anchorTensors.items()))
        else:
            kind = anchorReturnType or type(self)._all()
            self._anchors = dict.fromkeys(anchorTensors, kind)

    @classmethod
    def _all(cls) -> AnchorReturnType:
        return AnchorReturnType("All")

    def isAnchored(self, id: str, /) -> bool:
        return id in self._anchors

    def nAnchors(self) -> int:
        return len(self._anchors)

    def batchesPerStep(self) -> int:
        return self._batches

    def anchors(self) -> list[str]:
        return list(self._anchors)

    def art(self, id: str, /) -> AnchorReturnType:
        if id not in self._anchors:
            raise popart_exception(f"Tensor {id} is not an anchor")
        return self._anchors[id]


@record_methods
class InputShapeInfo(Recorded):
    """Types of inputs with unknown shapes."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, id: str, info: TensorInfo, /) -> None:
        self._infos[id] = info

    def has(self, id: str, /) -> bool:
        return id in self._infos


class _Record:
    """A structure with fixed fields: other names and types are refused."""

    def __init__(self, calls: Calls, name: str, defaults: dict[str, Any]) -> None:
        object.__setattr__(self, "_calls", calls)
        object.__setattr__(self, "_name", name)
        object.__setattr__(self, "_kinds", {key: type(value) for key, value in defaults.items()})
        self.__dict__.update(defaults)

    def __setattr__(self, name: str, value: Any) -> None:
        kind = self._kinds.get(name)
        if kind is None:
            raise AttributeError(f"'{self._name}' object has no attribute '{name}'")
        if not fits(value, kind) or (kind is int and isinstance(value, bool)):
            raise TypeError(f"{self._name}.{name} takes {kind.__name__}, got {value!r}")
        self._calls.append(Call(f"{self._name}.{name}", (value,), {}))
        object.__setattr__(self, name, value)


class SessionOptions(_Record, Recorded):
    """All Python-visible options."""

    def __init__(self) -> None:
        calls = type(self)._calls
        defaults = fields_of(OPTIONS)
        defaults["hardwareInstrumentations"] = {ENUMS["Instrumentation"].Outer}
        for name, text in NESTED.items():
            nested = fields_of(text)
            if text is LOCATION:
                nested["location"] = _Record(calls, "TensorLocation", dict(LOCATION_FIELDS))
            defaults[name] = _Record(calls, f"SessionOptions.{name}", nested)
        super().__init__(calls, "SessionOptions", defaults)
        calls.append(Call("SessionOptions", (), {}))

    def enableExplicitIR(self, enable: bool, /) -> None:
        self.useHostCopyOps = self.enableExplicitMainLoops = self.explicitRecomputation = enable

    def getGlobalReplicationFactor(self) -> int:
        if self.enableDistributedReplicatedGraphs:
            return int(self.globalReplicationFactor)
        return int(self.replicatedGraphCount) if self.enableReplicatedGraphs else 1


@record_methods
class Patterns(Recorded):
    """Patterns(), Patterns(level) or Patterns([names])."""

    def __init__(
        self,
        level: PatternsLevel | list[str] | None = None,
    ) -> None:
        for name in level if isinstance(level, list) else []:
            self._check(name)

    def _check(self, name: str) -> None:
        if name not in PATTERN_NAMES:
            raise popart_exception(f"Unknown pattern {name}")

    def __setattr__(self, name: str, value: bool) -> None:
        if name not in PATTERN_PROPERTIES:
            raise AttributeError(f"'Patterns' object has no attribute '{name}'")
        self._calls.append(Call(f"Patterns.{name}", (value,), {}))

    def enablePattern(self, name: str, value: bool, /) -> Patterns:
        self._check(name)
        return self

    def enableRuntimeAsserts(self, value: bool, /) -> Patterns:
        return self


# -- optimizers -----------------------------------------------------------------------------------

Values = dict[str, tuple[float, bool]]


@record_methods
class ClipNormSettings(Recorded):
    """ClipNormSettings(weightIds, maxNorm), or by its static functions."""

    def __init__(self, weightIds: list[str], maxNorm: float) -> None:
        self.weightIds, self.maxNorm = weightIds, maxNorm

    @staticmethod
    def clipWeights(weightIds: list[str], maxNorm: float, /) -> ClipNormSettings:
        return ClipNormSettings(weightIds, maxNorm)

    @staticmethod
    def clipAllWeights(maxNorm: float, /) -> ClipNormSettings:
        return ClipNormSettings([], maxNorm)


class Optimizer(Recorded):
    """Base of the optimizers: checks the keys and values."""

    _keys = ""
    _specific = ""

    def _take(self, values: dict[str, Any], keys: str) -> None:
        for key, value in values.items():
            if key not in keys.split():
                raise popart_exception(
                    f"Invalid {type(self).__name__} key, {key}, the allowed keys are ( {keys} )"
                )
            if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[1], bool):
                raise popart_exception(
                    f"A value in the optimizer map must be a py::tuple, got {value!r}"
                )
            if not fits(value[0], float):
                raise TypeError(f"the value of {key} must be a number, got {value[0]!r}")


@record_methods
class SGD(Optimizer):
    """SGD with PopART's keys."""

    def __init__(
        self,
        pyd: dict[str, Any],
        clip_norm_settings: list[ClipNormSettings] = [],
        accumulatorAndMomentum: SGDAccumulatorAndMomentum | None = None,
        accumType: DataType | None = None,
        accl1Type: DataType | None = None,
        debugContext: str = "sgd",
    ) -> None:
        self._take(
            pyd,
            "defaultLearningRate defaultWeightDecay defaultMomentum defaultDampening "
            "defaultVelocityScaling lossScaling nesterov",
        )

    def insertSpecific(self, id: str, values: dict[str, Any], /) -> None:
        self._take(values, "learningRate weightDecay momentum dampening velocityScaling nesterov")


@record_methods
class Adam(Optimizer):
    """Adam with PopART's keys."""

    def __init__(
        self,
        values: dict[str, Any],
        mode: AdamMode | None = None,
        weight_decay_mode: WeightDecayMode | None = None,
        accum_type: DataType | None = None,
        accl1_type: DataType | None = None,
        accl2_type: DataType | None = None,
        clip_norm_settings: list[ClipNormSettings] = [],
        scaled_optimizer_state: bool = False,
        debugContext: str = "adam",
    ) -> None:
        self._take(
            values,
            "defaultLearningRate defaultWeightDecay defaultBeta1 defaultBeta2 defaultEps "
            "lossScaling defaultMaxWeightNorm maxWeightNorm",
        )

    def insertSpecific(self, id: str, values: dict[str, Any], /) -> None:
        self._take(values, "learningRate weightDecay beta1 beta2 eps maxWeightNorm")


@record_methods
class Adaptive(Optimizer):
    """Adaptive with PopART's keys."""

    def __init__(
        self,
        values: dict[str, Any],
        mode: AdaptiveMode | None = None,
        weight_decay_mode: WeightDecayMode | None = None,
        accum_type: DataType | None = None,
        accl1_type: DataType | None = None,
        accl2_type: DataType | None = None,
        accl3_type: DataType | None = None,
        rmsprop_tf_variant: bool = False,
        debugContext: str = "adaptive",
    ) -> None:
        self._take(
            values,
            "defaultLearningRate defaultWeightDecay defaultAlpha defaultMomentum defaultEps "
            "lossScaling",
        )

    def insertSpecific(self, id: str, values: dict[str, Any], /) -> None:
        self._take(values, "learningRate weightDecay alpha momentum eps")
