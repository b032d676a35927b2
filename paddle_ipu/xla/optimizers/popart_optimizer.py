"""What PopART's optimizers have in common on the IPU Model; each has a file of its own.

Gradients arrive without the loss scaling, averaged or summed by the session's options. State arrays
have PopART's names ``Accl1___<weight>``; it is computed in float32 and kept in the
type the optimizer asks for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import NotSupported, popart_exception
from paddle_ipu.popart.enums import DataType
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.optimizer_values import ClipNormSettings
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.optimizers.update_rules import Arrays
from paddle_ipu.xla.precision import half

Numbers = Mapping[str, jax.Array]
_TYPES = {DataType.UNDEFINED: None, DataType.FLOAT: "float32", DataType.FLOAT16: "float16"}


@dataclass(frozen=True, slots=True)
class Reduction:
    """How a session reduces the gradients of micro-batches and replicas.

    Attributes:
        count: micro-batches of one update, those of all replicas.
        mean: they are averaged, not summed.
        running: a running mean, instead of a division at the end.
        velocities: how many replicas' velocities PopART adds after the accumulation, in SGD's
            combined form, before it divides by their number.
        grouped: weights of which groups of replicas have values of their own, [groups, *shape], ->
            the share of the replicas that is in a group. Their gradients are those of the group's
            micro-batches; what PopART divides by is the number of all replicas, nevertheless.
    """

    count: int = 1
    mean: bool = False
    running: bool = False
    velocities: int = 1
    grouped: Mapping[str, float] = field(default_factory=dict)

    @property
    def divisor(self) -> int:
        """What PopART divides the sum by with the loss scaling, in the optimizer."""
        return self.count if self.mean and not self.running else 1


class PopartUpdater(ABC):
    """An optimizer of PopART's; derived classes have its equations.

    Args:
        optimizer: the description.
        weights: weights that have a gradient -> their element types.
        reduction: how gradients are joined.

    Raises:
        NotSupported: an element type that gradients or state cannot have.
        popart_exception: a clip of something that is not trained.
    """

    unscales_anchors = False
    # Numbers of each weight, by the keys of `Optimizer.maps`.
    keys: ClassVar[tuple[str, ...]]

    def __init__(
        self, optimizer: Optimizer, weights: Mapping[str, str], reduction: Reduction | None = None
    ) -> None:
        self.optimizer = optimizer
        self.weights = tuple(weights)
        self.dtypes = dict(weights)
        self.reduction = reduction or Reduction()
        self.alike: Sequence[tuple[str, ...]] = ()
        self._check_types()
        first = next(iter(optimizer.maps.values()))
        self._own = [name for name in self.weights if first.hasSpecific(name)]
        self._scalars = self._collect(optimizer)
        self.clips = [(self._clipped(each), each.maxNorm) for each in optimizer.clip_norm_settings]

    def _clipped(self, settings: ClipNormSettings) -> tuple[str, ...]:
        """The weights of a clip group; as in PopART only weights with an update may be in one."""
        names = self.weights if settings.all_weights else tuple(settings.weightIds)
        for name in names:
            if name not in self.dtypes:
                raise popart_exception(f"Could not find a varupdate op for tensor {name}")
            if name in self.reduction.grouped:
                raise NotSupported(
                    f"ClipNormSettings of the weight '{name}', of which groups of replicas have "
                    "values of their own by its VariableSettings: each group would have a norm of "
                    "its own, and replicas would clip the weights that they share differently. "
                    "Clip the other weights: ClipNormSettings.clipWeights names them"
                )
        return names

    # -- element types -------------------------------------------------------------------------

    @property
    @abstractmethod
    def types(self) -> Mapping[str, tuple[str, DataType]]:
        """State prefix -> (the optimizer's argument, the element type that it asks for)."""

    @property
    @abstractmethod
    def accumulator(self) -> tuple[str, DataType]:
        """(the optimizer's argument, the element type) of summed gradients."""

    def _check_types(self) -> None:
        kind = type(self.optimizer).__name__
        argument, asked = self.accumulator
        if asked not in _TYPES:
            raise NotSupported(
                f"{argument} of popart.{kind} is {asked.name}; gradients are accumulated in FLOAT "
                "or FLOAT16"
            )
        for argument, asked in self.types.values():
            if asked not in _TYPES:
                raise NotSupported(
                    f"{argument} of popart.{kind} is {asked.name}; optimizer state is kept in "
                    "FLOAT or FLOAT16"
                )

    @property
    def accumulator_dtype(self) -> str | None:
        """Element type that gradients of micro-batches are summed in, None for the weight's."""
        return _TYPES[self.accumulator[1]]

    def state_dtypes(self) -> dict[str, str]:
        """Element type of each state array."""
        asked = {prefix: _TYPES[kind] for prefix, (_, kind) in self.types.items()}
        return {
            prefix + name: asked.get(prefix, "float32") or self.dtypes[name]
            for name in self.weights
            for prefix in self.prefixes(name)
        }

    @abstractmethod
    def prefixes(self, name: str) -> tuple[str, ...]:
        """Prefixes of the state that a weight has."""

    def states_of(self, weight: str) -> tuple[str, ...]:
        """The state arrays that are of a weight's shape."""
        return tuple(prefix + weight for prefix in self.prefixes(weight) if prefix != STEP)

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Shape of each state array, for weights of the given shapes."""
        return {
            prefix + name: () if prefix == STEP else shapes[name]
            for name in self.weights
            for prefix in self.prefixes(name)
        }

    def initial_state(self, weights: Arrays) -> dict[str, HostArray]:
        """State before the first step: zeros."""
        shapes = self.state_shapes({name: array.shape for name, array in weights.items()})
        dtypes = self.state_dtypes()
        return {name: np.zeros(shape, dtypes[name]) for name, shape in shapes.items()}

    # -- numbers that may change ---------------------------------------------------------------

    def _collect(self, optimizer: Optimizer) -> HostArray:
        defaults = [optimizer.maps[key].getDefault().val() for key in self.keys]
        own = [optimizer.maps[key].get(name).val() for name in self._own for key in self.keys]
        return np.asarray([optimizer.getLossScalingVal(), *defaults, *own], np.float32)

    def scalars(self) -> HostArray:
        """The loss scaling, the default numbers, then those of each weight with its own."""
        return self._scalars

    def rows(self, scalars: Any) -> dict[str, Any]:
        """Weight -> its numbers by key; weights without their own share one row."""
        table = scalars[1:].reshape(-1, len(self.keys))
        rows = [{key: row[at] for at, key in enumerate(self.keys)} for row in table]
        own = dict(zip(self._own, rows[1:], strict=True))
        return {name: own.get(name, rows[0]) for name in self.weights}

    def loss_scale(self, scalars: jax.Array, state: Arrays) -> float | jax.Array:
        """Factor on the loss's gradient."""
        scaling = self.optimizer.lossScaling()
        return scaling.val() if scaling.isConst() else scalars[0]

    def replace(self, optimizer: Any) -> None:
        """Takes an optimizer that differs in what is not constant.

        Raises:
            popart_runtime_error: it differs in something else.
        """
        self.optimizer.validReplacement(optimizer)
        self.optimizer = optimizer
        self._scalars = self._collect(optimizer)

    # -- the update ----------------------------------------------------------------------------

    def clip_factors(self, arrays: Mapping[str, jax.Array]) -> dict[str, jax.Array]:
        """Weight -> the factor on its array, of those that are clipped.

        A group's factor is max norm / max(global norm, max norm).
        """
        factors = {}
        for names, limit in self.clips:
            total = sum((jnp.sum(arrays[name] ** 2) for name in names), jnp.float32(0.0))
            factor = limit / jnp.maximum(jnp.sqrt(total), limit)
            factors.update(dict.fromkeys(names, factor))
        return factors

    @abstractmethod
    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """New weights and state, given unscaled gradients."""

    @staticmethod
    def stored(
        old_weights: Arrays, old_state: Arrays, weights: Arrays, state: Arrays
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """All weights and state, those that changed rounded to the type they have."""
        return (
            {**old_weights, **{n: half.kept(a, old_weights[n]) for n, a in weights.items()}},
            {**old_state, **{n: half.kept(a, old_state[n]) for n, a in state.items()}},
        )


ACCL, ACCL1, ACCL2, ACCL3, STEP = "Accl___", "Accl1___", "Accl2___", "Accl3___", "Step___"


def wide(array: jax.Array) -> jax.Array:
    """In float32, in which updates are computed."""
    return array.astype(jnp.float32)
