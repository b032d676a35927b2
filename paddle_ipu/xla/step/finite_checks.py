"""Floating-point checks: whether each operator's results are finite, and the error of a run.

Flags leave the step beside its results; the host raises for the first that is false.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import NumericalError
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.node_values import is_float
from paddle_ipu.xla.lowerings.registry import Array, HostArray, Operand
from paddle_ipu.xla.step.node_lowering import Evaluate


@dataclass(slots=True)
class FiniteFlags:
    """Flags of a graph's operators, collected while JAX traces.

    Attributes:
        nodes: the operators that give floats on the device.
        flags: whether all results of each of them are finite, bool [].
    """

    nodes: list[LoweredNode] = field(default_factory=list)
    flags: list[jax.Array] = field(default_factory=list)

    def observed(
        self, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
    ) -> Sequence[Array]:
        """Wraps a node: looks at its results."""
        results = evaluate(node, operands)
        floats = [r for r in results if isinstance(r, jax.Array) and is_float(r)]
        if floats:
            self.nodes.append(node)
            self.flags.append(all_finite(floats))
        return results

    def stacked(self) -> jax.Array:
        """The flags, bool [operators]."""
        return jnp.stack(self.flags) if self.flags else jnp.ones((0,), bool)


def all_finite(tree: Any) -> jax.Array:
    """Whether all floats of a tree of arrays are finite, bool []."""
    leaves = [leaf for leaf in jax.tree.leaves(tree) if is_float(leaf)]
    return jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]).all()


def raise_unless_finite(
    finite: HostArray,
    checked: Sequence[LoweredNode],
    micro_batches: int,
    place: Callable[[int], str],
) -> None:
    """Names the first operator of the first batch that is not finite.

    Args:
        finite: a flag for each micro-batch of each replica and each operator that is checked; the
            last column is that of gradients and updated weights.
        checked: the operators, in the order of their flags.
        micro_batches: of a batch, of all replicas.
        place: gives words for one of the run's micro-batches.

    Raises:
        NumericalError: a flag is false.
    """
    if finite.all():
        return
    micro, operators = micro_batches, len(checked)
    batches = finite.reshape(-1, micro, finite.shape[-1])
    batch = int(np.argmin(batches.all(axis=(1, 2))))
    flags = batches[batch, :, :operators]
    node = None
    if flags.all():
        # The last column, the same for all micro-batches, is that of the update after them.
        where, number = "a gradient or an updated weight", batch * micro + micro - 1
    else:
        row = int(np.argmin(flags.all(axis=1)))
        node, number = checked[int(np.argmin(flags[row]))], batch * micro + row
        where = f"operator {node.op_type} ({node.name})"
    error = NumericalError(
        f"floating-point checks are on and {where} gave NaN or infinity in "
        f"{place(number)}. Weights and optimizer state were left as before this run. "
        "Check the feeds and the learning rate; paddle_ipu.verify compares every operator with "
        "Paddle's CPU kernels."
    )
    error.node = None if node is None else node.name
    raise error
