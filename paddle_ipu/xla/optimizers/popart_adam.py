"""PopART's Adam as a weight update: Adam, AdamNoBias, AdaMax, Lamb and LambNoBias.

Equations, for weight w and gradient g with learning rate lr, betas b1 and b2 and decay wd:

    L2 mode       g += wd w
    clip          g = g max_norm / max(global norm, max_norm)
    moments       m = b1 m + (1 - b1) g;  v = b2 v + (1 - b2) g^2, AdaMax max(b2 v, |g|)
    direction     x = m / (1 - b1^t) / (sqrt(v / (1 - b2^t)) + eps); NoBias without the powers,
                  AdaMax with v for the root
    Decay mode    x += wd w
    Adam, AdaMax  w -= lr x
    Lamb          w -= lr min(||w||, max weight norm) / ||x|| x, the ratio being 1 where the bound
                  or one of the norms is 0

Scaled state is kept in loss-scaled units: g, eps and the L2 decay are multiplied by the loss
scaling, which leaves x as it is. Where the scaling changes, m is multiplied by the ratio of the new
to the old and v by its square; AdaMax's v is no square, and is multiplied by the ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.popart.enums import AdamMode, DataType, WeightDecayMode
from paddle_ipu.popart.names import SCALED_STATE as SCALING
from paddle_ipu.popart.optimizer import Adam
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.optimizers.popart_optimizer import (
    ACCL1,
    ACCL2,
    STEP,
    Numbers,
    PopartUpdater,
    Reduction,
    wide,
)
from paddle_ipu.xla.optimizers.update_rules import Arrays

_LAMB = (AdamMode.Lamb, AdamMode.LambNoBias)
_COUNTS_STEPS = (AdamMode.Adam, AdamMode.Lamb, AdamMode.AdaMax)


class AdamUpdater(PopartUpdater):
    """Runs a :class:`popart.Adam`."""

    keys = ("learningRate", "weightDecay", "beta1", "beta2", "eps", "maxWeightNorm")
    optimizer: Adam

    def __init__(
        self, optimizer: Adam, weights: Mapping[str, str], reduction: Reduction | None = None
    ) -> None:
        super().__init__(optimizer, weights, reduction)
        self._l2 = optimizer.weight_decay_mode is WeightDecayMode.L2Regularization
        scaled = optimizer.scaled_optimizer_state
        self._rescales = scaled and not optimizer.lossScaling().isConst()
        if optimizer.mode in _COUNTS_STEPS and self.weights:
            self.alike = (tuple(STEP + name for name in self.weights),)

    @property
    def types(self) -> Mapping[str, tuple[str, DataType]]:
        optimizer = self.optimizer
        return {
            ACCL1: ("accl1_type", optimizer.accl1_type),
            ACCL2: ("accl2_type", optimizer.accl2_type),
        }

    @property
    def accumulator(self) -> tuple[str, DataType]:
        return "accum_type", self.optimizer.accum_type

    def prefixes(self, name: str) -> tuple[str, ...]:
        return (ACCL1, ACCL2, *((STEP,) if self.optimizer.mode in _COUNTS_STEPS else ()))

    def state_dtypes(self) -> dict[str, str]:
        return super().state_dtypes() | ({SCALING: "float32"} if self._rescales else {})

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return super().state_shapes(shapes) | ({SCALING: ()} if self._rescales else {})

    def initial_state(self, weights: Arrays) -> dict[str, HostArray]:
        state = super().initial_state(weights)
        if self._rescales:
            state[SCALING] = np.asarray(self.optimizer.getLossScalingVal(), np.float32)
        return state

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        numbers = self.rows(scalars)
        scaled = self.optimizer.scaled_optimizer_state
        units = jnp.float32(self.loss_scale(scalars, state)) if scaled else jnp.float32(1.0)
        steps = {}
        for name, row in numbers.items():
            g = wide(gradients[name])
            g = g + row["weightDecay"] * wide(weights[name]) if self._l2 else g
            steps[name] = g * units if scaled else g
        factors = self.clip_factors(steps)
        change = units / state[SCALING] if self._rescales else jnp.float32(1.0)
        new_weights: dict[str, jax.Array] = {}
        new_state: dict[str, jax.Array] = {SCALING: units} if self._rescales else {}
        # Most weights share a row, and all count the same steps.
        corrections: dict[tuple[int, int], tuple[jax.Array, ...]] = {}
        for name, row in numbers.items():
            g = steps[name] * factors[name] if name in factors else steps[name]
            m, v = wide(state[ACCL1 + name]), wide(state[ACCL2 + name])
            if self._rescales:
                power = 1 if self.optimizer.mode is AdamMode.AdaMax else 2
                m, v = m * change, v * change**power
            m = row["beta1"] * m + (1 - row["beta1"]) * g
            if self.optimizer.mode is AdamMode.AdaMax:
                v = jnp.maximum(row["beta2"] * v, jnp.abs(g))
            else:
                v = row["beta2"] * v + (1 - row["beta2"]) * g * g
            new_state |= {ACCL1 + name: m, ACCL2 + name: v}
            count = state.get(STEP + name)
            key = (id(row), id(count))
            if count is not None and key not in corrections:
                t = count + 1
                corrections[key] = (t, 1 - row["beta1"] ** t, 1 - row["beta2"] ** t)
            correction = corrections.get(key, ())
            if correction:
                new_state[STEP + name] = correction[0]
            w = wide(weights[name])
            new_weights[name] = self._updated_by_group(name)(w, m, v, correction, row, units)
        return self.stored(weights, state, new_weights, new_state)

    def _updated_by_group(self, name: str) -> Callable[..., jax.Array]:
        """The update of a weight; each group of replicas has norms of its own."""
        if name not in self.reduction.grouped:
            return self._updated
        by_group: Callable[..., jax.Array] = jax.vmap(self._updated, (0, 0, 0, None, None, None))
        return by_group

    def _updated(
        self,
        w: jax.Array,
        m: jax.Array,
        v: jax.Array,
        correction: tuple[jax.Array, ...],
        row: Numbers,
        units: jax.Array,
    ) -> jax.Array:
        mode = self.optimizer.mode
        if correction:
            m = m / correction[1]
        if mode is not AdamMode.AdaMax:
            v = jnp.sqrt(v / correction[2] if correction else v)
        x = m / (v + row["eps"] * units)
        if not self._l2:
            x = x + row["weightDecay"] * w
        rate = row["learningRate"]
        if mode in _LAMB:
            r1, r2 = jnp.sqrt(jnp.sum(w * w)), jnp.sqrt(jnp.sum(x * x))
            bound = row["maxWeightNorm"]
            ratio = jnp.minimum(r1, bound) / jnp.where(r2 == 0, 1.0, r2)
            rate = rate * jnp.where((bound == 0) | (r1 == 0) | (r2 == 0), 1.0, ratio)
        return w - rate * x
