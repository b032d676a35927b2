"""Weight updates by Paddle's rules, as pure functions on arrays.

Each follows Paddle's CPU kernel of the same name and is compared with Paddle's executor in the
tests. Half weights keep their state in float32 and are rounded once, when they are stored.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer, ParameterUpdate

Arrays = Mapping[str, jax.Array]
Rule = Callable[
    [ParameterUpdate, bool, jax.Array, jax.Array, jax.Array, Arrays],
    tuple[jax.Array, dict[str, jax.Array]],
]


class Updater(Protocol):
    """What an executable needs of an optimizer."""

    weights: tuple[str, ...]
    """The weights that are updated."""

    accumulator_dtype: str | None
    """Element type that gradients of micro-batches are summed in, None for the weight's."""

    def loss_scale(self, scalars: jax.Array) -> float | jax.Array:
        """Factor on the loss's gradient; the gradients given to :meth:`apply` are without it."""

    def initial_state(self, weights: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """State before the first step, where the host gives none."""

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Shape of each state array, which is float32, for weights of the given shapes."""

    def scalars(self) -> np.ndarray[Any, Any]:
        """The numbers that may change from run to run, as a float32 vector."""

    def replace(self, optimizer: Any) -> None:
        """Takes an optimizer of the same kind that differs in its scalars."""

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """New weights and state, given unscaled gradients."""


def _sgd(
    update: ParameterUpdate, corrected: bool, w: jax.Array, g: jax.Array, lr: jax.Array, s: Arrays
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """w -= lr * g."""
    return w - lr * g, {}


def _momentum(
    update: ParameterUpdate, corrected: bool, w: jax.Array, g: jax.Array, lr: jax.Array, s: Arrays
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """v = mu * v + g; w -= lr * v, or lr * (g + mu * v) with Nesterov."""
    settings = update.settings
    g = g * settings["rescale_grad"] if settings["rescale_grad"] != 1.0 else g
    g = g + settings["l2"] * w if settings["l2"] else g
    velocity = settings["mu"] * s["velocity"] + g
    step = g + settings["mu"] * velocity if settings["use_nesterov"] else velocity
    return w - lr * step, {"velocity": velocity}


def _moments(
    update: ParameterUpdate, g: jax.Array, s: Arrays
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    b1, b2 = update.settings["beta1"], update.settings["beta2"]
    m = b1 * s["moment1"] + (1 - b1) * g
    v = b2 * s["moment2"] + (1 - b2) * g * g
    powers = {"beta1_pow": s["beta1_pow"] * b1, "beta2_pow": s["beta2_pow"] * b2}
    return m, v, {"moment1": m, "moment2": v, **powers}


def _adam(
    update: ParameterUpdate, corrected: bool, w: jax.Array, g: jax.Array, lr: jax.Array, s: Arrays
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Paddle's Adam: epsilon is scaled by sqrt(1 - beta2^t), lr by that over 1 - beta1^t."""
    m, v, state = _moments(update, g, s)
    epsilon: Any = update.settings["epsilon"]
    if corrected:
        root = jnp.sqrt(1 - s["beta2_pow"].reshape(()))
        lr = lr * root / (1 - s["beta1_pow"].reshape(()))
        epsilon = epsilon * root
    return w - lr * (m / (jnp.sqrt(v) + epsilon)), state


def _adamw(
    update: ParameterUpdate, corrected: bool, w: jax.Array, g: jax.Array, lr: jax.Array, s: Arrays
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Decay first, w -= lr * lr_ratio * coeff * w; then Adam."""
    lr = lr * update.settings["lr_ratio"] if update.settings["lr_ratio"] != 1.0 else lr
    coeff = update.settings["coeff"]
    decayed = w - lr * coeff * w if coeff else w
    return _adam(update, corrected, decayed, g, lr, s)


def _lamb(
    update: ParameterUpdate, corrected: bool, w: jax.Array, g: jax.Array, lr: jax.Array, s: Arrays
) -> tuple[jax.Array, dict[str, jax.Array]]:
    """Adam's direction plus decay, scaled by ||w|| over its own norm where both are positive."""
    settings = update.settings
    m, v, state = _moments(update, g, s)
    if corrected:
        m = m / (1 - s["beta1_pow"].reshape(()))
        v = v / (1 - s["beta2_pow"].reshape(()))
    direction = m / (jnp.sqrt(v) + settings["epsilon"]) + settings["weight_decay"] * w
    if settings["weight_decay"] > 0 or settings["always_adapt"]:
        wn, dn = jnp.sqrt(jnp.sum(w * w)), jnp.sqrt(jnp.sum(direction * direction))
        lr = lr * jnp.where((wn > 0) & (dn > 0), wn / jnp.where(dn > 0, dn, 1), 1.0)
    return w - lr * direction, state


RULES: Mapping[str, Rule] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "adam": _adam,
    "adamw": _adamw,
    "lamb": _lamb,
}
"""Paddle's rules by the names of ``paddle_optimizer.RULES``."""


_POWERS = frozenset({"beta1_pow", "beta2_pow"})


class PaddleUpdater:
    """Runs a :class:`PaddleOptimizer`; state arrays go by their variable names.

    Args:
        optimizer: the description.
        tensors: parameter name -> weight tensor.
    """

    def __init__(self, optimizer: PaddleOptimizer, tensors: Mapping[str, str]) -> None:
        self._optimizer = optimizer
        self._updates = [u for u in optimizer.updates if u.parameter in tensors]
        self._tensors = tensors
        self.weights = tuple(tensors[update.parameter] for update in self._updates)
        self.accumulator_dtype: str | None = None

    def loss_scale(self, scalars: jax.Array) -> float:
        return self._optimizer.loss_scaling

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        return {
            name: (1,) if role in _POWERS else shapes[self._tensors[update.parameter]]
            for update in self._updates
            for role, name in update.states.items()
        }

    def initial_state(self, weights: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        shapes = self.state_shapes({name: array.shape for name, array in weights.items()})
        state = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
        for update in self._updates:
            for role in _POWERS & update.states.keys():
                state[update.states[role]][:] = update.settings[role.removesuffix("_pow")]
        return state

    def scalars(self) -> np.ndarray[Any, Any]:
        return np.asarray([self._optimizer.learning_rate], np.float32)

    def replace(self, optimizer: Any) -> None:
        if optimizer.with_learning_rate(0.0) != self._optimizer.with_learning_rate(0.0):
            raise popart_runtime_error(
                "New optimizer is not a valid replacement. Only the learning rate may differ "
                "from the optimizer the session was compiled with."
            )
        self._optimizer = optimizer

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        clipped = self._clip({
            update.parameter: gradients[tensor].astype(jnp.float32)
            for update, tensor in zip(self._updates, self.weights, strict=True)
        })  # fmt: skip
        new_weights, new_state = dict(weights), dict(state)
        for update, tensor in zip(self._updates, self.weights, strict=True):
            w = weights[tensor].astype(jnp.float32)
            g = clipped[update.parameter]
            g = g + update.l2 * w if update.l2 else g
            factor = update.learning_rate_scale
            lr = scalars[0] * factor if factor != 1.0 else scalars[0]
            before = {role: state[name] for role, name in update.states.items()}
            new, after = RULES[update.rule](
                update, self._optimizer.bias_correction, w, g, lr, before
            )
            new_weights[tensor] = new.astype(weights[tensor].dtype)
            new_state.update({update.states[role]: array for role, array in after.items()})
        return new_weights, new_state

    def _clip(self, gradients: dict[str, jax.Array]) -> dict[str, jax.Array]:
        clipped = dict(gradients)
        for index, clip in enumerate(self._optimizer.clips):
            members = [u.parameter for u in self._updates if u.clip == index]
            if clip.kind == "value":
                for name in members:
                    clipped[name] = jnp.clip(gradients[name], clip.low, clip.high)
            elif clip.kind == "norm":
                for name in members:
                    norm = jnp.sqrt(jnp.sum(gradients[name] ** 2))
                    scale = jnp.where(norm > clip.high, clip.high / jnp.where(norm > 0, norm, 1), 1)
                    clipped[name] = gradients[name] * scale
            else:
                total = sum(jnp.sum(gradients[name] ** 2) for name in members)
                factor = clip.high / jnp.maximum(jnp.sqrt(total), clip.high)
                for name in members:
                    clipped[name] = gradients[name] * factor
        return clipped
