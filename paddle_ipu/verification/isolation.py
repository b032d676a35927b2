"""Programs in which every forward operator is by itself: finds a wrong one, or a wrong derivative.

A result of a whole program has the errors of all operators before it, magnified. In :func:`cut`
every operator is fed what it read on the IPU; the result of Paddle's kernel is right for it.

Gradients of a whole program mix the derivatives of all later operators. In :func:`isolate` each
differentiable operand becomes a parameter of its own that holds the CPU's value, and the loss is
the sum of every result times fixed random numbers: a parameter's gradient is then one operator's
derivative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from paddle_ipu.verification.program_copy import ProgramCopy, added_to

if TYPE_CHECKING:
    import paddle

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Isolated:
    """A training program without connections between its operators.

    Attributes:
        program: has an optimizer, so that a session answers for the gradients.
        feed: the original feeds, and the factors of the results.
        state: variable -> value.
    """

    program: paddle.static.Program
    feed: Mapping[str, Array]
    state: Mapping[str, Array]


def cut(
    copy: ProgramCopy,
    results: Mapping[str, Array],
    dtypes: Mapping[str, str],
) -> tuple[paddle.static.Program, dict[str, Array]]:
    """Cuts the forward part of a program between its operators.

    Args:
        copy: the program; it stays as it is.
        results: name -> what operators are to read in place of each result.
        dtypes: name -> the dtype that Paddle has for it.

    Returns:
        (the program, its feeds beside the original ones: one for each operand that is a result,
        since operators may write over what they read).
    """
    import paddle

    parts = copy.pruned(list(results), training=False)
    fed: dict[str, Array] = {}
    operands = [
        operand
        for operand in parts.operands()
        if operand.name in results and not operand.is_written
    ]
    with added_to(parts, "cut."):
        for number, operand in enumerate(operands):
            name, dtype = f"cut.operand.{number}", dtypes[operand.name]
            array = fed[name] = results[operand.name].astype(dtype)
            operand.replace(paddle.static.data(name, list(array.shape), dtype))
    return parts.program, fed


def isolate(
    copy: ProgramCopy,
    feed: Mapping[str, Array],
    results: Mapping[str, Array],
    state: Mapping[str, Array],
) -> Isolated | None:
    """Cuts a program between its operators.

    Args:
        copy: the program; it stays as it is.
        feed: one micro-batch.
        results: name -> the CPU's value of each result of the forward part.
        state: the variables that the results were computed with.

    Returns:
        None where no result is differentiable.
    """
    import paddle

    parts = copy.pruned(list(results), training=False)
    known = {**state, **results}
    new_state = dict(state)
    factors: dict[str, Array] = {}
    random = np.random.default_rng(0)
    with added_to(parts, "isolated."):
        count = 0
        for operand in list(parts.operands()):
            if operand.name not in known or not operand.differentiable:
                continue
            parameter = f"operand.{count}"
            count += 1
            new_state[parameter] = known[operand.name]
            variable = paddle.create_parameter(
                list(known[operand.name].shape), "float32", name=parameter,
                default_initializer=paddle.nn.initializer.Constant(0.0),
            )  # fmt: skip
            operand.replace(variable)
        terms = []
        for number, (name, array) in enumerate(results.items()):
            if parts.is_differentiable(name):
                factor = f"factor.{number}"
                factors[factor] = np.asarray(random.standard_normal(array.shape, np.float32))
                data = paddle.static.data(factor, list(array.shape), "float32")
                terms.append(paddle.sum(paddle.multiply(parts.value(name), data)))
        if not terms:
            return None
        paddle.optimizer.SGD(0.0).minimize(paddle.add_n(terms))
    for name, shape in parts.variables().items():
        if name not in new_state:
            new_state[name] = np.zeros(shape, np.float32)
    declared = parts.feeds()
    fed = {name: array for name, array in {**feed, **factors}.items() if name in declared}
    return Isolated(parts.program, fed, new_state)
