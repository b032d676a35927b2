"""Traces a parameter's gradient from the optimizer back to backward, through clips and decay.

    add_n(gradient, scale(param, l2))             L2Decay add_n(gradient, scale(sign(param), l1))
    L1Decay multiply(gradient, divide(c, maximum(norm, c)))   ClipGradByGlobalNorm
    clip_by_norm(gradient) | clip(gradient)       ClipGradByNorm, ClipGradByValue

Paddle clips first and then adds the decay. A program that AMP converted after `minimize` has casts
between all of them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.dialect import attribute, describe, operand, scalar_constant
from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.cut_gradients import WITHOUT_GRADIENT
from paddle_ipu.passes.support import roles
from paddle_ipu.popart.paddle_optimizer import Clip


@dataclass(frozen=True, slots=True)
class GradientChange:
    """The changes of a gradient between backward and the optimizer.

    Attributes:
        before: the gradient that backward computes.
        l1: coefficient of L1 decay.
        l2: coefficient of L2 decay.
        clip: the clip, None without one.
        group: equal for gradients that are clipped together.
    """

    before: ir.Value
    l1: float = 0.0
    l2: float = 0.0
    clip: Clip | None = None
    group: object = None


def follow(gradient: ir.Value, parameter: ir.Value) -> GradientChange:
    """The changes of the gradient that an optimizer operator reads.

    Args:
        gradient: the operator's gradient.
        parameter: the operator's parameter.
    """
    l1, l2 = 0.0, 0.0
    decay = _decay(gradient, parameter)
    if decay is not None:
        gradient, l1, l2 = decay
    clipped = _clip(gradient)
    if clipped is None:
        return GradientChange(gradient, l1, l2)
    gradient, clip, group = clipped
    return GradientChange(gradient, l1, l2, clip, group)


def _decay(gradient: ir.Value, parameter: ir.Value) -> tuple[ir.Value, float, float] | None:
    """(gradient before regularisation, L1 coefficient, L2 coefficient), None without one."""
    node = _maker(gradient)
    if node is None or node.op_type not in ("add_n", "add") or len(node.inputs) != 2:
        return None
    first, second = node.inputs
    scaled = _maker(second)
    if first is None or scaled is None or scaled.op_type != "scale":
        return None
    factor, of = scalar_constant(operand(scaled, "scale")), _before_casts(scaled.inputs[0])
    if factor is None or attribute(scaled, "bias", 0.0) != 0.0:
        return None
    if of is parameter:
        return first, 0.0, factor
    sign = _maker(of)
    if sign is not None and sign.op_type == "sign" and _before_casts(sign.inputs[0]) is parameter:
        return first, factor, 0.0
    return None


def _before_casts(value: ir.Value | None) -> ir.Value | None:
    """The value before casts between floats."""
    node = None if value is None else value.producer()
    while node is not None and _is_cast_of_floats(node):
        value = node.inputs[0]
        node = None if value is None else value.producer()
    return value


def _maker(value: ir.Value | None) -> ir.Node | None:
    """The producer of a value, casts between floats skipped."""
    source = _before_casts(value)
    return None if source is None else source.producer()


def _clip(gradient: ir.Value) -> tuple[ir.Value, Clip, object] | None:
    """(gradient before the clip, the clip, the key of its group), None without a clip."""
    node = _maker(gradient)
    if node is None:
        return None
    if node.op_type == "clip_by_norm" and node.inputs[0] is not None:
        limit = float(attribute(node, "max_norm"))
        return node.inputs[0], Clip("norm", limit), ("norm", limit)
    if node.op_type == "clip":
        low, high = scalar_constant(operand(node, "min")), scalar_constant(operand(node, "max"))
        if low is not None and high is not None and node.inputs[0] is not None:
            return node.inputs[0], Clip("value", high, low), ("value", low, high)
    if node.op_type != "multiply" or len(node.inputs) != 2:
        return None
    before, factor = node.inputs[0], _before_casts(node.inputs[1])
    limit_of = _global_norm_limit(factor)
    if before is None or factor is None or limit_of is None:
        return None
    return before, Clip("global_norm", limit_of), id(factor)


def _global_norm_limit(factor: ir.Value | None) -> float | None:
    """c if `factor` is ``c / max(norm, c)`` with norm a square root, else None."""
    division = _maker(factor)
    if division is None or division.op_type != "divide":
        return None
    limit = scalar_constant(_before_casts(division.inputs[0]))
    largest = _maker(division.inputs[1])
    if limit is None or largest is None or largest.op_type != "maximum":
        return None
    norms = [_maker(value) for value in largest.inputs]
    return limit if any(norm is not None and norm.op_type == "sqrt" for norm in norms) else None


_MIRRORS: Mapping[str, frozenset[str]] = {
    "concat": frozenset({"split", "split_with_num"}),
    "flip": frozenset({"flip"}),
    "print": frozenset({"print"}),
    "reverse": frozenset({"reverse"}),
    "scale": frozenset({"scale", "add_n", "sign"}),
    "stack": frozenset({"unbind"}),
}
"""Operators that backward shares with forward -> the forward operators they are backward of."""


def with_gradients(losses: Iterable[ir.Value | None]) -> set[int]:
    """Ids of the values that have a gradient in backward of the losses."""
    differentiated: set[int] = set()
    stack = list(losses)
    while stack:
        value = stack.pop()
        if value is None or id(value) in differentiated or value.meta.get(dialect.STOPPED):
            continue
        differentiated.add(id(value))
        node = value.producer()
        if node is not None and node.op_type not in WITHOUT_GRADIENT:
            stack.extend(node.inputs)
    return differentiated


def check_unchanged(raw: ir.Value, parameter: ir.Value, differentiated: Collection[int]) -> None:
    """Refuses a gradient that is changed by something other than a clip or decay.

    The device derives gradients itself and would ignore the change. A program with roles tells
    which operators are backward's. In one without, each operator of `_MIRRORS` on the path up must
    match one of forward on the path down: backward has one for each, so an additional one has no
    match on the longest of these paths.

    Args:
        raw: the gradient that clips and decay are applied to.
        parameter: its parameter.
        differentiated: ids of the values with a gradient, of :func:`with_gradients`.

    Raises:
        NotSupported: it is changed.
    """
    # (gradient, values it may belong to, the operator on the path nearest to the optimizer).
    stack: list[tuple[ir.Value, tuple[ir.Value, ...], ir.Node | None]] = [(raw, (parameter,), None)]
    summed: set[int] = set()
    while stack:
        gradient, values, last = stack.pop()
        node = gradient.producer()
        if node is None or str(node.op_type).endswith(("_grad", "_grad_")):
            continue
        role = roles.role_of(node)
        if role is not None and role & roles.BACKWARD:
            continue
        kinds = _MIRRORS.get(str(node.op_type))
        operands = [value for value in node.inputs if value is not None]
        if _is_cast_of_floats(node) or node.op_type == "assign":
            stack.append((operands[0], (*values, *_read_by(values, {"assign", "cast"})), last))
        elif node.op_type == "add_n" and _are_new(operands, summed):
            summed.update(map(id, operands))
            stack.extend((value, values, last) for value in operands)
        elif _only_selects(node):
            stack.extend((value, values, last) for value in operands)
        else:
            slope = _slope(node)
            behind = () if kinds is None or role is not None else _read_by(values, kinds, slope)
            if not any(id(value) in differentiated for value in behind):
                raise NotSupported(
                    f"the gradient of {parameter.name} is changed by {describe(last or node)} "
                    "before the optimizer reads it, which is not supported yet. Clips and "
                    "regularizers that are given to the optimizer are."
                )
            # Constants are zeros for parts that nothing reads.
            stack.extend((v, behind, last or node) for v in operands if not _is_constant(v))


def _are_new(operands: Sequence[ir.Value], summed: Collection[int]) -> bool:
    """Whether no operand occurs twice, as in none of backward's sums."""
    ids = {id(value) for value in operands}
    return len(ids) == len(operands) and ids.isdisjoint(summed)


def _read_by(
    values: Iterable[ir.Value], kinds: Collection[str], slope: float | None = None
) -> tuple[ir.Value, ...]:
    """The results of operators of these kinds, with that slope, that read one of the values."""
    return tuple(
        output
        for value in values
        for use in value.uses()
        if use.node.op_type in kinds and slope in (None, _slope(use.node))
        for output in use.node.outputs
    )


def _is_constant(value: ir.Value) -> bool:
    node = value.producer()
    return node is not None and node.op_type in {"full_like", *dialect.CONSTANT_OPS}


def _only_selects(node: ir.Node) -> bool:
    """Whether control flow of backward only selects gradients, as after a cond in forward."""
    plain = {"add_n", "full_like", *dialect.CONSTANT_OPS}
    inner = [inner_node for block in dialect.blocks(node) for inner_node in block]
    return node.op_type == "if" and all(
        inner_node.op_type in plain or _only_selects(inner_node) for inner_node in inner
    )


def _is_cast_of_floats(node: ir.Node) -> bool:
    """Whether a node casts floats to floats, as AMP does with gradients."""
    values = (*node.inputs, *node.outputs)
    floats = [v is not None and v.dtype is not None and v.dtype.is_floating_point() for v in values]
    return node.op_type == "cast" and all(floats)


def _slope(node: ir.Node) -> float | None:
    """The constant derivative of an operator in `_MIRRORS`."""
    if node.op_type == "scale":
        return scalar_constant(operand(node, "scale"))
    return 0.0 if node.op_type == "sign" else 1.0
