"""PopART's Adaptive as a weight update: AdaGrad, RMSProp, CenteredRMSProp and AdaDelta.

Equations, for weight w and gradient g with learning rate lr, alpha a, momentum mm and decay wd:

    L2 mode     g += wd w
    squares     v1 += g^2 for AdaGrad, else v1 = a v1 + (1 - a) g^2
    mean        v2 = a v2 + (1 - a) g for CenteredRMSProp, whose variance is v1 - v2^2
    direction   x = g / (sqrt(v1) + eps), in the TF variant g / sqrt(v1 + eps)
                AdaDelta: x = g sqrt(v2 + eps) / sqrt(v1 + eps), then v2 = a v2 + (1 - a) x^2
    momentum    v3 = mm v3 + x, in the TF variant mm v3 + lr x; where it is not a constant 0
    update      w = w (1 - lr wd) - lr v3 in Decay mode, else w -= lr v3
                TF variant with momentum: w = w (1 - wd) - v3, else w -= v3

The TF variant's v1 starts as ones.
"""

from __future__ import annotations

from collections.abc import Mapping

import jax
import jax.numpy as jnp

from paddle_ipu.popart.enums import AdaptiveMode, DataType, WeightDecayMode
from paddle_ipu.popart.optimizer import Adaptive
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.optimizers.popart_optimizer import (
    ACCL1,
    ACCL2,
    ACCL3,
    Numbers,
    PopartUpdater,
    wide,
)
from paddle_ipu.xla.optimizers.update_rules import Arrays

_TWO = (AdaptiveMode.CenteredRMSProp, AdaptiveMode.AdaDelta)


class AdaptiveUpdater(PopartUpdater):
    """Runs a :class:`popart.Adaptive`."""

    keys = ("learningRate", "weightDecay", "alpha", "momentum", "eps")
    optimizer: Adaptive

    @property
    def types(self) -> Mapping[str, tuple[str, DataType]]:
        optimizer = self.optimizer
        return {
            ACCL1: ("accl1_type", optimizer.accl1_type),
            ACCL2: ("accl2_type", optimizer.accl2_type),
            ACCL3: ("accl3_type", optimizer.accl3_type),
        }

    @property
    def accumulator(self) -> tuple[str, DataType]:
        return "accum_type", self.optimizer.accum_type

    def prefixes(self, name: str) -> tuple[str, ...]:
        momentum = self.optimizer.momentums().get(name)
        has_momentum = not momentum.isConst() or momentum.val() > 0
        second = (ACCL2,) if self.optimizer.mode in _TWO else ()
        return (ACCL1, *second, *((ACCL3,) if has_momentum else ()))

    def initial_state(self, weights: Arrays) -> dict[str, HostArray]:
        state = super().initial_state(weights)
        if self.optimizer.rmsprop_tf_variant:
            for name in self.weights:
                state[ACCL1 + name][...] = 1
        return state

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        new_weights: dict[str, jax.Array] = {}
        new_state: dict[str, jax.Array] = {}
        l2 = self.optimizer.weight_decay_mode is WeightDecayMode.L2Regularization
        variant = self.optimizer.rmsprop_tf_variant
        for name, row in self.rows(scalars).items():
            w, g = wide(weights[name]), wide(gradients[name])
            decay, lr = row["weightDecay"], row["learningRate"]
            g = g + decay * w if l2 else g
            own = {p: wide(state[p + name]) for p in self.prefixes(name)}
            x, after = self._direction(g, own, row)
            inside = variant and ACCL3 in own
            if ACCL3 in own:
                x = after[ACCL3] = row["momentum"] * own[ACCL3] + (lr * x if inside else x)
            w = w if l2 else w * (1 - (decay if inside else lr * decay))
            new_weights[name] = w - (x if inside else lr * x)
            new_state |= {prefix + name: array for prefix, array in after.items()}
        return self.stored(weights, state, new_weights, new_state)

    def _direction(
        self, g: jax.Array, state: Arrays, row: Numbers
    ) -> tuple[jax.Array, dict[str, jax.Array]]:
        mode, a, eps = self.optimizer.mode, row["alpha"], row["eps"]
        if mode is AdaptiveMode.AdaGrad:
            squares = state[ACCL1] + g * g
        else:
            squares = a * state[ACCL1] + (1 - a) * g * g
        after = {ACCL1: squares}
        if mode is AdaptiveMode.AdaDelta:
            x = g * jnp.sqrt(state[ACCL2] + eps) / jnp.sqrt(squares + eps)
            after[ACCL2] = a * state[ACCL2] + (1 - a) * x * x
            return x, after
        if mode is AdaptiveMode.CenteredRMSProp:
            mean = after[ACCL2] = a * state[ACCL2] + (1 - a) * g
            squares = squares - mean * mean
        if self.optimizer.rmsprop_tf_variant:
            return g / jnp.sqrt(squares + eps), after
        return g / (jnp.sqrt(squares) + eps), after
