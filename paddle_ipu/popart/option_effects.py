"""What each field of `SessionOptions` does on the IPU Model: one table, and the check of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum

from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.settings_base import default_of


class Status(Enum):
    """What depends on a field."""

    NUMBERS = "numbers"
    """What is computed."""
    BEHAVIOUR = "behaviour"
    """What a session does or says; no number."""
    COST = "cost"
    """Memory or time, here or in predictions; no number."""
    CHECKED = "checked"
    """Whether a session is refused, as PopART does; it is kept for hardware."""
    RECORDED = "recorded"
    """Nothing here: it is kept for hardware."""
    REFUSED = "refused"
    """Another value than the default raises `NotSupported`."""


@dataclass(frozen=True, slots=True)
class Effect:
    """One field.

    Attributes:
        status: what depends on it.
        meaning: what it does, or what it would do on hardware.
    """

    status: Status
    meaning: str


_TABLE = {
    Status.NUMBERS: {
        "accumulationAndReplicationReductionType":
            "Gradients of micro-batches and replicas are summed or averaged.",
        "accumulationFactor": "Micro-batches before an update.",
        "automaticLossScalingSettings": "Adapts the loss scale while training.",
        "enableDistributedReplicatedGraphs": "Replicas are those of several processes.",
        "enableGradientAccumulation": "Turns `accumulationFactor` on.",
        "enableNonStableSoftmax": "Softmax without subtracting the maximum.",
        "enablePipelining":
            "Stages work on different micro-batches; without accumulation, on weights of earlier "
            "updates.",
        "enableReplicatedGraphs": "Turns `replicatedGraphCount` on.",
        "enableStableNorm": "Variances are computed of what is left without the mean.",
        "enableStochasticRounding": "float16 is rounded at random.",
        "globalReplicationFactor": "Replicas of all processes.",
        "groupNormStridedChannelGrouping": "Group normalisation groups every n-th channel.",
        "meanAccumulationAndReplicationReductionStrategy":
            "An average is kept running, or divided at the end.",
        "partialsTypeMatMuls": "With `half`, products of float16 are summed in float16.",
        "replicatedGraphCount": "Replicas of this process.",
        "syntheticDataMode": "Feeds are made up, and nothing is read or written.",
    },
    Status.BEHAVIOUR: {
        "cachePath": "The folder of compiled programs.",
        "compileEngine": "Off: a program is built, and not compiled.",
        "constantWeights": "Weights of an inference session cannot be changed.",
        "createImplicitPipeliningFwdOnlyProgram":
            "A training session has the program `implicitPipeliningFwdOnly`.",
        "enableEngineCaching": "Turns `cachePath` on.",
        "enableExplicitMainLoops":
            "The loops of a step are operators. An overlapped exchange needs it.",
        "enableFloatingPointChecks": "A result that is NaN or infinite raises `NumericalError`.",
        "enableLoadAndOffloadRNGState": "`getRNGState` and `setRNGState` may be called.",
        "enableSupportedDataTypeCasting": "Off: integers of 64 bits are refused, not narrowed.",
        "ensureFp32LossScaleTensor":
            "The anchor `lossScaling_FLOAT16` is float32; the scale itself always is.",
        "globalReplicaOffset": "The first replica of this process; it has to be the one it is.",
        "hardwareInstrumentations": "Which counters `getCycleCount` knows.",
        "instrumentWithHardwareCycleCounter": "`getCycleCount` predicts cycles.",
        "tensorLocationSettingsOverride":
            "Shards of a weight on replicas that do not share its values are refused; else it is "
            "for hardware.",
        "useHostCopyOps":
            "Copies from and to the host are operators. An overlapped exchange needs it.",
    },
    Status.COST: {
        "accumulatorTensorLocationSettings": "Where accumulators are kept, in predictions.",
        "activationTensorLocationSettings": "Where activations are kept, in predictions.",
        "autoRecomputation": "What backward computes again.",
        "convolutionOptions": "`availableMemoryProportion`, in predictions.",
        "defaultBufferingDepth": "Micro-batches that wait for each input, in predictions.",
        "enableOutlining": "Equal parts share their code, in predictions.",
        "engineOptions":
            "`autoReport.*` asks for a report, `debug.allowOutOfMemory` for one of a program that "
            "does not fit.",
        "matmulOptions": "`availableMemoryProportion`, in predictions.",
        "numIOTiles": "Tiles that only exchange with the host, in predictions.",
        "optimizerStateTensorLocationSettings": "Where state is kept, in predictions.",
        "virtualGraphMode": "Which IPU an operator is on, in predictions; placements are checked.",
        "weightTensorLocationSettings": "Where weights are kept, in predictions.",
        "accumulateOuterFragmentSettings":
            "How the updates are scheduled; combinations that PopART refuses are refused.",
    },
    Status.CHECKED: {
        "aliasZeroCopy": "Subgraphs' inputs are not copied.",
        "bufferingDepthMap": "Micro-batches that wait, for an input each.",
        "dotChecks": "Stages of the compilation at which PopART draws its graph as a dot file.",
        "enableSerializedMatmuls": "Products marked so are computed in parts.",
        "executionPhaseSettings": "The program is cut into phases with weights off chip.",
        "explicitRecomputation": "Recomputed operators are in the graph.",
        "finalDotOp": "The last operator in dot files.",
        "firstDotOp": "The first operator in dot files.",
        "gclOptions": "Options of Graphcore's collectives.",
        "kahnTieBreaker": "What the scheduler prefers.",
        "mergeVarUpdate": "Updates of several weights are one operation.",
        "mergeVarUpdateMemThreshold": "How large such an operation may be.",
        "opxModifyChecking": "Poplar checks what PopART says of changed tensors.",
        "rearrangeAnchorsOnHost": "Anchors are brought into order by the host.",
        "rearrangeStreamsOnHost": "Inputs are brought into order by the host.",
        "replicatedCollectivesSettings": "Collectives are merged.",
        "updatableNamedBuffers": "Buffers that C++'s `buffersFromHost` uploads; Python has none.",
        "virtualGraphSplitRatios": "How much each IPU gets with the virtual graph mode Auto.",
    },
    Status.RECORDED: {
        "_enableRngStateManagement": "The hardware generator's state is kept consistent.",
        "autodiffSettings": "How backward graphs get at forward values.",
        "batchSerializationSettings": "A micro-batch is computed in parts.",
        "compilationProgressLogger": "Called while Poplar compiles.",
        "compilationProgressTotal": "The last number it is called with.",
        "customCodeletCompileFlags": "Flags for the compiler of codelets.",
        "customCodelets": "Vertex code for tiles, which custom operators in C++ use.",
        "decomposeGradSum": "Sums of gradients become additions one by one.",
        "delayVarUpdates": "Updates are scheduled late.",
        "developerSettings": "Settings of PopART's developers.",
        "disableGradAccumulationTensorStreams": "Accumulators cannot be read or written.",
        "disableOptimizerStateTensorStreams": "State cannot be read or written.",
        "dotOpNames": "Names of operators in dot files.",
        "enableConstantFoldingOfMultipleConsumers": "Constants that several read are folded.",
        "enableEfficientOverlapIOTopoCons": "Constraints for overlapped I/O are bundled.",
        "enableFullyConnectedPass": "Products know which pass they are of.",
        "enableInplaceAmbiguityChecking": "PopART checks its in-place operators.",
        "enableMergeExchange": "Exchanges with the host are merged.",
        "enableOutliningCopyCostPruning": "Outlining does without parts that cost copies.",
        "enablePrefetchDatastreams": "Inputs are fetched ahead.",
        "enableVariablesCaching": "The cached executable holds the weights.",
        "exportPoplarComputationGraph": "Poplar writes its graph of compute sets.",
        "exportPoplarVertexGraph": "Poplar writes its graph of vertices.",
        "groupHostSync": "Streams are scheduled at the start and the end of a step.",
        "logDir": "The folder of dot files.",
        "looseThresholdAtPeak": "How much memory merged updates may add.",
        "lstmOptions": "Options of PopLibs' recurrent networks.",
        "opxAliasChecking": "Poplar checks what PopART says of aliases.",
        "outlineSequenceBreakCost": "What a break in a sequence costs when parts are outlined.",
        "outlineThreshold": "How much outlining has to gain.",
        "reportOptions": "Options of Poplar's text report.",
        "scheduleNonWeightUpdateGradientConsumersEarly": "Readers of gradients come early.",
        "separateCallOpPdfs": "Called graphs have dot files of their own.",
        "serializedPoprithmsShiftGraphsDir": "The folder for the scheduler's graphs.",
        "stashAllTensorsInferencePipeline": "All tensors between stages are stashed in inference.",
        "strictOpVersions": "An operator has to be of its operator set's version.",
        "subgraphCopyingStrategy": "When inputs of called graphs are copied.",
        "swapLimitScheduler": "How often the scheduler may swap.",
        "throwIfLog2ScaleTensorNotInRange":
            "A float8 scale beyond -32 to 31 ends a run; there is no float8 here.",
        "timeLimitScheduler": "How many seconds the scheduler may take.",
        "transitiveClosureOptimizationThreshold": "Up to how many operators PopART refines order.",
        "useLoopCandidateCreator": "How tensors of loops are laid out.",
    },
    Status.REFUSED: {
        "experimentalSettings":
            "Transforms of one's own in C++, and host tensors with offsets; there is no C++ here.",
    },
}  # fmt: skip

EFFECTS: Mapping[str, Effect] = {
    name: Effect(status, meaning)
    for status, meanings in _TABLE.items()
    for name, meaning in meanings.items()
}
"""Field of `SessionOptions` -> what it does."""


def check_effects(options: SessionOptions) -> None:
    """Refuses fields that ask for what the IPU Model does not do.

    Raises:
        NotSupported: a field of status refused has another value than its default.
    """
    for item in fields(options):
        effect, value = EFFECTS[item.name], getattr(options, item.name)
        if effect.status is Status.REFUSED and value != default_of(item):
            raise NotSupported(
                f"SessionOptions.{item.name} is {value!r}: {effect.meaning} Leave it as it is."
            )
