"""One batch of a step: its micro-batches for each replica, with their gradients accumulated.

Micro-batches and replicas are ``lax.scan``; a loop of one iteration is left out. One micro-batch's
activations are alive at a time, unless operators exchange values of replicas: then all replicas
compute theirs together, by ``jax.vmap``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings import scope_names
from paddle_ipu.xla.lowerings.registry import REPLICA_AXIS
from paddle_ipu.xla.precision import half, stochastic
from paddle_ipu.xla.step import instance_collectives
from paddle_ipu.xla.step.replica_values import of_replica, with_replicas
from paddle_ipu.xla.step.step_program import StepProgram

Tree = dict[str, Any]
Scale = float | jax.Array
Number = int | jax.Array

_SUM = 1
"""What stochastic rounding of sums of gradients draws its random numbers by."""


class Results(NamedTuple):
    """What a micro-batch, or a batch of them, computes.

    Attributes:
        gradients: by trained weight.
        written: weight -> its next value, of those that the graph writes.
        anchors: by tensor.
        finite: flags of operators; None without floating-point checks.
    """

    gradients: Tree
    written: Tree
    anchors: Tree
    finite: jax.Array | None


Kept = tuple[Tree, jax.Array | None]
"""Anchors and flags of each micro-batch."""


@dataclass(frozen=True, slots=True)
class Accumulation:
    """The micro-batches of one batch.

    Attributes:
        program: what the step does.
        trained: the weights that have a gradient.
        in_lockstep: operators exchange values of replicas.
        updating: whether weights that the graph writes change.
        micro_batch: (weights, feeds, random key) -> its results.
        key: (number of the micro-batch, replica) -> random key.
    """

    program: StepProgram
    trained: Sequence[str]
    in_lockstep: bool
    updating: bool
    micro_batch: Callable[[Tree, Tree, jax.Array, Number], Results]
    key: Callable[[Number, Number], jax.Array]

    def run(self, weights: Tree, feeds: Tree, scale: Scale) -> Results:
        """Gradients summed or averaged over micro-batches and replicas, and the anchors of each.

        Args:
            weights: at the start of the batch.
            feeds: with the dimensions of micro-batches and replicas in front.
            scale: by which the loss was multiplied; gradients are divided by it.
        """
        program, micro = self.program, self.program.accumulation_factor
        if micro * program.all_replicas == 1:
            results = self.micro_batch(weights, feeds, self.key(0, 0), 0)
            return results._replace(gradients=_divided(results.gradients, scale))
        first = instance_collectives.first_replica(program.instances, program.replicas)

        def one(
            total: Tree, written: Tree, fed: Tree, index: jax.Array, replica: Number
        ) -> tuple[Tree, Tree, Kept]:
            """One micro-batch of a replica."""
            own = self.key(index, first + replica)
            results = self.micro_batch({**weights, **written}, fed, own, replica)
            with rounding(program, own, _SUM):
                total = self._with_replica(total, results.gradients, index, replica)
            after = results.written if self.updating else written
            return total, after, (results.anchors, results.finite)

        def all_replicas(
            total: Tree, items: tuple[jax.Array, Tree, Tree], alike: Tree, index: jax.Array
        ) -> tuple[Tree, Tree, Kept]:
            """One micro-batch of all replicas at the same time."""
            written = items[2]

            def replica_of(replica: jax.Array, fed: Tree, own: Tree) -> Results:
                key = self.key(index, first + replica)
                return self.micro_batch({**weights, **own}, {**fed, **alike}, key, replica)

            together = jax.vmap(replica_of, axis_name=REPLICA_AXIS)
            results = together(*items)
            for replica in range(program.replicas):
                own = {name: array[replica] for name, array in results.gradients.items()}
                with rounding(program, self.key(index, first + replica), _SUM):
                    total = self._with_replica(total, own, index, replica)
            after = results.written if self.updating else written
            return total, after, (results.anchors, results.finite)

        def micro_batches(
            carry: tuple[Tree, Tree], item: tuple[jax.Array, Tree]
        ) -> tuple[tuple[Tree, Tree], Kept]:
            """One micro-batch of each replica."""
            (total, written), (index, fed) = carry, item
            if program.replicas == 1:
                total, written, kept = one(total, written, fed, index, 0)
                return (total, written), kept
            alike = {name: fed[name] for name in program.broadcast}
            each = {name: array for name, array in fed.items() if name not in alike}
            numbers = jnp.arange(program.replicas, dtype=jnp.uint32)
            if self.in_lockstep:
                items = numbers, each, written
                total, written, kept = all_replicas(total, items, alike, index)
                return (total, written), kept

            def replica_of(total: Tree, item: tuple[jax.Array, Tree, Tree]) -> tuple[Tree, Any]:
                replica, own, fed = item
                total, own, kept = one(total, own, {**fed, **alike}, index, replica)
                return total, (own, kept)

            total, (written, kept) = lax.scan(replica_of, total, (numbers, written, each))
            return (total, written), kept

        start = self._zeros(weights), {name: weights[name] for name in program.writes}
        items = jnp.arange(micro, dtype=jnp.uint32), feeds
        (total, written), (anchors, finite) = looped(micro_batches, start, micro, items)
        divided = program.mean and not program.running_mean
        whole = scale * (micro * program.all_replicas) if divided else scale
        return Results(_divided(self._over_instances(total), whole), written, anchors, finite)

    def accumulated(self, weight: jax.Array, gradients: jax.Array) -> jax.Array:
        """The accumulator of a weight after each micro-batch, each replica having its own.

        Args:
            weight: the weight.
            gradients: of the micro-batches, one after another in front.
        """

        def added(total: Tree, item: tuple[jax.Array, jax.Array]) -> tuple[Tree, jax.Array]:
            with jax.named_scope(scope_names.ACCUMULATION):
                shares = {"": _share(item[0])} if self._is_running else {}
                total = _added(total, {"": item[1]}, shares)
            return total, total[""]

        zeros = jnp.zeros(gradients.shape[1:], self._dtype(weight))
        numbers = jnp.arange(len(gradients), dtype=jnp.uint32)
        return lax.scan(added, {"": zeros}, (numbers, gradients))[1]

    def _dtype(self, weight: jax.Array) -> Any:
        updater = self.program.updater
        return (None if updater is None else updater.accumulator_dtype) or weight.dtype

    def _zeros(self, weights: Tree) -> Tree:
        return {n: jnp.zeros_like(weights[n], self._dtype(weights[n])) for n in self.trained}

    def _with_replica(
        self, total: Tree, gradients: Tree, index: jax.Array, replica: Number
    ) -> Tree:
        """The gradients so far, `total`, with those of micro-batch `index` of a replica."""
        grouped = self.program.grouped
        with jax.named_scope(scope_names.ACCUMULATION):
            shares = self._shares(total, index, replica) if self._is_running else {}
            added = _added(of_replica(grouped, total, replica), gradients, shares)
            return with_replicas(grouped, total, added, replica)

    @property
    def _is_running(self) -> bool:
        return self.program.mean and self.program.running_mean

    def _shares(
        self, names: Iterable[str], index: jax.Array, replica: Number
    ) -> dict[str, jax.Array]:
        """The share of the gradients of micro-batch `index` of a replica in their mean so far."""
        grouped = self.program.grouped
        shared = _share(index * self.program.replicas + replica)
        return {
            name: _share(index * grouped[name].group_size + grouped[name].place_of(replica))
            if name in grouped
            else shared
            for name in names
        }

    def _over_instances(self, total: Tree) -> Tree:
        """The gradients of this instance's micro-batches with those of the other instances."""
        instances = self.program.instances
        if instances == 1:
            return total
        share = 1.0 / instances
        running = self.program.mean and self.program.running_mean
        wide = {name: half.widened(array) for name, array in total.items()}
        return {
            name: half.kept(array * share if running else array, total[name])
            for name, array in instance_collectives.summed(wide, instances).items()
        }


def _share(before: jax.Array) -> jax.Array:
    """The share in a mean of what comes after `before` others."""
    return 1.0 / (before.astype(jnp.float32) + 1.0)


def _added(total: Tree, gradients: Tree, shares: Mapping[str, jax.Array]) -> Tree:
    """Sums of gradients, `total`, with one more each; means, of which it has `shares`, if any."""
    if not shares:
        return {n: half.kept(half.widened(t) + gradients[n], t) for n, t in total.items()}
    return {
        n: half.kept(half.widened(t) * (1.0 - shares[n]) + gradients[n] * shares[n], t)
        for n, t in total.items()
    }


def rounding(program: StepProgram, key: jax.Array, what: int) -> AbstractContextManager[None]:
    """Rounds what is traced inside as the session's options say.

    Args:
        what: tells the roundings of one key apart.
    """
    wanted = program.precision.stochastic_rounding
    return stochastic.drawing_from(jax.random.fold_in(key, what) if wanted else None)


def looped(
    body: Callable[[Any, Any], tuple[Any, Any]], carry: Any, iterations: int, items: tuple[Any, Any]
) -> tuple[Any, Any]:
    """``lax.scan``, without the loop where there is one iteration."""
    if iterations == 1:
        return body(carry, (items[0][0], items[1]))
    return lax.scan(body, carry, items)


def _divided(gradients: Tree, scale: Scale) -> Tree:
    """Gradients without a factor; in float32, which keeps what half would lose."""
    if not isinstance(scale, jax.Array) and scale == 1.0:
        return gradients
    return {name: array.astype(jnp.float32) / scale for name, array in gradients.items()}
