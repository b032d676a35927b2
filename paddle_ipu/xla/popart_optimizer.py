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
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import NotSupported, popart_runtime_error
from paddle_ipu.popart.enums import DataType, SGDAccumulatorAndMomentum
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.xla import half

Arrays = Mapping[str, jax.Array]
_LR, _WD, _MM, _DM, _VS, _NUMBERS = range(6)
_ACCUMULATORS = {DataType.UNDEFINED: None, DataType.FLOAT: "float32", DataType.FLOAT16: "float16"}


class SGDUpdater:
    """Runs a :class:`popart.SGD`; state goes by PopART's names ``Accl___<weight>``, in float32.

    Args:
        optimizer: the description.
        weights: ids of the weights that have a gradient.
        micro_batches: micro-batches that gradients are averaged over, 1 where they are summed.
        running_mean: the average is kept running instead of divided at the end.

    Raises:
        NotSupported: settings without a lowering.
    """

    def __init__(
        self,
        optimizer: SGD,
        weights: Sequence[str],
        micro_batches: int = 1,
        running_mean: bool = False,
    ) -> None:
        if optimizer.clip_norm_settings:
            raise NotSupported(
                "clip_norm_settings of popart.SGD have no lowering yet; a Paddle program with "
                "paddle.nn.ClipGradByGlobalNorm is clipped by Paddle's rule."
            )
        if optimizer.accumType not in _ACCUMULATORS:
            raise NotSupported(
                f"accumType of popart.SGD is {optimizer.accumType.name}; gradients are accumulated "
                "in FLOAT or FLOAT16"
            )
        self._optimizer = optimizer
        self._combined = optimizer.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
        averaged = self._combined or not running_mean
        self._raw_factor = micro_batches if averaged else 1
        self.weights = tuple(weights)
        self.accumulator_dtype: str | None = _ACCUMULATORS[optimizer.accumType]
        self.alike: Sequence[tuple[str, ...]] = ()
        self._momentum = {name: optimizer.hasMomentum(name) for name in self.weights}
        self._nesterov = self._with_nesterov(optimizer)
        self._scalars = self._collect(optimizer)

    def _with_nesterov(self, optimizer: SGD) -> dict[str, bool]:
        return {
            name: optimizer.nesterov().get(name).val() != 0
            and optimizer.momentums().get(name).val() > 0
            for name in self.weights
        }

    def _collect(self, optimizer: SGD) -> np.ndarray[Any, Any]:
        maps = (
            optimizer.learningRates(),
            optimizer.weightDecays(),
            optimizer.momentums(),
            optimizer.dampenings(),
            optimizer.velocityScalings(),
        )
        numbers = [values.get(name).val() for name in self.weights for values in maps]
        return np.asarray([optimizer.getLossScalingVal(), *numbers], np.float32)

    unscales_anchors = False

    def loss_scale(self, scalars: jax.Array, state: Arrays) -> float | jax.Array:
        scaling = self._optimizer.lossScaling()
        return scaling.val() if scaling.isConst() else scalars[0]

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {f"Accl___{name}": shapes[name] for name in self.weights if self._momentum[name]}

    def initial_state(self, weights: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        state = {}
        for name, row in zip(self.weights, _rows(self._scalars), strict=True):
            if not self._momentum[name]:
                continue
            factor = (1 - row[_DM]) * row[_WD] * row[_VS] if self._combined else 0.0
            state[f"Accl___{name}"] = np.asarray(weights[name], np.float32) * np.float32(factor)
        return state

    def scalars(self) -> np.ndarray[Any, Any]:
        return self._scalars

    def replace(self, optimizer: Any) -> None:
        self._optimizer.validReplacement(optimizer)
        if self._with_nesterov(optimizer) != self._nesterov:
            raise popart_runtime_error(
                "New optimizer is not a valid replacement. Nesterov momentum is compiled into the "
                "program and cannot be switched on or off."
            )
        self._optimizer = optimizer
        self._scalars = self._collect(optimizer)

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        new_weights, new_state = dict(weights), dict(state)
        for name, row in zip(self.weights, _rows(scalars), strict=True):
            w = weights[name].astype(jnp.float32)
            g = gradients[name].astype(jnp.float32)
            if self._momentum[name]:
                key = f"Accl___{name}"
                w, new_state[key] = self._with_momentum(w, g, state[key], row, self._nesterov[name])
            else:
                keep = 1 - row[_DM]
                w = w * (1 - row[_LR] * keep * row[_WD]) - row[_LR] * keep * g
            new_weights[name] = half.kept(w, weights[name])
        return new_weights, new_state

    def _with_momentum(
        self, w: jax.Array, g: jax.Array, v: jax.Array, row: jax.Array, nesterov: bool
    ) -> tuple[jax.Array, jax.Array]:
        lr, wd, mm, dm, vs = (row[index] for index in (_LR, _WD, _MM, _DM, _VS))
        v = v + (1 - dm) * vs * g if self._combined else mm * v + (1 - dm) * vs * (wd * w + g)
        step = vs * (g * self._raw_factor + wd * w) + mm * v if nesterov else v
        w = w - lr / vs * step
        return w, v * mm + (1 - dm) * wd * vs * w if self._combined else v


def _rows(scalars: Any) -> Any:
    """Five numbers for each weight; the first of all is the loss scaling."""
    return scalars[1:].reshape(-1, _NUMBERS)
