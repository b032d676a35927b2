"""Lowerings of operators that run subgraphs.

A Loop with a constant number of iterations is a scan, which has a gradient. One that may end
earlier is a while loop in inference; in training it is a scan over the maximum of iterations, where
that is constant, in which those behind the end do nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import LoweringError
from paddle_ipu.xla.lowerings.arrays import Inputs, integers, optional_input, where_in_program
from paddle_ipu.xla.lowerings.range_checks import first_wrong
from paddle_ipu.xla.lowerings.registry import (
    Array,
    Attributes,
    BlockContext,
    LoweringContext,
    lowering,
)
from paddle_ipu.xla.precision.integers import allowed_if, is_wide, narrowed, widened

_LONGEST_MASKED_SCAN = 100_000
"""Iterations; a scan keeps memory for all of them."""

_Carry = tuple[list[jax.Array], jax.Array]
"""The carried tensors, and what was found wrong with indices so far."""

_LoopState = tuple[jax.Array, list[jax.Array], jax.Array]
"""Whether the loop goes on, the carried tensors, and what was found wrong with indices."""

_WhileState = tuple[jax.Array, jax.Array, list[jax.Array], jax.Array]
"""The number of the iteration, and a :data:`_LoopState`."""


def _strongly_typed(value: Array) -> jax.Array:
    """A tensor without JAX's weak type: all iterations and branches must give the same type."""
    array = jnp.asarray(value)
    with allowed_if(is_wide(array)):
        return lax.convert_element_type(array, array.dtype)


def _in_widths(values: Sequence[Array], wide: Sequence[bool]) -> list[jax.Array]:
    """Tensors whose integers have 64 bits where they are `wide`, else 32."""
    return [
        _strongly_typed(widened(value) if is_one else narrowed(value))
        for value, is_one in zip(values, wide, strict=True)
    ]


def _either(first: Sequence[bool], second: Sequence[bool]) -> list[bool]:
    return [one or other for one, other in zip(first, second, strict=True)]


@lowering("ai.onnx", "If", random=True)
def if_(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    """The outputs of ``then_branch`` where the condition holds, else those of ``else_branch``."""
    key = context.rng_key()
    then, otherwise = context.blocks["then_branch"], context.blocks["else_branch"]
    if isinstance(inputs[0], np.ndarray):
        return (then if inputs[0].reshape(()) else otherwise).run([], key, context.ranges)

    wide = _either(then.wide_outputs, otherwise.wide_outputs)

    def branch(block: BlockContext, number: int) -> tuple[list[jax.Array], jax.Array]:
        ranges = context.block_ranges()
        results = block.run([], jax.random.fold_in(key, number), ranges)
        return _in_widths(results, wide), ranges.wrong

    watched = context.block_ranges()
    results: list[jax.Array]
    results, wrong = lax.cond(
        jnp.asarray(inputs[0]).reshape(()), lambda: branch(then, 1), lambda: branch(otherwise, 0)
    )
    context.within_blocks(watched, wrong)
    return results


@lowering("ai.onnx", "Loop", random=True)
def loop(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    """The carried tensors after the last iteration, then the other results, stacked by iteration.

    Inputs: the maximum of iterations and the first condition, each possibly omitted, then the
    carried tensors. The body takes (iteration, condition, carried) and gives (condition, carried,
    other results).
    """
    body, key = context.blocks["body"], context.rng_key()
    most, going = optional_input(inputs, 0), optional_input(inputs, 1)
    carried = inputs[2:]
    if isinstance(most, np.ndarray):
        # The largest INT64 stands for no limit.
        most = np.asarray(np.minimum(most, np.iinfo(np.int32).max))
    rows = context.num_outputs - len(carried)
    wide = _either(body.wide_inputs[2:], body.wide_outputs[1 : 1 + len(carried)])
    first = _in_widths(carried, wide)
    wide = [False, *wide, *body.wide_outputs[1 + len(carried) :]]

    watched = context.block_ranges()
    nothing = watched.wrong

    def iterate(
        index: jax.Array, going: Array, carried: Sequence[jax.Array], wrong: jax.Array
    ) -> _Carry:
        ranges = context.block_ranges()
        own = jax.random.fold_in(key, index)
        results = _in_widths(body.run([index, going, *carried], own, ranges), wide)
        return results, first_wrong(wrong, ranges.wrong)

    if isinstance(most, np.ndarray) and _is_counted(body, going):

        def step(state: _Carry, index: jax.Array) -> tuple[_Carry, list[jax.Array]]:
            carried, wrong = state
            (_, *results), wrong = iterate(index, np.asarray(True), carried, wrong)
            return (results[: len(carried)], wrong), results[len(carried) :]

        indices = jnp.arange(int(most.reshape(())), dtype=jnp.int32)
        (last, wrong), stacked = lax.scan(step, (first, nothing), indices)
        context.within_blocks(watched, wrong)
        return [*last, *stacked]
    if rows:
        raise LoweringError(
            f"{where_in_program(context)} stacks {rows} output(s) of its body, but how often "
            "it runs is known at run time only, and shapes are static. Give it a constant maximum "
            "trip count and a condition that is constantly true."
        )
    alive = jnp.asarray(True if going is None else going).reshape(())

    def proceed(index: jax.Array, carried: list[jax.Array], wrong: jax.Array) -> _LoopState:
        (going, *results), wrong = iterate(index, jnp.asarray(True), carried, wrong)
        return going.reshape(()), results, wrong

    if context.training and isinstance(most, np.ndarray) and most <= _LONGEST_MASKED_SCAN:

        def masked(state: _LoopState, index: jax.Array) -> tuple[_LoopState, None]:
            alive, carried, wrong = state
            after: _LoopState = lax.cond(
                alive, lambda: proceed(index, carried, wrong), lambda: (alive, carried, wrong)
            )
            return after, None

        indices = jnp.arange(int(most.reshape(())), dtype=jnp.int32)
        _, last, wrong = lax.scan(masked, (alive, first, nothing), indices)[0]
        context.within_blocks(watched, wrong)
        return last
    limit = None if most is None else jnp.asarray(most).reshape(())

    def goes_on(state: _WhileState) -> jax.Array:
        index, alive, *_ = state
        return alive if limit is None else jnp.logical_and(alive, index < limit)

    def advance(state: _WhileState) -> _WhileState:
        index, _, carried, wrong = state
        return (index + 1, *proceed(index, carried, wrong))

    start = (jnp.asarray(0, jnp.int32), alive, first, nothing)
    _, _, last, wrong = lax.while_loop(goes_on, advance, start)
    context.within_blocks(watched, wrong)
    return last


def _is_counted(body: BlockContext, going: Array | None) -> bool:
    """Whether a loop's condition is constantly true."""
    starts = going is None or (isinstance(going, np.ndarray) and bool(going.reshape(())))
    origin = body.origin(0)
    if isinstance(origin, np.ndarray):
        return starts and bool(origin.reshape(()))
    return starts and origin == body.inputs[1]


@lowering("ai.onnx", "Scan", random=True)
def scan(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    """The states after the last slice, then the body's other results, stacked by slice."""
    body, key = context.blocks["body"], context.rng_key()
    count = int(attributes["num_scan_inputs"])
    number = len(inputs) - count
    wide = _either(body.wide_inputs[:number], body.wide_outputs[:number])
    states = _in_widths(inputs[:number], wide)
    wide = [*wide, *body.wide_outputs[number:]]
    scanned = _in_widths(inputs[number:], body.wide_inputs[number:])
    axes = integers(attributes, "scan_input_axes") or [0] * count
    backward = integers(attributes, "scan_input_directions") or [0] * count
    rows = [jnp.moveaxis(array, axis, 0) for array, axis in zip(scanned, axes, strict=True)]
    rows = [lax.rev(row, (0,)) if flag else row for row, flag in zip(rows, backward, strict=True)]

    watched = context.block_ranges()

    def step(
        state: _Carry, item: tuple[jax.Array, list[jax.Array]]
    ) -> tuple[_Carry, list[jax.Array]]:
        (carried, wrong), (index, slices) = state, item
        ranges = context.block_ranges()
        own = jax.random.fold_in(key, index)
        results = _in_widths(body.run([*carried, *slices], own, ranges), wide)
        wrong = first_wrong(wrong, ranges.wrong)
        return (results[: len(carried)], wrong), results[len(carried) :]

    items = (jnp.arange(rows[0].shape[0], dtype=jnp.int32), rows)
    (last, wrong), stacked = lax.scan(step, (states, watched.wrong), items)
    context.within_blocks(watched, wrong)
    axes = integers(attributes, "scan_output_axes") or [0] * len(stacked)
    backward = integers(attributes, "scan_output_directions") or [0] * len(stacked)
    stacked = [
        jnp.moveaxis(lax.rev(array, (0,)) if flag else array, 0, axis)
        for array, axis, flag in zip(stacked, axes, backward, strict=True)
    ]
    return [*last, *stacked]


@lowering("ai.graphcore", "Call", random=True)
def call(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Sequence[Array]:
    """The outputs of the subgraph for these inputs."""
    return context.blocks["callee"].run(list(inputs), context.rng_key(), context.ranges)
