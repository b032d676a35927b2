"""Every forward operator by itself, so that a wrong derivative shows where it is made.

Gradients of a whole program mix the derivatives of all operators behind. Here each differentiable
operand becomes a parameter of its own that holds the CPU's value, and the loss is the sum of every
result times fixed random numbers: a parameter's gradient is then one operator's derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from paddle_ipu import bisection
from paddle_ipu.frontend import pir

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Isolated:
    """A training program without connections between its operators.

    Attributes:
        program: has an optimizer, so that a session answers for the gradients.
        feed: the original feeds, and the factors of the results.
        state: parameter -> value.
        operands: parameter -> (name of the operator's first result, name of the operand).
    """

    program: Any
    feed: Mapping[str, Array]
    state: Mapping[str, Array]
    operands: Mapping[str, tuple[str, str]]


def isolate(
    paddle: Any,
    program: Any,
    forward: bisection.Forward,
    feed: Mapping[str, Array],
    results: Mapping[str, Array],
    state: Mapping[str, Array],
) -> Isolated | None:
    """Cuts a program with names on every value between its operators.

    Args:
        paddle: Paddle's module.
        program: the program; it stays as it is.
        forward: what was read of it.
        feed: one micro-batch.
        results: name -> the CPU's value of each of ``forward.results``.
        state: the variables that the results were computed with.

    Returns:
        None where no result is differentiable.
    """
    program = program.clone()
    values = bisection.values_of(program)
    names = {value.id: name for name, value in bisection.named_values(program)}
    bisection.prune(program, [values[name] for name in results], training=False)
    known = {**state, **results}
    new_state = dict(state)
    operands: dict[str, tuple[str, str]] = {}
    factors: dict[str, Array] = {}
    random = np.random.default_rng(0)
    outer = paddle.static.program_guard(program, paddle.static.Program())
    with outer, paddle.utils.unique_name.guard():
        for op in program.global_block().ops:
            for index, value in enumerate(op.operands_source()):
                name = names.get(value.id) if value.initialized() else None
                if name not in known or not _is_differentiable(value):
                    continue
                parameter = f"operand.{len(operands)}"
                operands[parameter] = _owner(op, index)
                new_state[parameter] = known[name]
                made = paddle.create_parameter(
                    list(known[name].shape), "float32", name=parameter,
                    default_initializer=paddle.nn.initializer.Constant(0.0),
                )  # fmt: skip
                op.operand(index).set_source(made)
        terms = []
        for number, (name, array) in enumerate(results.items()):
            if _is_differentiable(values[name]):
                factor = f"factor.{number}"
                factors[factor] = np.asarray(random.standard_normal(array.shape, np.float32))
                data = paddle.static.data(factor, list(array.shape), "float32")
                terms.append((values[name] * data).sum())
        if not terms:
            return None
        paddle.optimizer.SGD(0.0).minimize(paddle.add_n(terms))
    read = {
        op.attrs()["name"]: op for op in program.global_block().ops if op.name() == "pd_op.data"
    }
    for name, op in read.items():
        if op.attrs().get("persistable", [False])[0] and name not in new_state:
            new_state[name] = np.zeros(list(op.result(0).shape), np.float32)
    fed = {name: array for name, array in {**feed, **factors}.items() if name in read}
    return Isolated(program, fed, new_state, operands)


def _is_differentiable(value: Any) -> bool:
    return not value.stop_gradient and str(value.dtype).lower().endswith("float32")


def _owner(op: Any, index: int) -> tuple[str, str]:
    """The operator that an operand is for, behind the list it may stand in."""
    if op.name() == "builtin.combine":
        (user,) = op.result(0).all_used_ops()
        (place,) = (i for i, v in enumerate(user.operands_source()) if v.is_same(op.result(0)))
        name, operand = _owner(user, place)
        return name, f"{operand}[{index}]"
    name = str(op.attrs()[f"{pir.NAME_PREFIX}0"])
    return name, str(op.get_input_names()[index])
