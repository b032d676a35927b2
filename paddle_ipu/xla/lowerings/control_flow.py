"""Lowerings of operators that run subgraphs.

A Loop that runs a constant number of turns is a scan, which has a gradient. One that may end
earlier is a while loop in inference; in training it is a scan over the most turns there can be,
where that number is given, in which the turns behind the end do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import integers, where_in_program
from paddle_ipu.xla.registry import Attributes, BlockContext, LoweringContext, lowering

_LONGEST_MASKED_SCAN = 100_000


def _array(value: Any) -> jax.Array:
    """A tensor of its own dtype, as every turn and every branch must give it."""
    array = jnp.asarray(value)
    return lax.convert_element_type(array, array.dtype)


def _arrays(values: Sequence[Any]) -> list[jax.Array]:
    return [_array(value) for value in values]


@lowering("ai.onnx", "If", random=True)
def if_(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The outputs of ``then_branch`` where the condition holds, else those of ``else_branch``."""
    key = context.rng_key()
    then, otherwise = context.blocks["then_branch"], context.blocks["else_branch"]
    if isinstance(inputs[0], np.ndarray):
        return (then if inputs[0].reshape(()) else otherwise).run([], key)
    return lax.cond(
        jnp.asarray(inputs[0]).reshape(()),
        lambda: _arrays(then.run([], jax.random.fold_in(key, 1))),
        lambda: _arrays(otherwise.run([], jax.random.fold_in(key, 0))),
    )


@lowering("ai.onnx", "Loop", random=True)
def loop(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The carried tensors after the last turn, then what each turn gave beside them, in rows."""
    body, key = context.blocks["body"], context.rng_key()
    most, going, *carried = inputs
    if isinstance(most, np.ndarray):
        # Models say "without end" with the largest INT64.
        most = np.asarray(np.minimum(most, np.iinfo(np.int32).max))
    first = _arrays(carried)
    rows = context.num_outputs - len(first)

    def turn(index: Any, going: Any, carried: Sequence[Any]) -> list[Any]:
        return body.run([index, going, *carried], jax.random.fold_in(key, index))

    if isinstance(most, np.ndarray) and _is_counted(body, going):

        def step(carried: list[Any], index: jax.Array) -> tuple[list[Any], list[Any]]:
            results = _arrays(turn(index, np.asarray(True), carried)[1:])
            return results[: len(carried)], results[len(carried) :]

        last, stacked = lax.scan(step, first, jnp.arange(int(most.reshape(())), dtype=jnp.int32))
        return [*last, *stacked]
    if rows:
        raise LoweringError(
            f"{where_in_program(context)} stacks {rows} output(s) of its body, but how many turns "
            "it takes is known at run time only, and shapes are static. Give it a constant maximum "
            "of turns and a condition that is constantly true."
        )
    alive = jnp.asarray(True if going is None else going).reshape(())

    def proceed(index: Any, carried: list[Any]) -> tuple[jax.Array, list[jax.Array]]:
        results = _arrays(turn(index, jnp.asarray(True), carried))
        return results[0].reshape(()), results[1:]

    if context.training and isinstance(most, np.ndarray) and most <= _LONGEST_MASKED_SCAN:

        def masked(state: Any, index: jax.Array) -> tuple[Any, None]:
            alive, carried = state
            return lax.cond(alive, lambda: proceed(index, carried), lambda: (alive, carried)), None

        indices = jnp.arange(int(most.reshape(())), dtype=jnp.int32)
        return lax.scan(masked, (alive, first), indices)[0][1]
    limit = None if most is None else jnp.asarray(most).reshape(())

    def goes_on(state: Any) -> jax.Array:
        index, alive, _ = state
        return alive if limit is None else jnp.logical_and(alive, index < limit)

    def advance(state: Any) -> Any:
        index, _, carried = state
        return (index + 1, *proceed(index, carried))

    return lax.while_loop(goes_on, advance, (jnp.asarray(0, jnp.int32), alive, first))[2]


def _is_counted(body: BlockContext, going: Any) -> bool:
    """Whether a loop's condition is constantly true."""
    starts = going is None or (isinstance(going, np.ndarray) and bool(going.reshape(())))
    origin = body.origin(0)
    if isinstance(origin, np.ndarray):
        return starts and bool(origin.reshape(()))
    return starts and origin == body.inputs[1]


@lowering("ai.onnx", "Scan", random=True)
def scan(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The states after the last slice, then what the body gave for each slice, stacked."""
    body, key = context.blocks["body"], context.rng_key()
    count = int(attributes["num_scan_inputs"])
    states = _arrays(inputs[: len(inputs) - count])
    given = _arrays(inputs[len(inputs) - count :])
    axes = integers(attributes, "scan_input_axes") or [0] * count
    backward = integers(attributes, "scan_input_directions") or [0] * count
    rows = [jnp.moveaxis(array, axis, 0) for array, axis in zip(given, axes, strict=True)]
    rows = [lax.rev(row, (0,)) if flag else row for row, flag in zip(rows, backward, strict=True)]

    def step(carried: list[Any], item: Any) -> tuple[list[Any], list[Any]]:
        index, slices = item
        results = _arrays(body.run([*carried, *slices], jax.random.fold_in(key, index)))
        return results[: len(carried)], results[len(carried) :]

    length = rows[0].shape[0]
    last, stacked = lax.scan(step, states, (jnp.arange(length, dtype=jnp.int32), rows))
    axes = integers(attributes, "scan_output_axes") or [0] * len(stacked)
    backward = integers(attributes, "scan_output_directions") or [0] * len(stacked)
    stacked = [
        jnp.moveaxis(lax.rev(array, (0,)) if flag else array, 0, axis)
        for array, axis, flag in zip(stacked, axes, backward, strict=True)
    ]
    return [*last, *stacked]


@lowering("ai.graphcore", "Call", random=True)
def call(context: LoweringContext, inputs: Sequence[Any], attributes: Attributes) -> Any:
    """The outputs of the subgraph for these inputs."""
    return context.blocks["callee"].run(list(inputs), context.rng_key())
