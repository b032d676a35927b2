"""The table of PopART operators: one row each, with arity, attributes, types and inference.

Builder methods, checks and shapes all come from these rows. Rows of ``ai.onnx`` follow opset 11,
those of ``ai.graphcore`` opset 1; ``ai.paddle_ipu`` is this package's own domain, which only the
IPU Model lowers. INT64 stays INT64 in the graph as PopART's builder keeps it; PopART's devices
narrow it to INT32, so values must fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

import onnx_ir as ir

from paddle_ipu.popart.shape_inference import elementwise, linear, loss, nn, reduce, shaping
from paddle_ipu.popart.shape_inference.context import Infer, InferenceContext, same_as_first

ONNX = "ai.onnx"
GRAPHCORE = "ai.graphcore"
PADDLE_IPU = "ai.paddle_ipu"

AttributeKind = Literal[
    "int", "float", "string", "ints", "floats", "strings", "tensor", "dtype", "bool", "enum", "comm"
]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute of an operator.

    Attributes:
        kind: how the value is written. `dtype` takes PopART's type name and writes ONNX's number;
            `enum` takes an enumeration member or its number and writes the number, or, for a loss
            reduction, the string; `comm` takes a CommGroup and writes [type, size]; `bool` writes
            an int.
        default: written when the caller gives nothing; None and empty lists are not written.
        required: the caller must give it.
        argument: the builder's name of the argument, where it differs from the attribute's.
    """

    kind: AttributeKind
    default: Any = None
    required: bool = False
    argument: str | None = None


@dataclass(frozen=True, slots=True)
class OpSchema:
    """One PopART operator.

    Attributes:
        version: the operator-set version that defined this form, as PopART prints it.
        outputs: fewest and most outputs; the builder method takes `num_outputs` if they differ or
            if `counted` is set.
        attributes: by ONNX name, in the order of the builder method's arguments.
        input_dtypes: allowed element types by position, the last repeated.
        constant_inputs: positions whose value must be known when the graph is built.
        portable: PopART itself has it.
        differentiable: a gradient flows through it; none flows through Detach.
    """

    domain: str
    op_type: str
    builder_name: str
    min_inputs: int
    max_inputs: int | None
    outputs: tuple[int, int | None]
    attributes: MappingProxyType[str, Attribute]
    input_dtypes: tuple[frozenset[ir.DataType], ...]
    constant_inputs: tuple[int, ...]
    infer: Infer
    version: int = 1
    portable: bool = True
    differentiable: bool = True
    counted: bool = False
    identifier: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "identifier", f"{self.domain}.{self.op_type}:{self.version}")

    def check_dtypes(self, ctx: InferenceContext) -> None:
        """Raises when an input has an element type the operator does not take."""
        last = len(self.input_dtypes) - 1
        for index, info in enumerate(ctx.inputs):
            allowed = self.input_dtypes[index if index < last else last]
            if info is not None and info.dtype not in allowed:
                names = ", ".join(sorted(dtype.name for dtype in allowed))
                raise ctx.error(
                    f"input {index} '{ctx.input_id(index)}' is {info}, expected one of {names}"
                )


_D = ir.DataType
FLOATS = frozenset({_D.FLOAT, _D.FLOAT16, _D.BFLOAT16, _D.DOUBLE})
INTS = frozenset({_D.INT8, _D.INT16, _D.INT32, _D.INT64, _D.UINT8, _D.UINT16, _D.UINT32, _D.UINT64})
NUMBERS = FLOATS | INTS
BOOLS = frozenset({_D.BOOL})
ANY = frozenset(_D) - {_D.UNDEFINED}

_ROWS: dict[tuple[str, str], OpSchema] = {}
_BY_BUILDER_NAME: dict[tuple[str, str], OpSchema] = {}


def register(schema: OpSchema) -> OpSchema:
    """Adds a row; a second one of the same operator or builder name raises ValueError."""
    key, named = (schema.domain, schema.op_type), (schema.domain, schema.builder_name)
    if key in _ROWS or named in _BY_BUILDER_NAME:
        raise ValueError(
            f"{schema.domain}.{schema.op_type} ({schema.builder_name}) is listed twice"
        )
    _ROWS[key] = _BY_BUILDER_NAME[named] = schema
    return schema


def schema_of(domain: str, op_type: str) -> OpSchema | None:
    """The row of an operator, or None; the domain "" means ``ai.onnx``."""
    return _ROWS.get((domain or ONNX, op_type))


def all_schemas() -> list[OpSchema]:
    """Every row, in the table's order."""
    return list(_ROWS.values())


Types = frozenset[ir.DataType]


def _row(
    domain: str,
    op_type: str,
    inputs: int | tuple[int, int | None],
    infer: Infer,
    dtypes: Types | tuple[Types, ...] = NUMBERS,
    attributes: Iterable[tuple[str, Attribute]] = (),
    *,
    name: str | None = None,
    outputs: int | tuple[int, int | None] = 1,
    constants: tuple[int, ...] = (),
    version: int = 1,
    differentiable: bool = True,
    counted: bool = False,
) -> None:
    low, high = (inputs, inputs) if isinstance(inputs, int) else inputs
    register(
        OpSchema(
            domain=domain,
            op_type=op_type,
            builder_name=name or op_type.lower(),
            min_inputs=low,
            max_inputs=high,
            outputs=(outputs, outputs) if isinstance(outputs, int) else outputs,
            attributes=MappingProxyType(dict(attributes)),
            input_dtypes=dtypes if isinstance(dtypes, tuple) else (dtypes,),
            constant_inputs=constants,
            infer=infer,
            version=version,
            portable=domain != PADDLE_IPU,
            differentiable=differentiable,
            counted=counted,
        )
    )


def _int(name: str, default: int | None = None, required: bool = False) -> tuple[str, Attribute]:
    return name, Attribute("int", default, required)


def _float(name: str, default: float | None = None) -> tuple[str, Attribute]:
    return name, Attribute("float", default, default is None)


def _ints(name: str, required: bool = False) -> tuple[str, Attribute]:
    return name, Attribute("ints", None, required)


def _reduction() -> tuple[str, Attribute]:
    return "reduction", Attribute("enum", "Mean")


def _onnx(*args: Any, **keywords: Any) -> None:
    _row(ONNX, *args, **keywords)


def _graphcore(*args: Any, **keywords: Any) -> None:
    _row(GRAPHCORE, *args, **keywords)


def _paddle_ipu(*args: Any, **keywords: Any) -> None:
    _row(PADDLE_IPU, *args, **keywords)


def _family(row: Callable[..., None], names: str, *args: Any, **keywords: Any) -> None:
    """Rows that differ only in type and version: ``"Abs:6 Exp:6"``."""
    for entry in names.split():
        op_type, version = entry.split(":")
        row(op_type, *args, version=int(version), **keywords)


# ai.onnx: elementwise.
_family(
    _onnx,
    "Sqrt:6 Exp:6 Log:6 Erf:9 Tanh:6 Sigmoid:6 Reciprocal:6 Sin:7 Cos:7 Tan:7 Asin:7 "
    "Acos:7 Atan:7 Sinh:9 Cosh:9 Asinh:9 Acosh:9 Atanh:9 Softplus:1 Softsign:1",
    1,
    same_as_first,
    FLOATS,
)
_family(_onnx, "Abs:6 Neg:6 Relu:6", 1, same_as_first, NUMBERS)
_family(_onnx, "Floor:6 Ceil:6 Round:11 Sign:9", 1, same_as_first, NUMBERS)
_family(_onnx, "Identity:1", 1, same_as_first, ANY)
_family(_onnx, "Elu:6", 1, same_as_first, FLOATS, [_float("alpha", 1.0)])
_family(_onnx, "LeakyRelu:6", 1, same_as_first, FLOATS, [_float("alpha", 0.01)])
_family(
    _onnx, "HardSigmoid:6", 1, same_as_first, FLOATS, [_float("alpha", 0.2), _float("beta", 0.5)]
)
_family(
    _onnx, "Selu:6", 1, same_as_first, FLOATS, [_float("alpha", 1.67326), _float("gamma", 1.0507)]
)
_family(_onnx, "Add:7 Sub:7 Mul:7 Div:7 Pow:7", 2, elementwise.binary, NUMBERS)
_onnx("Mod", 2, elementwise.binary, NUMBERS, [_int("fmod", 0)], version=10)
_family(_onnx, "Sum:8 Max:8 Min:8 Mean:8", (1, None), elementwise.variadic, NUMBERS)
_family(_onnx, "Equal:11", 2, elementwise.comparison, NUMBERS | BOOLS, differentiable=False)
_family(_onnx, "Less:9 Greater:9", 2, elementwise.comparison, NUMBERS, differentiable=False)
_onnx("And", 2, elementwise.comparison, BOOLS, name="logical_and", version=7, differentiable=False)
_onnx("Or", 2, elementwise.comparison, BOOLS, name="logical_or", version=7, differentiable=False)
_onnx("Not", 1, same_as_first, BOOLS, name="logical_not", differentiable=False)
_onnx("IsNaN", 1, elementwise.test, FLOATS, version=9, differentiable=False)
_onnx(
    "IsInf",
    1,
    elementwise.test,
    FLOATS,
    [_int("detect_negative", 1), _int("detect_positive", 1)],
    version=10,
    differentiable=False,
)
_onnx("Where", 3, elementwise.where, (BOOLS, ANY), version=9)
_onnx("Clip", (1, 3), elementwise.clip, NUMBERS, constants=(1, 2), version=11)
_onnx("Cast", 1, elementwise.cast, ANY, [("to", Attribute("dtype", required=True))], version=9)
_onnx("Dropout", 1, elementwise.dropout, FLOATS, [_float("ratio", 0.5)], outputs=(1, 2), version=10)

# ai.onnx: linear algebra, normalisation, pooling.
_onnx("MatMul", 2, linear.matmul, NUMBERS, version=9)
_onnx(
    "Gemm",
    (2, 3),
    linear.gemm,
    NUMBERS,
    [_float("alpha", 1.0), _float("beta", 1.0), _int("transA", 0), _int("transB", 0)],
    version=11,
)
_family(_onnx, "Softmax:11 LogSoftmax:11", 1, reduce.softmax, FLOATS, [_int("axis", 1)])
_onnx(
    "Conv",
    (2, 3),
    nn.conv,
    FLOATS,
    [_ints("dilations"), _int("group", 1), *map(_ints, ("kernel_shape", "pads", "strides"))],
    version=11,
)
_onnx(
    "MaxPool",
    1,
    nn.pool,
    FLOATS,
    [
        _ints("kernel_shape", required=True),
        _int("ceil_mode", 0),
        _ints("dilations"),
        _ints("pads"),
        _int("storage_order", 0),
        _ints("strides"),
    ],
    counted=True,
    version=11,
)
_onnx(
    "AveragePool",
    1,
    nn.pool,
    FLOATS,
    [
        _ints("kernel_shape", required=True),
        _int("ceil_mode", 0),
        _int("count_include_pad", 0),
        _ints("pads"),
        _ints("strides"),
    ],
    version=11,
)
_family(_onnx, "GlobalAveragePool:1 GlobalMaxPool:1", 1, nn.global_pool, FLOATS)
_onnx(
    "BatchNormalization",
    5,
    nn.batch_normalization,
    FLOATS,
    [_float("epsilon", 1e-5), _float("momentum", 0.9)],
    outputs=(1, 5),
    version=9,
)
_onnx(
    "InstanceNormalization",
    3,
    nn.instance_normalization,
    FLOATS,
    [_float("epsilon", 1e-5)],
    version=6,
)

# ai.onnx: moving, cutting, indexing data.
_onnx("Reshape", 2, shaping.reshape, (ANY, INTS), constants=(1,), version=5)
_onnx("Transpose", 1, shaping.transpose, ANY, [_ints("perm")])
_onnx("Squeeze", 1, shaping.squeeze, ANY, [_ints("axes")], version=11)
_onnx("Unsqueeze", 1, shaping.unsqueeze, ANY, [_ints("axes", required=True)], version=11)
_onnx("Concat", (1, None), shaping.concat, ANY, [_int("axis", required=True)], version=11)
_onnx(
    "Split",
    1,
    shaping.split,
    ANY,
    [_int("axis", 0), _ints("split")],
    outputs=(1, None),
    version=11,
)
_onnx("Slice", (3, 5), shaping.slice_, (ANY, INTS), constants=(1, 2, 3, 4), version=11)
_onnx("Gather", 2, shaping.gather, (ANY, INTS), [_int("axis", 0)], version=11)
_onnx("Expand", 2, shaping.expand, (ANY, INTS), constants=(1,), version=8)
_onnx("Tile", 2, shaping.tile, (ANY, INTS), constants=(1,), version=6)
_onnx("Flatten", 1, shaping.flatten, ANY, [_int("axis", 1)], version=11)
_onnx(
    "Pad",
    (2, 3),
    shaping.pad,
    (ANY, INTS, ANY),
    [("mode", Attribute("string", "constant"))],
    constants=(1, 2),
    version=11,
)
_onnx(
    "OneHot",
    3,
    shaping.one_hot,
    (NUMBERS, NUMBERS, ANY),
    [_int("axis", -1)],
    constants=(1,),
    version=11,
    differentiable=False,
)
_onnx("Shape", 1, shaping.shape, ANY, differentiable=False)
_onnx(
    "Constant",
    0,
    shaping.constant,
    ANY,
    [("value", Attribute("tensor", required=True))],
    version=11,
    differentiable=False,
)
_onnx(
    "ConstantOfShape",
    1,
    shaping.constant_of_shape,
    INTS,
    [("value", Attribute("tensor", required=True))],
    constants=(0,),
    version=9,
    differentiable=False,
)

# ai.onnx: reductions and orderings.
_family(
    _onnx,
    "ReduceMean:11 ReduceSum:11 ReduceMax:11 ReduceMin:11 ReduceProd:11 ReduceSumSquare:11 "
    "ReduceL1:11 ReduceL2:11 ReduceLogSumExp:11 ReduceLogSum:11",
    1,
    reduce.reduce,
    NUMBERS,
    [_ints("axes"), _int("keepdims", 1)],
)
_family(
    _onnx,
    "ArgMax:11 ArgMin:11",
    1,
    reduce.arg_reduce,
    NUMBERS,
    [_int("axis", 0), _int("keepdims", 1)],
    differentiable=False,
)
_onnx(
    "TopK",
    2,
    reduce.topk,
    (NUMBERS, INTS),
    [_int("axis", -1), _int("largest", 1), _int("sorted", 1)],
    outputs=2,
    constants=(1,),
    version=11,
)
_onnx(
    "CumSum",
    2,
    reduce.cumsum,
    (NUMBERS, INTS),
    [_int("exclusive", 0), _int("reverse", 0)],
    constants=(1,),
    version=11,
)

# ai.graphcore.
_family(_graphcore, "Gelu:1 GeluErf:1 Log1p:1 Expm1:1 Swish:1", 1, same_as_first, FLOATS)
_family(_graphcore, "Round:1 NearbyInt:1", 1, same_as_first, FLOATS)
_family(_graphcore, "Detach:1 Nop:1", 1, same_as_first, ANY, differentiable=False)
_graphcore("Scale", 1, same_as_first, NUMBERS, [_float("scale")])
_graphcore(
    "ScaledAdd",
    (2, 4),
    elementwise.binary,
    NUMBERS,
    [_float("scale0", 1.0), _float("scale1", 1.0)],
)
_family(_graphcore, "Atan2:1", 2, elementwise.binary, FLOATS)
_family(_graphcore, "Fmod:1 Remainder:1", 2, elementwise.binary, NUMBERS)
_family(
    _graphcore,
    "BitwiseAnd:1 BitwiseOr:1 BitwiseXor:1 BitwiseXnor:1",
    2,
    elementwise.binary,
    INTS,
    differentiable=False,
)
_graphcore("BitwiseNot", 1, same_as_first, INTS, differentiable=False)
_graphcore(
    "GroupNormalization",
    3,
    nn.group_normalization,
    FLOATS,
    [_int("num_groups", required=True), _float("epsilon", 1e-5)],
    outputs=3,
)
_graphcore(
    "BatchNormalization",
    5,
    nn.batch_normalization,
    FLOATS,
    [_float("epsilon", 1e-5), _float("momentum", 0.9)],
    outputs=(1, 5),
)
_graphcore(
    "ShapedDropout",
    1,
    elementwise.shaped_dropout,
    FLOATS,
    [_ints("shape", required=True), _float("ratio", 0.5)],
)
_graphcore("Reshape", 1, shaping.reshape_by_attribute, ANY, [_ints("shape", required=True)])
_graphcore(
    "Slice",
    1,
    shaping.slice_by_attributes,
    ANY,
    [_ints("ends", required=True), _ints("starts", required=True), _ints("axes")],
)
_graphcore("TensorRemap", 1, same_as_first, ANY, [_int("remap_type", required=True)])
_graphcore(
    "Nll",
    2,
    loss.nll,
    (FLOATS, ANY),
    [
        _reduction(),
        _int("ignoreIndex"),
        ("inputIsLogProbability", Attribute("bool", False)),
    ],
    name="nllloss",
)
_graphcore("L1", 1, loss.reduced_loss, FLOATS, [_float("lambda"), _reduction()], name="l1loss")
_graphcore("IdentityLoss", 1, loss.reduced_loss, FLOATS, [_reduction()])
_graphcore("Reverse", 1, shaping.reverse, ANY, [_ints("dimensions", required=True)])
_graphcore(
    "Sort",
    1,
    reduce.sort,
    NUMBERS,
    [_int("axis", -1), _int("descending", 0), _int("stable", 0)],
    outputs=2,
)
_graphcore(
    "ReplicatedAllReduce",
    1,
    same_as_first,
    NUMBERS | BOOLS,
    [
        (
            "__collectiveOperator",
            Attribute("enum", argument="collectiveOperator"),
        ),
        ("__collectiveCommGroup", Attribute("comm", argument="commGroup")),
    ],
)

# ai.paddle_ipu: what Paddle has and PopART lacks.
_paddle_ipu("LogicalXor", 2, elementwise.comparison, BOOLS, differentiable=False)
_paddle_ipu("LogNll", 2, loss.log_nll, (FLOATS, ANY), [_int("ignore_index", -100)])
_paddle_ipu("GatherNd", 2, shaping.gather_nd, (ANY, INTS))
_paddle_ipu("TakeAlongAxis", 2, shaping.take_along_axis, (ANY, INTS), [_int("axis", required=True)])
