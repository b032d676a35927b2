"""``Block.append_op`` for PIR programs: the operators that scripts append by hand.

An appended operator writes variables that exist; what is built after it reads what it wrote, as in
a ProgramDesc program. PIR has that in ``paddle.assign(result, output=variable)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import paddle

from paddle_ipu.errors import NotSupported

if TYPE_CHECKING:
    from paddle.pir import Block, Operation, Value

    _Inputs = dict[str, list[Value]]
    _Maker = Callable[[_Inputs, dict[str, Any]], Value]

_IGNORED = frozenset(
    {"op_role", "op_role_var", "op_namescope", "op_callstack", "op_device", "use_mkldnn"}
)
UNARY = (
    "abs", "ceil", "cos", "erf", "exp", "floor", "log", "reciprocal", "relu", "round", "rsqrt",
    "sigmoid", "sign", "sin", "sqrt", "square", "tanh",
)  # fmt: skip
"""Operators of one variable ``X``."""
BINARY = {
    "elementwise_add": "add",
    "elementwise_sub": "subtract",
    "elementwise_mul": "multiply",
    "elementwise_div": "divide",
    "elementwise_max": "maximum",
    "elementwise_min": "minimum",
    "elementwise_pow": "pow",
}
"""Operators of ``X`` and ``Y``, by the function of today."""


def block_append_op(
    self: Block,
    type: str | None = None,
    inputs: Mapping[str, Value | Sequence[Value]] | None = None,
    outputs: Mapping[str, Value | Sequence[Value]] | None = None,
    attrs: Mapping[str, Any] | None = None,
    **others: object,
) -> Operation:
    """Computes `type` of `inputs` and writes it into the variable in ``outputs["Out"]``.

    Returns:
        The operator that writes.

    Raises:
        NotSupported: an operator, a slot or an attribute that is not built this way.
    """
    kind = str(type)
    make = _MAKERS.get(kind)
    if make is None or others:
        raise _refusal(
            kind,
            f"takes {', '.join(sorted(_MAKERS))}"
            if make is None
            else f"{', '.join(map(repr, others))} has no meaning there",
        )
    slots = {slot: _listed(values) for slot, values in (inputs or {}).items()}
    targets = {slot: _listed(values) for slot, values in (outputs or {}).items()}
    if set(targets) != {"Out"} or len(targets["Out"]) != 1:
        raise _refusal(kind, f"writes one variable, outputs={{'Out': x}}; got {outputs!r}")
    values = {key: value for key, value in (attrs or {}).items() if key not in _IGNORED}
    target = targets["Out"][0]
    if paddle.static.default_main_program() is not self.program:
        with paddle.static.program_guard(self.program):
            return _write(kind, make, slots, values, target)
    return _write(kind, make, slots, values, target)


def _write(
    kind: str, make: _Maker, inputs: _Inputs, attributes: dict[str, Any], target: Value
) -> Operation:
    try:
        result = make(inputs, dict(attributes))
    except (KeyError, TypeError, ValueError) as problem:
        raise _refusal(
            kind, f"takes no inputs {sorted(inputs)} with attributes {attributes}: {problem}"
        ) from problem
    if list(result.shape) != list(target.shape) or result.dtype != target.dtype:
        raise _refusal(
            kind,
            f"gives {result.dtype}{list(result.shape)}, and the variable {target.name!r} that "
            f"it shall write is {target.dtype}{list(target.shape)}",
        )
    return paddle.assign(result, output=target).get_defining_op()


def _refusal(kind: str, why: str) -> NotSupported:
    return NotSupported(
        f"append_op({kind!r}): in PIR programs it {why}. Write instead: the function that makes "
        "the operator, for instance paddle.add(x, y), inside of paddle.static.program_guard."
    )


def _listed(values: Value | Sequence[Value]) -> list[Value]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _function(name: str, *slots: str, **renamed: str) -> _Maker:
    """``paddle.<name>`` of one variable for each slot; attributes are renamed."""

    def make(inputs: _Inputs, attributes: dict[str, Any]) -> Value:
        known = {renamed[key]: value for key, value in attributes.items()}
        operands = [value for slot in slots for value in _only(inputs, slot)]
        if set(inputs) != set(slots):
            raise ValueError(f"its inputs are {', '.join(slots)}")
        return getattr(paddle if hasattr(paddle, name) else paddle.nn.functional, name)(
            *operands, **known
        )

    return make


def _only(inputs: _Inputs, slot: str) -> list[Value]:
    (value,) = inputs[slot]
    return [value]


def _elementwise(name: str) -> _Maker:
    plain = _function(name, "X", "Y")

    def make(inputs: _Inputs, attributes: dict[str, Any]) -> Value:
        if attributes.pop("axis", -1) != -1:
            raise ValueError("axis is -1 in today's Paddle; reshape y")
        return plain(inputs, attributes)

    return make


def _sum(inputs: _Inputs, attributes: dict[str, Any]) -> Value:
    if attributes or set(inputs) != {"X"}:
        raise ValueError("it has input X alone")
    return paddle.add_n(inputs["X"])


def _fill(inputs: _Inputs, attributes: dict[str, Any]) -> Value:
    if inputs:
        raise ValueError("it has no inputs")
    return paddle.full(attributes["shape"], attributes["value"], attributes["dtype"])


def _cast(inputs: _Inputs, attributes: dict[str, Any]) -> Value:
    (x,) = _only(inputs, "X")
    return x.astype(attributes["out_dtype"])


_MAKERS: dict[str, _Maker] = {
    **{name: _function(name, "X") for name in UNARY},
    **{name: _elementwise(now) for name, now in BINARY.items()},
    "assign": _function("assign", "X"),
    "share_data": _function("assign", "X"),
    "scale": _function(
        "scale", "X", scale="scale", bias="bias", bias_after_scale="bias_after_scale"
    ),
    "increment": _function("scale", "X", step="bias"),
    "matmul_v2": _function("matmul", "X", "Y", trans_x="transpose_x", trans_y="transpose_y"),
    "cast": _cast,
    "fill_constant": _fill,
    "sum": _sum,
}
