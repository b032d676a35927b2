"""``Block.append_op`` for PIR programs: the operators that scripts append by hand.

An appended operator writes variables that exist; what is built after it reads what it wrote, as in
a ProgramDesc program. PIR has that in ``paddle.assign(result, output=variable)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from paddle_ipu.errors import NotSupported

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
_Inputs = dict[str, list[Any]]
_Maker = Callable[[_Inputs, dict[str, Any]], Any]


def block_append_op(
    self: Any,
    type: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
    **others: Any,
) -> Any:
    """Computes `type` of `inputs` and writes it into the variable in ``outputs["Out"]``.

    Returns:
        The operator that writes.

    Raises:
        NotSupported: an operator, a slot or an attribute that is not built this way.
    """
    import paddle

    kind = str(type)
    made = _MAKERS.get(kind)
    if made is None or others:
        raise _refusal(
            kind,
            f"takes {', '.join(sorted(_MAKERS))}"
            if made is None
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
            return _write(kind, made, slots, values, target)
    return _write(kind, made, slots, values, target)


def _write(kind: str, made: _Maker, slots: _Inputs, values: dict[str, Any], target: Any) -> Any:
    import paddle

    try:
        result = made(slots, dict(values))
    except (KeyError, TypeError, ValueError) as problem:
        raise _refusal(
            kind, f"takes no inputs {sorted(slots)} with attributes {values}: {problem}"
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


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _function(name: str, *slots: str, **renamed: str) -> _Maker:
    """``paddle.<name>`` of one variable for each slot; attributes take the names given."""

    def make(inputs: _Inputs, attributes: dict[str, Any]) -> Any:
        import paddle

        known = {renamed[key]: value for key, value in attributes.items()}
        operands = [value for slot in slots for value in _only(inputs, slot)]
        if set(inputs) != set(slots):
            raise ValueError(f"its inputs are {', '.join(slots)}")
        return getattr(paddle if hasattr(paddle, name) else paddle.nn.functional, name)(
            *operands, **known
        )

    return make


def _only(inputs: _Inputs, slot: str) -> list[Any]:
    (value,) = inputs[slot]
    return [value]


def _elementwise(name: str) -> _Maker:
    plain = _function(name, "X", "Y")

    def make(inputs: _Inputs, attributes: dict[str, Any]) -> Any:
        if attributes.pop("axis", -1) != -1:
            raise ValueError("axis is -1 in today's Paddle; reshape y")
        return plain(inputs, attributes)

    return make


def _sum(inputs: _Inputs, attributes: dict[str, Any]) -> Any:
    import paddle

    if attributes or set(inputs) != {"X"}:
        raise ValueError("it has input X alone")
    return paddle.add_n(inputs["X"])


def _fill(inputs: _Inputs, attributes: dict[str, Any]) -> Any:
    import paddle

    if inputs:
        raise ValueError("it has no inputs")
    return paddle.full(attributes["shape"], attributes["value"], attributes["dtype"])


def _cast(inputs: _Inputs, attributes: dict[str, Any]) -> Any:
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
