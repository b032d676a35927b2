"""Automatic loss scaling: the loss scale follows how large the gradients are, by PopART's rule.

Over the micro-batches and replicas of a batch, the gradients' absolute values are counted: ``u`` at
or above an edge, ``l`` below it. After the batch the factor on the optimizer's loss scaling is
halved if ``u > l * t / (1 - t)``, else doubled. The edge is a share of the largest number of the
gradient's type. The batch itself still has the factor from before, and a gradient that overflows is
not left out of the update.

Every gradient an operator makes is counted, and the sum of the gradients of a tensor with several
readers, but not as PopART: those that only view another tensor, those of the loss, which are made
of the loss scale, and those that are made of a weight as it is. Inside the subgraphs of If, Loop
and Scan none is. In a program for PopART only those in half are counted, in one of Paddle's all.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.options import LOSS_SCALE_COUNTER, LOSS_SCALE_UPDATE_FACTOR
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array, HostArray, Operand
from paddle_ipu.xla.precision import half
from paddle_ipu.xla.step.node_lowering import Evaluate

if TYPE_CHECKING:
    from paddle_ipu.popart.options import SessionOptions

COUNTS = "__gradient_counts__"
"""Among a micro-batch's results, how many gradients are below the edge and how many are not."""

_LARGEST: Mapping[str, float] = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": float(np.finfo(np.float32).max),
}

_MATRIX_OPERATORS = frozenset({"Conv", "ConvTranspose", "Gemm", "MatMul", "MultiConv"})
"""Their gradients are made of weights that are transposed or flipped first."""

_SUMS = frozenset({"Add", "AddBias", "Mean", "Sub", "Sum"})
"""Operators whose gradients are made of no operand."""

_NORMS = frozenset({
    "BatchNormalization", "GroupNormalization", "InstanceNormalization",
})  # fmt: skip
"""One operator makes the gradients of all their operands."""

_VIEWS = frozenset({
    "Concat", "Expand", "Flatten", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
})  # fmt: skip
"""Operators whose gradient only views that of their results."""

_LARGEST_HALF_SCALE = 2.0**15
"""The largest power of two in half: a loss in half, or a half weight's gradient, takes no more."""


@dataclass(frozen=True, slots=True)
class AutomaticLossScaling:
    """The rule's settings.

    Attributes:
        edge: share of the type's largest number from which on a gradient counts as large.
        threshold: share of large gradients above which the factor is halved.
        period: batches from one change to the next.
        tracked: operators whose gradients are counted; None for all that make new numbers.
        tensors: the tensors whose gradients are counted instead; None where operators say it.
        clipped: the scale stays within half's range.
        halves_only: gradients of other types are not counted.
    """

    edge: float = 0.125
    threshold: float = 1e-7
    period: int = 1
    tracked: frozenset[str] | None = None
    tensors: frozenset[str] | None = None
    clipped: bool = False
    halves_only: bool = False

    @classmethod
    def of(
        cls, options: SessionOptions, clipped: bool, halves_only: bool = False
    ) -> AutomaticLossScaling:
        """What the options of a session say.

        Args:
            options: of a training session in which it is enabled.
            clipped: the loss or a weight is half.
            halves_only: gradients of other types are not counted.

        Raises:
            popart_exception: a setting out of range.
        """
        settings = options.automaticLossScalingSettings
        for name in ("binEdgeLocation", "thresholdUpperCountProportion"):
            number = getattr(settings, name)
            if not 0 <= number <= 1:
                raise popart_exception(
                    f"[AutomaticLossScale transform] Out of range value for '{name}'. The current "
                    f"value is {number}, but it should be in the range [0, 1]."
                )
        period = int(settings.updatePeriod)
        if period < 1:
            raise popart_exception(
                f"[AutomaticLossScale transform] updatePeriod is {period}, which should be at "
                "least 1."
            )
        method = settings.gradientTensorTrackingMethod.name
        by_name = method == "GradientsOfUserSpecifiedTensors"
        return cls(
            edge=float(settings.binEdgeLocation),
            threshold=float(settings.thresholdUpperCountProportion),
            period=period,
            tracked=_MATRIX_OPERATORS if method == "ConvAndMatmulGradients" else None,
            tensors=frozenset(settings.toTrackTensors or ()) if by_name else None,
            clipped=clipped,
            halves_only=halves_only,
        )

    @property
    def initial_state(self) -> dict[str, HostArray]:
        """State before the first batch."""
        state: dict[str, HostArray] = {LOSS_SCALE_UPDATE_FACTOR: np.ones((), np.float32)}
        if self.period > 1:
            state[LOSS_SCALE_COUNTER] = np.full((), -1, np.int32)
        return state

    def counted_on(
        self, state: Mapping[str, jax.Array], micro_batches: int
    ) -> tuple[jax.Array | bool, dict[str, jax.Array]]:
        """(whether the factor changes after a batch, the counter after it).

        Args:
            state: before the batch.
            micro_batches: of a batch.
        """
        if self.period == 1:
            return True, {}
        counter, whole = state[LOSS_SCALE_COUNTER], self.period * micro_batches
        changes = (counter + 1) % whole < micro_batches
        return changes, {LOSS_SCALE_COUNTER: (counter + micro_batches) % whole}

    def next_factor(self, factor: jax.Array, scaling: Any, counts: jax.Array) -> jax.Array:
        """The factor after a batch that changes it.

        Args:
            factor: the factor that the batch had.
            scaling: the optimizer's own loss scaling, which it multiplies.
            counts: gradients below the edge and not below it, [2].
        """
        lower, upper = counts[0], counts[1]
        limit = self.threshold / (1 - self.threshold) if self.threshold < 1 else np.inf
        # Where all are large, no share of none is a number.
        shrinks = upper > jnp.where(lower > 0, lower * limit, 0.0)
        changed = jnp.where(shrinks, factor * 0.5, factor * 2.0)
        if self.clipped:
            changed = jnp.minimum(changed, _LARGEST_HALF_SCALE / scaling)
        return jnp.where(jnp.isfinite(changed * scaling), changed, factor)


def _counted(cotangent: jax.Array, dtype: str, edge: float) -> jax.Array:
    sizes = jnp.abs(half.nearest(cotangent, dtype))
    # NaN is not below.
    below = jnp.sum(sizes < edge * _LARGEST[dtype], dtype=jnp.float32)
    return jnp.stack([below, sizes.size - below])


@functools.partial(jax.custom_vjp, nondiff_argnums=(2, 3))
def _tracked(x: jax.Array, counter: jax.Array, dtype: str, edge: float) -> jax.Array:
    """The array itself; the counter's cotangent is the count of the array's."""
    return x


_tracked.defvjp(
    lambda x, counter, dtype, edge: (x, None),
    lambda dtype, edge, _, cotangent: (cotangent, _counted(cotangent, dtype, edge)),
)


@dataclass(slots=True)
class GradientWatch:
    """Counts the gradients of one micro-batch.

    Attributes:
        rule: what is counted.
        counter: zeros [2]; its gradient is the counts.
        trained: tensors that depend on a trained weight; others have no gradient.
        shared: tensors with several readers.
        dtypes: tensor -> ``float16`` or ``bfloat16``; others are float32.
        weights: the graph's variables.
        losses: the loss, and what is differentiated together with it.
        has_counted: whether a gradient was counted.
    """

    rule: AutomaticLossScaling
    counter: jax.Array
    trained: Collection[str]
    shared: Collection[str]
    dtypes: Mapping[str, str]
    weights: Collection[str] = ()
    losses: Collection[str] = ()
    has_counted: bool = False

    def of_operands(
        self, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
    ) -> Sequence[Array]:
        """Wraps a node: counts the gradients that it gives its operands."""
        if self.rule.tensors is not None:
            return evaluate(node, operands)
        counted = [
            self._watched(name, operand) if name and self._counts(node, at) else operand
            for at, (name, operand) in enumerate(zip(node.inputs, operands, strict=True))
        ]
        return evaluate(node, counted)

    def of_results(
        self, node: LoweredNode, operands: Sequence[Operand], evaluate: Evaluate
    ) -> Sequence[Array]:
        """Wraps a node: counts the sums of the gradients of its results."""
        results = evaluate(node, operands)
        return [self.tensor(n, r) for n, r in zip(node.outputs, results, strict=False)]

    def _counts(self, node: LoweredNode, index: int) -> bool:
        """Whether the gradient that an operator gives one of its operands is counted."""
        kind = node.op_type
        if self.rule.tracked is not None:
            return kind in self.rule.tracked
        if kind in _VIEWS or not set(self.losses).isdisjoint(node.outputs):
            return False
        if kind in _MATRIX_OPERATORS or kind in _SUMS:
            return True
        read = [name for at, name in enumerate(node.inputs) if at != index or kind in _NORMS]
        return not any(name in self.weights for name in read)

    def tensor(self, name: str, array: Any) -> Any:
        """A tensor for all of its readers: the sum of their gradients."""
        rule = self.rule
        if rule.tensors is None:
            wanted = rule.tracked is None and name in self.shared
        else:
            wanted = name in rule.tensors
        return self._watched(name, array) if wanted else array

    def _watched(self, name: str, array: Any) -> Any:
        is_float = isinstance(array, jax.Array) and array.dtype == jnp.float32
        if not is_float or name not in self.trained:
            return array
        dtype = self.dtypes.get(name, "float32")
        if self.rule.halves_only and dtype != "float16":
            return array
        self.has_counted = True
        return _tracked(array, self.counter, dtype, self.rule.edge)
