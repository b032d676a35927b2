"""Paddle's update rules, as pure functions on arrays.

Each follows Paddle's CPU kernel of the same name and is compared with Paddle's executor in the
tests. A rule gets

- ``settings``: the numbers of ``ParameterUpdate.settings``;
- ``w`` and ``g``: weight and gradient, float32, after clips, regularisation and loss scaling;
- ``n``: the numbers of the step, of which ``lr`` is the parameter's learning rate and the others
  are what :data:`NUMBERS` makes of the powers of its betas;
- ``s``: its state arrays, by the names of ``paddle_optimizer.RULES``;

and gives the new weight and the new state arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp

Arrays = Mapping[str, jax.Array]
"""By name, or by role."""

Settings = Mapping[str, float]
Updated = tuple[jax.Array, dict[str, jax.Array]]
"""A weight, and its state arrays by role."""

UpdateRule = Callable[[Settings, jax.Array, jax.Array, Arrays, Arrays], Updated]
Numbers = Callable[[Settings, jax.Array, Arrays, bool], dict[str, jax.Array]]


def _sgd(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """w -= lr * g."""
    return w - n["lr"] * g, {}


def _rescaled(settings: Settings, g: jax.Array) -> jax.Array:
    return g * settings["rescale_grad"] if settings["rescale_grad"] != 1.0 else g


def _momentum(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """v = mu * v + g; w -= lr * v, or lr * (g + mu * v) with Nesterov."""
    g = _rescaled(settings, g)
    g = g + settings["l2"] * w if settings["l2"] else g
    velocity = settings["mu"] * s["velocity"] + g
    step = g + settings["mu"] * velocity if settings["use_nesterov"] else velocity
    return w - n["lr"] * step, {"velocity": velocity}


def _lars_momentum(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """v = mu * v + rate * (g + decay * w); w -= v.

    The rate is lr * coeff * ||w|| / (||g|| + decay * ||w|| + epsilon) where all of decay, ||w|| and
    ||g|| are positive, else lr.
    """
    decay, lr = settings["lars_weight_decay"], n["lr"]
    g = _rescaled(settings, g)
    if decay > 0:
        wn, gn = _norm(w), _norm(g)
        below = gn + decay * wn + settings["epsilon"]
        local = lr * settings["lars_coeff"] * wn / jnp.where(below > 0, below, 1.0)
        lr = jnp.where((wn > 0) & (gn > 0), local, lr)
    velocity = settings["mu"] * s["velocity"] + lr * (g + decay * w)
    return w - velocity, {"velocity": velocity}


def _norm(x: jax.Array) -> jax.Array:
    return jnp.sqrt(jnp.sum(x * x))


def _moments(
    settings: Settings, g: jax.Array, s: Arrays
) -> tuple[jax.Array, jax.Array, dict[str, jax.Array]]:
    b1, b2 = settings["beta1"], settings["beta2"]
    m = b1 * s["moment1"] + (1 - b1) * g
    v = b2 * s["moment2"] + (1 - b2) * g * g
    return m, v, {"moment1": m, "moment2": v}


def _adam(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """Paddle's Adam: epsilon is scaled by sqrt(1 - beta2^t), lr by that over 1 - beta1^t.

    With AMSGrad the largest second moment so far takes the place of the second moment.
    """
    m, v, state = _moments(settings, g, s)
    if "moment2_max" in s:
        v = state["moment2_max"] = jnp.maximum(v, s["moment2_max"])
    return w - n["rate"] * (m / (jnp.sqrt(v) + n["epsilon"])), state


def _adamw(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """Decay first, w -= lr * lr_ratio * coeff * w; then Adam."""
    coeff = settings["coeff"]
    decayed = w - n["lr"] * coeff * w if coeff else w
    return _adam(settings, decayed, g, n, s)


def _lamb(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """Adam's direction plus decay, scaled by ||w|| over its own norm where both are positive.

    A strategy may bound ||w|| by ``max_weight_norm``; 0 leaves the scaling out, as PopART's does.
    """
    m, v, state = _moments(settings, g, s)
    if "left1" in n:
        m = m / n["left1"]
        v = v / n["left2"]
    lr = n["lr"]
    direction = m / (jnp.sqrt(v) + settings["epsilon"]) + settings["weight_decay"] * w
    if settings["weight_decay"] > 0 or settings["always_adapt"]:
        wn, dn = _norm(w), _norm(direction)
        wn = jnp.minimum(wn, settings["max_weight_norm"]) if "max_weight_norm" in settings else wn
        lr = lr * jnp.where((wn > 0) & (dn > 0), wn / jnp.where(dn > 0, dn, 1), 1.0)
    return w - lr * direction, state


def _adamax(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """w -= lr / (1 - beta1^t) * m / u with u = max(|g|, beta2 * u + epsilon)."""
    moment = settings["beta1"] * s["moment"] + (1 - settings["beta1"]) * g
    # The maximum changes nothing, but keeps XLA from a fused multiply-add, which rounds once and so
    # always to the same side of Paddle's result.
    decayed = jnp.maximum(settings["beta2"] * s["inf_norm"], 0.0)
    norm = jnp.maximum(jnp.abs(g), decayed + settings["epsilon"])
    return w - n["rate"] * (moment / norm), {"moment": moment, "inf_norm": norm}


_NADAM_BASE = 0.96


def _nadam(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """Adam with Nesterov momentum (Dozat, ICLR 2016), whose coefficient mu_t grows towards beta1.

    mu_t = beta1 * (1 - 0.96^(t * momentum_decay) / 2), and the product of all of them.
    """
    m, v, state = _moments(settings, g, s)
    decay, beta1 = settings["momentum_decay"], settings["beta1"]
    base = s["momentum_decay_pow"] * _NADAM_BASE
    power = jnp.power(base, decay)
    mu, next_mu = (beta1 * (1 - 0.5 * power * by) for by in (1.0, _NADAM_BASE**decay))
    product, beta2_pow = s["mu_product"] * mu, s["beta2_pow"] * settings["beta2"]
    state |= {"momentum_decay_pow": base, "beta2_pow": beta2_pow, "mu_product": product}
    step = next_mu * m / (1 - product * next_mu) + (1 - mu) * g / (1 - product)
    return w - n["lr"] * step / (jnp.sqrt(v / (1 - beta2_pow)) + settings["epsilon"]), state


def _radam(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """Adam with a rectified rate (arXiv:1908.03265); momentum while the length is at most 5.

    The length of the approximated moving average, rho_t in the paper, is limit - 2 rho here.
    """
    m, v, state = _moments(settings, g, s)
    beta2 = settings["beta2"]
    power1, power2 = s["beta1_pow"] * settings["beta1"], s["beta2_pow"] * beta2
    rho = (s["rho"] * (beta2 - power2) + power2) / (1 - power2)
    state |= {"beta1_pow": power1, "beta2_pow": power2, "rho": rho}
    limit = 2 / (1 - beta2) - 1
    length = limit - 2 * rho
    is_rectified = length > 5
    length = jnp.where(is_rectified, length, 6.0)
    over = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
    adapted = jnp.sqrt(over) * jnp.sqrt(1 - power2) / (jnp.sqrt(v) + settings["epsilon"])
    return w - n["lr"] * (m / (1 - power1)) * jnp.where(is_rectified, adapted, 1.0), state


def _adagrad(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """w -= lr * g / (sqrt(m) + epsilon) with m += g^2."""
    moment = s["moment"] + g * g
    return w - n["lr"] * g / (jnp.sqrt(moment) + settings["epsilon"]), {"moment": moment}


def _decayed_adagrad(
    settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays
) -> Updated:
    """w -= lr * g / (sqrt(m) + epsilon) with m = decay * m + (1 - decay) * g^2."""
    moment = settings["decay"] * s["moment"] + (1 - settings["decay"]) * g * g
    return w - n["lr"] * g / (jnp.sqrt(moment) + settings["epsilon"]), {"moment": moment}


def _adadelta(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """w -= lr * x with x = sqrt(old d + epsilon) / sqrt(new v + epsilon) * g; d averages x^2."""
    rho, epsilon = settings["rho"], settings["epsilon"]
    squares = rho * s["avg_squared_grad"] + (1 - rho) * g * g
    step = jnp.sqrt(s["avg_squared_update"] + epsilon) / jnp.sqrt(squares + epsilon) * g
    steps = rho * s["avg_squared_update"] + (1 - rho) * step * step
    return w - n["lr"] * step, {"avg_squared_grad": squares, "avg_squared_update": steps}


def _rmsprop(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """w -= u with u = momentum * u + lr * g / sqrt(v + epsilon); centred: v less the mean's square.

    Epsilon stands inside of the root.
    """
    decay = settings["decay"]
    square = decay * s["mean_square"] + (1 - decay) * g * g
    state, variance = {"mean_square": square}, square
    if settings["centered"]:
        mean = state["mean_grad"] = decay * s["mean_grad"] + (1 - decay) * g
        variance = square - mean * mean
    step = n["lr"] * g / jnp.sqrt(variance + settings["epsilon"])
    state["moment"] = settings["momentum"] * s["moment"] + step
    return w - state["moment"], state


def _rprop(settings: Settings, w: jax.Array, g: jax.Array, n: Arrays, s: Arrays) -> Updated:
    """w -= rate * sign(g), each element's rate growing while its gradient keeps its sign.

    Where the sign turns, the rate shrinks and the step is left out.
    """
    same = g * s["prev"]
    eta = jnp.where(same > 0, settings["eta_positive"], settings["eta_negative"])
    rate = s["learning_rate"] * jnp.where(same == 0, 1.0, eta)
    rate = jnp.clip(rate, settings["rate_min"], settings["rate_max"])
    g = jnp.where(same < 0, 0.0, g)
    return w - jnp.sign(g) * rate, {"prev": g, "learning_rate": rate}


RULES: Mapping[str, UpdateRule] = {
    "sgd": _sgd,
    "momentum": _momentum,
    "lars_momentum": _lars_momentum,
    "adam": _adam,
    "adamw": _adamw,
    "lamb": _lamb,
    "adamax": _adamax,
    "nadam": _nadam,
    "radam": _radam,
    "adagrad": _adagrad,
    "decayed_adagrad": _decayed_adagrad,
    "adadelta": _adadelta,
    "rmsprop": _rmsprop,
    "rprop": _rprop,
}
"""Paddle's rules by the names of ``paddle_optimizer.RULES``."""


def adam_numbers(
    settings: Settings, lr: jax.Array, powers: Arrays, corrected: bool
) -> dict[str, jax.Array]:
    """What Adam and its kin make of the powers of their betas.

    ``rate`` and ``epsilon``; with bias correction also ``left1`` and ``left2``, 1 less the power.
    """
    if not corrected:
        return {"rate": lr, "epsilon": jnp.float32(settings["epsilon"])}
    left1, left2 = (1 - powers[name].reshape(()) for name in ("beta1_pow", "beta2_pow"))
    root = jnp.sqrt(left2)
    return {
        "left1": left1,
        "left2": left2,
        "rate": lr * root / left1,
        "epsilon": settings["epsilon"] * root,
    }


def adamax_numbers(
    settings: Settings, lr: jax.Array, powers: Arrays, corrected: bool
) -> dict[str, jax.Array]:
    """``rate``, the learning rate over 1 - beta1^t."""
    return {"rate": lr / (1 - powers["beta1_pow"].reshape(()))}


NUMBERS: Mapping[str, Numbers] = {
    "adam": adam_numbers,
    "adamw": adam_numbers,
    "lamb": adam_numbers,
    "adamax": adamax_numbers,
}
"""Rules with powers -> what they make of (settings, lr, powers, bias corrected)."""
