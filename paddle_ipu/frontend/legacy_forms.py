"""Writes an operator of a ProgramDesc that has an old or special form with plain operators.

What comes out are ProgramDesc operators again, all of them rows of ``frontend/vocabulary``:

    elementwise_add(X, Y, axis=1)      Y' = reshape2(Y, [.., 1]);  elementwise_add(X, Y')
    mul(X, Y, x_num_col_dims)          matmul_v2 of X and Y as matrices, and a reshape2 back
    split(X, num=3)                    split_with_num(X, num=3)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Protocol

from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.frontend.legacy_operator import EMPTY, Operator


class ProgramVariables(Protocol):
    """The program's variables, as a rewrite needs them."""

    def shape(self, name: str) -> list[int]:
        """The dimensions, -1 for one known only at run time."""

    def dtype(self, name: str) -> int:
        """The number of the dtype in ``VarType.Type``."""

    @property
    def version(self) -> int:
        """Of the Paddle that wrote the program: major * 1000000 + minor * 1000 + patch."""

    def is_persistable(self, name: str) -> bool:
        """Whether it keeps its value between runs."""

    def declare(self, like: str, shape: Sequence[int]) -> str:
        """Makes a variable of another's dtype and gives its name."""


Rewrite = Callable[[Operator, ProgramVariables], list[Operator]]


def modern(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """The plain operators that do what `operator` does: itself, where it is plain."""
    rewrite = REWRITES.get(operator.type)
    return [operator] if rewrite is None else rewrite(operator, variables)


def _align(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """``axis`` says where Y's dimensions stand among X's; in phi they are the last."""
    x, y = _one(operator, "X"), _one(operator, "Y")
    axis = int(operator.attributes.get("axis", -1))
    plain = operator.changed(without=["axis"])
    shape = variables.shape(y)
    trailing = len(variables.shape(x)) - len(shape) - axis
    if axis == -1 or trailing <= 0:
        return [plain]
    aligned = [*shape, *[1] * trailing]
    name = variables.declare(y, aligned)
    return [_reshape(operator, y, name, aligned), plain.changed(inputs={"X": [x], "Y": [name]})]


def _mul(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """A product of matrices: the first ``num_col_dims`` dimensions are the rows of each."""
    x, y, out = _one(operator, "X"), _one(operator, "Y"), _out(operator)
    columns = int(operator.attributes.get("x_num_col_dims", 1))
    rows = int(operator.attributes.get("y_num_col_dims", 1))
    forms: list[Operator] = []
    if len(variables.shape(x)) != columns + 1:
        # Otherwise the matrix product takes the leading dimensions as they are.
        x = _flatten_to(forms, operator, variables, x, columns)
        columns = 1
    if len(variables.shape(y)) != 2:
        y = _flatten_to(forms, operator, variables, y, rows)
    product = operator.changed(
        "matmul_v2", {"X": [x], "Y": [y]}, without=["x_num_col_dims", "y_num_col_dims"]
    )
    result = [*variables.shape(x)[:columns], variables.shape(y)[1]]
    wanted = variables.shape(out)
    if len(result) == len(wanted):
        return [*forms, product]
    between = variables.declare(out, result)
    return [
        *forms,
        product.changed(outputs={"Out": [between]}),
        _reshape(operator, between, out, wanted),
    ]


def _flatten_to(
    forms: list[Operator], operator: Operator, variables: ProgramVariables, name: str, columns: int
) -> str:
    """A matrix whose rows are the first `columns` dimensions."""
    shape = variables.shape(name)
    matrix = [_size(shape[:columns]), _size(shape[columns:])]
    result = variables.declare(name, matrix)
    forms.append(_reshape(operator, name, result, matrix))
    return result


def _flatten(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """``flatten`` and ``flatten2`` make a matrix with `axis` dimensions as rows."""
    x, out = _one(operator, "X"), _out(operator)
    axis = int(operator.attributes.get("axis", 1))
    shape = variables.shape(x)
    return [_reshape(operator, x, out, [_size(shape[:axis]), _size(shape[axis:])])]


def _matmul(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """The first ``matmul`` multiplies the product with `alpha`."""
    alpha = float(operator.attributes.get("alpha", 1.0))
    plain = operator.changed(without=["alpha"])
    if alpha == 1.0:
        return [plain]
    out = _out(operator)
    product = variables.declare(out, variables.shape(out))
    return [
        plain.changed(outputs={"Out": [product]}),
        operator.beside("scale", product, out, {"scale": alpha}),
    ]


def _without_last(slot: str) -> Rewrite:
    """The first ``lookup_table`` and ``one_hot`` take ids of shape [..., 1]."""

    def rewrite(operator: Operator, variables: ProgramVariables) -> list[Operator]:
        ids = _one(operator, slot)
        shape = variables.shape(ids)
        if not shape or shape[-1] != 1:
            return [operator]
        squeezed = variables.declare(ids, shape[:-1])
        return [
            operator.beside("squeeze2", ids, squeezed, {"axes": [-1]}),
            operator.changed(inputs={**operator.inputs, slot: [squeezed]}),
        ]

    return rewrite


def _fill_constant(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """``str_value`` holds what ``value`` cannot: whole numbers above 2**24, inf."""
    written = str(operator.attributes.get("str_value", ""))
    value = {"value": _number(operator, written)} if written else {}
    slots = ("ValueTensor", "ShapeTensor", "ShapeTensorList")
    by_tensor = operator.type == "fill_constant" and any(
        operator.inputs.get(slot) for slot in slots
    )
    return [
        operator.changed(
            "full_with_tensor" if by_tensor else None, attributes=value, without=["str_value"]
        )
    ]


def _number(operator: Operator, written: str) -> float:
    try:
        return float(written)
    except ValueError as error:
        raise NotSupported(
            f"operator {operator.type}{operator.place}: str_value {written!r} is no real number, "
            "which is all that IPU programs hold."
        ) from error


def _cross_entropy(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """The loss of probabilities, which is that of logits without its softmax."""
    return [
        operator.changed(
            "softmax_with_cross_entropy",
            {"Logits": [_one(operator, "X")], "Label": [_one(operator, "Label")]},
            {"Softmax": [EMPTY], "Loss": [_out(operator, "Y")]},
            {"use_softmax": False},
        )
    ]


def _linear_quantisation(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Paddle 2 has bits instead of bounds, and takes whole numbers for what it makes floats of."""
    forms = []
    if "qmax" not in operator.attributes:
        levels = 2 ** (int(operator.attributes.get("bit_length", 8)) - 1)
        operator = operator.changed(attributes={"qmin": -levels, "qmax": levels - 1})
    x, scale = _one(operator, "X"), _one(operator, "Scale")
    dtypes = variables.dtype(x), variables.dtype(scale)
    if dtypes[0] != dtypes[1]:
        name = variables.declare(scale, variables.shape(x))
        attributes = {"in_dtype": dtypes[0], "out_dtype": dtypes[1]}
        forms.append(operator.beside("cast", x, name, attributes))
        operator = operator.changed(inputs={**operator.inputs, "X": [name]})
    return [*forms, operator]


def _rank_loss(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """``log(1 + exp(left - right)) - label * (left - right)``."""
    label, left, right, out = (
        *(_one(operator, slot) for slot in ("Label", "Left", "Right")),
        _out(operator),
    )
    difference, soft, weighted = (variables.declare(left, variables.shape(left)) for _ in range(3))
    return [
        operator.changed("elementwise_sub", {"X": [left], "Y": [right]}, {"Out": [difference]}),
        operator.beside("softplus", difference, soft, {"beta": 1.0, "threshold": 20.0}),
        operator.changed("elementwise_mul", {"X": [label], "Y": [difference]}, {"Out": [weighted]}),
        operator.changed("elementwise_sub", {"X": [soft], "Y": [weighted]}, {"Out": [out]}),
    ]


def _data_norm(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """``(x - sum / size) * sqrt(size / square_sum)``, and a scale and a bias where it has them."""
    if int(operator.attributes.get("slot_dim", -1)) > 0:
        raise NotSupported(
            f"operator data_norm{operator.place}: slot_dim {operator.attributes['slot_dim']} skips "
            "slots whose first number is 0, which has no translator. Leave slot_dim out."
        )
    x, y = _one(operator, "X"), _out(operator, "Y")
    size, total, squares = (_one(operator, f"Batch{name}") for name in ("Size", "Sum", "SquareSum"))
    steps: list[Operator] = []

    def binary(kind: str, left: str, right: str, out: str | None = None) -> str:
        made = out or variables.declare(left, variables.shape(left))
        plain = operator.changed(
            f"elementwise_{kind}", {"X": [left], "Y": [right]}, {"Out": [made]}
        )
        steps.append(plain.changed(without=_OF_DATA_NORM))
        return made

    mean = binary("div", total, size, operator.output("Means"))
    spread = binary("div", size, squares)
    scale = operator.output("Scales") or variables.declare(size, variables.shape(size))
    steps.append(operator.beside("sqrt", spread, scale, {}))
    centred = binary("sub", x, mean)
    if not operator.attributes.get("enable_scale_and_shift"):
        binary("mul", centred, scale, y)
        return steps
    normal = binary("mul", centred, scale)
    binary("add", binary("mul", normal, _one(operator, "scale_w")), _one(operator, "bias"), y)
    return steps


_OF_DATA_NORM = (
    "epsilon", "slot_dim", "summary_decay_rate", "enable_scale_and_shift", "data_layout",
    "sync_stats",
)  # fmt: skip


def _data_norm_gradient(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    raise NotSupported(
        f"operator data_norm{operator.place}: its statistics are trained by gradients that are no "
        "derivatives, which has no translator. Train with batch_norm; inference works."
    )


def _without_weight(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Its third result is the weight as it was: nothing is written."""
    if operator.input("W") != operator.output("W_Out"):
        return [operator]
    return [operator.changed(outputs={**operator.outputs, "W_Out": [EMPTY]})]


def _truncated(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Without bounds, as Paddle 2 writes it, the normal numbers of two standard deviations."""
    if "a" in operator.attributes:
        return [operator]
    mean, std = (float(operator.attributes[name]) for name in ("mean", "std"))
    return [operator.changed(attributes={"a": mean - 2 * std, "b": mean + 2 * std})]


def _rms_norm(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Up to Paddle 3.2 the name was that of what is ``fused_rms_norm_quant`` since."""
    older = operator.input("norm_weight") is not None
    return [operator.changed("fused_rms_norm_quant") if older else operator]


def _batch_norm(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Without training the running statistics are written as they are read: nothing happens.

    ``sync_batch_norm``, over all devices, is the same on one.
    """
    attributes = operator.attributes
    in_place = operator.input("Mean") == operator.output("MeanOut")
    operator = operator.changed("batch_norm_" if in_place else "batch_norm")
    is_test = attributes.get("is_test", False) and not attributes.get("trainable_statistics", False)
    if not is_test and not attributes.get("use_global_stats", False):
        return [operator]
    outputs = {**operator.outputs, "MeanOut": [EMPTY], "VarianceOut": [EMPTY]}
    return [operator.changed(outputs=outputs)]


def _reduce(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """``reduce_all`` stands for every dimension; so does an empty list."""
    whole = bool(operator.attributes.get("reduce_all", False))
    return [operator.changed(attributes={"dim": []} if whole else {}, without=["reduce_all"])]


def _split(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    number = int(operator.attributes.get("num", 0))
    if number and not operator.inputs.get("SectionsTensorList"):
        return [operator.changed("split_with_num", without=["sections"])]
    return [operator.changed(without=["num"])]


def _strided_slice(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Axes with one element of the slice are dropped after it."""
    plain = _from_paddle_2(operator, variables, "strides").changed(without=["decrease_axis"])
    dropped = [int(axis) for axis in operator.attributes.get("decrease_axis", ())]
    if not dropped:
        return [plain]
    out = _out(operator)
    shape = variables.shape(out)
    for axis in sorted(axis % len(variables.shape(_one(operator, "Input"))) for axis in dropped):
        shape.insert(axis, 1)
    between = variables.declare(out, shape)
    return [
        plain.changed(outputs={"Out": [between]}),
        operator.beside("squeeze2", between, out, {"axes": dropped}),
    ]


def _from_paddle_2(operator: Operator, variables: ProgramVariables, steps: str) -> Operator:
    """Paddle 2's bounds backwards, which phi reads in another way.

    A start before the front is the first element. The end -1 means as far as the first element;
    an end before the front leaves that out where it is read, but not where it is written.
    """
    starts, ends, strides = (
        list(operator.attributes.get(name, [])) for name in ("starts", "ends", steps)
    )
    computed = any(
        names and slot.startswith(("Ends", "Strides", "Steps"))
        for slot, names in operator.inputs.items()
    )
    if variables.version >= 3_000_000 or (computed and min(strides, default=1) > 0):
        return operator
    if computed:
        raise NotSupported(
            f"operator {operator.type}{operator.place}: strides {strides} with bounds "
            "that are tensors are not supported in programs of Paddle 2: turn the axis by "
            "paddle.flip, then slice it."
        )
    shape = variables.shape(_one(operator, "Input"))
    reads = steps == "strides"
    for at, axis in enumerate(operator.attributes["axes"]):
        if strides[at] > 0:
            continue
        if 0 <= shape[axis] < -starts[at]:
            starts[at] = 0
        if ends[at] == -1:
            ends[at] = -(2**31)
        elif reads and 0 <= shape[axis] < -ends[at]:
            ends[at] = 0
    return operator.changed(attributes={"starts": starts, "ends": ends})


def _triangle(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    name = "tril" if operator.attributes.get("lower", False) else "triu"
    return [operator.changed(operator.type.replace("tril_triu", name), without=["lower"])]


def _range(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Its dtype is that of its bounds."""
    return [operator.changed(attributes={"dtype": variables.dtype(_one(operator, "Start"))})]


def _argument(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """dtype -1 stands for int64."""
    unset = operator.attributes.get("dtype", -1) == -1
    return [operator.changed(attributes={"dtype": 3}) if unset else operator]


_VALUES = ("bool_values", "fp32_values", "fp64_values", "int32_values", "int64_values")


def _assign_value(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """The values stand in the attribute of their dtype; newer ones have one for all."""
    found = operator.attributes.get("values") or []
    for name in _VALUES:
        found = found or operator.attributes.get(name) or []
    out = _out(operator)
    kept = variables.is_persistable(out)
    return [
        operator.changed(
            "assign_value_" if kept else "assign_value",
            {"Out": [out]} if kept else {},
            attributes={"values": list(found)},
            without=_VALUES,
        )
    ]


def _assign(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Into a persistable variable it is a side effect."""
    out = _out(operator)
    if not variables.is_persistable(out):
        return [operator]
    return [operator.changed("assign_out_", {"X": [_one(operator, "X")], "Out": [out]})]


def _transposed_convolution(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Passes of Paddle's gave it a bias, which makes another operator of it."""
    biased = operator.input("Bias") is not None
    return [operator.changed("conv2d_transpose_bias") if biased else operator]


def _interpolation(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """The first version's scale only says how large the image becomes; the second samples by it."""
    scale = operator.attributes.get("scale", 0.0)
    sizes: dict[str, int | list[float]] = {"scale": []}
    is_given = any(operator.input(slot) is not None for slot in ("OutSize", "SizeTensor"))
    if isinstance(scale, (int, float)) and scale > 0 and not is_given:
        dims = variables.shape(_one(operator, "X"))
        last = operator.attributes.get("data_layout", "NCHW") in ("NHWC", "NDHWC", "NWC")
        spatial = dims[1:-1] if last else dims[2:]
        names = ("out_d", "out_h", "out_w")[-len(spatial) :]
        if min(spatial) < 0:
            raise NotSupported(
                f"operator {operator.type}{operator.place}: scale {scale} of an image whose size "
                f"is not known, got shape {list(dims)}. Give the input a static shape."
            )
        sizes |= {name: int(dim * scale) for name, dim in zip(names, spatial, strict=True)}
    return [operator.changed(f"{operator.type}_v2", attributes=sizes)]


def _write_to_array(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """It writes on the array that its result names."""
    return [operator.changed(inputs={**operator.inputs, "Array": operator.outputs["Out"]})]


def _matrix_rank(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """A tolerance that is a tensor makes another operator of it."""
    if not operator.inputs.get("TolTensor"):
        return [operator]
    return [operator.changed("matrix_rank_tol", without=["tol"])]


def _increment(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    in_place = operator.input("X") == operator.output("Out")
    return [operator.changed("increment_") if in_place else operator]


def _set_value(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Writing a tensor is an operator of its own; old programs have the numbers by dtype."""
    operator = _from_paddle_2(operator, variables, "steps")
    if operator.inputs.get("ValueTensor"):
        drop = [name for name in operator.attributes if name.endswith("values")]
        return [operator.changed("set_value_with_tensor", without=[*drop, "dtype", "shape"])]
    typed = [name for name in operator.attributes if name.endswith("_values")]
    numbers = [operator.attributes[name] for name in typed if operator.attributes[name]]
    given = {"values": numbers[0]} if numbers else {}
    return [operator.changed(attributes=given, without=[*typed, "dtype"])]


def _repeat_interleave(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    """Numbers of repeats in a tensor make it an operator of its own."""
    if not operator.inputs.get("RepeatsTensor"):
        return [operator]
    return [operator.changed("repeat_interleave_with_tensor_index", without=["Repeats"])]


def _zeros_like(operator: Operator, variables: ProgramVariables) -> list[Operator]:
    return [operator.changed("fill_any_like", attributes={"value": 0.0})]


def _one(operator: Operator, slot: str) -> str:
    name = operator.input(slot)
    if name is None:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} has no input {slot}. The program is damaged."
        )
    return name


def _out(operator: Operator, slot: str = "Out") -> str:
    name = operator.output(slot)
    if name is None:
        raise InvalidProgramError(
            f"operator {operator.type}{operator.place} has no output {slot}. The program is "
            "damaged."
        )
    return name


def _size(dims: Sequence[int]) -> int:
    return -1 if any(dim < 0 for dim in dims) else prod(dims)


def _reshape(operator: Operator, name: str, result: str, shape: Sequence[int]) -> Operator:
    return operator.beside("reshape2", name, result, {"shape": [int(dim) for dim in shape]})


_ELEMENTWISE = ("add", "div", "floordiv", "fmax", "fmin", "max", "min", "mod", "mul", "pow", "sub")

ALIGNED = (
    *(f"elementwise_{name}" for name in _ELEMENTWISE),
    "equal",
    "greater_equal",
    "greater_than",
    "less_equal",
    "less_than",
    "not_equal",
)
"""Operators whose attribute ``axis`` says where Y's dimensions stand among X's."""

_REDUCTIONS = ("all", "amax", "amin", "any", "max", "mean", "min", "sum")

REWRITES: Mapping[str, Rewrite] = {
    **dict.fromkeys(ALIGNED, _align),
    **{f"reduce_{name}": _reduce for name in _REDUCTIONS},
    "arg_max": _argument,
    "arg_min": _argument,
    "assign": _assign,
    "assign_value": _assign_value,
    "batch_norm": _batch_norm,
    "conv2d_transpose": _transposed_convolution,
    "cross_entropy": _cross_entropy,
    "cross_entropy2": _cross_entropy,
    "dequantize_linear": _linear_quantisation,
    "fill_constant": _fill_constant,
    "fill_constant_batch_size_like": _fill_constant,
    "fill_zeros_like": _zeros_like,
    "flatten": _flatten,
    "flatten2": _flatten,
    "hierarchical_sigmoid": _without_weight,
    "increment": _increment,
    "lookup_table": _without_last("Ids"),
    "matmul": _matmul,
    "matrix_rank": _matrix_rank,
    "mul": _mul,
    "one_hot": _without_last("X"),
    "quantize_linear": _linear_quantisation,
    "range": _range,
    "data_norm": _data_norm,
    "data_norm_grad": _data_norm_gradient,
    "rank_loss": _rank_loss,
    "repeat_interleave": _repeat_interleave,
    "set_value": _set_value,
    "rms_norm": _rms_norm,
    "split": _split,
    "strided_slice": _strided_slice,
    "sync_batch_norm": _batch_norm,
    "tril_triu": _triangle,
    "tril_triu_grad": _triangle,
    "truncated_gaussian_random": _truncated,
    "write_to_array": _write_to_array,
    **{
        f"{mode}_interp": _interpolation
        for mode in ("bicubic", "bilinear", "linear", "nearest", "trilinear")
    },
}
"""ProgramDesc operator -> what writes it with plain ones."""
