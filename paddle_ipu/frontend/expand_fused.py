"""Writes the fused operators of Paddle's inference passes with the plain operators they stand for.

``paddle.inference`` saves its optimised program where it is asked to (``enable_save_optim_model``),
with operators that only its own kernels know:

    fc                                 mul, elementwise_add, activation
    fused_matmul                       reshape2 and transpose2 of X and Y, matmul_v2, scale,
                                       elementwise_add, activation, transpose2 and reshape2
    fused_conv2d, ..._add_act          conv2d, elementwise_add, activation
    fused_elementwise_add, ...         elementwise_add, ..., activation
    batch_norm with fuse_with_relu     batch_norm, relu

A form that is refused, int8 for instance, stays as it is, and compiling it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from paddle_ipu.dialect.annotations import ANNOTATIONS
from paddle_ipu.frontend.desc_message import dense_tensor, tensor_of
from paddle_ipu.frontend.legacy_operator import FIELDS, plain_value
from paddle_ipu.frontend.program_types import (
    AttributeDesc,
    OpDesc,
    ProgramDesc,
    VarDesc,
)

Message = TypeVar("Message")
_Attribute: TypeAlias = bool | int | float | str | list[int]

_KEPT = frozenset({"op_role", "op_callstack", "op_device", "op_namescope", *ANNOTATIONS})

_ACTIVATIONS: Mapping[str, tuple[str, Mapping[str, _Attribute]]] = {
    "relu": ("relu", {}),
    "relu6": ("relu6", {"threshold": 6.0}),
    "sigmoid": ("sigmoid", {}),
    "tanh": ("tanh", {}),
    "sqrt": ("sqrt", {}),
    "abs": ("abs", {}),
    "swish": ("swish", {"beta": 1.0}),
    "gelu": ("gelu", {"approximate": False}),
    "gelu_erf": ("gelu", {"approximate": False}),
    "gelu_tanh": ("gelu", {"approximate": True}),
}
_IDENTITY = ("", "identity", "linear")

_ONEDNN = ("use_mkldnn", "use_onednn")

_UNFUSED_ATTRIBUTES: Mapping[str, _Attribute] = {
    "fused_output_scale": 1.0,
    "fused_unsqueeze2_axes": [],
    "fused_reshape2_shape": [],
    "support_int8": False,
    "enable_int8": False,
    "force_fp32_output": False,
    **{f"{scale}_{name}": 1.0 for scale in ("scale", "Scale") for name in ("x", "y", "out")},
}
"""Attributes that change the result, and the value with which they do not."""


Step = Callable[[str, str], None]
"""Writes an operator from one variable to another."""


class _RefusedError(Exception):
    """This fused operator has no plain form here."""


def expanded(desc: ProgramDesc, for_translation: bool = False) -> ProgramDesc:
    """A ProgramDesc without the fused operators that have a plain form.

    Args:
        desc: a ``framework_pb2.ProgramDesc``; it is not changed.
        for_translation: for Paddle's translation to PIR, which has no plain form of ``mul`` and
            takes operators marked for oneDNN into a dialect of their own.

    Returns:
        `desc` itself where nothing is to be written anew, else a copy.
    """
    wanted = {*_FORMS, "mul"} if for_translation else set(_FORMS)
    if not for_translation and not any(op.type in wanted for b in desc.blocks for op in b.ops):
        return desc
    copy = _new(desc)
    copy.CopyFrom(desc)
    for block in copy.blocks:
        plain: list[OpDesc] = []
        variables = {var.name: var for var in block.vars}
        for op in block.ops:
            if for_translation:
                for attribute in op.attrs:
                    if attribute.name in _ONEDNN:
                        attribute.b = False
            form = _Form(variables, op)
            try:
                if op.type in wanted:
                    _FORMS.get(op.type, _mul)(form)
                    plain.extend(form.ops)
                    variables.update((var.name, var) for var in form.variables)
                    block.vars.extend(form.variables)
                else:
                    plain.append(op)
            except _RefusedError:
                plain.append(op)
        del block.ops[:]
        block.ops.extend(plain)
    return copy


class _Form:
    """One fused operator and the plain ones written for it."""

    def __init__(self, variables: Mapping[str, VarDesc], op: OpDesc) -> None:
        self.type = str(op.type)
        self.ops: list[OpDesc] = []
        self.variables: list[VarDesc] = []
        self._variables = variables
        self._declared: dict[str, VarDesc] = {}
        self._op = op
        # Paddle's passes write some attributes twice; the last one counts.
        self.attributes = {attr.name: _plain(attr) for attr in op.attrs}

    def copy(self) -> OpDesc:
        """The operator itself."""
        op = _new(self._op)
        op.CopyFrom(self._op)
        return op

    def number(self, name: str, default: float) -> float:
        """An attribute that is a number."""
        value = self.attributes.get(name, default)
        if not isinstance(value, (int, float)):
            raise _RefusedError
        return value

    def numbers(self, name: str) -> list[int]:
        """An attribute that is a list of integers, empty where there is none."""
        value = self.attributes.get(name, [])
        if not isinstance(value, list) or not all(isinstance(each, int) for each in value):
            raise _RefusedError
        return value

    def input(self, slot: str) -> str:
        names = self.inputs(slot)
        if len(names) != 1:
            raise _RefusedError
        return names[0]

    def inputs(self, slot: str) -> list[str]:
        return [
            name for each in self._op.inputs if each.parameter == slot for name in each.arguments
        ]

    def optional(self, slot: str) -> str | None:
        return next(iter(self.inputs(slot)), None)

    def output(self, slot: str) -> str:
        for each in self._op.outputs:
            if each.parameter == slot and len(each.arguments) == 1:
                return str(each.arguments[0])
        raise _RefusedError

    def shape(self, name: str) -> list[int]:
        variable = self._declared.get(name) or self._variables.get(name)
        tensor = None if variable is None else tensor_of(variable)
        if tensor is None:
            raise _RefusedError
        return list(tensor.dims)

    def refuse_unless_plain(self) -> None:
        for name, neutral in _UNFUSED_ATTRIBUTES.items():
            if self.attributes.get(name, neutral) != neutral:
                raise _RefusedError

    def temporary(self, like: str, shape: Sequence[int]) -> str:
        """A new variable of another's dtype."""
        self.shape(like)
        variable = _new(self._variables[like])
        variable.CopyFrom(self._variables[like])
        number = len(self._declared)
        variable.name = f"{like}.{self._op.type}.{number}"
        while variable.name in self._variables:
            variable.name += "_"
        variable.persistable = variable.need_check_feed = False
        tensor = dense_tensor(variable.type)
        del tensor.dims[:]
        tensor.dims.extend(shape)
        self._declared[variable.name] = variable
        self.variables.append(variable)
        return str(variable.name)

    def add(
        self,
        type_: str,
        inputs: Mapping[str, Sequence[str]],
        outputs: Mapping[str, Sequence[str]],
        attributes: Mapping[str, _Attribute],
    ) -> None:
        """A plain operator, with the marks of the fused one."""
        op = _new(self._op)
        op.type = type_
        for slots, named in ((op.inputs, inputs), (op.outputs, outputs)):
            for slot, names in named.items():
                slots.add(parameter=slot, arguments=names)
        op.attrs.extend(attr for attr in self._op.attrs if attr.name in _KEPT)
        for name, value in attributes.items():
            _write(op.attrs.add(name=name, type=_kind(value)), value)
        self.ops.append(op)

    def one(self, type_: str, x: str, out: str, **attributes: _Attribute) -> None:
        """An operator from X to Out."""
        self.add(type_, {"X": [x]}, {"Out": [out]}, attributes)

    def finish(self, name: str, out: str, steps: Sequence[Step]) -> None:
        """Steps of one shape from `name` to `out`; without one, `out` is a copy."""
        if not steps:
            self.one("assign", name, out)
        for number, step in enumerate(steps, start=1):
            result = out if number == len(steps) else self.temporary(out, self.shape(out))
            step(name, result)
            name = result

    def plus(self, other: str, axis: int = -1) -> Step:
        """The step that adds another tensor."""
        return lambda x, y: self.add(
            "elementwise_add", {"X": [x], "Y": [other]}, {"Out": [y]}, {"axis": axis}
        )

    def activation(self, name: str) -> list[Step]:
        """The steps of an activation, none for the identity."""
        if name in _IDENTITY:
            return []
        if name not in _ACTIVATIONS:
            raise _RefusedError
        type_, attributes = _ACTIVATIONS[name]
        return [lambda x, y: self.one(type_, x, y, **attributes)]

    def fused_activation(self, *names: str) -> list[Step]:
        """The activation that one of these attributes names."""
        found = [str(self.attributes.get(name, "")) for name in names]
        return self.activation(next((name for name in found if name not in _IDENTITY), ""))


def _new(message: Message) -> Message:
    """An empty message of the same kind."""
    return type(message)()


def _plain(attr: AttributeDesc) -> Any:
    """The value; None for blocks, scalars and variables, which no fused operator has."""
    return plain_value(attr) if attr.type in FIELDS else None


def _kind(value: _Attribute) -> int:
    if isinstance(value, bool):
        return 6
    if isinstance(value, list):
        return 3
    return {int: 0, float: 1, str: 2}[type(value)]


def _write(attr: AttributeDesc, value: _Attribute) -> None:
    if isinstance(value, bool):
        attr.b = value
    elif isinstance(value, int):
        attr.i = value
    elif isinstance(value, float):
        attr.f = value
    elif isinstance(value, str):
        attr.s = value
    else:
        attr.ints.extend(value)


# -- products -------------------------------------------------------------------------------------


def _mul(form: _Form) -> None:
    x, y = form.input("X"), form.input("Y")
    columns = int(form.number("x_num_col_dims", 1))
    if int(form.number("y_num_col_dims", 1)) != 1:
        raise _RefusedError
    _product(form, x, y, form.output("Out"), columns)


def _product(form: _Form, x: str, y: str, out: str, columns: int) -> None:
    """X as a matrix whose rows are its first `columns` dimensions, times the matrix Y."""
    dims = form.shape(x)
    if len(form.shape(y)) != 2 or len(form.shape(out)) != columns + 1:
        raise _RefusedError
    if len(dims) != columns + 1:
        inner = form.shape(y)[0]
        # 0 keeps a dimension, known or not.
        flat = form.temporary(x, [*dims[:columns], inner])
        form.one("reshape2", x, flat, shape=[*[0] * columns, inner])
        x = flat
    form.add(
        "matmul_v2", {"X": [x], "Y": [y]}, {"Out": [out]}, {"trans_x": False, "trans_y": False}
    )


def _product_like(form: _Form, x: str, weight: str, columns: int, like: str) -> str:
    """The product in a new variable of another's shape."""
    product = form.temporary(like, form.shape(like))
    _product(form, x, weight, product, columns)
    return product


def _fc(form: _Form) -> None:
    form.refuse_unless_plain()
    out = form.output("Out")
    columns = int(form.number("in_num_col_dims", 1))
    weight = form.input("W")
    if form.attributes.get("padding_weights", False):
        # Paddle's CPU pass gives them 4 rows and columns that no product reads.
        ends = [size - 4 for size in form.shape(weight)]
        within = form.temporary(weight, ends)
        form.add(
            "slice",
            {"Input": [weight]},
            {"Out": [within]},
            {"axes": [0, 1], "starts": [0, 0], "ends": ends},
        )
        weight = within
    product = _product_like(form, form.input("Input"), weight, columns, out)
    bias, residual = form.optional("Bias"), form.optional("ResidualData")
    steps = [form.plus(other) for other in (bias, residual) if other]
    steps += form.fused_activation("activation_type", "fuse_activation")
    form.finish(product, out, steps)


def _fused_matmul(form: _Form) -> None:
    form.refuse_unless_plain()
    out = form.output("Out")
    operands = []
    for side in "XY":
        name = form.input(side)
        shape = form.numbers(f"fused_reshape_{side}")
        order = form.numbers(f"fused_transpose_{side}")
        if shape:
            dims = form.shape(name)
            if any(dim == 0 for dim in shape[len(dims) :]):
                raise _RefusedError
            known = [dims[at] if dim == 0 else dim for at, dim in enumerate(shape)]
            reshaped = form.temporary(name, known)
            form.one("reshape2", name, reshaped, shape=shape)
            name = reshaped
        if order:
            dims = form.shape(name)
            if sorted(order) != list(range(len(dims))):
                raise _RefusedError
            transposed = form.temporary(form.input(side), [dims[axis] for axis in order])
            form.one("transpose2", name, transposed, axis=order)
            name = transposed
        operands.append(name)
    if form.attributes.get("fused_reshape_Out") or form.attributes.get("fused_transpose_Out"):
        # Their product's shape is in no variable of the program.
        raise _RefusedError
    product = form.temporary(out, form.shape(out))
    form.add(
        "matmul_v2",
        {"X": [operands[0]], "Y": [operands[1]]},
        {"Out": [product]},
        {
            "trans_x": bool(form.attributes.get("trans_x", False)),
            "trans_y": bool(form.attributes.get("trans_y", False)),
        },
    )
    alpha = form.number("matmul_alpha", form.number("alpha", 1.0))
    steps: list[Step] = []
    if alpha != 1.0:
        steps.append(
            lambda x, y: form.one("scale", x, y, scale=alpha, bias=0.0, bias_after_scale=True)
        )
    residual = form.optional("ResidualData")
    if residual:
        steps.append(form.plus(residual))
    steps += form.fused_activation("fuse_activation")
    form.finish(product, out, steps)


# -- convolution and elementwise ------------------------------------------------------------------

_CONVOLUTION = ("strides", "paddings", "padding_algorithm", "dilations", "groups", "data_format")


def _conv2d(form: _Form) -> None:
    form.refuse_unless_plain()
    if form.inputs("Bias") and str(form.attributes.get("data_format", "NCHW")) == "NHWC":
        raise _RefusedError
    out = form.output("Output")
    result = form.temporary(out, form.shape(out))
    form.add(
        "conv2d",
        {"Input": [form.input("Input")], "Filter": [form.input("Filter")]},
        {"Output": [result]},
        {name: form.attributes[name] for name in _CONVOLUTION if name in form.attributes},
    )
    steps = []
    bias, residual = form.optional("Bias"), form.optional("ResidualData")
    if bias:
        steps.append(form.plus(bias, axis=1))
    if residual:
        steps.append(form.plus(residual))
    steps += form.fused_activation("activation", "fuse_activation")
    form.finish(result, out, steps)


def _batch_norm(form: _Form) -> None:
    if not form.attributes.get("fuse_with_relu"):
        raise _RefusedError
    out = form.output("Y")
    result = form.temporary(out, form.shape(out))
    plain = form.copy()
    for attribute in plain.attrs:
        if attribute.name == "fuse_with_relu":
            attribute.b = False
    for slot in plain.outputs:
        if slot.parameter == "Y":
            slot.arguments[0] = result
    form.ops.append(plain)
    form.finish(result, out, form.activation("relu"))


def _elementwise(form: _Form) -> None:
    form.refuse_unless_plain()
    out = form.output("Out")
    result = form.temporary(out, form.shape(out))
    form.add(
        form.type.removeprefix("fused_"),
        {"X": [form.input("X")], "Y": [form.input("Y")]},
        {"Out": [result]},
        {"axis": int(form.number("axis", -1))},
    )
    form.finish(result, out, form.fused_activation("fuse_activation"))


_FORMS: Mapping[str, Callable[[_Form], None]] = {
    "batch_norm": _batch_norm,
    "fc": _fc,
    "fused_matmul": _fused_matmul,
    "fused_conv2d": _conv2d,
    "fused_conv2d_add_act": _conv2d,
    "fused_elementwise_add": _elementwise,
    "fused_elementwise_sub": _elementwise,
    "fused_elementwise_mul": _elementwise,
    "fused_elementwise_div": _elementwise,
}
