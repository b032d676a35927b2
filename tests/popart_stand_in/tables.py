"""The tables of the popart stand-in: what PopART's Python bindings take, transcribed."""

# The names are PopART's, and enumerations are made at run time.

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.popart_stand_in.core import ENUMS

# -- operators: argument names, order, types and defaults of the bindings -------------------------

_SAME = "(args)"
_ONNX = {
    **dict.fromkeys(
        "Abs Acos Acosh Add Asin Asinh Atan Atanh Ceil Clip Cos Cosh Div Equal Erf Exp Expand "
        "Floor GlobalAveragePool GlobalMaxPool Greater Identity Less Log And Not "
        "IsNaN Or MatMul Max Mean Min Mul Neg Pow PRelu Reciprocal Relu Reshape Round "
        "Shape Sigmoid Sign Sin Sinh Slice Softplus Softsign Sqrt Sub Sum Tan Tanh Tile "
        "Where".split(),
        _SAME,
    ),
    **dict.fromkeys("ArgMax ArgMin".split(), "(args, axis:int=0, keepdims:int=1)"),
    **dict.fromkeys(
        "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd "
        "ReduceSum ReduceSumSquare".split(),
        "(args, axes:ints=None, keepdims:int=1)",
    ),
    **dict.fromkeys("Flatten LogSoftmax Softmax".split(), "(args, axis:int=1)"),
    **dict.fromkeys("Transpose".split(), "(args, perm:ints=[])"),
    "AveragePool": (
        "(args, kernel_shape:ints, ceil_mode:int=0, count_include_pad:int=0, pads:ints=[], "
        "strides:ints=[])"
    ),
    "BatchNormalization": "(args, num_outputs, epsilon:float=1e-05, momentum:float=0.9) -> list",
    "Cast": "(args, to:str)",
    "Concat": "(args, axis:int)",
    "Constant": "(value:array, is_value_sparse:bool=False)",
    "ConstantOfShape": "(args, value:array)",
    "Conv": (
        "(args, dilations:ints=[], group:int=1, kernel_shape:ints=[], pads:ints=[], "
        "strides:ints=[])"
    ),
    "ConvTranspose": (
        "(args, dilations:ints=[], group:int=1, kernel_shape:ints=[], output_padding:ints=[], "
        "output_shape:ints=[], pads:ints=[], strides:ints=[])"
    ),
    "CumSum": "(args, exclusive:int=0, reverse:int=0)",
    "DepthToSpace": "(args, blocksize:int, mode:str='DCR')",
    "Dropout": "(args, num_outputs, ratio:float=0.5) -> list",
    "Elu": "(args, alpha:float=1.0)",
    "Gather": "(args, axis:int=0)",
    "Scatter": "(args, axis:int=0)",
    "ScatterElements": "(args, axis:int=0)",
    **{
        layer: (
            "(args, num_outputs, activation_alpha:floats=[], activation_beta:floats=[], "
            "activations:strings=[], clip:float=None, direction:str='forward', "
            f"hidden_size:int=None{last}) -> list"
        )
        for layer, last in (
            ("GRU", ", linear_before_reset:int=0"),
            ("LSTM", ", input_forget:int=0"),
            ("RNN", ""),
        )
    },
    "InstanceNormalization": "(args, epsilon:float=1e-05)",
    "IsInf": "(args, detect_negative:int=1, detect_positive:int=1)",
    "Gemm": "(args, alpha:float=1.0, beta:float=1.0, transA:int=0, transB:int=0)",
    "HardSigmoid": "(args, alpha:float=0.2, beta:float=0.5)",
    "LeakyRelu": "(args, alpha:float=0.01)",
    "If": "(args, num_outputs, else_branch:graph, then_branch:graph) -> list",
    "Loop": "(args, num_outputs, body:graph) -> list",
    "MaxPool": (
        "(args, num_outputs, kernel_shape:ints, ceil_mode:int=0, dilations:ints=[], pads:ints=[], "
        "storage_order:int=0, strides:ints=[]) -> list"
    ),
    "Mod": "(args, fmod:int=0)",
    "OneHot": "(args, axis:int=-1)",
    "Pad": "(args, mode:str='constant')",
    "RandomNormal": ("(shape:ints, dtype:int=1, mean:float=0.0, scale:float=1.0, seed:float=None)"),
    "RandomNormalLike": (
        "(args, dtype:int=None, mean:float=0.0, scale:float=1.0, seed:float=None)"
    ),
    "RandomUniform": ("(shape:ints, dtype:int=1, high:float=1.0, low:float=0.0, seed:float=None)"),
    "RandomUniformLike": ("(args, dtype:int=None, high:float=1.0, low:float=0.0, seed:float=None)"),
    "Resize": (
        "(args, coordinate_transformation_mode:str='half_pixel', cubic_coeff_a:float=-0.75, "
        "exclude_outside:int=0, extrapolation_value:float=0.0, mode:str='nearest', "
        "nearest_mode:str='round_prefer_floor')"
    ),
    "RoiAlign": (
        "(args, mode:str='avg', output_height:int=1, output_width:int=1, sampling_ratio:int=0, "
        "spatial_scale:float=1.0)"
    ),
    "LRN": "(args, size:int, alpha:float=0.0001, beta:float=0.75, bias:float=1.0)",
    "Scan": (
        "(args, num_outputs, body:graph, num_scan_inputs:int, scan_input_axes:ints=[], "
        "scan_input_directions:ints=[], scan_output_axes:ints=[], "
        "scan_output_directions:ints=[]) -> list"
    ),
    "Selu": "(args, alpha:float=1.67326, gamma:float=1.0507)",
    "Shrink": "(args, bias:float=0.0, lambd:float=0.5)",
    "SpaceToDepth": "(args, blocksize:int)",
    "Split": "(args, num_outputs, axis:int=0, split:ints=[]) -> list",
    "Squeeze": "(args, axes:ints=[])",
    "ThresholdedRelu": "(args, alpha:float=1.0)",
    "TopK": "(args, axis:int=-1, largest:int=1, sorted:int=1) -> list",
    "Unsqueeze": "(args, axes:ints)",
}
_GRAPHCORE = {
    **dict.fromkeys(
        "Atan2 BitwiseAnd BitwiseNot BitwiseOr BitwiseXnor BitwiseXor "
        "CopyVarUpdate Detach Expm1 Fmod Gelu GeluErf Log1p NearbyInt Nop Remainder Round "
        "Swish".split(),
        _SAME,
    ),
    "BatchNormalization": "(args, num_outputs, epsilon:float=1e-05, momentum:float=0.9) -> list",
    "Abort": _SAME,
    "Bucketize": "(args, right:int=0)",
    "ReduceMedian": "(args, axes:ints=[], keepdims:int=1) -> list",
    "Call": "(args, num_outputs, callee:graph) -> list",
    "CtcBeamSearchDecoder": "(args, blank:int=0, beam_width:int=100, top_paths:int=1) -> list",
    "Ctc": (
        "(args, reduction:reduction=Mean, blank:int=0, outDataType:str='UNDEFINED', "
        "zeroInfinity:bool=False)"
    ),
    "DepthToSpace": "(args, blocksize:int, mode:str='DCR')",
    "IncrementMod": "(args, increment:float, modulus:float)",
    "Init": "(shape:ints, data_type:int, init_type:int, batch_axis:int=-1)",
    "NormalizeImage": "(args, scale:float)",
    "PrintTensor": (
        "(args, print_gradient:int=1, title:str='', summariseThreshold:int=1000, edgeItems:int=3, "
        "maxLineWidth:int=75, digits:int=8, floatFormat:int=0, separator:str=' ', "
        "openBracket:str='[', closeBracket:str=']')"
    ),
    "ReplicatedReduceScatter": "(args, collectiveOperator:collective=None, commGroup:group=None)",
    "SplineBasis": "(args, degree:int=1) -> list",
    "SplineWeighting": _SAME,
    "GroupNormalization": "(args, num_groups:int, epsilon:float=1e-05) -> list",
    "IdentityLoss": "(args, reduction:reduction=Mean)",
    "L1": "(args, lambda:float, reduction:reduction=Mean)",
    "LSTM": "(args, outputFullSequence:int=1) -> list",
    "Nll": (
        "(args, reduction:reduction=Mean, ignoreIndex:int=None, inputIsLogProbability:bool=False)"
    ),
    "ReplicatedAllReduce": "(args, collectiveOperator:collective=None, commGroup:group=None)",
    "ScatterReduce": (
        "(args, axis_size:int, axis:int=-1, reduction:scatter=sum, group_size:int=1, "
        "enable_index_broadcast:int=1)"
    ),
    "GroupedGather": "(args, axis:int=0, group_size:int=1)",
    "DynamicSlice": "(args, axes:ints, sizes:ints, noOverlap:int=0)",
    "DynamicUpdate": "(args, axes:ints, sizes:ints, noOverlap:int=0)",
    "DynamicZero": "(args, axes:ints, sizes:ints)",
    "DynamicAdd": "(args, axes:ints, sizes:ints)",
    "Subsample": "(args, strides:ints)",
    "PackedDataBlock": (
        "(args, maxSequenceLengths:ints, resultSize:int, callbackBatchSize:int, callback:graph)"
    ),
    "SequenceSlice": "(args, zeroUnused:int=0)",
    "Reshape": "(args, shape:ints)",
    "Reverse": "(args, dimensions:ints)",
    "Scale": "(args, scale:float)",
    "ShapedDropout": "(args, shape:ints, ratio:float=0.5)",
    "Slice": "(args, ends:ints, starts:ints, axes:ints=[])",
    "TensorRemap": "(args, remap_type:int)",
    "ScaledAdd": "(args, scale0:float=1.0, scale1:float=1.0)",
    "Sort": "(args, axis:int=-1, descending:int=0, stable:int=0) -> list",
}
_METHODS = {
    "And": "logical_and",
    "Not": "logical_not",
    "Or": "logical_or",
    "If": "logical_if",
    "Ctc": "ctcloss",
    "NormalizeImage": "normalize_image",
    "L1": "l1loss",
    "Nll": "nllloss",
    "PackedDataBlock": "packedDataBlock",
    "ScatterReduce": "groupedscatterreduce",
}
"""Builder methods whose name is not the operator's type in lower case."""


def _method(op_type: str) -> str:
    return _METHODS.get(op_type, op_type.lower())


ONNX_OPERATORS = {_method(op_type): text for op_type, text in _ONNX.items()}
GRAPHCORE_OPERATORS = {_method(op_type): text for op_type, text in _GRAPHCORE.items()}
_TYPES = {("ai.onnx", _method(op_type)): op_type for op_type in _ONNX}
_TYPES |= {("ai.graphcore", _method(op_type)): op_type for op_type in _GRAPHCORE}


def operator_type(domain: str, method: str) -> str:
    """The ONNX operator type of a builder method."""
    return _TYPES[domain, method]


class Argument(NamedTuple):
    """One argument of an operator method."""

    name: str
    kind: str
    default: Any


REQUIRED = object()


def arguments(text: str) -> list[Argument]:
    """The arguments told by a row of the tables, `debugContext` included."""
    inside = text[text.index("(") + 1 : text.index(")")]
    found = []
    for part in inside.split(", "):
        declared, _, default = part.partition("=")
        name, _, kind = declared.partition(":")
        if name == "args":
            kind = "ids"
        elif name == "num_outputs":
            kind = "count"
        value: Any = REQUIRED
        if default:
            value = default if kind in ("reduction", "scatter") else eval(default, {}, {})
        found.append(Argument(name, kind, value))
    return [*found, Argument("debugContext", "str", "")]


KINDS: dict[str, Any] = {
    "ids": list[str],
    "count": int,
    "int": int,
    "ints": list[int],
    "floats": list[float],
    "strings": list[str],
    "float": float,
    "str": str,
    "bool": bool,
    "array": np.ndarray,
    "graph": object,
    "reduction": ENUMS["ReductionType"],
    "scatter": ENUMS["ScatterReduction"],
    "collective": type(None),
    "group": type(None),
}


# Python-visible fields of SessionOptions: name, type and default.
OPTIONS = """
logDir str '' | exportPoplarComputationGraph bool False | exportPoplarVertexGraph bool False
syntheticDataMode SyntheticDataMode.Off | instrumentWithHardwareCycleCounter bool False
disableGradAccumulationTensorStreams bool False | disableOptimizerStateTensorStreams bool False
enableOutlining bool True | enableOutliningCopyCostPruning bool True | outlineThreshold float 1.0
outlineSequenceBreakCost float 10000.0 | accumulationFactor int 1
enableGradientAccumulation bool False | accumulationAndReplicationReductionType ReductionType.Sum
meanAccumulationAndReplicationReductionStrategy MeanReductionStrategy.Post
enableNonStableSoftmax bool False | enablePipelining bool False
subgraphCopyingStrategy SubgraphCopyingStrategy.OnEnterAndExit
autoRecomputation RecomputationType.NoRecompute | mergeVarUpdate MergeVarUpdateType.Off
mergeVarUpdateMemThreshold int 1000000 | rearrangeAnchorsOnHost bool True
rearrangeStreamsOnHost bool False | numIOTiles int 0 | explicitRecomputation bool False
aliasZeroCopy bool False | enablePrefetchDatastreams bool True | defaultBufferingDepth int 1
defaultPrefetchBufferingDepth int 1 | bufferingDepthMap dict {} | prefetchBufferingDepthMap dict {}
virtualGraphMode VirtualGraphMode.Off | virtualGraphSplitRatios list []
enableReplicatedGraphs bool False | replicatedGraphCount int 1 | compileEngine bool True
engineOptions dict {} | convolutionOptions dict {} | lstmOptions dict {} | matmulOptions dict {}
reportOptions dict {} | gclOptions dict {} | dotOpNames bool False | separateCallOpPdfs bool True
finalDotOp int 10000 | firstDotOp int 0 | constantWeights bool True | cachePath str 'session_cache'
enableEngineCaching bool False | enableVariablesCaching bool True
enableFloatingPointChecks bool False | enableStochasticRounding bool False
_enableRngStateManagement bool False | enableFullyConnectedPass bool True
partialsTypeMatMuls str '' | enableStableNorm bool False
groupNormStridedChannelGrouping bool False | customCodelets list [] | updatableNamedBuffers list []
customCodeletCompileFlags str '' | kahnTieBreaker str 'greedy' | timeLimitScheduler float 1e9
swapLimitScheduler int 1000000000 | transitiveClosureOptimizationThreshold int 100000
decomposeGradSum bool False | serializedPoprithmsShiftGraphsDir str ''
serializedPoprithmsAnnealGraphsDir str '' | enableDistributedReplicatedGraphs bool False
globalReplicationFactor int 1 | globalReplicaOffset int 0 | groupHostSync bool False
strictOpVersions bool True | opxAliasChecking bool False | opxModifyChecking bool False
tensorLocationSettingsOverride dict {} | enableLoadAndOffloadRNGState bool False
useHostCopyOps bool False | enableEfficientOverlapIOTopoCons bool False
enableSupportedDataTypeCasting bool True | enableExplicitMainLoops bool False
enableMergeExchange bool True | ensureFp32LossScaleTensor bool False | delayVarUpdates bool True
scheduleNonWeightUpdateGradientConsumersEarly bool False | dotChecks set set()
enableInplaceAmbiguityChecking bool False | createImplicitPipeliningFwdOnlyProgram bool False
throwIfLog2ScaleTensorNotInRange bool True | enableConstantFoldingOfMultipleConsumers bool True
useLoopCandidateCreator bool False | stashAllTensorsInferencePipeline bool False
"""
LOCATION = "minElementsForOffChip int 2 | minElementsForReplicatedTensorSharding int 8192"
NESTED = {
    "executionPhaseSettings": """phases int 0 | stages int 2 |
        weightIOSchedule ExecutionPhaseIOSchedule.Preload |
        activationIOSchedule ExecutionPhaseIOSchedule.Preload |
        optimizerStateIOSchedule ExecutionPhaseIOSchedule.OnDemand |
        accumulatorIOSchedule ExecutionPhaseIOSchedule.Preload |
        schedule ExecutionPhaseSchedule.Interleaving""",
    "accumulateOuterFragmentSettings": """
        schedule AccumulateOuterFragmentSchedule.Serial | excludedVirtualGraphs list []""",
    "batchSerializationSettings": """factor int 0 | concatOnVirtualGraphChange bool True |
        concatOnExecutionPhaseChange bool True | concatOnPipelineStageChange bool True |
        method BatchSerializationMethod.UnrollDynamic |
        batchSchedule BatchSerializationBatchSchedule.Isomorphic""",
    "automaticLossScalingSettings": """enabled bool False | binEdgeLocation float 0.125 |
        thresholdUpperCountProportion float 1e-7 | updatePeriod int 1""",
    "experimentalSettings": """customTransformApplierSettings dict {} |
        createHostTransferableTensorWithOffset bool False""",
    "replicatedCollectivesSettings": """prepareScheduleForMergingCollectives bool False |
        mergeAllReduceCollectives bool False | mergeReduceScatterCollectives bool False |
        mergeAllGatherCollectives bool False""",
    "activationTensorLocationSettings": LOCATION,
    "weightTensorLocationSettings": LOCATION,
    "optimizerStateTensorLocationSettings": LOCATION,
    "accumulatorTensorLocationSettings": LOCATION,
}
LOCATION_FIELDS = {
    "storage": ENUMS["TensorStorage"].OnChip,
    "loadTileSet": ENUMS["TileSet"].Compute,
    "storageTileSet": ENUMS["TileSet"].Compute,
    "replicatedTensorSharding": ENUMS["ReplicatedTensorSharding"].Off,
}


def fields_of(text: str) -> dict[str, Any]:
    """Names and defaults told by a table of fields."""
    found: dict[str, Any] = {}
    for entry in text.replace("\n", " | ").split("|"):
        words = entry.split(None, 2)
        if len(words) == 3:
            found[words[0]] = eval(words[2], {"set": set}, {})
        elif len(words) == 2:
            owner, _, member = words[1].partition(".")
            found[words[0]] = ENUMS[owner][member]
    return found


PATTERN_PROPERTIES = (
    "PreUniRepl PostNRepl SoftMaxGradDirect NlllWithSoftMaxGradDirect OpToIdentity "
    "SubtractArg1GradOp MulArgGradOp MatMulOp MatMulLhsGradOp MatMulRhsGradOp InPlace"
).split()
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
