"""One step as JAX traces it: forward, gradient, accumulation and update, without side effects.

One run is ``batches_per_step`` batches of ``accumulation_factor`` micro-batches for each of
``replicas``; ``accumulation.py`` has one batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.popart.names import ACCUMULATED_PREFIX, GRADIENT_PREFIX, STATISTICS, of_tensor
from paddle_ipu.popart.options import LOSS_SCALE_UPDATE_FACTOR
from paddle_ipu.popart.program import (
    FINAL_LOSS_SCALE,
    device_dtype,
    dims_of,
)
from paddle_ipu.xla.lowerings import range_checks, scope_names
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.optimizers import optimizer
from paddle_ipu.xla.precision import half, integers
from paddle_ipu.xla.rewrites import kernel_layout
from paddle_ipu.xla.step import instance_collectives
from paddle_ipu.xla.step.accumulation import (
    Accumulation,
    Number,
    Results,
    Scale,
    Tree,
    looped,
    rounding,
)
from paddle_ipu.xla.step.automatic_loss_scaling import COUNTS, GradientWatch
from paddle_ipu.xla.step.evaluation import Differentiation
from paddle_ipu.xla.step.finite_checks import FiniteFlags, all_finite
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.optimizer_state import OptimizerState
from paddle_ipu.xla.step.replica_values import of_replica
from paddle_ipu.xla.step.segments import Segment
from paddle_ipu.xla.step.side_values import SideValues
from paddle_ipu.xla.step.stale_weights import Reads, WeightVersions
from paddle_ipu.xla.step.step_program import Anchor, StepProgram

_UPDATE = 2
"""What stochastic rounding of updates draws its random numbers by."""
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
        segments: the graph in parts, some of which backward computes again or XLA compiles by
            themselves; empty for none.
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
        counters = instance_collectives.of_first(counters, program.instances)
        kernels = {name: kernel_layout.to_model(weights[name]) for name in program.layouts.kernels}
        weights = {**weights, **kernels}

        def key(micro_batch: Number, replica: Number) -> jax.Array:
            first = counters[0] + micro_batch * program.all_replicas + replica
            low = jax.random.fold_in(jax.random.key(0), first)
            return jax.random.fold_in(low, counters[1] + micro_batch)

        def batch(carry: tuple[Any, ...], item: tuple[Any, Tree]) -> tuple[Any, Any]:
            weights, state, history, valid = carry
            index, feeds = item
            versions = WeightVersions(self.stale, weights, history)
            updater = program.updater
            scale = 1.0 if updater is None else self._loss_scale(scalars, state)
            accumulation = Accumulation(
                program,
                self.trained,
                self.graph.in_lockstep,
                self.updating,
                partial(self._micro_batch, scale=scale, versions=versions),
                lambda k, r: key(index * micro + k, r),
            )
            gradients, written, anchors, finite = accumulation.run(weights, feeds, scale)
            self._complete(anchors, accumulation, weights, scale, scalars, state)
            if not self.updating:
                return carry, (anchors, finite)
            extremes = anchors.get(range_checks.NAME)
            if extremes is not None:
                in_range = range_checks.all_valid(self.checks, extremes)
                valid &= instance_collectives.true_everywhere(in_range, program.instances)
                written = _unless(valid, written, {name: weights[name] for name in written})
            weights = {**weights, **written}
            if program.updater is not None:
                drawn = rounding(program, key(index * micro, 0), _UPDATE)
                with drawn, jax.named_scope(scope_names.UPDATE):
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
                adapted = self._adapted(new_state, anchors, scalars)
                weights, state = new_weights, _unless(valid, adapted, new_state)
            return (weights, state, versions.later(), valid), (anchors, finite)

        start = weights, state, WeightVersions.start(self.stale, weights), jnp.asarray(True)
        carry, (anchors, finite) = looped(
            batch, start, batches, (jnp.arange(batches, dtype=jnp.uint32), feeds)
        )
        carry = carry[:2]
        if finite is not None:
            finite = instance_collectives.true_everywhere(finite, program.instances)
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

    def _complete(
        self,
        anchors: Tree,
        accumulation: Accumulation,
        weights: Tree,
        scale: Scale,
        scalars: jax.Array,
        state: Tree,
    ) -> None:
        """Adds the anchors of a batch that are not a micro-batch's own."""
        program, updater = self.program, self.program.updater
        micro_batches = program.batch_dims[program.batches_per_step > 1 :] + program.replica_dims
        for name in (anchor.tensor for anchor in program.anchors):
            if name == STATISTICS:
                assert program.automatic_loss_scaling is not None
                counted = program.automatic_loss_scaling.counted_on(
                    state, program.accumulation_factor
                )[0]
                sums = jnp.cumsum(anchors[COUNTS], axis=0)
                anchors[name] = jnp.where(counted, sums, 0.0)
            elif name.startswith(ACCUMULATED_PREFIX):
                weight = weights[of_tensor(name)]
                anchors[name] = accumulation.accumulated(weight, anchors[name])
            elif self._is_own(name) and updater is not None:
                own = scale if name == FINAL_LOSS_SCALE else updater.loss_scale(scalars, state)
                anchors[name] = jnp.full(micro_batches, own, program.own[name])

    def _adapted(self, state: Tree, anchors: Tree, scalars: jax.Array) -> Tree:
        """The state after a batch, with the next factor on the loss scale."""
        rule, updater = self.program.automatic_loss_scaling, self.program.updater
        if rule is None or updater is None:
            return state
        own = anchors.pop(COUNTS).reshape(-1, 2).sum(axis=0)
        counts = instance_collectives.summed(own, self.program.instances)
        factor, scaling = state[LOSS_SCALE_UPDATE_FACTOR], updater.loss_scale(scalars, state)
        changes, later = rule.counted_on(state, self.program.accumulation_factor)
        new = rule.next_factor(factor, scaling, counts)
        return {**state, **later, LOSS_SCALE_UPDATE_FACTOR: jnp.where(changes, new, factor)}

    def _of_each_replica(self, name: str, weights: Tree) -> jax.Array:
        """A weight with the dimension of the replicas, which those that are written have."""
        array = jnp.asarray(weights[name])
        if name in self.program.writes:
            return array
        if name in self.program.grouped:
            return self.program.grouped[name].of_each_replica(array)
        return jnp.broadcast_to(array, (*self.program.replica_dims, *array.shape))

    def _micro_batch(
        self, weights: Tree, feeds: Tree, key: jax.Array, replica: Number,
        scale: Scale, versions: WeightVersions,
    ) -> Results:  # fmt: skip
        """Gradients of one micro-batch's loss, times `scale`, and what else it computes."""
        program = self.program
        weights = of_replica(program.grouped, weights, replica)
        versions = versions.of_replica(program.grouped, replica)
        stored = weights
        graph = self.graph
        names = [anchor.tensor for anchor in program.anchors if not self._is_own(anchor.tensor)]
        prefixes = GRADIENT_PREFIX, ACCUMULATED_PREFIX
        wanted = {name: of_tensor(name) for name in names if not name.startswith(prefixes)}
        tapped = [of_tensor(name) for name in names if name.startswith(GRADIENT_PREFIX)]

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
            results = {
                name: graph.narrow.stored(tensor, self._array(tensor, env))
                for name, tensor in wanted.items()
            }
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
            if jnp.issubdtype(loss.dtype, jnp.integer):
                # Nothing is differentiated with respect to integers; JAX takes floats only.
                loss = loss.astype(jnp.float32)
            if isinstance(scale, jax.Array):
                return loss * scale.astype(loss.dtype), (results, written)
            return (loss if scale == 1.0 else loss * scale), (results, written)

        weights = {name: half.widened(array) for name, array in weights.items()}
        trained = {name: weights[name] for name in self.trained}
        frozen = {name: array for name, array in weights.items() if name not in trained}
        if program.updater is None:
            _, (anchors, written) = forward(trained, {}, jnp.asarray(_NO_COUNTS), frozen)
            finite = anchors.pop(_FINITE, None)
            return Results({}, written, anchors, finite)
        taps = self._taps([name for name in tapped if name not in trained], weights)
        (_, (anchors, written)), (gradients, tap_gradients, counts) = jax.value_and_grad(
            forward, argnums=(0, 1, 2), has_aux=True
        )(trained, taps, jnp.asarray(_NO_COUNTS), frozen)
        if program.automatic_loss_scaling is not None:
            anchors[COUNTS] = counts
        for name in names:
            if name.startswith(ACCUMULATED_PREFIX):
                anchors[name] = gradients[of_tensor(name)]
        finite = anchors.pop(_FINITE, None)
        for name in tapped:
            gradient = gradients[name] if name in gradients else tap_gradients[name]
            if program.updater.unscales_anchors:
                gradient = gradient / scale
            anchors[GRADIENT_PREFIX + name] = graph.narrow.stored(name, gradient)
        return Results(gradients, written, anchors, finite)

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
        """Whether a tensor is none of the graph's: a loss scale, or statistics of gradients."""
        return tensor in self.program.own

    def _watch(self, counter: jax.Array) -> GradientWatch | None:
        rule = self.program.automatic_loss_scaling
        if rule is None:
            return None
        narrow = self.graph.narrow
        trained = self.graph.depending_on(self.trained)
        watch = GradientWatch(
            rule, counter, trained, narrow.shared, narrow.dtypes,
            self.program.weights.keys(), self._losses(),
        )  # fmt: skip
        self.watch = watch
        return watch

    def _losses(self) -> set[str]:
        """The loss, and the softmax that PopART differentiates together with it."""
        nodes, losses = self.graph.nodes, {str(self.program.loss)}
        softmaxes = {node.outputs[0] for node in nodes if node.op_type == "Softmax"}
        for node in nodes:
            if losses.intersection(node.outputs) and node.op_type == "Nll":
                losses |= softmaxes.intersection(filter(None, node.inputs))
        return losses

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
        dims = program.batch_dims
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
        kept = flat[anchor.period - 1 :: anchor.period]
        loops = (program.batches_per_step // anchor.period, program.accumulation_factor)
        return kept.reshape(*(size for size in loops if size > 1), *flat.shape[1:])


def _unless(valid: jax.Array, new: Any, old: Any) -> Any:
    """The new arrays where all is well, else the old ones."""
    return jax.tree.map(lambda n, o: n if n is o else integers.selected(valid, n, o), new, old)
