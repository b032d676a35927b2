"""The update of one weight by Paddle's rules: clip and decay of its gradient, rule, state."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.popart.paddle_optimizer import MASTER, Clip
from paddle_ipu.popart.paddle_optimizer import RULES as STATES
from paddle_ipu.xla.lowerings.residuals import LARGE
from paddle_ipu.xla.optimizers.update_rules import RULES, Arrays, Updated
from paddle_ipu.xla.precision import half, stochastic

_UpdateArrays = tuple[jax.Array, jax.Array, Arrays, Arrays]
"""(weight, gradient, numbers, state)."""

FACTOR = "factor"
"""Among the numbers of an update: what a clip over several gradients multiplies them by."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """All of an update that is no array. Parameters that share one are traced once.

    Attributes:
        rule: its name.
        settings: its numbers, but for those that change from step to step.
        l1: factor of the weight's sign that is added to the gradient.
        l2: factor of the weight that is added.
        units: what gradients are multiplied by for the rule.
        decay: of the weight, times the learning rate, before the update.
        clip: of this gradient alone, None for none or one over several.
    """

    rule: str
    settings: tuple[tuple[str, float], ...]
    l1: float
    l2: float
    units: float
    decay: float
    clip: Clip | None

    def gradient(
        self, g: jax.Array, w: jax.Array, n: Arrays, finite: jax.Array | None
    ) -> jax.Array:
        """A gradient clipped, regularised and scaled for the rule; 0 where not all are finite."""
        g = g.astype(jnp.float32)
        g = g if finite is None else jnp.where(finite, g, 0.0)
        if self.clip is not None and self.clip.kind == "value":
            g = jnp.clip(g, self.clip.low, self.clip.high)
        elif self.clip is not None:
            norm, high = jnp.sqrt(jnp.sum(g**2)), self.clip.high
            g = g * jnp.where(norm > high, high / jnp.where(norm > 0, norm, 1), 1)
        g = g * n[FACTOR] if FACTOR in n else g
        g = g + self.l1 * jnp.sign(w) if self.l1 else g
        g = g + self.l2 * w if self.l2 else g
        return g * self.units if self.units != 1.0 else g


@dataclass(frozen=True, slots=True)
class Update:
    """A weight's update before it is traced.

    Attributes:
        recipe: all of it that is no array.
        weight: the weight as it is kept.
        gradient: its gradient, in any type.
        numbers: those that change from step to step, by name.
        state: its state arrays as they are kept, by role, but for powers.
    """

    recipe: Recipe
    weight: jax.Array
    gradient: jax.Array
    numbers: Arrays
    state: Arrays

    @property
    def arrays(self) -> _UpdateArrays:
        """All but the recipe."""
        return self.weight, self.gradient, self.numbers, self.state


def _update(
    recipe: Recipe, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays, finite: jax.Array | None
) -> Updated:
    """A weight and its state arrays as they are kept, but for powers, after an update."""
    wide = w.astype(jnp.float32) if MASTER not in s else s[MASTER]
    g = recipe.gradient(g, wide, n, finite)
    start = wide - n["lr"] * recipe.decay * wide if recipe.decay else wide
    before = {role: array.astype(jnp.float32) for role, array in s.items() if role != MASTER}
    new, after = RULES[recipe.rule](dict(recipe.settings), start, g, n, before)
    if finite is not None and STATES[recipe.rule].skips_bad_steps:
        new = jnp.where(finite, new, start)
        after = {role: jnp.where(finite, array, before[role]) for role, array in after.items()}
    if MASTER in s:
        after[MASTER] = new
    return half.kept(new, w), {role: half.kept(array, s[role]) for role, array in after.items()}


_update_traced_once = functools.partial(jax.jit, static_argnums=0)(_update)


def _conditional(
    recipes: tuple[Recipe, ...],
    sound: jax.Array,
    several: list[_UpdateArrays],
    finite: jax.Array | None,
) -> list[Updated]:
    """Updates of some weights; where `sound` is false, the weights and states as they are."""
    update = _update if stochastic.draws() else _update_traced_once
    # A condition, since selects among old and new arrays would need memory for both.
    results: list[Updated] = lax.cond(
        sound,
        lambda several, finite: [
            update(recipe, w, g, n, s, finite)
            for recipe, (w, g, n, s) in zip(recipes, several, strict=True)
        ],
        lambda several, finite: [(w, dict(s)) for w, _, _, s in several],
        several,
        finite,
    )
    return results


_conditional_traced_once = functools.partial(jax.jit, static_argnums=0)(_conditional)


def updated(
    updates: Mapping[str, Update], finite: jax.Array | None, sound: jax.Array | None
) -> dict[str, Updated]:
    """Each weight and its state arrays by role, as they are kept.

    Under a condition each large weight has a ``lax.cond`` of its own, so that its gradient need not
    be kept until all others are computed.

    Args:
        updates: by weight.
        finite: under Paddle's loss scaling, whether all gradients are.
        sound: whether anything may change; None where it always may.
    """
    # A function that draws random numbers must be traced anew for each weight.
    once = not stochastic.draws()
    if sound is None:
        update = _update_traced_once if once else _update
        return {name: update(u.recipe, *u.arrays, finite) for name, u in updates.items()}
    small = [name for name, u in updates.items() if u.weight.nbytes < LARGE]
    groups = [[name] for name in updates if name not in small]
    after: dict[str, Updated] = {}
    conditional = _conditional_traced_once if once else _conditional
    for names in [*groups, small] if small else groups:
        recipes = tuple(updates[name].recipe for name in names)
        results = conditional(recipes, sound, [updates[name].arrays for name in names], finite)
        after.update(zip(names, results, strict=True))
    return after
