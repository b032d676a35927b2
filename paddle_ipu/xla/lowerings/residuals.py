"""What backward needs of forward: how long it is kept, and when backward may read it.

XLA's CPU backend starts whatever can start. What backward makes of forward's results alone, such as
a transpose, would be made in forward and kept until a gradient comes; elementwise results would be
kept together with what they are made of, for either reader to fuse with. Barriers name what is kept
and make backward wait for its gradient. They cost nothing at run time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import lax
from jax.custom_derivatives import SymbolicZero

COMPILER_OPTIONS: Mapping[str, str] = {
    "xla_disable_hlo_passes": "cse_barrier_expander,small-while-loop-hoisting"
}
"""For XLA on the CPU, which otherwise drops barriers before it fuses and orders operators, and
finds that what is evaluated again is there already. Its second pass measures loops, and ends the
process where it comes upon a barrier."""

Kept = TypeVar("Kept")

LARGE = 1 << 16
"""Bytes from which on a copy of a weight is worth avoiding."""

_LEAST = 16
"""How many times smaller than the largest of several arrays one may be to be waited for."""


@dataclass(frozen=True, slots=True)
class Rematerialization:
    """How backward makes a result again, at little cost, from what it has anyway.

    Attributes:
        make: gives the result, but for its shape.
        arrays: what it takes.
    """

    make: Callable[..., jax.Array]
    arrays: tuple[jax.Array, ...]


def on_cpu() -> bool:
    """Whether XLA's CPU backend compiles; others order operators by the memory that they take."""
    return jax.default_backend() == "cpu"


def large_weights(weights: Mapping[str, Any]) -> set[str]:
    """Those of some weights of which a copy is worth avoiding; none but on the CPU."""
    return {n for n, array in weights.items() if array.nbytes >= LARGE} if on_cpu() else set()


def due(kept: Kept, gradient: Any) -> tuple[Kept, Any]:
    """What backward kept and a gradient, for use once the gradient is there.

    Only the larger of the arrays go through a barrier: XLA's time to compile grows with those that
    do, and a barrier hides from it which gradients are zero.
    """
    if not on_cpu():
        return kept, gradient
    arrays, structure = jax.tree.flatten((kept, gradient))
    largest = max(array.nbytes for array in arrays)
    chosen = [i for i, array in enumerate(arrays) if array.nbytes * _LEAST >= largest]
    joined = lax.optimization_barrier([arrays[i] for i in chosen])  # type: ignore[no-untyped-call]
    for i, array in zip(chosen, joined, strict=True):
        arrays[i] = array
    restored: tuple[Kept, Any] = jax.tree.unflatten(structure, arrays)
    return restored


@jax.custom_vjp
def together(arrays: tuple[jax.Array, ...]) -> tuple[jax.Array, ...]:
    """The arrays themselves, whose gradients come at the same time, none before the others.

    A weight may be updated in place as soon as its gradient is there: what else reads the weight in
    that operator's backward must be done by then, or XLA keeps a copy for it.
    """
    return arrays


def _together_forward(arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    # An array without a gradient must not get one; its residual is None.
    return tuple(a.value for a in arrays), tuple(() if a.perturbed else None for a in arrays)


def _together_backward(wanted: tuple[Any, ...], gradients: tuple[Any, ...]) -> tuple[Any]:
    there = [
        index
        for index, gradient in enumerate(gradients)
        if wanted[index] is not None and not isinstance(gradient, SymbolicZero)
    ]
    joined = lax.optimization_barrier([gradients[index] for index in there])  # type: ignore[no-untyped-call]
    results: list[Any] = [None] * len(gradients)
    for index, gradient in zip(there, joined, strict=True):
        results[index] = gradient
    return (tuple(results),)


together.defvjp(_together_forward, _together_backward, symbolic_zeros=True)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def rows_and_table(
    table: jax.Array, indices: jax.Array, kind: tuple[tuple[int, ...], Any]
) -> tuple[jax.Array, jax.Array]:
    """Rows of a table, and the table for its later readers, whose gradient they are added to.

    So a tied embedding has one gradient, not one for each end of the model and a sum of the two.

    Args:
        table: [N, ...].
        indices: of rows, 0 to N - 1; those out of range take the nearest.
        kind: the table's shape and dtype.
    """
    return jnp.take(table, indices, axis=0, mode="clip"), table


def _rows_forward(table: Any, indices: Any, kind: Any) -> tuple[Any, Any]:
    return rows_and_table(table.value, indices.value, kind), indices.value


def _rows_backward(kind: Any, indices: jax.Array, gradients: Any) -> tuple[Any, None]:
    of_rows, of_table = gradients
    if isinstance(of_rows, SymbolicZero):
        return None if isinstance(of_table, SymbolicZero) else of_table, None
    if isinstance(of_table, SymbolicZero):
        # Zeros of the table's size, but not before they are needed.
        zero, of_rows = lax.optimization_barrier((jnp.zeros((), kind[1]), of_rows))  # type: ignore[no-untyped-call]
        of_table = jnp.broadcast_to(zero, kind[0])
    return of_table.at[indices].add(of_rows, mode="clip"), None


rows_and_table.defvjp(_rows_forward, _rows_backward, symbolic_zeros=True)
