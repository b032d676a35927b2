"""SessionOptions and the settings it is made of, with PopART's names and defaults."""

from __future__ import annotations

import logging
import operator
import os
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.enums import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    CommGroupType,
    ExchangeStrategy,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
    Instrumentation,
    MeanReductionStrategy,
    MergeVarUpdateType,
    RecomputationType,
    ReductionType,
    ReplicatedStreamMode,
    ReplicatedTensorSharding,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    TensorStorage,
    TileSet,
    VirtualGraphMode,
)
from paddle_ipu.popart.replica_grouping import ReplicaGrouping
from paddle_ipu.popart.settings_base import Settings, StringMap, default_of

LOSS_SCALE_UPDATE_FACTOR = "lossScaleUpdateFactor"
"""The state of automatic loss scaling: the factor on the optimizer's loss scaling, a scalar."""
LOSS_SCALE_COUNTER = "ai.graphcore.Histogram:1_counter"
"""State of automatic loss scaling with a period: the last micro-batch's number in it, int32."""

_log = logging.getLogger("popart.session")


def _group_of(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
    """The type and the size of groups of replicas."""
    size, stride = grouping.getGroupSize(), grouping.getStride()
    if size == 1:
        return CommGroupType.Ungrouped, 0
    if size == grouping.getNumReplicas():
        return CommGroupType.All, 0
    if stride == grouping.getNumGroups():
        return CommGroupType.Orthogonal, size
    if stride == 1:
        return CommGroupType.Consecutive, size
    raise popart_exception(
        f"The '{grouping.str()}' cannot be converted to a `popart::CommGroup`. One has all "
        f"replicas, consecutive ones, or ones that are as far apart as there are groups"
    )


@dataclass(init=False)
class CommGroup(Settings):
    """A group of replicas: its type and, except for All, its size.

    ``CommGroup()``, ``CommGroup(type, replicaGroupSize)`` or ``CommGroup(grouping)``.

    Raises:
        popart_exception: no type has such groups as `grouping`.
    """

    type: CommGroupType = CommGroupType.All
    replicaGroupSize: int = 0

    def __init__(
        self,
        type: CommGroupType | ReplicaGrouping = CommGroupType.All,
        replicaGroupSize: int = 0,
        *,
        grouping: ReplicaGrouping | None = None,
    ) -> None:
        given = grouping if grouping is not None else type
        self.type, self.replicaGroupSize = (
            _group_of(given) if isinstance(given, ReplicaGrouping) else (given, replicaGroupSize)
        )

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        """The groups of so many replicas.

        Raises:
            popart_exception: the size does not divide the replicas.
        """
        stride, size = 1, self.replicaGroupSize
        if self.type is CommGroupType.All:
            size = numReplicas
        elif self.type is CommGroupType.Ungrouped:
            size = 1
        elif self.type is CommGroupType.Orthogonal:
            stride = numReplicas // max(1, size)
        return ReplicaGrouping(numReplicas, stride, size)


@dataclass(init=False)
class TensorLocation(Settings):
    """Where a tensor is kept.

    ``TensorLocation(storage[, rts[, commGroup]])`` or
    ``TensorLocation(storage, loadTileSet, storageTileSet, rts[, commGroup])``.
    """

    storage: TensorStorage = TensorStorage.OnChip
    loadTileSet: TileSet = TileSet.Compute
    storageTileSet: TileSet = TileSet.Compute
    replicatedTensorSharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off
    shardingDomain: CommGroup = field(default_factory=CommGroup)

    def __init__(self, *args: Any, **keywords: Any) -> None:
        names = [item.name for item in fields(self)]
        positional = names
        if len(args) > 1 and not isinstance(args[1], TileSet):
            positional = [names[0], *names[3:]]
        if len(args) > len(positional):
            raise TypeError(f"TensorLocation takes at most {len(positional)} arguments")
        given = dict(zip(positional, args, strict=False))
        for name, value in keywords.items():
            if name not in names or name in given:
                raise TypeError(f"TensorLocation does not take '{name}' here")
            given[name] = value
        for item in fields(self):
            setattr(self, item.name, given.get(item.name, default_of(item)))

    def serialize(self) -> list[int]:
        """The six numbers PopART writes into attributes."""
        return [
            int(self.storage),
            int(self.loadTileSet),
            int(self.storageTileSet),
            int(self.replicatedTensorSharding),
            int(self.shardingDomain.type),
            self.shardingDomain.replicaGroupSize,
        ]


@dataclass(init=False)
class TensorLocationSettings(Settings):
    """Location of a kind of tensors, from a size on."""

    location: TensorLocation = field(default_factory=TensorLocation)
    minElementsForOffChip: int = 2
    minElementsForReplicatedTensorSharding: int = 8192

    def __init__(
        self,
        location: TensorLocation | TensorStorage | None = None,
        minElementsForOffChip: int = 2,
        minElementsForReplicatedTensorSharding: int = 8192,
        *,
        storage: TensorStorage | None = None,
    ) -> None:
        location = storage if location is None else location
        if location is None:
            location = TensorLocation()
        elif isinstance(location, TensorStorage):
            location = TensorLocation(location)
        self.location = location
        self.minElementsForOffChip = minElementsForOffChip
        self.minElementsForReplicatedTensorSharding = minElementsForReplicatedTensorSharding


@dataclass(init=False)
class ExecutionPhaseSettings(Settings):
    """Execution phases and the times they move data."""

    phases: int = 0
    stages: int = 2
    weightIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload
    activationIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload
    optimizerStateIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.OnDemand
    accumulatorIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload
    schedule: ExecutionPhaseSchedule = ExecutionPhaseSchedule.Interleaving

    def __init__(
        self,
        phases: int = 0,
        stages: int = 2,
        weightIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload,
        activationIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload,
        optimizerStateIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.OnDemand,
        accumulatorIOSchedule: ExecutionPhaseIOSchedule = ExecutionPhaseIOSchedule.Preload,
        optimizerSchedule: ExecutionPhaseSchedule = ExecutionPhaseSchedule.Interleaving,
    ) -> None:
        self.phases = phases
        self.stages = stages
        self.weightIOSchedule = weightIOSchedule
        self.activationIOSchedule = activationIOSchedule
        self.optimizerStateIOSchedule = optimizerStateIOSchedule
        self.accumulatorIOSchedule = accumulatorIOSchedule
        self.schedule = optimizerSchedule


@dataclass
class AccumulateOuterFragmentSettings(Settings):
    """Order of the work after the accumulation loop."""

    schedule: AccumulateOuterFragmentSchedule = AccumulateOuterFragmentSchedule.Serial
    excludedVirtualGraphs: list[int] = field(default_factory=list)


@dataclass
class BatchSerializationSettings(Settings):
    """Cutting a micro-batch into parts computed one after another."""

    factor: int = 0
    concatOnVirtualGraphChange: bool = True
    concatOnExecutionPhaseChange: bool = True
    concatOnPipelineStageChange: bool = True
    transformContext: BatchSerializationTransformContext = BatchSerializationTransformContext.Fwd
    method: BatchSerializationMethod = BatchSerializationMethod.UnrollDynamic
    batchSchedule: BatchSerializationBatchSchedule = BatchSerializationBatchSchedule.Isomorphic


@dataclass
class AutodiffSettings(Settings):
    """How the backward graph gets at forward values."""

    stitchStrategy: AutodiffStitchStrategy = AutodiffStitchStrategy.RecomputeAllNonInputs


@dataclass
class ReplicatedCollectivesSettings(Settings):
    """Merging of collectives."""

    prepareScheduleForMergingCollectives: bool = False
    mergeAllReduceCollectives: bool = False
    mergeReduceScatterCollectives: bool = False
    mergeAllGatherCollectives: bool = False


@dataclass
class AutomaticLossScalingSettings(Settings):
    """Automatic loss scaling: see `binEdgeLocation` and the count proportion of its rule."""

    enabled: bool = False
    toTrackTensors: list[str] | None = field(default=None, metadata={"optional": True})
    binEdgeLocation: float = 0.125
    thresholdUpperCountProportion: float = 1e-7
    updatePeriod: int = 1
    gradientTensorTrackingMethod: GradientTensorTrackingMethod = (
        GradientTensorTrackingMethod.AllNonViewChangingGradientTensors
    )


@dataclass
class ExperimentalSettings(Settings):
    """Settings without a stable meaning in PopART."""

    customTransformApplierSettings: dict[str, list[str]] = field(default_factory=dict)
    createHostTransferableTensorWithOffset: bool = False


@dataclass
class DeveloperSettings(Settings):
    """Settings for PopART's developers."""

    timePartitionLoggerThresholdPercentage: float = 1.0


class NumIOTiles:
    """A number of IO tiles; `SessionOptions.numIOTiles` takes and gives a plain one.

    Args:
        numIOTiles: the number; 0 for none.
    """

    def __init__(self, numIOTiles: int = 0, /) -> None:
        self._tiles = operator.index(numIOTiles)

    def __repr__(self) -> str:
        return f"NumIOTiles({self._tiles})"


class InputSettings:
    """How a graph input is streamed: by tile set and exchange, or replicated or broadcast."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._tile_set: TileSet | None = None
        self._exchange: ExchangeStrategy | None = None
        self._stream: ReplicatedStreamMode | None = None
        if args and isinstance(args[0], ReplicatedStreamMode):
            self._stream, args = args[0], args[1:]
        elif args:
            self._tile_set, args = args[0], args[1:]
            if args:
                self._exchange, args = args[0], args[1:]
        self._tile_set = keywords.pop("tileSet", self._tile_set)
        self._exchange = keywords.pop("exchangeStrategy", self._exchange)
        # PopART's argument is misspelt; its spelling is the interface.
        self._stream = keywords.pop("relicatedStreamMode", self._stream)
        for value, kind in (
            (self._tile_set, TileSet),
            (self._exchange, ExchangeStrategy),
            (self._stream, ReplicatedStreamMode),
        ):
            if value is not None and not isinstance(value, kind):
                raise TypeError(f"InputSettings takes a {kind.__name__}, got {value!r}")
        if args or keywords:
            raise TypeError(f"InputSettings does not take {args or keywords}")

    def tileSet(self) -> TileSet:
        """The tiles the input is loaded to."""
        return self._tile_set or TileSet.Compute

    def exchangeStrategy(self) -> ExchangeStrategy:
        """When the input is loaded."""
        return self._exchange or ExchangeStrategy.JustInTime

    def replicatedStreamMode(self) -> ReplicatedStreamMode:
        """Whether every replica gets its own data."""
        return self._stream or ReplicatedStreamMode.Replicate

    def metadata(self, tensor_id: str) -> dict[str, str]:
        """The model's metadata entries for an input."""
        return {
            f"__tile_set/{tensor_id}": str(int(self.tileSet())),
            f"__exchange_strategy/{tensor_id}": str(int(self.exchangeStrategy())),
            f"__replicated_stream_mode/{tensor_id}": str(int(self.replicatedStreamMode())),
        }


# Fields that only PopART's C++ interface has; its Python SessionOptions refuses them.
CPP_ONLY_FIELDS = frozenset(
    {
        "looseThresholdAtPeak",
        "autodiffSettings",
        "enableSerializedMatmuls",
        "developerSettings",
        "compilationProgressLogger",
        "compilationProgressTotal",
    }
)


@dataclass(init=False)
class SessionOptions(Settings):
    """Every option of a session, with PopART's default.

    POPART_CACHE_DIR or POPXL_CACHE_DIR, which wins, turn engine caching on and set its path.
    """

    logDir: str = ""
    dotChecks: set[str] = field(default_factory=set)
    firstDotOp: int = 0
    finalDotOp: int = 10000
    dotOpNames: bool = False
    exportPoplarComputationGraph: bool = False
    exportPoplarVertexGraph: bool = False
    separateCallOpPdfs: bool = True
    enableOutlining: bool = True
    enableOutliningCopyCostPruning: bool = True
    outlineThreshold: float = 1.0
    outlineSequenceBreakCost: float = 10000.0
    subgraphCopyingStrategy: SubgraphCopyingStrategy = SubgraphCopyingStrategy.OnEnterAndExit
    autoRecomputation: RecomputationType = RecomputationType.NoRecompute
    mergeVarUpdate: MergeVarUpdateType = MergeVarUpdateType.Off
    mergeVarUpdateMemThreshold: int = 1000000
    looseThresholdAtPeak: int = 8000
    rearrangeAnchorsOnHost: bool = True
    rearrangeStreamsOnHost: bool = False
    enablePrefetchDatastreams: bool = True
    defaultBufferingDepth: int = 1
    bufferingDepthMap: dict[str, int] = field(default_factory=dict)
    enableNonStableSoftmax: bool = False
    enableReplicatedGraphs: bool = False
    replicatedGraphCount: int = 1
    enableGradientAccumulation: bool = False
    accumulationFactor: int = 1
    accumulationAndReplicationReductionType: ReductionType = ReductionType.Sum
    meanAccumulationAndReplicationReductionStrategy: MeanReductionStrategy = (
        MeanReductionStrategy.Post
    )
    virtualGraphMode: VirtualGraphMode = VirtualGraphMode.Off
    virtualGraphSplitRatios: list[float] = field(default_factory=list)
    enablePipelining: bool = False
    syntheticDataMode: SyntheticDataMode = SyntheticDataMode.Off
    instrumentWithHardwareCycleCounter: bool = False
    hardwareInstrumentations: set[Instrumentation] = field(
        default_factory=lambda: {Instrumentation.Outer}
    )
    disableGradAccumulationTensorStreams: bool = False
    disableOptimizerStateTensorStreams: bool = False
    compileEngine: bool = True
    constantWeights: bool = True
    enableEngineCaching: bool = False
    enableVariablesCaching: bool = True
    cachePath: str = "session_cache"
    enableFloatingPointChecks: bool = False
    enableStochasticRounding: bool = False
    _enableRngStateManagement: bool = False
    executionPhaseSettings: ExecutionPhaseSettings = field(default_factory=ExecutionPhaseSettings)
    accumulateOuterFragmentSettings: AccumulateOuterFragmentSettings = field(
        default_factory=AccumulateOuterFragmentSettings
    )
    explicitRecomputation: bool = False
    numIOTiles: int = 0
    aliasZeroCopy: bool = False
    batchSerializationSettings: BatchSerializationSettings = field(
        default_factory=BatchSerializationSettings
    )
    autodiffSettings: AutodiffSettings = field(default_factory=AutodiffSettings)
    delayVarUpdates: bool = True
    scheduleNonWeightUpdateGradientConsumersEarly: bool = False
    enableFullyConnectedPass: bool = True
    enableSerializedMatmuls: bool = True
    partialsTypeMatMuls: str = ""
    enableStableNorm: bool = False
    engineOptions: StringMap = field(default_factory=StringMap)
    convolutionOptions: StringMap = field(default_factory=StringMap)
    lstmOptions: StringMap = field(default_factory=StringMap)
    matmulOptions: StringMap = field(default_factory=StringMap)
    reportOptions: StringMap = field(default_factory=StringMap)
    gclOptions: StringMap = field(default_factory=StringMap)
    experimentalSettings: ExperimentalSettings = field(default_factory=ExperimentalSettings)
    customCodelets: list[str] = field(default_factory=list)
    updatableNamedBuffers: list[str] = field(default_factory=list)
    customCodeletCompileFlags: str = ""
    timeLimitScheduler: float = 1e9
    swapLimitScheduler: int = 1000000000
    serializedPoprithmsShiftGraphsDir: str = ""
    kahnTieBreaker: str = "greedy"
    transitiveClosureOptimizationThreshold: int = 100000
    decomposeGradSum: bool = False
    replicatedCollectivesSettings: ReplicatedCollectivesSettings = field(
        default_factory=ReplicatedCollectivesSettings
    )
    enableDistributedReplicatedGraphs: bool = False
    globalReplicationFactor: int = 1
    globalReplicaOffset: int = 0
    groupHostSync: bool = False
    strictOpVersions: bool = True
    opxAliasChecking: bool = False
    opxModifyChecking: bool = False
    useHostCopyOps: bool = False
    enableEfficientOverlapIOTopoCons: bool = False
    enableLoadAndOffloadRNGState: bool = False
    activationTensorLocationSettings: TensorLocationSettings = field(
        default_factory=TensorLocationSettings
    )
    weightTensorLocationSettings: TensorLocationSettings = field(
        default_factory=TensorLocationSettings
    )
    optimizerStateTensorLocationSettings: TensorLocationSettings = field(
        default_factory=TensorLocationSettings
    )
    accumulatorTensorLocationSettings: TensorLocationSettings = field(
        default_factory=TensorLocationSettings
    )
    tensorLocationSettingsOverride: dict[str, TensorLocation] = field(default_factory=dict)
    automaticLossScalingSettings: AutomaticLossScalingSettings = field(
        default_factory=AutomaticLossScalingSettings
    )
    developerSettings: DeveloperSettings = field(default_factory=DeveloperSettings)
    enableSupportedDataTypeCasting: bool = True
    enableExplicitMainLoops: bool = False
    groupNormStridedChannelGrouping: bool = False
    compilationProgressLogger: Callable[[int, int], None] | None = field(
        default=None, metadata={"optional": True}
    )
    compilationProgressTotal: int = 100
    enableMergeExchange: bool = True
    ensureFp32LossScaleTensor: bool = False
    enableInplaceAmbiguityChecking: bool = False
    createImplicitPipeliningFwdOnlyProgram: bool = False
    throwIfLog2ScaleTensorNotInRange: bool = True
    enableConstantFoldingOfMultipleConsumers: bool = True
    useLoopCandidateCreator: bool = False
    stashAllTensorsInferencePipeline: bool = False

    def __init__(self) -> None:
        for item in fields(self):
            setattr(self, item.name, default_of(item))
        popart, popxl = os.environ.get("POPART_CACHE_DIR"), os.environ.get("POPXL_CACHE_DIR")
        if popart and popxl and popart != popxl:
            _log.warning(
                "Both POPART_CACHE_DIR ('%s') and POPXL_CACHE_DIR ('%s') are set and differ from "
                "each other. The value of POPART_CACHE_DIR will be ignored.",
                popart,
                popxl,
            )
        if path := popxl or popart:
            self.enableEngineCaching = True
            self.cachePath = path

    def enableExplicitIR(self, enable: bool) -> None:
        """Switches host copies, main loops and recomputation to their explicit forms."""
        self.useHostCopyOps = enable
        self.enableExplicitMainLoops = enable
        self.explicitRecomputation = enable

    def getGlobalReplicationFactor(self) -> int:
        """Replicas over all processes: the global factor, else the local count, else 1."""
        if self.enableDistributedReplicatedGraphs:
            return self.globalReplicationFactor
        return self.replicatedGraphCount if self.enableReplicatedGraphs else 1

    def explicitPipeliningEnabled(self) -> bool:
        """Pipelining with explicit host copies and main loops."""
        return self.enablePipelining and self.useHostCopyOps and self.enableExplicitMainLoops

    def implicitPipeliningEnabled(self) -> bool:
        """Pipelining without them."""
        return self.enablePipelining and not self.explicitPipeliningEnabled()

    @property
    def defaultPrefetchBufferingDepth(self) -> int:
        """Deprecated name of `defaultBufferingDepth`."""
        return self.defaultBufferingDepth

    @defaultPrefetchBufferingDepth.setter
    def defaultPrefetchBufferingDepth(self, value: int) -> None:
        _log.warning(
            "The session option 'defaultPrefetchBufferingDepth' has been deprecated. Use "
            "'defaultBufferingDepth' instead."
        )
        self.defaultBufferingDepth = value

    @property
    def prefetchBufferingDepthMap(self) -> dict[str, int]:
        """Deprecated name of `bufferingDepthMap`."""
        return self.bufferingDepthMap

    @prefetchBufferingDepthMap.setter
    def prefetchBufferingDepthMap(self, value: dict[str, int]) -> None:
        _log.warning(
            "The session option 'prefetchBufferingDepthMap' has been deprecated. Use "
            "'bufferingDepthMap' instead."
        )
        self.bufferingDepthMap = value

    @property
    def serializedPoprithmsAnnealGraphsDir(self) -> str:
        """Old name of `serializedPoprithmsShiftGraphsDir`."""
        return self.serializedPoprithmsShiftGraphsDir

    @serializedPoprithmsAnnealGraphsDir.setter
    def serializedPoprithmsAnnealGraphsDir(self, value: str) -> None:
        self.serializedPoprithmsShiftGraphsDir = value
