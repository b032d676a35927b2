"""What an executable asks of an optimizer, and the optimizer that follows Paddle's rules.

The rules themselves are ``xla/update_rules.py``'s. Half weights keep their state in float32 and are
rounded once, when they are stored.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.popart.paddle_optimizer import MASTER, LossScale, PaddleOptimizer, ParameterUpdate
from paddle_ipu.popart.paddle_optimizer import RULES as STATES
from paddle_ipu.xla import half
from paddle_ipu.xla.update_rules import NUMBERS, RULES, UpdateRule

Arrays = Mapping[str, jax.Array]


class Updater(Protocol):
    """What an executable needs of an optimizer."""

    weights: tuple[str, ...]
    """The weights that are updated."""

    accumulator_dtype: str | None
    """Element type that gradients of micro-batches are summed in, None for the weight's."""

    alike: Sequence[tuple[str, ...]]
    """State arrays of one element that stay equal once they are: every update does the same."""

    def loss_scale(self, scalars: jax.Array, state: Arrays) -> float | jax.Array:
        """Factor on the loss's gradient; the gradients given to :meth:`apply` are without it."""

    @property
    def unscales_anchors(self) -> bool:
        """Gradients that a run returns are without the factor too."""

    def initial_state(self, weights: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        """State before the first step, where the host gives none."""

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Shape of each state array, for weights of the given shapes."""

    def state_dtypes(self) -> dict[str, str]:
        """Element types of the state arrays, or of those that are not float32."""

    def scalars(self) -> np.ndarray[Any, Any]:
        """The numbers that may change from run to run, as a float32 vector."""

    def replace(self, optimizer: Any) -> None:
        """Takes an optimizer of the same kind that differs in its scalars."""

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """New weights and state, given unscaled gradients."""


@functools.partial(jax.jit, static_argnums=(0, 1))
def _updated(
    rule: UpdateRule,
    settings: tuple[tuple[str, float], ...],
    w: jax.Array,
    g: jax.Array,
    n: Arrays,
    s: Arrays,
) -> tuple[jax.Array, dict[str, jax.Array]]:
    # A function of its own is traced once for all parameters of a shape.
    return rule(dict(settings), w, g, n, s)


def _adapted(scale: LossScale, finite: jax.Array, state: Arrays) -> dict[str, jax.Array]:
    """The next loss scaling and its counts, as Paddle's ``update_loss_scaling`` gives them."""
    factor, good = state[scale.variable], state[scale.good_steps]
    bad = state[scale.bad_steps]
    good, bad = jnp.where(finite, good + 1, 0.0), jnp.where(finite, 0.0, bad + 1)
    grown, shrunk = factor * scale.incr_ratio, jnp.maximum(factor * scale.decr_ratio, 1.0)
    grows, shrinks = good == scale.incr_every, bad == scale.decr_every
    factor = jnp.where(grows & jnp.isfinite(grown), grown, factor)
    return {
        scale.variable: jnp.where(shrinks, shrunk, factor),
        scale.good_steps: jnp.where(grows, 0.0, good),
        scale.bad_steps: jnp.where(shrinks, 0.0, bad),
    }


def _in_units(settings: Mapping[str, float], units: float) -> Mapping[str, float]:
    """The numbers of a rule whose gradients are multiplied by `units`."""
    if units == 1.0:
        return settings
    return {**settings, "epsilon": settings["epsilon"] * units}


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
        self.accumulator_dtype: str | None = "float32"
        alike: dict[Any, list[str]] = {}
        for update in self._updates:
            for power, beta in STATES[update.rule].powers.items():
                # Powers of one beta are equal in all rules of one family.
                key = (NUMBERS[update.rule], power, update.settings[beta])
                alike.setdefault(key, []).append(update.states[power])
        self.alike: Sequence[tuple[str, ...]] = [tuple(names) for names in alike.values()]

    def loss_scale(self, scalars: jax.Array, state: Arrays) -> float | jax.Array:
        scale = self._optimizer.loss_scale
        if scale is None:
            return self._optimizer.loss_scaling
        return state[scale.variable].reshape(()) * self._optimizer.loss_scaling

    @property
    def unscales_anchors(self) -> bool:
        optimizer = self._optimizer
        return optimizer.loss_scale is not None or optimizer.automatic_loss_scaling

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        scale = self._optimizer.loss_scale
        return {
            name: (1,)
            if role in STATES[update.rule].powers
            else shapes[self._tensors[update.parameter]]
            for update in self._updates
            for role, name in update.states.items()
        } | dict.fromkeys(() if scale is None else scale.variables, (1,))

    def state_dtypes(self) -> dict[str, str]:
        return {
            name: self._optimizer.state_type(update.rule, state)
            for update in self._updates
            for state, name in update.states.items()
        }

    def initial_state(self, weights: Arrays) -> dict[str, np.ndarray[Any, Any]]:
        shapes = self.state_shapes({name: array.shape for name, array in weights.items()})
        dtypes = self.state_dtypes()
        state = {n: np.zeros(shape, dtypes.get(n, "float32")) for n, shape in shapes.items()}
        for update in self._updates:
            for power, beta in STATES[update.rule].powers.items():
                state[update.states[power]][:] = update.settings[beta]
            for name in STATES[update.rule].ones:
                state[update.states[name]][:] = 1.0
            if MASTER in update.states:
                kept = np.asarray(weights[self._tensors[update.parameter]], np.float32)
                state[update.states[MASTER]][:] = kept
        if self._optimizer.loss_scale is not None:
            state[self._optimizer.loss_scale.variable][:] = 1.0
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
        wide = {
            update.parameter: gradients[tensor].astype(jnp.float32)
            for update, tensor in zip(self._updates, self.weights, strict=True)
        }
        scale = self._optimizer.loss_scale
        finite = None
        if scale is not None:
            finite = jnp.stack([jnp.all(jnp.isfinite(array)) for array in wide.values()]).all()
            wide = {name: jnp.where(finite, array, 0.0) for name, array in wide.items()}
        clipped = self._clip(wide)
        new_weights, new_state = dict(weights), dict(state)
        known: dict[Any, tuple[dict[str, jax.Array], Arrays]] = {}
        for update, tensor in zip(self._updates, self.weights, strict=True):
            master = update.states.get(MASTER)
            w = weights[tensor].astype(jnp.float32) if master is None else state[master]
            g = clipped[update.parameter]
            g = g + update.l1 * jnp.sign(w) if update.l1 else g
            g = g + update.l2 * w if update.l2 else g
            units = self._optimizer.units(update.rule)
            g = g * units if units != 1.0 else g
            before = {
                role: state[name].astype(jnp.float32)
                for role, name in update.states.items()
                if role not in (MASTER, *STATES[update.rule].powers)
            }
            powers = {role: state[update.states[role]] for role in STATES[update.rule].powers}
            settings = tuple(sorted(_in_units(update.settings, units).items()))
            # Most parameters share these numbers.
            factor, ids = update.learning_rate_scale, map(id, powers.values())
            key = (NUMBERS.get(update.rule), settings, factor, *ids)
            if key not in known:
                known[key] = self._numbers(update, scalars[0], powers)
            next_powers, numbers = known[key]
            w = w - numbers["lr"] * update.decay * w if update.decay else w
            new, after = _updated(RULES[update.rule], settings, w, g, numbers, before)
            after |= next_powers
            if finite is not None and STATES[update.rule].skips_bad_steps:
                new = jnp.where(finite, new, w)
                after = {
                    role: jnp.where(finite, array, state[update.states[role]])
                    for role, array in after.items()
                }
            if master is not None:
                after[MASTER] = new
            new_weights[tensor] = half.kept(new, weights[tensor])
            for role, array in after.items():
                name = update.states[role]
                new_state[name] = half.kept(array, state[name])
        if scale is not None and finite is not None and scale.good_steps:
            new_state.update(_adapted(scale, finite, state))
        return new_weights, new_state

    def _numbers(
        self, update: ParameterUpdate, lr: jax.Array, powers: Arrays
    ) -> tuple[dict[str, jax.Array], Arrays]:
        """The next powers, and what an update has besides arrays of the parameter's size."""
        factor, ratio = update.learning_rate_scale, update.settings.get("lr_ratio", 1.0)
        lr = lr * factor if factor != 1.0 else lr
        lr = lr * ratio if ratio != 1.0 else lr
        numbers = {"lr": lr}
        if not powers:
            return {}, numbers
        corrected = self._optimizer.bias_correction
        settings = _in_units(update.settings, self._optimizer.units(update.rule))
        numbers |= NUMBERS[update.rule](settings, lr, powers, corrected)
        betas = STATES[update.rule].powers
        return {name: p * update.settings[betas[name]] for name, p in powers.items()}, numbers

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
