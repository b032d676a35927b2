"""PopART's SGD as a weight update, in PopART's three forms.

Equations, for weight w and gradient g averaged or summed as the session says, with lr, weight decay
wd, momentum mm, dampening dm and velocity scaling vs:

    no momentum   w = w (1 - lr (1 - dm) wd) - lr (1 - dm) g
    Separate      v = mm v + (1 - dm) vs (wd w + g);  w -= lr / vs v
                  with Nesterov  w -= lr / vs (vs (g + wd w) + mm v)
    Combined      v += (1 - dm) vs g;  w -= lr / vs v;  v = mm v + (1 - dm) wd vs w
                  where v starts as (1 - dm) wd vs w

Combined takes a change of lr, momentum or decay into full effect one step late, as PopART does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.enums import SGDAccumulatorAndMomentum
from paddle_ipu.popart.optimizer import SGD

Arrays = Mapping[str, jax.Array]
_LR, _WD, _MM, _DM, _VS = range(5)


class SGDUpdater:
    """Runs a :class:`popart.SGD`; state goes by PopART's names ``Accl___<weight>``.

    Args:
        optimizer: the description.
        weights: weight ids, all of them floating point.
        micro_batches: micro-batches that gradients are averaged over at the end, 1 for none.
    """

    def __init__(self, optimizer: SGD, weights: Sequence[str], micro_batches: int = 1) -> None:
        if optimizer.clip_norm_settings:
            raise NotSupported(
                "clip_norm_settings of popart.SGD have no lowering yet; a Paddle program with "
                "paddle.nn.ClipGradByGlobalNorm is clipped by Paddle's rule."
            )
        self._optimizer = optimizer
        self._micro_batches = micro_batches
        self.weights = tuple(weights)
        self.loss_scaling = optimizer.getLossScalingVal()
        self._momentum = {name: optimizer.hasMomentum(name) for name in self.weights}
        self._scalars = self._collect(optimizer)

    def _collect(self, optimizer: SGD) -> np.ndarray[Any, Any]:
        maps = (
            optimizer.learningRates(),
            optimizer.weightDecays(),
            optimizer.momentums(),
            optimizer.dampenings(),
            optimizer.velocityScalings(),
        )
        rows = [[values.get(name).val() for values in maps] for name in self.weights]
        return np.asarray(rows, np.float32).reshape(len(self.weights), len(maps))

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {f"Accl___{name}": shapes[name] for name in self.weights if self._momentum[name]}

    def initial_state(self, weights: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        combined = self._form() is SGDAccumulatorAndMomentum.Combined
        state = {}
        for index, name in enumerate(self.weights):
            if not self._momentum[name]:
                continue
            row = self._scalars[index]
            factor = (1 - row[_DM]) * row[_WD] * row[_VS] if combined else 0.0
            state[f"Accl___{name}"] = np.asarray(weights[name], np.float32) * np.float32(factor)
        return state

    def scalars(self) -> np.ndarray[Any, Any]:
        return self._scalars

    def replace(self, optimizer: Any) -> None:
        self._optimizer.validReplacement(optimizer)
        self._optimizer = optimizer
        self._scalars = self._collect(optimizer)

    def _form(self) -> SGDAccumulatorAndMomentum:
        return self._optimizer.accumulatorAndMomentum

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        new_weights, new_state = dict(weights), dict(state)
        for index, name in enumerate(self.weights):
            w = weights[name].astype(jnp.float32)
            g = gradients[name].astype(jnp.float32)
            row = scalars[index]
            if self._momentum[name]:
                key = f"Accl___{name}"
                nesterov = self._optimizer.nesterov().get(name).val() != 0
                w, new_state[key] = self._with_momentum(w, g, state[key], row, nesterov)
            else:
                keep = 1 - row[_DM]
                w = w * (1 - row[_LR] * keep * row[_WD]) - row[_LR] * keep * g
            new_weights[name] = w.astype(weights[name].dtype)
        return new_weights, new_state

    def _with_momentum(
        self, w: jax.Array, g: jax.Array, v: jax.Array, row: jax.Array, nesterov: bool
    ) -> tuple[jax.Array, jax.Array]:
        lr, wd, mm, dm, vs = (row[index] for index in (_LR, _WD, _MM, _DM, _VS))
        if self._form() is SGDAccumulatorAndMomentum.Combined:
            if nesterov:
                raise NotSupported(
                    "Nesterov momentum of popart.SGD is lowered for "
                    "SGDAccumulatorAndMomentum.Separate only."
                )
            v = v + (1 - dm) * vs * g
            w = w - lr / vs * v
            return w, v * mm + (1 - dm) * wd * vs * w
        v = mm * v + (1 - dm) * vs * (wd * w + g)
        if nesterov:
            # PopART does not average the instantaneous term over micro-batches.
            return w - lr / vs * (vs * (g * self._micro_batches + wd * w) + mm * v), v
        return w - lr / vs * v, v
