"""The interface of optimizers in a step, and the optimizer that follows Paddle's rules.

The rules are in ``update_rules.py``, the update of one weight is in ``weight_update.py``.
Half weights keep their state in float32 and are rounded once, when they are stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.popart.paddle_optimizer import (
    MASTER,
    LossScale,
    PaddleOptimizer,
    ParameterUpdate,
)
from paddle_ipu.popart.paddle_optimizer import RULES as STATES
from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.lowerings.residuals import on_cpu
from paddle_ipu.xla.optimizers.update_rules import NUMBERS, Arrays
from paddle_ipu.xla.optimizers.weight_update import FACTOR, Recipe, Update, updated


class Updater(Protocol):
    """An optimizer as a step runs it."""

    weights: tuple[str, ...]
    """The weights that are updated."""

    @property
    def accumulator_dtype(self) -> str | None:
        """Element type that gradients of micro-batches are summed in, None for the weight's."""

    alike: Sequence[tuple[str, ...]]
    """State arrays of one element that stay equal once they are: every update does the same."""

    def loss_scale(self, scalars: jax.Array, state: Arrays) -> float | jax.Array:
        """Factor on the loss's gradient; the gradients given to :meth:`apply` are without it."""

    @property
    def unscales_anchors(self) -> bool:
        """Gradients that a run returns are without the factor too."""

    def initial_state(self, weights: Arrays) -> dict[str, HostArray]:
        """State before the first step, where the host gives none."""

    def states_of(self, weight: str) -> tuple[str, ...]:
        """The state arrays that are of a weight's shape."""

    def state_shapes(self, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
        """Shape of each state array, for weights of the given shapes."""

    def state_dtypes(self) -> dict[str, str]:
        """Element types of the state arrays, or of those that are not float32."""

    def scalars(self) -> HostArray:
        """The numbers that may change from run to run, as a float32 vector."""

    def replace(self, optimizer: Any) -> None:
        """Takes an optimizer of the same kind that differs in its scalars."""

    def apply(
        self, weights: Arrays, gradients: Arrays, state: Arrays, scalars: jax.Array
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        """New weights and state, given unscaled gradients."""


def _both(first: jax.Array | None, second: jax.Array | None) -> jax.Array | None:
    """Both conditions, where None is true."""
    if first is None or second is None:
        return first if second is None else second
    return first & second


def _selected(sound: jax.Array | None, new: Arrays, old: Arrays) -> dict[str, jax.Array]:
    """The new arrays, or the old ones of the same names where `sound` is false; None is true."""
    if sound is None:
        return dict(new)
    return {name: jnp.where(sound, array, old[name]) for name, array in new.items()}


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
    """Runs a :class:`PaddleOptimizer`; state arrays have the names of Paddle's variables.

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
        alike: dict[tuple[object, str, float], list[str]] = {}
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

    def states_of(self, weight: str) -> tuple[str, ...]:
        return tuple(
            name
            for update in self._updates
            if self._tensors[update.parameter] == weight
            for role, name in update.states.items()
            if role not in STATES[update.rule].powers
        )

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

    def initial_state(self, weights: Arrays) -> dict[str, HostArray]:
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

    def scalars(self) -> HostArray:
        return np.asarray([self._optimizer.learning_rate], np.float32)

    def replace(self, optimizer: Any) -> None:
        if optimizer.with_learning_rate(0.0) != self._optimizer.with_learning_rate(0.0):
            raise popart_runtime_error(
                "New optimizer is not a valid replacement. Only the learning rate may differ "
                "from the optimizer the session was compiled with."
            )
        self._optimizer = optimizer

    def apply(
        self,
        weights: Arrays,
        gradients: Arrays,
        state: Arrays,
        scalars: jax.Array,
        sound: jax.Array | None = None,
    ) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
        by_parameter = {
            update.parameter: gradients[tensor]
            for update, tensor in zip(self._updates, self.weights, strict=True)
        }
        scale, finite = self._optimizer.loss_scale, None
        if scale is not None:
            finite = jnp.stack(
                [jnp.all(jnp.isfinite(array)) for array in by_parameter.values()]
            ).all()
        factors = self._factors(by_parameter, finite)
        new_weights, new_state = dict(weights), dict(state)
        known: dict[tuple[object, ...], tuple[dict[str, jax.Array], Arrays]] = {}
        updates: dict[str, Update] = {}
        for update, tensor in zip(self._updates, self.weights, strict=True):
            rule = STATES[update.rule]
            powers = {role: state[update.states[role]] for role in rule.powers}
            recipe = self._recipe(update)
            # Most parameters share these numbers.
            factor, ids = update.learning_rate_scale, map(id, powers.values())
            key = (NUMBERS.get(update.rule), rule.skips_bad_steps, recipe.settings, factor, *ids)
            if key not in known:
                raised, numbers = self._numbers(update, scalars[0], powers)
                advances = _both(sound, finite if rule.skips_bad_steps else None)
                known[key] = _selected(advances, raised, powers), numbers
            next_powers, numbers = known[key]
            if update.clip in factors:
                numbers = {**numbers, FACTOR: factors[update.clip]}
            own_state = {
                role: state[name] for role, name in update.states.items() if role not in powers
            }
            updates[tensor] = Update(
                recipe, weights[tensor], by_parameter[update.parameter], numbers, own_state
            )
            new_state.update((update.states[role], array) for role, array in next_powers.items())
        results = updated(updates, finite, sound)
        for update, tensor in zip(self._updates, self.weights, strict=True):
            new_weights[tensor], after = results[tensor]
            new_state.update((update.states[role], array) for role, array in after.items())
        if scale is not None and finite is not None and scale.good_steps:
            new_state.update(_selected(sound, _adapted(scale, finite, state), state))
        return new_weights, new_state

    def _recipe(self, update: ParameterUpdate) -> Recipe:
        units = self._optimizer.units(update.rule)
        clip = None if update.clip is None else self._optimizer.clips[update.clip]
        return Recipe(
            update.rule,
            tuple(sorted(_in_units(update.settings, units).items())),
            update.l1,
            update.l2,
            units,
            update.decay,
            clip if clip is not None and clip.kind in ("value", "norm") else None,
        )

    def _numbers(
        self, update: ParameterUpdate, lr: jax.Array, powers: Arrays
    ) -> tuple[dict[str, jax.Array], Arrays]:
        """(the next powers of the betas, the scalars of the update)."""
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

    def _factors(self, gradients: Arrays, finite: jax.Array | None) -> dict[int | None, jax.Array]:
        """The number of each clip over several gradients -> the factor on them."""
        factors: dict[int | None, jax.Array] = {}
        for index, clip in enumerate(self._optimizer.clips):
            if clip.kind in ("value", "norm"):
                continue
            members = [gradients[u.parameter] for u in self._updates if u.clip == index]
            wide = [array.astype(jnp.float32) for array in members]
            if finite is not None:
                wide = [jnp.where(finite, array, 0.0) for array in wide]
            total = sum(jnp.sum(array**2) for array in wide)
            factors[index] = clip.high / jnp.maximum(jnp.sqrt(total), clip.high)
        return factors


def apply_if(
    updater: Updater,
    sound: jax.Array | None,
    weights: Arrays,
    gradients: Arrays,
    state: Arrays,
    scalars: jax.Array,
) -> tuple[dict[str, jax.Array], dict[str, jax.Array]]:
    """``updater.apply``; where `sound` is false, the weights and state as they are."""
    if sound is None:
        return updater.apply(weights, gradients, state, scalars)
    if isinstance(updater, PaddleUpdater) and on_cpu():
        # A condition for each weight, so that its gradient need not be kept for the others.
        # On accelerators each condition would be a synchronisation with the host.
        return updater.apply(weights, gradients, state, scalars, sound)
    after: tuple[dict[str, jax.Array], dict[str, jax.Array]] = lax.cond(
        sound, updater.apply, lambda w, g, s, n: (dict(w), dict(s)), weights, gradients, state,
        scalars,
    )  # fmt: skip
    return after
