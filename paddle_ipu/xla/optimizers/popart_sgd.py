"""PopART's SGD as a weight update, in PopART's three forms.

Equations, for weight w and gradient g averaged or summed as the session says, with lr, weight decay
wd, momentum mm, dampening dm and velocity scaling vs:

    no momentum   w = w (1 - lr (1 - dm) wd) - lr (1 - dm) g
    Separate      v = mm v + (1 - dm) vs (wd w + g);  w -= lr / vs v
                  with Nesterov  w -= lr / vs (vs (g' + wd w) + mm v)
    Combined      v += (1 - dm) vs g;  w -= lr / vs v;  v = mm v + (1 - dm) wd vs w
                  with Nesterov  w -= lr / vs (vs (g' + wd w) + mm v) in the middle
                  where v starts as (1 - dm) wd vs w

Combined takes a change of lr, momentum or decay into full effect one step late, as PopART does.
g' is g where gradients are summed; PopART does not average it when it divides at the end, so there
it is the sum over the micro-batches. Combined sums it with a running mean too.

A clip bounds what the weight takes: g as it arrives, still with the loss scaling and not divided
by the micro-batches, or v or Nesterov's step in the place of v. The velocity itself stays. With
accumulation the combined form takes the sum of the replicas' velocities, which their number
divides only afterwards: the clip bounds that sum. Of a weight with values for each group of
replicas it adds the group's velocities and divides by all replicas: v then starts as their share.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.popart.enums import DataType, SGDAccumulatorAndMomentum
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.optimizers.popart_optimizer import (
    ACCL,
    Numbers,
    PopartUpdater,
    Reduction,
    wide,
)
from paddle_ipu.xla.optimizers.update_rules import Arrays


class SGDUpdater(PopartUpdater):
    """Runs a :class:`popart.SGD`."""

    keys = ("learningRate", "weightDecay", "momentum", "dampening", "velocityScaling")
    optimizer: SGD

    def __init__(
        self, optimizer: SGD, weights: Mapping[str, str], reduction: Reduction | None = None
    ) -> None:
        super().__init__(optimizer, weights, reduction)
        joined = self.reduction
        self._combined = optimizer.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
        averaged = joined.mean and (self._combined or not joined.running)
        # Nesterov's step undoes the division of the gradient by the micro-batches.
        self._raw_factor = joined.count if averaged else 1
        self._nesterov = self._with_nesterov(optimizer)
        adds_velocities = self._combined and joined.velocities > 1
        self._carried = joined.grouped if adds_velocities else {}

    @property
    def types(self) -> Mapping[str, tuple[str, DataType]]:
        return {ACCL: ("accl1Type", self.optimizer.accl1Type)}

    @property
    def accumulator(self) -> tuple[str, DataType]:
        return "accumType", self.optimizer.accumType

    def prefixes(self, name: str) -> tuple[str, ...]:
        return (ACCL,) if self.optimizer.hasMomentum(name) else ()

    def _with_nesterov(self, optimizer: SGD) -> dict[str, bool]:
        return {
            name: optimizer.nesterov().get(name).val() != 0
            and optimizer.momentums().get(name).val() > 0
            for name in self.weights
        }

    def initial_state(self, weights: Arrays) -> dict[str, HostArray]:
        state = super().initial_state(weights)
        if not self._combined:
            return state
        for name, row in self.rows(self.scalars()).items():
            if ACCL + name in state:
                factor = (1 - row["dampening"]) * row["weightDecay"] * row["velocityScaling"]
                start = np.asarray(weights[name], np.float32) * np.float32(factor)
                state[ACCL + name] = start.astype(state[ACCL + name].dtype)
        return state

    def replace(self, optimizer: Any) -> None:
        self.optimizer.validReplacement(optimizer)
        if self._with_nesterov(optimizer) != self._nesterov:
            raise popart_runtime_error(
                "New optimizer is not a valid replacement. Nesterov momentum is compiled into the "
                "program and cannot be switched on or off."
            )
        super().replace(optimizer)

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        numbers = self.rows(scalars)
        velocities, steps = {}, {}
        for name, row in numbers.items():
            w, g = wide(weights[name]), wide(gradients[name])
            if ACCL + name in state:
                v = wide(state[ACCL + name]) * self._carried.get(name, 1.0)
                v = self._velocity(w, g, v, row)
                velocities[name] = v
                steps[name] = self._step(w, g, v, row) if self._nesterov[name] else v
            else:
                steps[name] = g
        arriving = self.reduction.divisor * jnp.asarray(self.loss_scale(scalars, state))
        added = self.reduction.velocities if self._combined else 1
        clipped = {n: s * (added if n in velocities else arriving) for n, s in steps.items()}
        factors = self.clip_factors(clipped)
        steps = {n: s * factors[n] if n in factors else s for n, s in steps.items()}
        new_weights, new_state = {}, {}
        for name, row in numbers.items():
            w, keep = wide(weights[name]), 1 - row["dampening"]
            if name not in velocities:
                decayed = w * (1 - row["learningRate"] * keep * row["weightDecay"])
                new_weights[name] = decayed - row["learningRate"] * keep * steps[name]
                continue
            scaling, v = row["velocityScaling"], velocities[name]
            w = w - row["learningRate"] / scaling * steps[name]
            if self._combined:
                v = v * row["momentum"] + keep * row["weightDecay"] * scaling * w
            new_weights[name], new_state[ACCL + name] = w, v
        return self.stored(weights, state, new_weights, new_state)

    def _velocity(self, w: jax.Array, g: jax.Array, v: jax.Array, row: Numbers) -> jax.Array:
        share = (1 - row["dampening"]) * row["velocityScaling"]
        if self._combined:
            return v + share * g
        return row["momentum"] * v + share * (row["weightDecay"] * w + g)

    def _step(self, w: jax.Array, g: jax.Array, v: jax.Array, row: Numbers) -> jax.Array:
        instant = g * self._raw_factor + row["weightDecay"] * w
        return row["velocityScaling"] * instant + row["momentum"] * v
