"""The whole step as one XLA program: forward, gradient, accumulation and update.

One run is ``batches_per_step`` batches of ``accumulation_factor`` micro-batches. Both loops are
``lax.scan``; a loop of one turn is left out. Weights and optimizer state are donated, so a step
updates them in place.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as ir
from jax import lax
from jax.experimental.compilation_cache import compilation_cache

from paddle_ipu.errors import LoweringError, NumericalError, popart_runtime_error
from paddle_ipu.popart.program import device_dtype, dims_of
from paddle_ipu.xla import half, index_ranges, memory
from paddle_ipu.xla.graph import LoweredGraph, LoweredNode, is_float
from paddle_ipu.xla.lowerings.effects import ABORTED
from paddle_ipu.xla.optimizer import Updater
from paddle_ipu.xla.state import OptimizerState, owned

memory.run_in_calling_thread()

GRADIENT_PREFIX = "Gradient___"

Tree = dict[str, Any]
Scale = float | jax.Array

_WORD = 0xFFFFFFFF


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is kept of a tensor over a run.

    Attributes:
        tensor: tensor id; ``Gradient___<id>`` for a gradient.
        kind: ``all``, ``final``, ``sum`` or ``everyn``.
        period: N of ``everyn``.
    """

    tensor: str
    kind: str = "all"
    period: int = 1


@dataclass(frozen=True, slots=True)
class StepProgram:
    """What to compile.

    Attributes:
        graph: the PopART graph.
        inputs: input tensor id -> (micro-batch shape, dtype).
        weights: ids of the initialised inputs -> (shape, dtype).
        writes: weight -> the tensor that is its value in the next micro-batch, of those that the
            graph itself writes.
        anchors: what a run returns.
        batches_per_step: turns of the outer loop.
        accumulation_factor: micro-batches before an update.
        mean: gradients are averaged over micro-batches, not summed.
        running_mean: the average is kept running instead of divided at the end.
        loss: id of the loss, in training.
        updater: the optimizer, in training.
        check_floats: find the first operator whose result is not finite.
    """

    graph: ir.Graph
    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    weights: Mapping[str, tuple[tuple[int, ...], str]]
    anchors: Sequence[Anchor]
    writes: Mapping[str, str] = field(default_factory=dict)
    batches_per_step: int = 1
    accumulation_factor: int = 1
    mean: bool = False
    running_mean: bool = False
    loss: str | None = None
    updater: Updater | None = None
    check_floats: bool = False


@dataclass(slots=True)
class Executable:
    """A compiled step and the arrays it works on.

    Attributes:
        program: what was compiled.
        weights: weight id -> array on the device.
        seed: of the random operators in the next micro-batch; both its 32-bit words go up by one
            with each micro-batch, as PopART's do.
    """

    program: StepProgram
    weights: Tree = field(default_factory=dict)
    seed: int = 0
    _lowered: LoweredGraph | None = None
    _traced: Any = None
    _compiled: Any = None
    _fits_state: bool = True
    _cache_path: str | None = None
    _trained: tuple[str, ...] = ()
    _state: OptimizerState = field(default_factory=lambda: OptimizerState({}, ()))
    _checked: list[LoweredNode] = field(default_factory=list)
    _ranges: Sequence[index_ranges.IndexRange] = ()

    def __post_init__(self) -> None:
        program = self.program
        graph = LoweredGraph(program.graph)
        tensors = [a.tensor.removeprefix(GRADIENT_PREFIX) for a in program.anchors]
        loss = [program.loss] if program.loss else []
        graph.keep([*tensors, *loss, *program.writes.values()])
        self._lowered = graph
        if program.updater is not None and program.loss is not None:
            reached = graph.reaching(program.loss)
            self._trained = tuple(w for w in program.updater.weights if w in reached)
            shapes = {name: kind[0] for name, kind in program.weights.items()}
            self._state = OptimizerState(
                program.updater.state_shapes(shapes), program.updater.alike
            )

    # -- arrays --------------------------------------------------------------------------------

    def upload(self, weights: Mapping[str, np.ndarray[Any, Any]],
               state: Mapping[str, np.ndarray[Any, Any]]) -> None:  # fmt: skip
        """Copies host arrays to the device; those not named stay as they are."""
        for name, array in weights.items():
            self.weights[name] = owned(array)
        for name, array in state.items():
            self._state.put(name, array)

    def upload_initial_state(self) -> None:
        """Gives state that the host has not set what it is before the first step."""
        updater = self.program.updater
        if updater is None or self._state.is_complete:
            return
        for name, array in updater.initial_state(self.weights).items():
            if name not in self._state:
                self._state.put(name, array)

    def set_cpu_kernels(self, kernels: Mapping[str, Any]) -> None:
        """Gives the operators that run on the host what runs them there."""
        assert self._lowered is not None
        self._lowered.kernels = dict(kernels)

    def set_indices_from_zero(self, gathered: Collection[str]) -> None:
        """Names the Gathers, by result, in which no index may be below zero."""
        assert self._lowered is not None
        self._lowered.from_zero = frozenset(gathered)

    def reserve_memory(self) -> None:
        """Makes room for the step's temporary buffers, which every run then uses again."""
        analysis = self._compiled.memory_analysis()
        if analysis is not None:
            memory.prepare_for(int(analysis.temp_size_in_bytes))

    def reset_state(self, keep: Collection[str]) -> None:
        """Gives state what it is before the first step, but for the arrays named."""
        self._state.keep(keep)

    @property
    def state(self) -> Tree:
        """Optimizer state name -> array on the device, or a part of one in the host's memory."""
        return self._state.by_name()

    @property
    def state_names(self) -> Collection[str]:
        """Names of all state arrays of the optimizer."""
        return self._state.shapes.keys()

    def has_state(self, name: str) -> bool:
        """True when `name` is a state array of the optimizer."""
        return name in self._state.shapes

    def state_shape(self, name: str) -> tuple[int, ...]:
        """The shape of a state array."""
        return self._state.shapes[name]

    # -- compilation ---------------------------------------------------------------------------

    def trace(self) -> None:
        """Traces the step; the first half of a compilation."""
        self._traced = self._lowered_for(None)

    def text_for(self, platform: str) -> str:
        """The step as StableHLO for a platform of JAX's, whether this machine has it or not."""
        return str(self._lowered_for(platform).as_text())

    def _lowered_for(self, platform: str | None) -> Any:
        weights = {name: _spec(*kind) for name, kind in self.program.weights.items()}
        state = {
            name: _spec(shape, jnp.float32) for name, shape in self._state.device_shapes().items()
        }
        feeds = {
            name: _spec((*self.loop_dims, *shape), dtype)
            for name, (shape, dtype) in self.program.inputs.items()
        }
        scalars = _spec(self._scalars().shape, jnp.float32)
        counters = _spec((2,), jnp.uint32)
        step = jax.jit(self._step, donate_argnums=(0, 1))
        on_cpu = (platform or jax.default_backend()) == "cpu"
        # Accelerators round the factors of float32 products unless told otherwise.
        with nullcontext() if on_cpu else jax.default_matmul_precision("highest"):
            with _told_of_loops():
                traced = step.trace(weights, state, feeds, scalars, counters)
            return traced.lower(lowering_platforms=None if platform is None else (platform,))

    def compile(self, cache_path: str | None = None) -> None:
        """Compiles the traced step; the second half of a compilation.

        Args:
            cache_path: a folder that keeps compiled programs for the next process.
        """
        self._cache_path = cache_path
        if self._traced is None:
            self.trace()
        with _kept_in(cache_path):
            self._compiled = self._traced.compile(compiler_options=dict(half.COMPILER_OPTIONS))
        self._traced = None
        memory.give_back_unused()

    @property
    def loop_dims(self) -> tuple[int, ...]:
        """Leading dimensions of fed arrays: (batches, micro-batches), without ones."""
        dims = (self.program.batches_per_step, self.program.accumulation_factor)
        return tuple(dim for dim in dims if dim > 1)

    def text(self) -> str:
        """The compiled program in XLA's own notation."""
        return str(self._compiled.as_text())

    # -- running -------------------------------------------------------------------------------

    def run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        """One run; feeds and results have the loop dimensions in front.

        Raises:
            IndexRangeError: an operator was given an index that does not exist.
            NumericalError: floats are checked and an operator gave NaN or infinity; weights and
                state are as before the run.
            popart_runtime_error: an Abort stopped the program; its weights are lost.
        """
        try:
            return self._run(feeds)
        except jax.errors.JaxRuntimeError as error:
            if ABORTED in str(error):
                raise popart_runtime_error(ABORTED) from error
            raise

    def _run(self, feeds: Mapping[str, np.ndarray[Any, Any]]) -> dict[str, np.ndarray[Any, Any]]:
        if self._state.split_unequal():
            self._fits_state = False
        if not self._fits_state:
            self.trace()
            self.compile(self._cache_path)
            self._fits_state = True
        counters = np.asarray(self._seed_words(0), np.uint32)
        weights, state, anchors, finite = self._compiled(
            self.weights, self._state.arrays(), dict(feeds), self._scalars(), counters
        )
        self.weights = weights
        self._state.replace(state)
        if finite is not None:
            self._raise_unless_finite(np.asarray(finite))
        low, high = self._seed_words(
            self.program.batches_per_step * self.program.accumulation_factor
        )
        self.seed = low | high << 32
        extremes = anchors.pop(index_ranges.NAME, None)
        results = {name: np.asarray(array) for name, array in anchors.items()}
        if extremes is not None:
            index_ranges.judge(self._ranges, np.asarray(extremes))
        return results

    def _seed_words(self, later: int) -> tuple[int, int]:
        """Low and high word of the seed, some micro-batches later."""
        return (self.seed + later) & _WORD, ((self.seed >> 32) + later) & _WORD

    def _scalars(self) -> np.ndarray[Any, Any]:
        updater = self.program.updater
        return np.zeros(0, np.float32) if updater is None else updater.scalars()

    def _raise_unless_finite(self, finite: np.ndarray[Any, Any]) -> None:
        if finite.all():
            return
        micro, operators = self.program.accumulation_factor, len(self._checked)
        batches = finite.reshape(-1, micro, finite.shape[-1])
        batch = int(np.argmin(batches.all(axis=(1, 2))))
        flags = batches[batch, :, :operators]
        node = None
        if flags.all():
            # The last column, the same for all micro-batches, is that of the update after them.
            where, turn = "a gradient or an updated weight", batch * micro + micro - 1
        else:
            row = int(np.argmin(flags.all(axis=1)))
            node, turn = self._checked[int(np.argmin(flags[row]))], batch * micro + row
            where = f"operator {node.op_type} ({node.name})"
        error = NumericalError(
            f"floating-point checks are on and {where} gave NaN or infinity in micro-batch "
            f"{turn}. Weights and optimizer state were left as before this run. Check the feeds "
            "and the learning rate; paddle_ipu.verify compares every operator with Paddle's CPU "
            "kernels."
        )
        error.node = None if node is None else node.name
        raise error

    # -- the step, as JAX traces it ------------------------------------------------------------

    def _step(
        self, weights: Tree, state: Tree, feeds: Tree, scalars: jax.Array, counters: jax.Array
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        program = self.program
        batches, micro = program.batches_per_step, program.accumulation_factor

        def key(micro_batch: Any) -> jax.Array:
            low = jax.random.fold_in(jax.random.key(0), counters[0] + micro_batch)
            return jax.random.fold_in(low, counters[1] + micro_batch)

        def batch(carry: tuple[Tree, Tree], turn: tuple[jax.Array, Tree]) -> tuple[Any, Any]:
            weights, state = carry
            index, feeds = turn
            updater = program.updater
            scale = 1.0 if updater is None else updater.loss_scale(scalars, state)
            gradients, written, anchors, finite = self._accumulate(
                weights, feeds, lambda k: key(index * micro + k), scale
            )
            weights = {**weights, **written}
            if program.updater is not None:
                new_weights, new_state = self._update(weights, gradients, state, scalars)
                if finite is not None:
                    ok = _all_finite((gradients, new_weights))
                    finite = jnp.concatenate(
                        [finite.reshape(-1, finite.shape[-1]),
                         jnp.broadcast_to(ok, (micro, 1))], axis=1)  # fmt: skip
                if micro == 1:
                    anchors.update({
                        a.tensor: new_weights[a.tensor]
                        for a in program.anchors if a.tensor in new_weights
                    })  # fmt: skip
                weights, state = new_weights, new_state
            return (weights, state), (anchors, finite)

        carry, (anchors, finite) = _loop(
            batch, (weights, state), batches, (jnp.arange(batches, dtype=jnp.uint32), feeds)
        )
        if finite is not None and (program.updater is not None or program.writes):
            # One bad batch undoes the whole run.
            ok = jnp.all(finite)
            carry = jax.tree.map(lambda new, old: jnp.where(ok, new, old), carry, (weights, state))
        kept = {a.tensor: self._keep(a, anchors[a.tensor], carry[0]) for a in program.anchors}
        if index_ranges.NAME in anchors:
            kept[index_ranges.NAME] = anchors[index_ranges.NAME]
        return carry[0], carry[1], kept, finite

    def _accumulate(
        self, weights: Tree, feeds: Tree, key: Callable[[Any], jax.Array], scale: Scale
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        """Gradients of one batch, summed or averaged over its micro-batches; what the graph has
        written; the batch's anchors."""
        micro = self.program.accumulation_factor
        if micro == 1:
            gradients, written, anchors, finite = self._micro_batch(weights, feeds, key(0), scale)
            return _divided(gradients, scale), written, anchors, finite
        running = self.program.mean and self.program.running_mean

        def turn(carry: tuple[Tree, Tree], item: tuple[jax.Array, Tree]) -> tuple[Any, Any]:
            total, written = carry
            index, fed = item
            gradients, written, anchors, finite = self._micro_batch(
                {**weights, **written}, fed, key(index), scale
            )
            if running:
                share = 1.0 / (index.astype(jnp.float32) + 1.0)
                total = {
                    name: half.kept(half.widened(t) * (1.0 - share) + gradients[name] * share, t)
                    for name, t in total.items()
                }
            else:
                total = {n: half.kept(half.widened(t) + gradients[n], t) for n, t in total.items()}
            return (total, written), (anchors, finite)

        updater = self.program.updater
        dtype = None if updater is None else updater.accumulator_dtype
        zeros = {
            name: jnp.zeros_like(weights[name], dtype or weights[name].dtype)
            for name in self._trained
        }
        before = {name: weights[name] for name in self.program.writes}
        (total, written), (anchors, finite) = lax.scan(
            turn, (zeros, before), (jnp.arange(micro, dtype=jnp.uint32), feeds)
        )
        whole = scale * micro if self.program.mean and not running else scale
        return _divided(total, whole), written, anchors, finite

    def _micro_batch(
        self, weights: Tree, feeds: Tree, key: jax.Array, scale: Scale
    ) -> tuple[Tree, Tree, Tree, jax.Array | None]:
        program = self.program
        stored = weights
        graph = self._lowered
        assert graph is not None
        wanted = [a.tensor for a in program.anchors if not a.tensor.startswith(GRADIENT_PREFIX)]
        tapped = [
            a.tensor.removeprefix(GRADIENT_PREFIX)
            for a in program.anchors
            if a.tensor.startswith(GRADIENT_PREFIX)
        ]

        def forward(trained: Tree, taps: Tree, frozen: Tree) -> tuple[jax.Array, tuple[Tree, Tree]]:
            flags: list[jax.Array] = []
            self._checked = []

            def listen(node: LoweredNode, outputs: Sequence[Any]) -> None:
                floats = [o for o in outputs if isinstance(o, jax.Array) and is_float(o)]
                if floats:
                    self._checked.append(node)
                    flags.append(_all_finite(floats))

            ranges = index_ranges.IndexRanges()
            env = graph.evaluate(
                {**frozen, **trained, **feeds},
                training=program.updater is not None,
                key=key,
                taps=taps,
                listen=listen if program.check_floats else None,
                ranges=ranges,
            )
            self._ranges = tuple(ranges.ranges)
            results = {name: graph.narrow.stored(name, jnp.asarray(env[name])) for name in wanted}
            written = {
                name: half.kept(jnp.asarray(env[tensor]), stored[name])
                for name, tensor in program.writes.items()
            }
            if program.check_floats:
                results["__finite__"] = jnp.stack(flags) if flags else jnp.ones((0,), bool)
            if ranges.ranges:
                results[index_ranges.NAME] = ranges.stacked()
            if program.loss is None:
                return jnp.zeros(()), (results, written)
            loss = jnp.asarray(env[program.loss]).reshape(())
            if isinstance(scale, jax.Array):
                return loss * scale.astype(loss.dtype), (results, written)
            return (loss if scale == 1.0 else loss * scale), (results, written)

        weights = {name: half.widened(array) for name, array in weights.items()}
        trained = {name: weights[name] for name in self._trained}
        frozen = {name: array for name, array in weights.items() if name not in trained}
        if program.updater is None:
            _, (anchors, written) = forward(trained, {}, frozen)
            finite = anchors.pop("__finite__", None)
            return {}, written, anchors, finite
        taps = self._taps([name for name in tapped if name not in trained], weights)
        (_, (anchors, written)), (gradients, tap_gradients) = jax.value_and_grad(
            forward, argnums=(0, 1), has_aux=True
        )(trained, taps, frozen)
        finite = anchors.pop("__finite__", None)
        for name in tapped:
            gradient = gradients[name] if name in gradients else tap_gradients[name]
            if program.updater.unscales_anchors:
                gradient = gradient / scale
            anchors[GRADIENT_PREFIX + name] = graph.narrow.stored(name, gradient)
        return gradients, written, anchors, finite

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
        self, weights: Tree, gradients: Tree, state: Tree, scalars: jax.Array
    ) -> tuple[Tree, Tree]:
        assert self.program.updater is not None
        untouched = {
            name: jnp.zeros_like(weights[name])
            for name in self.program.updater.weights
            if name not in gradients
        }
        new_weights, new_state = self.program.updater.apply(
            weights, {**gradients, **untouched}, self._state.expanded(state), scalars
        )
        return new_weights, {name: new_state[name] for name in state}

    def _keep(self, anchor: Anchor, value: jax.Array, weights: Tree) -> jax.Array:
        """What an anchor's kind keeps of values with loop dimensions in front."""
        program = self.program
        dims = self.loop_dims
        if anchor.tensor in weights and anchor.kind == "final":
            return jnp.asarray(weights[anchor.tensor])
        if anchor.kind == "all" or not dims:
            return value
        flat = value.reshape(-1, *value.shape[len(dims) :])
        if anchor.kind == "final":
            return flat[-1]
        if anchor.kind == "sum":
            return jnp.sum(flat, axis=0, dtype=flat.dtype)
        by_batch = value if program.batches_per_step > 1 else value[None]
        kept = by_batch[anchor.period - 1 :: anchor.period]
        return kept[0] if kept.shape[0] == 1 else kept


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


def _spec(shape: tuple[int, ...], dtype: Any) -> Any:
    return jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]


def _all_finite(tree: Any) -> jax.Array:
    leaves = [leaf for leaf in jax.tree.leaves(tree) if is_float(leaf)]
    return jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]).all()


@contextmanager
def _told_of_loops() -> Iterator[None]:
    """JAX's error about the gradient of a loop, in the words of the program's author."""
    try:
        yield
    except ValueError as error:
        if "Reverse-mode differentiation does not work for lax.while_loop" not in str(error):
            raise
        raise LoweringError(
            "the loss depends on a Loop without a constant maximum of turns, which has no "
            "gradient: the device has to know how many turns to keep. Give the Loop a constant "
            "maximum, or put a Detach behind it."
        ) from error


@contextmanager
def _kept_in(cache_path: str | None) -> Iterator[None]:
    """XLA's own cache of compiled programs, in a folder, for the length of a block."""
    if cache_path is None:
        yield
        return
    settings = {
        "jax_enable_compilation_cache": True,
        "jax_compilation_cache_dir": cache_path,
        "jax_persistent_cache_min_compile_time_secs": 0.0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }
    before = {name: getattr(jax.config, name) for name in settings}
    try:
        for name, value in settings.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
        compilation_cache.reset_cache()
        yield
    finally:
        for name, value in before.items():
            jax.config.update(name, value)  # type: ignore[no-untyped-call]
        compilation_cache.reset_cache()
