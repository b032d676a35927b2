"""The one table of renames: an operator of a ProgramDesc -> the phi operator PIR has for it.

A row is written ``row(legacy, phi, inputs, outputs, attributes)``. Inputs stand in PIR's order:

    x=X             operand x is slot X
    x=X*            operand x is the list in slot X
    axis=A|B*|@dim  the first of these that is there: slot A, the list in slot B, attribute dim,
                    which becomes a ``full_int_array``
    p=@p:float32    attribute p becomes a ``full`` of that dtype

Attributes are ``phi=legacy``, one name where both agree. ``?`` gives the default, in JSON, that
Paddle takes where a program lacks the attribute; without one the program must have it.
``axis=axis:dtype?5`` is a number of ``VarType.Type`` that becomes a dtype's name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend import legacy_forms
from paddle_ipu.frontend.legacy_operator import COMMON, DTYPES, Operator, Variables


@dataclass(frozen=True, slots=True)
class Slot:
    """An input slot of a ProgramDesc operator."""

    name: str
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of a ProgramDesc operator; `default` is None where there must be one."""

    name: str
    kind: str = ""
    default: Any = None


@dataclass(frozen=True, slots=True)
class Constant:
    """An attribute that is an operand in PIR; `dtype` "ints" is a ``full_int_array``."""

    name: str
    dtype: str
    attribute: Attribute


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand of a phi operator and where a ProgramDesc operator has it."""

    name: str
    sources: tuple[Slot | Constant, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """A result of a phi operator and the output slot of a ProgramDesc operator."""

    name: str
    slot: str
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Row:
    """What one ProgramDesc operator is in the dialect.

    Attributes:
        op: phi's name.
        inputs: operands in PIR's order.
        outputs: results in PIR's order.
        attributes: PIR's name -> where it comes from.
        fixed: attributes that have one value only here: any other is refused.
        is_backward: made by `find`; attributes and what forward left out do not count.
    """

    op: str
    inputs: tuple[Operand, ...]
    outputs: tuple[Result, ...]
    attributes: Mapping[str, Attribute]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    is_backward: bool = False


TABLE: dict[str, Row] = {}
"""ProgramDesc operator -> its row. Backward operators have none; see `find`."""


def row(
    legacy: str,
    op: str,
    inputs: str,
    outputs: str = "out=Out",
    attributes: str = "",
    fixed: Mapping[str, Any] | None = None,
) -> None:
    """Adds a row; a second one of the same name raises."""
    if legacy in TABLE:
        raise ValueError(f"the vocabulary has {legacy} twice")
    TABLE[legacy] = Row(
        op,
        tuple(_operand(text) for text in inputs.split()),
        tuple(_result(text) for text in outputs.split()),
        {re.split("[=:?]", text)[0]: _attribute(text) for text in attributes.split()},
        fixed or {},
    )


def _operand(text: str) -> Operand:
    name, _, sources = text.partition("=")
    return Operand(name, tuple(_source(source) for source in sources.split("|")))


def _source(text: str) -> Slot | Constant:
    if text.startswith("@"):
        attribute = _attribute(text[1:])
        return Constant(attribute.name, attribute.kind or "ints", attribute)
    return Slot(text.removesuffix("*"), text.endswith("*"))


def _result(text: str) -> Result:
    name, _, slot = text.partition("=")
    return Result(name, slot.removesuffix("*"), slot.endswith("*"))


def _attribute(text: str) -> Attribute:
    text, _, default = text.partition("?")
    name, _, kind = text.rpartition("=")[2].partition(":")
    return Attribute(name, kind, json.loads(default) if default else None)


def attribute_value(
    operator: Operator, name: str, attribute: Attribute, may_be_tensor: bool = False
) -> Any:
    """The value an attribute has in the dialect; `Variables` only where it may be a tensor.

    Raises:
        NotSupported: it is a tensor where phi takes a number only.
        InvalidProgramError: the operator lacks it, or its dtype is none of framework.proto's.
    """
    value = operator.attributes.get(attribute.name, attribute.default)
    if value is None:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} has no attribute {attribute.name!r}, which "
            f"it needs for {name!r}. The program is damaged."
        )
    if isinstance(value, Variables) and not may_be_tensor:
        raise NotSupported(
            f"operator {operator.type}{operator.place}: attribute {attribute.name!r} is computed "
            f"in the program (variable {value.names[0]!r}), which is not supported; give a number."
        )
    if attribute.kind != "dtype":
        return value
    if value == -1:
        return "undefined"
    if value not in DTYPES:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place}: attribute {attribute.name!r} is dtype "
            f"number {value}, which ProgramDesc does not define for tensors."
        )
    return DTYPES[value]


WITHOUT_MEANING = frozenset(
    {
        "Scale_in", "Scale_in_eltwise", "Scale_out", "Scale_weights", "Scale_x", "Scale_y",
        "data_format", "entry", "entry_config", "epmap", "exhaustive_search", "force_cpu",
        "force_fp32_output", "grad_inplace", "height_sections", "in_dtype", "infer_flags",
        "is_distributed", "is_test", "mkldnn_data_type", "op_device", "op_namescope", "op_role_var",
        "out_dtype", "place_type", "remote_prefetch", "scale_out", "scale_x", "scale_y", "slot",
        "table_class", "table_names", "threshold", "trainer_id", "use_addto", "use_cudnn",
        "use_mkldnn", "use_onednn", "use_quantizer", "with_quant_attr", "workspace_size_MB",
        "x_data_format", "y_data_format",
    }
)  # fmt: skip
"""Attributes that a kernel, a pass or a trainer reads, and that change no result.

Where one of them does mean something, the operator's row has it.
"""

_UNSET = {
    "fuse_activation": "", "fuse_alpha": 0.0, "fuse_beta": 0.0, "fuse_relu": False,
    "fuse_relu_before_depthwise_conv": False, "fuse_residual_connection": False,
    "fuse_with_relu": False, "dtype": 5,
}  # fmt: skip
"""Attributes that must have this value in an operator whose row does not have them."""


def check(operator: Operator, found: Row) -> None:
    """Refuses what the row does not say: an attribute or a slot that may change the result.

    Raises:
        NotSupported: there is one.
    """
    known = {attribute.name for attribute in found.attributes.values()}
    slots: set[str] = set()
    for operand in found.inputs:
        for source in operand.sources:
            (slots if isinstance(source, Slot) else known).add(source.name)
    for name, value in operator.attributes.items():
        if name in known or name in WITHOUT_MEANING or name in COMMON:
            continue
        allowed = found.fixed if name in found.fixed else _UNSET
        if name not in allowed:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: attribute {name!r} is not known here, "
                f"and it may change what the operator does. Its value is {value!r}."
            )
        if value != allowed[name]:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: {name} = {value!r} is not supported; "
                f"only {allowed[name]!r} is."
            )
    for slot in operator.inputs:
        if slot not in slots and operator.input(slot) is not None:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: input {slot} is not supported; got "
                f"variable {operator.input(slot)!r}. Give a number instead, where the operator "
                "takes one."
            )


def knows(legacy: str) -> bool:
    """Whether a ProgramDesc operator of that name can be read."""
    return legacy in TABLE or legacy in legacy_forms.REWRITES


def find(operator: Operator) -> Row | None:
    """The row of an operator, None where the table has none.

    A backward operator's is made from its forward operator's: it is called ``<phi>_grad``, and
    slot ``Out@GRAD`` of a forward operator whose result ``out`` is in ``Out`` is ``out_grad``.
    """
    legacy = operator.type
    if legacy in TABLE:
        return TABLE[legacy]
    if not legacy.endswith("_grad"):
        return None
    return _backward(operator, TABLE.get(legacy.removesuffix("_grad")))


def _backward(operator: Operator, forward: Row | None) -> Row:
    """Forward's operands, its results, then gradients; without a forward row, slots as they are."""
    names: dict[str, str] = {}
    for operand in () if forward is None else forward.inputs:
        for source in operand.sources:
            if isinstance(source, Slot):
                names[source.name] = operand.name
    for result in () if forward is None else forward.outputs:
        names[result.slot] = result.name
    order = list(names)

    def rename(slot: str) -> str:
        base, mark, _ = slot.partition("@GRAD")
        return names.get(base, base.lower()) + ("_grad" if mark else "")

    def rank(slot: str) -> tuple[bool, int]:
        base, mark, _ = slot.partition("@GRAD")
        return bool(mark), order.index(base) if base in order else len(order)

    return Row(
        operator.type if forward is None else f"{forward.op.removesuffix('_')}_grad",
        tuple(
            Operand(rename(slot), (Slot(slot, len(operator.inputs[slot]) > 1),))
            for slot in sorted(operator.inputs, key=rank)
        ),
        tuple(
            Result(rename(slot), slot, len(operator.outputs[slot]) > 1)
            for slot in sorted(operator.outputs, key=rank)
        ),
        {},
        is_backward=True,
    )


# One operand and nothing else.
for _name in (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_not", "ceil", "cos", "cosh",
    "erf", "exp", "expm1", "floor", "log", "log10", "log1p", "log2", "logical_not", "logsigmoid",
    "reciprocal", "relu", "relu6", "rsqrt", "sigmoid", "sign", "silu", "sin", "sinh",
    "softsign", "sqrt", "square", "squared_l2_norm", "tan", "tanh", "tanh_shrink",
):  # fmt: skip
    row(_name, _name, "x=X")
row("assign", "assign", "x=X")
row("share_data", "share_data_", "x=X")
row("assign_out_", "assign_out_", "x=X output=Out")
row("isfinite_v2", "isfinite", "x=X")
row("isinf_v2", "isinf", "x=X")
row("isnan_v2", "isnan", "x=X")
row("mean", "mean_all", "x=X")
row("round", "round", "x=X", attributes="decimals?0")
row("size", "numel", "x=Input", "size=Out")
row("shape", "shape", "input=Input")
row("trunc", "trunc", "input=X")

# Activations with settings.
row("brelu", "hardtanh", "x=X", attributes="t_max?24.0 t_min?0.0")
row("celu", "celu", "x=X", attributes="alpha?1.0")
row("elu", "elu", "x=X", attributes="alpha?1.0")
row("gelu", "gelu", "x=X", attributes="approximate?false")
row("hard_shrink", "hardshrink", "x=X", attributes="threshold?0.5")
row("hard_sigmoid", "hardsigmoid", "x=X", attributes="offset?0.5 slope?0.2")
row("hard_swish", "hardswish", "x=X", fixed={"offset": 3.0, "scale": 6.0, "threshold": 6.0})
row("leaky_relu", "leaky_relu", "x=X", attributes="negative_slope=alpha?0.02")
row("log_softmax", "log_softmax", "x=X", attributes="axis?-1")
row("mish", "mish", "x=X", attributes="lambda=threshold?20.0")
row("prelu", "prelu", "x=X alpha=Alpha", attributes='data_format?"NCHW" mode?"all"')
row(
    "selu",
    "selu",
    "x=X",
    attributes="alpha?1.6732632423543772 scale?1.0507009873554805",
)
row("softmax", "softmax", "x=X", attributes="axis?-1")
row("softplus", "softplus", "x=X", attributes="beta?1.0 threshold?20.0")
row("softshrink", "softshrink", "x=X", attributes="threshold=lambda?0.5")
row("stanh", "stanh", "x=X", attributes="scale_a?0.67 scale_b?1.7159")
row("swish", "swish", "x=X", fixed={"beta": 1.0})
row("thresholded_relu", "thresholded_relu", "x=X", attributes="threshold?1.0 value?0.0")

# Two operands, broadcast. `legacy_forms` has seen to `axis`.
for _name, _phi in (
    ("elementwise_add", "add"),
    ("elementwise_div", "divide"),
    ("elementwise_floordiv", "floor_divide"),
    ("elementwise_fmax", "fmax"),
    ("elementwise_fmin", "fmin"),
    ("elementwise_max", "maximum"),
    ("elementwise_min", "minimum"),
    ("elementwise_mod", "remainder"),
    ("elementwise_mul", "multiply"),
    ("elementwise_pow", "elementwise_pow"),
    ("elementwise_sub", "subtract"),
    ("bitwise_and", "bitwise_and"),
    ("bitwise_or", "bitwise_or"),
    ("bitwise_xor", "bitwise_xor"),
    ("bmm", "bmm"),
    ("dot", "dot"),
    ("equal", "equal"),
    ("greater_equal", "greater_equal"),
    ("greater_than", "greater_than"),
    ("less_equal", "less_equal"),
    ("less_than", "less_than"),
    ("logical_and", "logical_and"),
    ("logical_or", "logical_or"),
    ("logical_xor", "logical_xor"),
    ("not_equal", "not_equal"),
):
    row(_name, _phi, "x=X y=Y")
row("atan2", "atan2", "x=X1 y=X2")
row("clip", "clip", "x=X min=Min|@min:float32 max=Max|@max:float32")
row("clip_by_norm", "clip_by_norm", "x=X", attributes="max_norm")
row("increment", "increment_", "x=X", attributes="value=step?1.0")
row("lerp", "lerp", "x=X y=Y weight=Weight")
row("pow", "pow", "x=X", attributes="y=factor?1.0")
row(
    "scale",
    "scale",
    "x=X scale=ScaleTensor|@scale:float32?1.0",
    attributes="bias?0.0 bias_after_scale?true",
)
row("sum", "add_n", "inputs=X*")
row("where", "where", "condition=Condition x=X y=Y")

# Matrix products.
row("addmm", "addmm", "input=Input x=X y=Y", attributes="alpha=Alpha?1.0 beta=Beta?1.0")
row(
    "matmul_v2",
    "matmul",
    "x=X y=Y",
    attributes="transpose_x=trans_x?false transpose_y=trans_y?false",
)
row(
    "matmul",
    "matmul",
    "x=X y=Y",
    attributes="transpose_x=transpose_X?false transpose_y=transpose_Y?false",
    fixed={"head_number": 1},
)
row("mul", "matmul", "x=X y=Y")
row("mv", "mv", "x=X vec=Vec")

# Reductions. `legacy_forms` has seen to `reduce_all`.
for _name in ("all", "any", "amax", "amin"):
    row(f"reduce_{_name}", _name, "x=X", attributes="axis=dim?[0] keepdim=keep_dim?false")
for _name in ("max", "mean", "min"):
    row(f"reduce_{_name}", _name, "x=X axis=@dim?[0]", attributes="keepdim=keep_dim?false")
row(
    "frobenius_norm",
    "frobenius_norm",
    "x=X axis=@dim?[0]",
    attributes="keep_dim?false reduce_all?false",
)
row(
    "reduce_prod",
    "prod",
    "x=X axis=@dim?[0]",
    attributes="keepdim=keep_dim?false reduce_all?false",
)
row(
    "reduce_sum",
    "sum",
    "x=X axis=@dim?[0]",
    attributes="dtype=out_dtype:dtype?-1 keepdim=keep_dim?false",
)
for _name in ("max", "min"):
    row(
        f"arg_{_name}",
        f"arg{_name}",
        "x=X axis=@axis:int64",
        attributes="dtype:dtype?3 flatten?false keepdims?false",
    )
row(
    "cumsum",
    "cumsum",
    "x=X axis=@axis:int32?-1",
    attributes="exclusive?false flatten?false reverse?false",
)
row("logsumexp", "logsumexp", "x=X", attributes="axis?[0] keepdim?false reduce_all?false")
row(
    "p_norm",
    "p_norm",
    "x=X",
    attributes="asvector?false axis?-1 epsilon?1e-12 keepdim?false porder?2.0",
)

# Shapes.
row("concat", "concat", "x=X* axis=AxisTensor|@axis:int32?0")
row("expand_v2", "expand", "x=X shape=Shape|expand_shapes_tensor*|@shape?[]")
row("expand_as_v2", "expand_as", "x=X y=Y", attributes="target_shape?[]")
row(
    "flatten_contiguous_range",
    "flatten",
    "x=X",
    attributes="start_axis?1 stop_axis?1",
)
row("flip", "flip", "x=X", attributes="axis")
row("meshgrid", "meshgrid", "inputs=X*", "out=Out*")
row("pad", "pad", "x=X pad_value=@pad_value:float32?0.0", attributes="paddings")
row(
    "pad3d",
    "pad3d",
    "x=X paddings=Paddings|@paddings",
    attributes='data_format?"NCDHW" mode?"constant" pad_value=value?0.0',
)
row("pixel_shuffle", "pixel_shuffle", "x=X", attributes='data_format?"NCHW" upscale_factor?1')
row(
    "repeat_interleave",
    "repeat_interleave",
    "x=X",
    attributes="axis=dim?0 output_size?-1 repeats=Repeats?0",
)
for _name in ("reshape", "reshape2"):
    row(_name, "reshape", "x=X shape=ShapeTensor*|Shape|@shape?[]")
row("roll", "roll", "x=X shifts=ShiftsTensor|@shifts?[]", attributes="axis?[]")
row(
    "slice",
    "slice",
    "input=Input starts=StartsTensor|StartsTensorList*|@starts?[] "
    "ends=EndsTensor|EndsTensorList*|@ends?[]",
    attributes="axes decrease_axis?[] infer_flags?[]",
)
row(
    "split",
    "split",
    "x=X sections=SectionsTensorList*|@sections axis=AxisTensor|@axis:int32?0",
    "out=Out*",
)
row("split_with_num", "split_with_num", "x=X axis=AxisTensor|@axis:int32?0", "out=Out*", "num")
for _name in ("squeeze", "squeeze2"):
    row(_name, "squeeze", "x=X axis=@axes?[]")
row("stack", "stack", "x=X*", "out=Y", "axis?0")
row(
    "strided_slice",
    "strided_slice",
    "x=Input starts=StartsTensor|StartsTensorList*|@starts?[] "
    "ends=EndsTensor|EndsTensorList*|@ends?[] strides=StridesTensor|StridesTensorList*|@strides?[]",
    attributes="axes",
    fixed={"decrease_axis": []},
)
row("tile", "tile", "x=X repeat_times=RepeatTimes|repeat_times_tensor*|@repeat_times?[]")
row("expand", "tile", "x=X repeat_times=ExpandTimes|expand_times_tensor*|@expand_times?[]")
for _name in ("transpose", "transpose2"):
    row(_name, "transpose", "x=X", attributes="perm=axis")
row("tril", "tril", "x=X", attributes="diagonal?0")
row("triu", "triu", "x=X", attributes="diagonal?0")
row("unbind", "unbind", "input=X", "out=Out*", "axis?0")
for _name in ("unsqueeze", "unsqueeze2"):
    row(_name, "unsqueeze", "x=X axis=AxesTensor|AxesTensorList*|@axes?[]")
row("unstack", "unstack", "x=X", "out=Y*", "axis?0 num?0")

# Picking elements.
row(
    "argsort",
    "argsort",
    "x=X",
    "out=Out indices=Indices",
    "axis?-1 descending?false stable?false",
)
row("gather", "gather", "x=X index=Index axis=Axis|@axis:int32?0")
row("gather_nd", "gather_nd", "x=X index=Index")
row("index_sample", "index_sample", "x=X index=Index")
row("index_select", "index_select", "x=X index=Index", attributes="axis=dim?0")
for _name in ("lookup_table", "lookup_table_v2"):
    row(_name, "embedding", "x=Ids weight=W", attributes="padding_idx?-1 sparse=is_sparse?false")
for _name in ("one_hot", "one_hot_v2"):
    row(
        _name,
        "one_hot",
        "x=X num_classes=depth_tensor|@depth:int32",
        fixed={"allow_out_of_range": False},
    )
row(
    "sequence_mask",
    "sequence_mask",
    "x=X max_len=MaxLenTensor|@maxlen:int32?-1",
    "y=Y",
    "out_dtype:dtype",
)
row("take_along_axis", "take_along_axis", "arr=Input indices=Index", "out=Result", "axis=Axis")
for _name in ("top_k", "top_k_v2"):
    row(
        _name,
        "topk",
        "x=X k=K|@k:int32?1",
        "out=Out indices=Indices",
        "axis?-1 largest?true sorted?true",
    )

# Constants and dtypes.
row("assign_value", "assign_value", "", attributes="dtype:dtype shape values")
row("assign_value_", "assign_value_", "output=Out", attributes="dtype:dtype shape values")
row("cast", "cast", "x=X", attributes="dtype=out_dtype:dtype")
row(
    "eye",
    "eye",
    "num_rows=@num_rows:int64 num_columns=@num_columns:int64?-1",
    attributes="dtype:dtype?5",
)
row(
    "fill_any_like",
    "full_like",
    "x=X value=@value:float32?0.0",
    attributes="dtype:dtype?-1",
)
row("fill_constant", "full", "", attributes="dtype:dtype?5 shape?[] value?0.0")
row(
    "full_with_tensor",
    "full_with_tensor",
    "value=ValueTensor|@value:float32 shape=ShapeTensor|ShapeTensorList*|@shape?[]",
    attributes="dtype:dtype?5",
)
row(
    "fill_constant_batch_size_like",
    "full_batch_size_like",
    "input=Input",
    attributes="dtype:dtype?5 input_dim_idx?0 output_dim_idx?0 shape value?0.0",
)
row("linspace", "linspace", "start=Start stop=Stop number=Num", attributes="dtype:dtype")
row("range", "arange", "start=Start end=End step=Step", attributes="dtype:dtype")

# Convolution, pooling, normalisation, dropout.
for _name in ("conv2d", "depthwise_conv2d"):
    row(
        _name,
        _name,
        "input=Input filter=Filter",
        "out=Output",
        'data_format?"NCHW" dilations?[1,1] groups?1 padding_algorithm?"EXPLICIT" paddings?[0,0] '
        "strides?[1,1]",
    )
row(
    "pool2d",
    "pool2d",
    "x=X kernel_size=@ksize",
    attributes='adaptive?false ceil_mode?false data_format?"NCHW" exclusive?true '
    'global_pooling?false padding_algorithm?"EXPLICIT" paddings?[0,0] pooling_type strides?[1,1]',
)
row(
    "max_pool2d_with_index",
    "max_pool2d_with_index",
    "x=X",
    "out=Out mask=Mask",
    "adaptive?false ceil_mode?false global_pooling?false kernel_size=ksize paddings?[0,0] "
    "strides?[1,1]",
)
for _name in ("batch_norm", "sync_batch_norm"):
    row(
        _name,
        f"{_name}_",
        "x=X mean=Mean variance=Variance scale=Scale bias=Bias",
        "out=Y mean_out=MeanOut variance_out=VarianceOut saved_mean=SavedMean "
        "saved_variance=SavedVariance reserve_space=ReserveSpace",
        'data_format=data_layout?"NCHW" epsilon?1e-05 is_test?false momentum?0.9 '
        "trainable_statistics?false use_global_stats?false",
    )
row(
    "group_norm",
    "group_norm",
    "x=X scale=Scale bias=Bias",
    "y=Y mean=Mean variance=Variance",
    'data_format=data_layout?"NCHW" epsilon?1e-05 groups?-1',
)
row(
    "instance_norm",
    "instance_norm",
    "x=X scale=Scale bias=Bias",
    "y=Y saved_mean=SavedMean saved_variance=SavedVariance",
    "epsilon?1e-05",
)
row(
    "layer_norm",
    "layer_norm",
    "x=X scale=Scale bias=Bias",
    "out=Y mean=Mean variance=Variance",
    "begin_norm_axis?1 epsilon?1e-05",
)
row(
    "dropout",
    "dropout",
    "x=X seed_tensor=Seed p=@dropout_prob:float32?0.5",
    "out=Out mask=Mask",
    'fix_seed?false is_test?false mode=dropout_implementation?"downgrade_in_infer" seed?0',
)

# Losses and metrics.
row(
    "accuracy",
    "accuracy",
    "x=Out indices=Indices label=Label",
    "accuracy=Accuracy correct=Correct total=Total",
)
row("bce_loss", "bce_loss", "input=X label=Label")
row("huber_loss", "huber_loss", "input=X label=Y", "out=Out residual=Residual", "delta")
row("identity_loss", "identity_loss", "x=X", attributes="reduction?1")
row("kldiv_loss", "kldiv_loss", "x=X label=Target", "out=Loss", 'log_target?false reduction?"mean"')
row("label_smooth", "label_smooth", "label=X prior_dist=PriorDist", attributes="epsilon?0.0")
row(
    "nll_loss",
    "nll_loss",
    "input=X label=Label weight=Weight",
    "out=Out total_weight=Total_weight",
    'ignore_index?-100 reduction?"mean"',
)
row(
    "sigmoid_cross_entropy_with_logits",
    "sigmoid_cross_entropy_with_logits",
    "x=X label=Label pos_weight=pos_weight",
    attributes="ignore_index?-100 normalize?false",
)
row(
    "softmax_with_cross_entropy",
    "cross_entropy_with_softmax",
    "input=Logits label=Label",
    "softmax=Softmax loss=Loss",
    "axis?-1 ignore_index?-100 numeric_stable_mode?true soft_label?false use_softmax?true",
)

# Optimizers.
row(
    "sgd",
    "sgd_",
    "param=Param learning_rate=LearningRate grad=Grad master_param=MasterParam",
    "param_out=ParamOut master_param_out=MasterParamOut",
    "multi_precision?false",
)
row(
    "momentum",
    "momentum_",
    "param=Param grad=Grad velocity=Velocity learning_rate=LearningRate master_param=MasterParam",
    "param_out=ParamOut velocity_out=VelocityOut master_param_out=MasterParamOut",
    'mu multi_precision?false regularization_coeff?0.0 regularization_method?"" rescale_grad?1.0 '
    "use_nesterov?false",
)
_ADAM = (
    "param=Param grad=Grad learning_rate=LearningRate moment1=Moment1 moment2=Moment2 "
    "moment2_max=Moment2Max beta1_pow=Beta1Pow beta2_pow=Beta2Pow master_param=MasterParam "
    "skip_update=SkipUpdate beta1=Beta1Tensor|@beta1:float32?0.9 "
    "beta2=Beta2Tensor|@beta2:float32?0.999 epsilon=EpsilonTensor|@epsilon:float32?1e-08"
)
_ADAM_OUT = (
    "param_out=ParamOut moment1_out=Moment1Out moment2_out=Moment2Out "
    "moment2_max_out=Moment2MaxOut beta1_pow_out=Beta1PowOut beta2_pow_out=Beta2PowOut "
    "master_param_out=MasterParamOut"
)
_ADAM_SETTINGS = (
    "amsgrad?false lazy_mode?false min_row_size_to_use_multithread?1000 multi_precision?false "
    "use_global_beta_pow?false"
)
row("adam", "adam_", _ADAM, _ADAM_OUT, _ADAM_SETTINGS)
row(
    "adamw",
    "adamw_",
    _ADAM,
    _ADAM_OUT,
    f"{_ADAM_SETTINGS} coeff?0.01 lr_ratio?1.0 with_decay?false",
)
row(
    "lamb",
    "lamb_",
    "param=Param grad=Grad learning_rate=LearningRate moment1=Moment1 moment2=Moment2 "
    "beta1_pow=Beta1Pow beta2_pow=Beta2Pow master_param=MasterParam skip_update=SkipUpdate",
    "param_out=ParamOut moment1_out=Moment1Out moment2_out=Moment2Out beta1_pow_out=Beta1PowOut "
    "beta2_pow_out=Beta2PowOut master_param_outs=MasterParamOut",
    "always_adapt?false beta1?0.9 beta2?0.999 epsilon?1e-06 multi_precision?false weight_decay",
)
row(
    "adamax",
    "adamax_",
    "param=Param grad=Grad learning_rate=LearningRate moment=Moment inf_norm=InfNorm "
    "beta1_pow=Beta1Pow master_param=MasterParam",
    "param_out=ParamOut moment_out=MomentOut inf_norm_out=InfNormOut "
    "master_param_out=MasterParamOut",
    "beta1?0.9 beta2?0.999 epsilon?1e-08 multi_precision?false",
)
row(
    "adagrad",
    "adagrad_",
    "param=Param grad=Grad moment=Moment learning_rate=LearningRate master_param=MasterParam",
    "param_out=ParamOut moment_out=MomentOut master_param_out=MasterParamOut",
    "epsilon?1e-06 multi_precision?false",
)
row(
    "adadelta",
    "adadelta_",
    "param=Param grad=Grad avg_squared_grad=AvgSquaredGrad avg_squared_update=AvgSquaredUpdate "
    "learning_rate=LearningRate master_param=MasterParam",
    "param_out=ParamOut moment_out=AvgSquaredGradOut inf_norm_out=AvgSquaredUpdateOut "
    "master_param_out=MasterParamOut",
    "epsilon?1e-06 multi_precision?false rho?0.95",
)
row(
    "rmsprop",
    "rmsprop_",
    "param=Param mean_square=MeanSquare grad=Grad moment=Moment learning_rate=LearningRate "
    "mean_grad=MeanGrad master_param=MasterParam",
    "param_out=ParamOut moment_out=MomentOut mean_square_out=MeanSquareOut "
    "mean_grad_out=MeanGradOut master_param_outs=MasterParamOut",
    "centered?false decay?0.9 epsilon?1e-10 momentum?0.0 multi_precision?false",
)
row(
    "lars_momentum",
    "lars_momentum_",
    "param=Param* grad=Grad* velocity=Velocity* learning_rate=LearningRate* "
    "master_param=MasterParam*",
    "param_out=ParamOut* velocity_out=VelocityOut* master_param_out=MasterParamOut*",
    "epsilon?0.0 lars_coeff?0.001 lars_weight_decay?[0.0005] mu multi_precision?false "
    "rescale_grad?1.0",
)
