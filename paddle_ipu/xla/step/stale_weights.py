"""Weights of earlier updates, which a pipeline without gradient accumulation computes with.

In such a pipeline each stage updates its weights as soon as a micro-batch has come back to it,
while younger micro-batches are under way. With F the stage of the loss, forward stage s has its
backward in stage 2F - s. Micro-batch k is in stage t in cycle k + t; within a cycle an IPU runs
lower stages first. A weight is updated in the backward of the first stage u that reads it, so

    the forward of stage s misses the last 2F - u - s updates,
    the backward of stage s misses the last s - u,

always counted from the start of the run, where nothing is under way. Activations are kept from
forward to backward, weights are not: a backward reads the newer ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.errors import popart_exception
from paddle_ipu.xla.lowerings import node_values
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, Operand
from paddle_ipu.xla.precision import half
from paddle_ipu.xla.step.node_lowering import Evaluate
from paddle_ipu.xla.step.operand_origins import OperandOrigins
from paddle_ipu.xla.step.replica_values import Number, ReplicaValues, of_replica

Tree = dict[str, jax.Array]
Reads = Mapping[str, Mapping[str, tuple[int, int]]]
"""First result of a node -> weight it reads -> updates that its forward and its backward miss."""


def stale_reads(
    nodes: Sequence[LoweredNode],
    loss: str,
    reaching: Collection[str],
    weights: Sequence[str],
    stages: Mapping[str, int],
) -> Reads:
    """Which operators read weights of earlier updates.

    Args:
        nodes: the program, in order.
        loss: id of the loss.
        reaching: tensors that it depends on.
        weights: those that are updated.
        stages: pipeline stage of each node, by its first result.

    Raises:
        popart_exception: an operator behind the loss's stage would read a weight after its own
            micro-batch, or a younger one, has updated it.
    """
    last = 2 * next(stages[node.outputs[0]] for node in nodes if loss in node.outputs)
    readers: dict[str, list[LoweredNode]] = {name: [] for name in weights}
    for node in nodes:
        if not node.outputs:
            continue
        for name in {name for name in node.inputs if name in readers}:
            readers[str(name)].append(node)
    reads: dict[str, dict[str, tuple[int, int]]] = {}
    for name, reading in readers.items():
        first = min(
            (
                stages[node.outputs[0]]
                for node in reading
                if not set(node.outputs).isdisjoint(reaching)
            ),
            default=0,
        )
        for node in reading:
            stage = stages[node.outputs[0]]
            if stage >= last - first and 2 * stage > last:
                raise popart_exception(
                    f"{node.op_type} ({node.name}) in pipeline stage {stage} reads the weight "
                    f"{name}, which is updated in stage {last - first} already. Put what reads "
                    f"trained weights into the stage of the loss, {last // 2}, or an earlier one."
                )
            lags = max(0, last - first - stage), max(0, stage - first)
            if any(lags):
                reads.setdefault(node.outputs[0], {})[name] = lags
    return reads


@dataclass(frozen=True, slots=True)
class WeightVersions:
    """The weights of one micro-batch and those before the last updates.

    Attributes:
        reads: which operators read which.
        weights: weight -> its newest value.
        history: weight -> its earlier values, the latest first, [updates, *shape].
    """

    reads: Reads
    weights: Tree
    history: Tree

    @staticmethod
    def start(reads: Reads, weights: Tree) -> Tree:
        """The history at the start of a run."""
        depths: dict[str, int] = {}
        for of_node in reads.values():
            for name, lags in of_node.items():
                depths[name] = max(depths.get(name, 0), *lags)
        return {
            name: jnp.broadcast_to(weights[name], (depth, *weights[name].shape))
            for name, depth in depths.items()
        }

    def later(self) -> Tree:
        """The history after one more update."""
        return {
            name: jnp.concatenate([self.weights[name][None], array[:-1]])
            for name, array in self.history.items()
        }

    def of_replica(self, values: Mapping[str, ReplicaValues], replica: Number) -> WeightVersions:
        """Those of one replica: of the weights in `values`, its group's."""
        history = {
            name: array[:, values[name].group_of(replica)] if name in values else array
            for name, array in self.history.items()
        }
        return WeightVersions(self.reads, of_replica(values, self.weights, replica), history)

    def read(self, node: LoweredNode) -> dict[str, tuple[jax.Array, jax.Array]]:
        """What a node's forward and its backward read for each weight that is not the newest."""
        versions = {}
        for name, lags in self.reads.get(node.outputs[0], {}).items() if node.outputs else ():
            forward, backward = (
                half.widened(self.history[name][lag - 1] if lag else self.weights[name])
                for lag in lags
            )
            versions[name] = forward, backward
        return versions


@jax.custom_vjp
def with_gradient_of(value: jax.Array, carrier: jax.Array) -> jax.Array:
    """`value`, whose gradient goes to `carrier`, an array of the same kind."""
    return value


def _forward(value: jax.Array, carrier: jax.Array) -> tuple[jax.Array, None]:
    return value, None


def _backward(kept: None, gradient: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jnp.zeros_like(gradient), gradient


with_gradient_of.defvjp(_forward, _backward)


@dataclass(frozen=True, slots=True)
class StaleReads:
    """Has nodes compute with weights of earlier updates.

    Attributes:
        versions: the weights of a micro-batch.
        narrow: which tensors are half.
        origins: what tensors were made of.
        without_checks: evaluates a node without range checks.
    """

    versions: WeightVersions
    narrow: half.Narrow
    origins: OperandOrigins
    without_checks: Evaluate

    def replaced(
        self, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
    ) -> Sequence[Array]:
        """Wraps a node: it reads earlier weights where its stage misses updates.

        The results are those of the weights that its forward reads, their gradients those of the
        weights that its backward reads.
        """
        old = self.versions.read(node)
        if not old:
            return evaluate(node, operands)
        of_forward, of_backward, carried = list(operands), list(operands), list(operands)
        for index, name in enumerate(node.inputs):
            if name is None or name not in old:
                continue
            forward, backward = (
                self.narrow.operand(name, self.narrow.source(name, array)) for array in old[name]
            )
            of_forward[index] = forward
            of_backward[index] = with_gradient_of(backward, operands[index])
            carried[index] = with_gradient_of(forward, operands[index])
        fixed = [lax.stop_gradient(x) if isinstance(x, jax.Array) else x for x in of_forward]
        values = evaluate(node, fixed)
        routes = self.without_checks(node, of_backward)
        results = [
            with_gradient_of(lax.stop_gradient(value), route)
            if node_values.is_float(value)
            else value
            for value, route in zip(values, routes, strict=True)
        ]
        self.origins.record(node, carried, results)
        return results
