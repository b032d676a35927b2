"""What the predictor knows of each PopART operator: how it is priced, what its gradient reads.

A row's `kind` says which formula of :mod:`paddle_ipu.cost_model.operator_cost` prices it. An
operator without a row here is priced by the bytes it reads and writes, counted and named. Its
gradient is taken to read everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "free", "map", "move", "reduce", "matmul", "conv", "norm", "softmax", "pool", "gather",
    "scatter", "random", "sort", "loss", "recurrent",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """One operator.

    Attributes:
        kind: how it is priced; "free" moves and computes nothing.
        half: cycles of a worker for each vector of 4 half elements.
        single: cycles of a worker for each vector of 2 float elements.
        inputs: positions of the inputs that the gradient reads; -1 for all.
        outputs: positions of the outputs that it reads; -1 for all.
        view: the output is the first input's memory, seen in another shape.
    """

    kind: Kind
    half: float = 1.0
    single: float = 1.0
    inputs: tuple[int, ...] = ()
    outputs: tuple[int, ...] = ()
    view: bool = False


EVERYTHING = (-1,)

_ROWS: dict[str, Row] = {}


def _family(names: str, row: Row) -> None:
    for name in names.split():
        if name in _ROWS:
            raise ValueError(f"{name} is listed twice")
        _ROWS[name] = row


# Cycles of maps are those of poplibs' cycle estimators, "a cycles per vector": 4 half, 2 float.
_family("Constant Shape Size", Row("free"))
# What blocks compute is priced operator by operator.
_family("If Loop Scan Call", Row("free"))
_family(
    "Reshape Squeeze Unsqueeze Flatten Identity Detach Nop Slice Split Concat Transpose Expand "
    "Tile Reverse Subsample",
    # Poplar's reshape, slice, concat, dimShuffle and broadcast make no copy; who reads the tensor
    # in another order pays for its exchange.
    Row("free", view=True),
)
_family("Add Sub Sum ScaledAdd Scale", Row("map", 1, 1))
_family("Neg", Row("map", 2, 2))
_family("Mul", Row("map", 1, 1, inputs=(0, 1)))
_family("Div Fmod Remainder Mod", Row("map", 21, 10, inputs=(0, 1)))
_family("Pow Atan2", Row("map", 30, 272, inputs=(0, 1), outputs=(0,)))
_family("Max Min", Row("map", 4, 4, inputs=EVERYTHING))
_family("Mean", Row("map", 2, 2))
_family("Abs Clip Sign", Row("map", 2, 2, inputs=(0,)))
_family("Floor Ceil Round NearbyInt", Row("map", 2, 2))
_family("Relu", Row("map", 3, 3, outputs=(0,)))
_family("LeakyRelu ThresholdedRelu Shrink HardSigmoid", Row("map", 4, 4, inputs=(0,)))
_family("PRelu", Row("map", 4, 4, inputs=(0, 1)))
_family("Exp Expm1", Row("map", 4, 6, outputs=(0,)))
_family("Log", Row("map", 4, 12, inputs=(0,)))
_family("Log1p", Row("map", 180, 180, inputs=(0,)))
_family("Tanh", Row("map", 4, 12, outputs=(0,)))
_family("Sigmoid", Row("map", 6, 12, outputs=(0,)))
_family("Sqrt", Row("map", 23, 10, outputs=(0,)))
_family("Reciprocal", Row("map", 15, 6, outputs=(0,)))
_family("Elu Selu", Row("map", 8, 10, inputs=(0,)))
_family("Softplus Softsign", Row("map", 12, 24, inputs=(0,)))
# Tanh's cycles and those of the polynomial around it; the other form has erf: one element a time.
_family("Gelu", Row("map", 11, 19, inputs=(0,)))
_family("GeluErf", Row("map", 68, 40, inputs=(0,)))
_family("Erf", Row("map", 64, 36, inputs=(0,)))
_family("Swish", Row("map", 7, 13, inputs=(0,)))
_family("Sin Cos", Row("map", 104, 4600, inputs=(0,)))
_family("Tan Asin Acos Atan Sinh Cosh Asinh Acosh Atanh", Row("map", 408, 10200, inputs=(0,)))
_family("Less Greater Equal And Or Not Xor LogicalXor IsNaN IsInf", Row("map", 4, 4))
_family(
    "BitwiseAnd BitwiseOr BitwiseXor BitwiseXnor BitwiseNot BitShift LeftShift RightShift "
    "IncrementMod",
    Row("map", 4, 4),
)
_family("Where", Row("map", 4, 4, inputs=(0,)))
_family("Cast", Row("map", 1, 1))
_family("CopyVarUpdate PrintTensor TensorRemap", Row("move"))
_family(
    "Pad DepthToSpace SpaceToDepth OneHot ConstantOfShape Init",
    Row("move"),
)
_family("ReduceSum ReduceMean", Row("reduce", 1, 1))
_family(
    "ReduceMax ReduceMin ReduceProd ReduceSumSquare ReduceL1 ReduceL2 ReduceLogSumExp ReduceLogSum "
    "ReduceMedian",
    Row("reduce", 2, 2, inputs=(0,), outputs=(0,)),
)
_family("CumSum", Row("reduce", 2, 2))
_family("ArgMax ArgMin", Row("reduce", 4, 4))
_family("MatMul Gemm", Row("matmul", inputs=(0, 1)))
_family("Conv MultiConv", Row("conv", inputs=(0, 1)))
_family("ConvTranspose", Row("conv", inputs=(0, 1)))
_family("BatchNormalization", Row("norm", 1, 1, inputs=(0, 1), outputs=(3, 4)))
_family("GroupNormalization", Row("norm", 1, 1, inputs=(0, 1), outputs=(1, 2)))
_family("InstanceNormalization", Row("norm", 1, 1, inputs=(0, 1)))
_family("LRN", Row("norm", 10, 20, inputs=(0,), outputs=(0,)))
_family("Softmax LogSoftmax", Row("softmax", 4, 6, outputs=(0,)))
_family("MaxPool", Row("pool", 4, 4, inputs=(0,), outputs=(0,)))
_family("AveragePool", Row("pool", 2, 2))
_family("GlobalAveragePool", Row("reduce", 1, 1))
_family("GlobalMaxPool", Row("reduce", 2, 2, inputs=(0,), outputs=(0,)))
_family("Upsample Resize", Row("move"))
_family("Gather GroupedGather DynamicSlice", Row("gather", inputs=(1,)))
_family(
    "Scatter ScatterElements ScatterReduce DynamicUpdate DynamicAdd DynamicZero",
    Row("scatter", inputs=(1,)),
)
_family("TopK Sort", Row("sort", 8, 8, outputs=(1,)))
# The mask is drawn again from the same seed in backward.
_family("Dropout ShapedDropout", Row("random", 3, 3))
_family("RandomNormal RandomUniform RandomNormalLike RandomUniformLike", Row("random", 12, 12))
# A gate's sigmoid or tanh.
_family("LSTM GRU RNN Recurrent", Row("recurrent", 6, 12, inputs=EVERYTHING, outputs=EVERYTHING))
_family("Nll", Row("loss", 4, 12, inputs=(0, 1)))
_family("L1 IdentityLoss", Row("loss", 2, 2, inputs=(0,)))

ROWS: Mapping[str, Row] = _ROWS
"""Operator type -> its row; types that two domains share mean the same in both."""

WITHOUT_ROW = frozenset(
    (
        "Abort Auc BesselI0 BesselI0e BesselI1 BesselI1e Binomial BipartiteMatch Bucketize "
        "Cholesky CholeskySolve ClassCenterSample CopySign CpuKernel CrfDecode Ctc CtcAlign "
        "CtcBeamSearchDecoder CumMax CumMin CumProd Cvm DeformableConv DequantGather "
        "Determinant Digamma EditDistance Eigh ErfInv Gamma Gammaincc GatherNd GridSample "
        "Histogram LeastSquares Lgamma LogCumSumExp LogNll Lu LuUnpack MatrixInverse "
        "MaxOfWindows Median Mode Multinomial NextAfter NormalizeImage Poisson Polygamma "
        "PsRoiPool PutAlongAxis Qr RandomInteger RandomPermutation "
        "ReplicatedAllReduce ReplicatedReduceScatter Rnnt RoiAlign RoiPool SearchSorted "
        "SeededNormal SeededPermutation SeededUniform SequenceSlice SlogDeterminant Solve "
        "SplineBasis SplineWeighting SumOfWindows Svd TakeAlongAxis TopPSampling "
        "TriangularSolve TruncatedNormal Unpool ViterbiDecode YoloLoss "
    ).split()
)
"""Operators that are priced by their bytes, for want of anything better known of them."""

UNPRICED = Row("move", inputs=EVERYTHING, outputs=EVERYTHING)
"""Stands for an operator that has no row."""


def row_of(op_type: str) -> Row | None:
    """The row of an operator, or None."""
    return _ROWS.get(op_type)
