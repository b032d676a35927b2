"""One step as JAX traces it: forward, gradient, accumulation and update, without side effects.

One run is ``batches_per_step`` batches of ``accumulation_factor`` micro-batches for each of
``replicas``. These loops are ``lax.scan``; a loop of one turn is left out. Replicas take turns too:
one micro-batch's activations are alive at a time, unless operators exchange values of replicas.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.popart.options import LOSS_SCALE_UPDATE_FACTOR
from paddle_ipu.popart.program import (
    FINAL_LOSS_SCALE,
    device_dtype,
    dims_of,
)
from paddle_ipu.xla.lowerings import range_checks, scope_names
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import REPLICA_AXIS
from paddle_ipu.xla.optimizers import optimizer
from paddle_ipu.xla.precision import half, integers, stochastic
from paddle_ipu.xla.rewrites import kernel_layout
from paddle_ipu.xla.step import instance_collectives
from paddle_ipu.xla.step.automatic_loss_scaling import COUNTS, GradientWatch
from paddle_ipu.xla.step.evaluation import Differentiation
from paddle_ipu.xla.step.finite_checks import FiniteFlags, all_finite
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.optimizer_state import OptimizerState
from paddle_ipu.xla.step.recomputation import Segment
from paddle_ipu.xla.step.side_values import SideValues
from paddle_ipu.xla.step.stale_weights import Reads, WeightVersions
from paddle_ipu.xla.step.step_program import GRADIENT_PREFIX, Anchor, StepProgram

Tree = dict[str, Any]
Scale = float | jax.Array

# What stochastic rounding of sums of gradients and of updates draws its random numbers by.
_SUM, _UPDATE = 1, 2
_NO_COUNTS = np.zeros(2, np.float32)
_FINITE = "__finite__"
"""Of the flags of finite results, among a micro-batch's anchors."""


@dataclass(slots=True)
class Step:
    """The function that is compiled, and what it needs.

    Attributes:
        program: what it does.
        graph: the lowered graph.
        state: the optimizer's state, as the step takes it.
        trained: the weights that have a gradient and are updated.
        segments: what backward computes again; empty where it computes nothing again.
        checked: the operators whose results are looked at with floating-point checks, in the order
            of the flags; known once the step is traced.
        checks: range checks that the step keeps extremes for; known once the step is traced.
        fed_checks: those that the host does before a run; known then too.
        stale: what reads weights of earlier updates, in a pipeline.
        watch: counts the gradients for automatic loss scaling; known once the step is traced.
        updating: whether weights, those that the graph writes too, and state change.
    """

    program: StepProgram
    graph: LoweredGraph
    state: OptimizerState
    trained: tuple[str, ...] = ()
    segments: Sequence[Segment] = ()
    checked: list[LoweredNode] = field(default_factory=list)
    checks: Sequence[range_checks.RangeCheck] = ()
    fed_checks: Sequence[range_checks.FedCheck] = ()
    stale: Reads = field(default_factory=dict)
    watch: GradientWatch | None = None
    updating: bool = True

    @property
    def changes(self) -> bool:
        """Whether a run changes weights."""
        return self.updating and (self.program.updater is not None or bool(self.program.writes))

    def whole_step(
        self, weights: Tree, state: Tree, feeds: Tree, scalars: jax.Array, counters: jax.Array
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        if not self.program.in_64_bits:
            return self._whole_step(weights, state, feeds, scalars, counters)
        # Only the operators that compute in 64 bits see that JAX has them.
        with integers.allowed(False):
            return self._whole_step(weights, state, feeds, scalars, counters)

    def _whole_step(
        self, weights: Tree, state: Tree, feeds: Tree, scalars: jax.Array, counters: jax.Array
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        program = self.program
        batches, micro = program.batches_per_step, program.accumulation_factor
        counters = self._of_first_instance(counters)
        kernels = {
            name: kernel_layout.turned_back(weights[name]) for name in program.layouts.kernels
        }
        weights = {**weights, **kernels}

        def key(micro_batch: Any, replica: Any) -> jax.Array:
            first = counters[0] + micro_batch * program.all_replicas + replica
            low = jax.random.fold_in(jax.random.key(0), first)
            return jax.random.fold_in(low, counters[1] + micro_batch)

        def batch(carry: tuple[Any, ...], turn: tuple[Any, Tree]) -> tuple[Any, Any]:
            weights, state, history, valid = carry
            index, feeds = turn
            versions = WeightVersions(self.stale, weights, history)
            updater = program.updater
            scale = 1.0 if updater is None else self._loss_scale(scalars, state)
            gradients, written, anchors, finite = self._accumulate(
                weights, feeds, lambda k, r: key(index * micro + k, r), scale, versions
            )
            if not self.updating:
                return carry, (anchors, finite)
            extremes = anchors.get(range_checks.NAME)
            if extremes is not None:
                valid &= self._everywhere(range_checks.all_valid(self.checks, extremes))
                written = _unless(valid, written, {name: weights[name] for name in written})
            weights = {**weights, **written}
            if program.updater is not None:
                rounding = self._rounding(key(index * micro, 0), _UPDATE)
                with rounding, jax.named_scope(scope_names.UPDATE):
                    new_weights, new_state = self._update(
                        None if extremes is None else valid, weights, gradients, state, scalars
                    )
                if finite is not None:
                    ok = all_finite((gradients, new_weights))
                    finite = jnp.concatenate(
                        [finite.reshape(-1, finite.shape[-1]),
                         jnp.broadcast_to(ok, (micro * program.replicas, 1))], axis=1)  # fmt: skip
                if micro == 1:
                    anchors.update({
                        a.tensor: self._of_each_replica(a.tensor, new_weights)
                        for a in program.anchors if a.tensor in new_weights
                    })  # fmt: skip
                adapted = self._adapted(new_state, anchors, scalars, index)
                weights, state = new_weights, _unless(valid, adapted, new_state)
            return (weights, state, versions.later(), valid), (anchors, finite)

        start = weights, state, WeightVersions.start(self.stale, weights), jnp.asarray(True)
        carry, (anchors, finite) = _loop(
            batch, start, batches, (jnp.arange(batches, dtype=jnp.uint32), feeds)
        )
        carry = carry[:2]
        if finite is not None:
            finite = self._everywhere(finite)
        if finite is not None and self.changes:
            # One bad batch undoes the whole run.
            carry = _unless(jnp.all(finite), carry, (weights, state))
        kept = {a.tensor: self._keep(a, anchors[a.tensor], carry[0]) for a in program.anchors}
        if range_checks.NAME in anchors:
            kept[range_checks.NAME] = anchors[range_checks.NAME]
        return carry[0], carry[1], kept, finite

    def without_weights(
        self, weights: Tree, state: Tree, feeds: Tree, scalars: jax.Array, counters: jax.Array
    ) -> tuple[Tree, jax.Array | None]:
        """``whole_step`` of a step that changes neither weights nor state."""
        _, _, anchors, finite = self.whole_step(weights, state, feeds, scalars, counters)
        return anchors, finite

    def _loss_scale(self, scalars: jax.Array, state: Tree) -> Scale:
        assert self.program.updater is not None
        scale = self.program.updater.loss_scale(scalars, state)
        if self.program.automatic_loss_scaling is None:
            return scale
        return jnp.asarray(state[LOSS_SCALE_UPDATE_FACTOR]) * scale

    def _adapted(self, state: Tree, anchors: Tree, scalars: jax.Array, batch: jax.Array) -> Tree:
        """The state after a batch, with the next factor on the loss scale."""
        rule, updater = self.program.automatic_loss_scaling, self.program.updater
        if rule is None or updater is None:
            return state
        counts = self._over_instances(anchors.pop(COUNTS).reshape(-1, 2).sum(axis=0))
        factor, scaling = state[LOSS_SCALE_UPDATE_FACTOR], updater.loss_scale(scalars, state)
        return {
            **state,
            LOSS_SCALE_UPDATE_FACTOR: rule.next_factor(factor, scaling, counts, batch),
        }

    def _accumulate(
        self,
        weights: Tree,
        feeds: Tree,
        key: Callable[[Any, Any], jax.Array],
        scale: Scale,
        versions: WeightVersions,
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        """Gradients of one batch, summed or averaged over its micro-batches and replicas; what
        the graph has written; the batch's anchors."""
        program = self.program
        micro, replicas = program.accumulation_factor, program.replicas
        first_replica = self._first_replica()
        if micro * program.all_replicas == 1:
            gradients, written, anchors, finite = self._micro_batch(
                weights, feeds, key(0, 0), scale, versions
            )
            return _divided(gradients, scale), written, anchors, finite

        def once(
            total: Tree, written: Tree, fed: Tree, index: Any, replica: Any
        ) -> tuple[Tree, Tree, tuple[Tree, jax.Array | None]]:
            own = key(index, first_replica + replica)
            gradients, after, anchors, finite = self._micro_batch(
                {**weights, **written}, fed, own, scale, versions
            )
            with self._rounding(own, _SUM):
                total = self._added(total, gradients, index * replicas + replica)
            return total, after if self.updating else written, (anchors, finite)

        def in_lockstep(
            carry: tuple[Tree, Tree], index: Any, alike: Tree, items: tuple[jax.Array, Tree]
        ) -> tuple[Any, Any]:
            """One micro-batch of all replicas at the same time."""
            total, written = carry

            def one_replica(replica: jax.Array, fed: Tree, own: Tree) -> Any:
                return self._micro_batch(
                    {**weights, **own},
                    {**fed, **alike},
                    key(index, first_replica + replica),
                    scale,
                    versions,
                )

            together = jax.vmap(one_replica, axis_name=REPLICA_AXIS)
            gradients, after, anchors, finite = together(*items, written)
            for replica in range(replicas):
                own = {name: array[replica] for name, array in gradients.items()}
                with self._rounding(key(index, first_replica + replica), _SUM):
                    total = self._added(total, own, index * replicas + replica)
            return (total, after if self.updating else written), (anchors, finite)

        def turn(carry: tuple[Tree, Tree], item: tuple[jax.Array, Tree]) -> tuple[Any, Any]:
            total, written = carry
            index, fed = item
            if replicas == 1:
                total, written, kept = once(total, written, fed, index, 0)
                return (total, written), kept
            alike = {name: fed[name] for name in program.broadcast}
            each = {name: array for name, array in fed.items() if name not in alike}
            numbers = jnp.arange(replicas, dtype=jnp.uint32)
            if self.graph.in_lockstep:
                return in_lockstep(carry, index, alike, (numbers, each))

            def one_replica(total: Tree, item: tuple[jax.Array, Tree, Tree]) -> tuple[Any, Any]:
                replica, own, fed = item
                total, own, kept = once(total, own, {**fed, **alike}, index, replica)
                return total, (own, kept)

            total, (written, kept) = lax.scan(one_replica, total, (numbers, written, each))
            return (total, written), kept

        updater = program.updater
        dtype = None if updater is None else updater.accumulator_dtype
        zeros = {
            name: jnp.zeros_like(weights[name], dtype or weights[name].dtype)
            for name in self.trained
        }
        before = {name: weights[name] for name in program.writes}
        (total, written), (anchors, finite) = _loop(
            turn, (zeros, before), micro, (jnp.arange(micro, dtype=jnp.uint32), feeds)
        )
        total = self._joined(total)
        divided = program.mean and not program.running_mean
        whole = scale * (micro * program.all_replicas) if divided else scale
        return _divided(total, whole), written, anchors, finite

    def _joined(self, total: Tree) -> Tree:
        """The gradients of this instance's micro-batches with those of the other instances."""
        if self.program.instances == 1:
            return total
        share = 1.0 / self.program.instances
        running = self.program.mean and self.program.running_mean
        sums = self._over_instances({name: half.widened(t) for name, t in total.items()})
        return {
            name: half.kept(array * share if running else array, total[name])
            for name, array in sums.items()
        }

    def _over_instances(self, tree: Any) -> Any:
        """The sum of what all instances have."""
        return tree if self.program.instances == 1 else instance_collectives.summed(tree)

    def _everywhere(self, flags: jax.Array) -> jax.Array:
        """What is true on all instances."""
        return flags if self.program.instances == 1 else instance_collectives.true_everywhere(flags)

    def _first_replica(self) -> Any:
        """The number of this instance's first replica. All instances compile the same program."""
        if self.program.instances == 1:
            return 0
        return instance_collectives.own_index() * self.program.replicas

    def _of_first_instance(self, counters: jax.Array) -> jax.Array:
        """Instance 0's counters: sums and updates are rounded alike on all instances."""
        return counters if self.program.instances == 1 else instance_collectives.of_first(counters)

    def _rounding(self, key: jax.Array, what: int) -> AbstractContextManager[None]:
        """Rounds what is traced inside as the session's options say."""
        wanted = self.program.precision.stochastic_rounding
        return stochastic.drawing_from(jax.random.fold_in(key, what) if wanted else None)

    def _added(self, total: Tree, gradients: Tree, number: jax.Array) -> Tree:
        """The gradients of `number` micro-batches, `total`, with those of one more."""
        with jax.named_scope(scope_names.ACCUMULATION):
            if not (self.program.mean and self.program.running_mean):
                return {n: half.kept(half.widened(t) + gradients[n], t) for n, t in total.items()}
            share = 1.0 / (number.astype(jnp.float32) + 1.0)
            return {
                name: half.kept(half.widened(t) * (1.0 - share) + gradients[name] * share, t)
                for name, t in total.items()
            }

    def _of_each_replica(self, name: str, weights: Tree) -> jax.Array:
        """A weight with the dimension of the replicas, which those that are written have."""
        array = jnp.asarray(weights[name])
        if name in self.program.writes:
            return array
        return jnp.broadcast_to(array, (*self.program.replica_dims, *array.shape))

    def _micro_batch(
        self, weights: Tree, feeds: Tree, key: jax.Array, scale: Scale, versions: WeightVersions
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        program = self.program
        stored = weights
        graph = self.graph
        wanted = [
            a.tensor
            for a in program.anchors
            if not a.tensor.startswith(GRADIENT_PREFIX) and not self._is_own(a.tensor)
        ]
        tapped = [
            a.tensor.removeprefix(GRADIENT_PREFIX)
            for a in program.anchors
            if a.tensor.startswith(GRADIENT_PREFIX)
        ]

        def forward(
            trained: Tree, taps: Tree, counter: jax.Array, frozen: Tree
        ) -> tuple[jax.Array, tuple[Tree, Tree]]:
            finite = FiniteFlags()
            checks = range_checks.RangeChecks(feeds if self._can_check_feeds else {})
            env = graph.evaluate(
                {**frozen, **trained, **feeds},
                training=program.updater is not None,
                key=key,
                side=SideValues(taps, finite if program.check_floats else None, checks),
                backward=Differentiation(
                    trained=self.trained,
                    segments=self.segments,
                    stale=versions if versions.reads else None,
                    watch=self._watch(counter),
                ),
            )
            self.checked = finite.nodes
            self.checks, self.fed_checks = tuple(checks.checks), tuple(checks.fed)
            results = {name: graph.narrow.stored(name, self._array(name, env)) for name in wanted}
            written = {
                name: half.kept(self._array(tensor, env), stored[name])
                for name, tensor in program.writes.items()
            }
            if program.check_floats:
                results[_FINITE] = finite.stacked()
            if checks.checks:
                results[range_checks.NAME] = checks.stacked()
            if program.loss is None:
                return jnp.zeros(()), (results, written)
            loss = jnp.asarray(env[program.loss]).reshape(())
            if isinstance(scale, jax.Array):
                return loss * scale.astype(loss.dtype), (results, written)
            return (loss if scale == 1.0 else loss * scale), (results, written)

        weights = {name: half.widened(array) for name, array in weights.items()}
        trained = {name: weights[name] for name in self.trained}
        frozen = {name: array for name, array in weights.items() if name not in trained}
        if program.updater is None:
            _, (anchors, written) = forward(trained, {}, jnp.asarray(_NO_COUNTS), frozen)
            finite = anchors.pop(_FINITE, None)
            return {}, written, anchors, finite
        taps = self._taps([name for name in tapped if name not in trained], weights)
        (_, (anchors, written)), (gradients, tap_gradients, counts) = jax.value_and_grad(
            forward, argnums=(0, 1, 2), has_aux=True
        )(trained, taps, jnp.asarray(_NO_COUNTS), frozen)
        if program.automatic_loss_scaling is not None:
            anchors[COUNTS] = counts
            for name in filter(self._is_own, (a.tensor for a in program.anchors)):
                anchors[name] = jnp.asarray(scale, jnp.float32)
        finite = anchors.pop(_FINITE, None)
        for name in tapped:
            gradient = gradients[name] if name in gradients else tap_gradients[name]
            if program.updater.unscales_anchors:
                gradient = gradient / scale
            anchors[GRADIENT_PREFIX + name] = graph.narrow.stored(name, gradient)
        return gradients, written, anchors, finite

    def _array(self, name: str, env: Tree) -> jax.Array:
        """A tensor's array, also of a constant."""
        with integers.allowed_if(name in self.program.in_64_bits):
            return jnp.asarray(self.graph.widths.of_tensor(name, env[name]))

    @property
    def _can_check_feeds(self) -> bool:
        """Whether nothing but its error would tell a run with a wrong index in a feed."""
        program = self.program
        micro_batches = program.batches_per_step * program.accumulation_factor
        return (
            not self.changes
            and micro_batches * program.all_replicas == 1
            and not program.check_floats
            and self.graph.is_on_device
        )

    def _is_own(self, tensor: str) -> bool:
        """Whether a tensor is one that automatic loss scaling makes."""
        return tensor == FINAL_LOSS_SCALE and self.program.automatic_loss_scaling is not None

    def _watch(self, counter: jax.Array) -> GradientWatch | None:
        rule = self.program.automatic_loss_scaling
        if rule is None:
            return None
        narrow = self.graph.narrow
        trained = self.graph.depending_on(self.trained)
        watch = GradientWatch(rule, counter, trained, narrow.shared, narrow.dtypes)
        self.watch = watch
        return watch

    def _taps(self, names: Sequence[str], weights: Tree) -> Tree:
        """Zeros to add to tensors, to differentiate with respect to them."""
        kinds: dict[str, tuple[Sequence[int], Any]] = dict(self.program.inputs)
        kinds.update((name, (array.shape, array.dtype)) for name, array in weights.items())
        for node in self.program.graph:
            for value in node.outputs:
                if value.name in names:
                    kinds[str(value.name)] = (dims_of(value), device_dtype(value))
        return {name: half.widened(jnp.zeros(*kinds[name])) for name in names}

    def _update(
        self,
        valid: jax.Array | None,
        weights: Tree,
        gradients: Tree,
        state: Tree,
        scalars: jax.Array,
    ) -> tuple[Tree, Tree]:
        assert self.program.updater is not None
        untouched = {
            name: jnp.zeros_like(weights[name])
            for name in self.program.updater.weights
            if name not in gradients
        }
        gradients = {**gradients, **untouched}
        new_weights, new_state = optimizer.apply_if(
            self.program.updater, valid, weights, gradients, self.state.expanded(state), scalars
        )
        return new_weights, {name: new_state[name] for name in state}

    def _keep(self, anchor: Anchor, value: jax.Array, weights: Tree) -> jax.Array:
        """What an anchor's kind keeps of values with loop dimensions in front."""
        program = self.program
        dims = program.turn_dims
        if anchor.tensor in weights and anchor.kind == "final":
            return self._of_each_replica(anchor.tensor, weights)
        if anchor.kind == "all" or not dims:
            return value
        flat = value.reshape(-1, *value.shape[len(dims) :])
        if anchor.kind == "final":
            return flat[-1]
        if anchor.kind == "sum":
            with integers.allowed_if(integers.is_wide(flat)):
                return jnp.sum(flat, axis=0, dtype=flat.dtype)
        by_batch = value if program.batches_per_step > 1 else value[None]
        kept = by_batch[anchor.period - 1 :: anchor.period]
        return kept[0] if kept.shape[0] == 1 else kept


def _unless(valid: jax.Array, new: Any, old: Any) -> Any:
    """The new arrays where all is well, else the old ones."""
    return jax.tree.map(lambda n, o: n if n is o else integers.selected(valid, n, o), new, old)


def _divided(gradients: Tree, scale: Scale) -> Tree:
    """Gradients without a factor; in float32, which keeps what half would lose."""
    if not isinstance(scale, jax.Array) and scale == 1.0:
        return gradients
    return {name: array.astype(jnp.float32) / scale for name, array in gradients.items()}


def _loop(
    body: Callable[[Any, Any], tuple[Any, Any]], carry: Any, turns: int, items: tuple[Any, Any]
) -> tuple[Any, Any]:
    """``lax.scan``, without the loop where there is one turn."""
    if turns == 1:
        return body(carry, (items[0][0], items[1]))
    return lax.scan(body, carry, items)
