"""Data flow, options, patterns and optimizers of the popart stand-in."""

# The names are PopART's.
# ruff: noqa: N802, N803

from __future__ import annotations

from typing import Any

from tests.popart_stand_in.builder import TensorInfo
from tests.popart_stand_in.core import (
    ENUMS,
    Record,
    Recorded,
    bind,
    fits,
    popart_exception,
    record,
)

# -- data flow ------------------------------------------------------------------------------------


class AnchorReturnType(Recorded):
    """Which values of a tensor come back."""

    def __init__(
        self,
        anchorReturnTypeString: str,
        tileSet: Any,
        exchangeStrategy: Any,
        returnPeriod: int | None = None,
    ) -> None:
        kinds = {item.name.lower(): item for item in ENUMS["AnchorReturnTypeId"]}
        kind = kinds.get(anchorReturnTypeString.lower())
        if kind is None:
            raise popart_exception(
                f"Invalid anchor return type ID supplied: {anchorReturnTypeString}"
            )
        if (kind.name == "EveryN") != (returnPeriod is not None):
            raise popart_exception("A return period goes with EveryN only")
        self._kind, self._period = kind, returnPeriod
        self._tiles, self._exchange = tileSet, exchangeStrategy

    def id(self) -> Any:
        return self._kind

    def rp(self) -> int:
        if self._period is None:
            raise popart_exception(
                "A return period should not be supplied for this anchor return type"
            )
        return self._period

    def tileSet(self) -> Any:
        return self._tiles

    def exchangeStrategy(self) -> Any:
        return self._exchange


class DataFlow(Recorded):
    """How many batches a step takes and what comes back."""

    def __init__(
        self,
        batchesPerStep: int,
        anchorTensors: dict[str, AnchorReturnType] | None = None,
        anchorIds: list[str] | None = None,
        anchorReturnType: AnchorReturnType | None = None,
    ) -> None:
        if batchesPerStep < 1:
            raise popart_exception("'Batches per step' must be greater than zero")
        self._batches = batchesPerStep
        self._anchors: dict[str, Any] = dict.fromkeys(anchorIds or (), anchorReturnType)
        if anchorTensors is not None:
            self._anchors = dict(sorted(anchorTensors.items()))

    def isAnchored(self, id: str) -> bool:
        return id in self._anchors

    def nAnchors(self) -> int:
        return len(self._anchors)

    def batchesPerStep(self) -> int:
        return self._batches

    def setBatchesPerStep(self, batches: int) -> None:
        self._batches = batches

    def anchors(self) -> list[str]:
        return list(self._anchors)

    def art(self, id: str) -> AnchorReturnType:
        if id not in self._anchors:
            raise popart_exception(f"Tensor {id} is not an anchor")
        made: AnchorReturnType = self._anchors[id]
        return made


class InputShapeInfo(Recorded):
    """Types of inputs with unknown shapes."""

    def __init__(self) -> None:
        self._infos: dict[str, TensorInfo] = {}

    def add(self, id: str, info: TensorInfo) -> None:
        self._infos[id] = info

    def get(self, id: str) -> TensorInfo:
        return self._infos[id]

    def has(self, id: str) -> bool:
        return id in self._infos


_class: type[Recorded]
for _class in (AnchorReturnType, DataFlow, InputShapeInfo):
    bind(_class)

# -- options and patterns -------------------------------------------------------------------------


class _ExecutionPhaseSettings(Record):
    def _other(self, given: dict[str, Any]) -> None:
        if given:
            self.__dict__["_schedule"] = given["optimizerSchedule"]


class _TensorLocationSettings(Record):
    def _other(self, given: dict[str, Any]) -> None:
        if given:
            self.__dict__["_location"] = TensorLocation(given["storage"])


class _SessionOptions(Record):
    def enableExplicitIR(self, enable: bool) -> None:
        self.useHostCopyOps = self.enableExplicitMainLoops = self.explicitRecomputation = enable

    def getGlobalReplicationFactor(self) -> int:
        if self.enableDistributedReplicatedGraphs:
            return int(self.globalReplicationFactor)
        return int(self.replicatedGraphCount) if self.enableReplicatedGraphs else 1


class _ClipNormSettings(Record):
    @staticmethod
    def clipWeights(weightIds: list[str], maxNorm: float) -> Any:
        return ClipNormSettings(weightIds, maxNorm)

    @staticmethod
    def clipAllWeights(maxNorm: float) -> Any:
        return ClipNormSettings([], maxNorm)


PATTERN_NAMES = frozenset(
    """
    AllReduceToIdentity Atan2Arg0GradOp Atan2Arg1GradOp ConvDataGrad ConvFlipWeightsGradOp
    ConvTranspose CosGradOp CoshOp DivArg0GradOp DivArg1GradOp AbsGradOp SinGradOp ExpGradOp
    Expm1GradOp FmodArg0GradOp RandomNormalLikeOpPattern RandomUniformLikeOpPattern
    ZerosLikeOpPattern Log1pGradOp LogGradOp LoopScanOut MatMulOp MatMulLhsGradOp MatMulRhsGradOp
    MulArgGradOp PowArg0GradOp PowArg1GradOp ReciprocalGradOp ScanToLoop SqrtGradOp
    SubtractArg1GradOp ConvFlipWeightsDoubleFlip DecomposeBinaryConstScalar ExpandCast
    InitAccumulate LambSerialisedWeight NegativeOneScale NlllWithSoftmaxGradDirect OpToIdentity
    PackedDataBlock PadSum PostNRepl PreUniRepl RemoveUnnecessaryLossGradCast SoftmaxGradDirect
    SplitGradOpToConcat SplitOp SumToAdd TransposeToIdentityOrReshapePattern UpsampleToResize LSTMOp
    Slice2SliceSubsample SplitGather TiedGather TiedGatherAccumulate InPlace
    UpdateInplacePrioritiesForIpu
    """.split()
)


class _Patterns(Record):
    def _other(self, given: dict[str, Any]) -> None:
        for name in given.get("patterns", ()):
            self._check(name)

    def _check(self, name: str) -> None:
        if name not in PATTERN_NAMES:
            raise popart_exception(f"Unknown pattern {name}")

    def enablePattern(self, name: str, value: bool) -> Any:
        self._check(name)
        return self

    def enableRuntimeAsserts(self, value: bool) -> Any:
        return self


TensorLocation: Any = record("TensorLocation")
TensorLocationSettings = record("TensorLocationSettings", _TensorLocationSettings)
ExecutionPhaseSettings = record("ExecutionPhaseSettings", _ExecutionPhaseSettings)
ClipNormSettings: Any = record("ClipNormSettings", _ClipNormSettings)
PLAIN_RECORDS = tuple(
    record(name)
    for name in (
        "AccumulateOuterFragmentSettings",
        "AutodiffSettings",
        "AutomaticLossScalingSettings",
        "BatchSerializationSettings",
        "ExperimentalSettings",
        "ReplicatedCollectivesSettings",
    )
)
SessionOptions = record("SessionOptions", _SessionOptions)
Patterns = record("Patterns", _Patterns)

# -- optimizers -----------------------------------------------------------------------------------


def _values(rule: str, values: dict[str, Any], keys: str) -> dict[str, tuple[float, bool]]:
    """The values of an optimizer's dictionary, or PopART's error."""
    for key, value in values.items():
        if key not in keys.split():
            raise popart_exception(f"Invalid {rule} key, {key}, the allowed keys are ( {keys} )")
        if not isinstance(value, tuple):
            raise popart_exception(
                "A value in the optimizer map must be a py::tuple (in getOptimizerValueDictionary)"
            )
        if not fits(value, "tuple[float, bool]"):
            raise RuntimeError(f"Unable to cast Python instance to C++ type: {key} = {value!r}")
    return values


class Optimizer(Recorded):
    """Base of the optimizers."""

    _values: dict[str, tuple[float, bool]]

    def getLossScalingVal(self) -> float:
        return float(self._values.get("lossScaling", (1.0, True))[0])


class SGD(Optimizer):
    """SGD with PopART's keys."""

    def __init__(self, pyd: dict[str, Any], **others: Any) -> None:
        self._values = _values(
            "SGD",
            pyd,
            "defaultLearningRate defaultWeightDecay defaultMomentum defaultDampening "
            "defaultVelocityScaling lossScaling nesterov",
        )

    def insertSpecific(self, id: str, values: dict[str, Any]) -> None:
        allowed = "learningRate weightDecay momentum dampening velocityScaling nesterov"
        _values("SGD", values, allowed)


class Adam(Optimizer):
    """Adam with PopART's keys."""

    def __init__(self, values: dict[str, Any], **others: Any) -> None:
        self._values = _values(
            "Adam",
            values,
            "defaultLearningRate defaultWeightDecay defaultBeta1 defaultBeta2 defaultEps "
            "lossScaling defaultMaxWeightNorm maxWeightNorm",
        )

    def insertSpecific(self, id: str, values: dict[str, Any]) -> None:
        allowed = "learningRate weightDecay beta1 beta2 eps maxWeightNorm"
        _values("Adam", values, allowed)


class Adaptive(Optimizer):
    """Adaptive with PopART's keys."""

    def __init__(self, values: dict[str, Any], **others: Any) -> None:
        self._values = _values(
            "Adaptive",
            values,
            "defaultLearningRate defaultWeightDecay defaultAlpha defaultMomentum defaultEps "
            "lossScaling",
        )

    def insertSpecific(self, id: str, values: dict[str, Any]) -> None:
        allowed = "learningRate weightDecay alpha momentum eps"
        _values("Adaptive", values, allowed)


for _class in (Optimizer, SGD, Adam, Adaptive):
    bind(_class)
