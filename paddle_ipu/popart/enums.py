"""PopART's enumerations, with its member names and values."""

from __future__ import annotations

from enum import Enum, IntEnum

from paddle_ipu.errors import popart_exception


class DataType(IntEnum):
    """Element types, in PopART's order."""

    UINT8 = 0
    INT8 = 1
    FLOAT8_143 = 2
    FLOAT8_152 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT32 = 8
    UINT64 = 9
    BOOL = 10
    FLOAT = 11
    FLOAT16 = 12
    BFLOAT16 = 13
    DOUBLE = 14
    COMPLEX64 = 15
    COMPLEX128 = 16
    STRING = 17
    UNDEFINED = 18


class _PopartEnum(Enum):
    """Prints as ``Type.Member``, converts to its number as pybind's enumerations do."""

    def __int__(self) -> int:
        return int(self.value)

    def __index__(self) -> int:
        return int(self.value)


class TileSet(_PopartEnum):
    Compute = 0
    IO = 1


class ExchangeStrategy(_PopartEnum):
    JustInTime = 0
    OverlapInnerLoop = 1
    OverlapLoops = 2
    OverlapStep = 3


class ReplicatedStreamMode(_PopartEnum):
    # Models keep these numbers.
    Broadcast = 0
    Replicate = 1


class AnchorReturnTypeId(_PopartEnum):
    Final = 0
    EveryN = 1
    All = 2
    Sum = 3


class ReductionType(_PopartEnum):
    """How a loss or a gradient is reduced; `onnx_name` is the attribute string of a loss."""

    Sum = 0
    Mean = 1
    NoReduction = 2

    @property
    def onnx_name(self) -> str:
        """The attribute string: ``Sum``, ``Mean`` or ``None``."""
        return "None" if self is ReductionType.NoReduction else self.name


class MeanReductionStrategy(_PopartEnum):
    Running = 0
    Post = 1


class ScatterReduction(_PopartEnum):
    Sum = 0
    Max = 1
    Min = 2
    Mul = 3
    NoReduction = 4


class CollectiveOperator(_PopartEnum):
    Add = 0
    Mean = 1
    Mul = 2
    Min = 3
    Max = 4
    LogicalAnd = 5
    LogicalOr = 6
    SquareAdd = 7
    Local = 8


class InitType(_PopartEnum):
    NoInit = 0
    Zero = 1


class TensorRemapType(_PopartEnum):
    FwdBwdReverse = 0
    FwdBwd = 1
    Fwd = 2


class PatternsLevel(_PopartEnum):
    NoPatterns = 0
    Minimal = 1
    Default = 2
    All = 3


class RecomputationType(_PopartEnum):
    NoRecompute = 0
    Standard = 1
    NormOnly = 2
    Pipeline = 3
    RecomputeAll = 4


class RecomputeType(_PopartEnum):
    Undefined = 0
    Checkpoint = 1
    Recompute = 2
    Recomputed = 3


class TensorStorage(_PopartEnum):
    OnChip = 0
    OffChip = 1


class ReplicatedTensorSharding(_PopartEnum):
    Off = 0
    On = 1


class ExecutionPhaseIOSchedule(_PopartEnum):
    Preload = 0
    OnDemand = 1


class ExecutionPhaseSchedule(_PopartEnum):
    Interleaving = 0
    Batch = 1
    BatchClusteredIO = 2


class AccumulateOuterFragmentSchedule(_PopartEnum):
    Scheduler = 0
    Serial = 1
    OverlapCycleOptimized = 2
    OverlapMemoryOptimized = 3


class SyncPattern(_PopartEnum):
    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


_SYNC_PATTERNS = {
    "full": SyncPattern.Full,
    "singlePipeline": SyncPattern.SinglePipeline,
    "replicaAndLadder": SyncPattern.ReplicaAndLadder,
}


def syncPatternFromString(name: str) -> SyncPattern:
    """The pattern of a name: ``full``, ``singlePipeline`` or ``replicaAndLadder``.

    Raises:
        popart_exception: it has another name.
    """
    if name not in _SYNC_PATTERNS:
        raise popart_exception(
            f"Unknown syncPattern setting: {name}. There are {', '.join(_SYNC_PATTERNS)}"
        )
    return _SYNC_PATTERNS[name]


def syncPatternToString(pattern: SyncPattern) -> str:
    """The name of a pattern."""
    return next(name for name, value in _SYNC_PATTERNS.items() if value is pattern)


class MergeVarUpdateType(_PopartEnum):
    Off = 0
    All = 1
    AutoLoose = 2
    AutoTight = 3


class VirtualGraphMode(_PopartEnum):
    Off = 0
    Manual = 1
    Auto = 2
    ExecutionPhases = 3


class SyntheticDataMode(_PopartEnum):
    Off = 0
    Zeros = 1
    RandomNormal = 2
    RandomUniform = 3


class IrSerializationFormat(_PopartEnum):
    JSON = 0


class Instrumentation(_PopartEnum):
    Outer = 0
    Inner = 1


class DeviceType(_PopartEnum):
    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4


class DeviceConnectionType(_PopartEnum):
    Always = 0
    OnDemand = 1
    Never = 2


class DeviceSelectionCriterion(_PopartEnum):
    First = 0
    Random = 1


class VariableRetrievalMode(_PopartEnum):
    OnePerGroup = 0
    AllReduceReplicas = 1
    AllReplicas = 2


class CommGroupType(_PopartEnum):
    All = 0
    Consecutive = 1
    Orthogonal = 2
    Ungrouped = 3


class WeightDecayMode(_PopartEnum):
    Decay = 0
    L2Regularization = 1


class SGDAccumulatorAndMomentum(_PopartEnum):
    Combined = 0
    Separate = 1


class AdamMode(_PopartEnum):
    Adam = 0
    AdamNoBias = 1
    AdaMax = 2
    Lamb = 3
    LambNoBias = 4


class AdaptiveMode(_PopartEnum):
    AdaGrad = 0
    RMSProp = 1
    CenteredRMSProp = 2
    AdaDelta = 3


class GradientTensorTrackingMethod(_PopartEnum):
    AllNonViewChangingGradientTensors = 0
    ConvAndMatmulGradients = 1
    GradientsOfUserSpecifiedTensors = 2


class SubgraphCopyingStrategy(_PopartEnum):
    OnEnterAndExit = 0
    JustInTime = 1


class BatchSerializationTransformContext(_PopartEnum):
    Fwd = 0
    Bwd = 1
    Forward = 0
    Backward = 1


class BatchSerializationMethod(_PopartEnum):
    UnrollDynamic = 0
    UnrollStatic = 1
    Loop = 2


class BatchSerializationBatchSchedule(_PopartEnum):
    Scheduler = 0
    Isomorphic = 1
    OverlapOnIo = 2
    OverlapOnCompute = 3


class AutodiffStitchStrategy(_PopartEnum):
    RecomputeMinimal = 0
    RecomputeAllNonInputs = 1
    AddFwdOutputs = 2
    SafeAddFwdOutputs = 3


class RecoveryAction(_PopartEnum):
    IPU_RESET = 0
    LINK_RESET = 1
    PARTITION_RESET = 2
    FULL_RESET = 3
