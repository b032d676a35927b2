"""The graph patterns a strategy can enable or disable: PopART's own and known users' patterns."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

#: PopART refuses to disable these.
MANDATORY_PATTERNS = frozenset(
    [
        "AbsGradOp",
        "AllReduceToIdentity",
        "Atan2Arg0GradOp",
        "Atan2Arg1GradOp",
        "ConvDataGrad",
        "ConvFlipWeightsGradOp",
        "ConvTranspose",
        "CosGradOp",
        "CoshOp",
        "DivArg0GradOp",
        "DivArg1GradOp",
        "ExpGradOp",
        "Expm1GradOp",
        "FmodArg0GradOp",
        "Log1pGradOp",
        "LogGradOp",
        "LoopScanOut",
        "MatMulLhsGradOp",
        "MatMulOp",
        "MatMulRhsGradOp",
        "MulArgGradOp",
        "PowArg0GradOp",
        "PowArg1GradOp",
        "RandomNormalLikeOpPattern",
        "RandomUniformLikeOpPattern",
        "ReciprocalGradOp",
        "ScanToLoop",
        "SinGradOp",
        "SqrtGradOp",
        "SubtractArg1GradOp",
        "ZerosLikeOpPattern",
    ]
)

#: PopART's patterns that are on unless disabled.
DEFAULT_PATTERNS = frozenset(
    [
        "ConvFlipWeightsDoubleFlip",
        "DecomposeBinaryConstScalar",
        "ExpandCast",
        "InPlace",
        "InitAccumulate",
        "LambSerialisedWeight",
        "NegativeOneScale",
        "NlllWithSoftmaxGradDirect",
        "OpToIdentity",
        "PackedDataBlock",
        "PadSum",
        "PostNRepl",
        "PreUniRepl",
        "RemoveUnnecessaryLossGradCast",
        "SoftmaxGradDirect",
        "SplitGradOpToConcat",
        "SplitOp",
        "SumToAdd",
        "TransposeToIdentityOrReshapePattern",
        "UpsampleToResize",
    ]
)

#: PopART's patterns that are off unless enabled; the second half it applies itself where needed.
OPTIONAL_PATTERNS = frozenset(
    [
        "LSTMOp",
        "Slice2SliceSubsample",
        "SplitGather",
        "TiedGather",
        "TiedGatherAccumulate",
        "AdamDecompose",
        "AdaptiveDecompose",
        "ContiguateIpuCopyIndicesPattern",
        "SGD0Decompose",
        "SGD1Decompose",
        "SGD2Decompose",
        "UpdateInplacePrioritiesForIpu",
        "ViewSimplifyPattern",
    ]
)

#: Patterns that published training scripts compile themselves, and what each does.
USER_PATTERNS: Mapping[str, str] = MappingProxyType(
    {
        "AccumulatePriorityPattern": "Changes when gradients are accumulated.",
        "DisableAttnDropoutBwdPattern": "Leaves the dropout of attention out of the backward.",
        "TiedGatherAccumulatePattern": "Accumulates a tied embedding's gradient sparsely.",
        "TiedGatherPattern": "Lets a tied embedding's gather share the matmul's layout.",
    }
)

#: Those of them that change what is computed, which a pass of the compiler does here.
EFFECTIVE_USER_PATTERNS = frozenset({"DisableAttnDropoutBwdPattern"})

POPART_PATTERNS = MANDATORY_PATTERNS | DEFAULT_PATTERNS | OPTIONAL_PATTERNS
