"""Optimizers, schedulers, decays and clips of Paddle, with their settings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
from paddle.incubate.optimizer import LarsMomentumOptimizer
from paddle.regularizer import L1Decay, L2Decay

from tests.differential.training.choices import Kind, Table

lr = paddle.optimizer.lr

OPTIMIZERS, SCHEDULERS, CLIPS, DECAYS = Table(), Table(), Table(), Table()

BETA1 = (0.9, 0.0, 0.5, 0.99)
BETA2 = (0.999, 0.9, 0.5, 0.0)
EPSILON = (1e-8, 1e-4, 1e-2, 1e-6)
FLAG = (False, True)


# -- optimizers: of (learning rate, decay, clip) --------------------------------------------------


def _plain(rate: Any, decay: Any, clip: Any) -> dict[str, Any]:
    return {"learning_rate": rate, "weight_decay": decay, "grad_clip": clip}


def _add(name: str, **values: tuple[Any, ...]) -> None:
    """Adds an optimizer of ``paddle.optimizer`` whose settings are its keyword arguments."""

    def make(rate: Any, decay: Any, clip: Any, **settings: Any) -> Any:
        # Older versions have neither all optimizers nor all arguments.
        given = {k: v for k, v in settings.items() if v is not values[k][0] or k not in _YOUNG}
        return getattr(paddle.optimizer, name)(**_plain(rate, decay, clip), **given)

    OPTIMIZERS[name] = Kind(make, values)


_YOUNG = ("amsgrad", "use_multi_tensor", "lazy_mode")

_add("SGD", multi_precision=FLAG)
_add(
    "Momentum", momentum=(0.9, 0.0, 0.5), use_nesterov=FLAG, use_multi_tensor=FLAG,
    multi_precision=FLAG,
)  # fmt: skip
_add(
    "Adam", beta1=BETA1, beta2=BETA2, epsilon=EPSILON, amsgrad=FLAG, lazy_mode=FLAG,
    use_multi_tensor=FLAG, multi_precision=FLAG,
)  # fmt: skip
_add("Adamax", beta1=BETA1, beta2=BETA2, epsilon=EPSILON)
_add("Adagrad", epsilon=(1e-6, 1e-8, 1e-2), initial_accumulator_value=(0.0, 0.1, 1.0))
_add("Adadelta", epsilon=(1e-6, 1e-3, 1e-8), rho=(0.95, 0.5, 0.0))
_add(
    "RMSProp", rho=(0.95, 0.5, 0.0), epsilon=(1e-6, 1e-3, 1e-1), momentum=(0.0, 0.5, 0.9),
    centered=FLAG,
)  # fmt: skip
_add("NAdam", beta1=BETA1, beta2=BETA2, epsilon=EPSILON, momentum_decay=(0.004, 0.1, 0.0))
_add("RAdam", beta1=BETA1, beta2=BETA2, epsilon=EPSILON)


def _last(name: str) -> bool:
    """Whether a parameter's name is that of a bias."""
    return ".b_" in name


@OPTIMIZERS.row(
    "AdamW", beta1=BETA1, beta2=BETA2, epsilon=EPSILON, coeff=(0.01, 0.0, 0.3),
    but_biases=FLAG, amsgrad=FLAG, lazy_mode=FLAG,
)  # fmt: skip
def _adamw(
    rate: Any, decay: Any, clip: Any, coeff: float, but_biases: bool, amsgrad: bool, **rest: Any
) -> Any:
    if but_biases:
        rest["apply_decay_param_fun"] = lambda name: not _last(name)
    if amsgrad:
        rest["amsgrad"] = True
    return paddle.optimizer.AdamW(rate, weight_decay=coeff, grad_clip=clip, **rest)


@OPTIMIZERS.row(
    "Lamb", coeff=(0.01, 0.0, 0.3), beta1=BETA1, beta2=BETA2, epsilon=(1e-6, 1e-3),
    but_biases=FLAG, always_adapt=FLAG,
)  # fmt: skip
def _lamb(
    rate: Any,
    decay: Any,
    clip: Any,
    coeff: float,
    but_biases: bool,
    always_adapt: bool,
    **rest: Any,
) -> Any:
    if but_biases:
        rest["exclude_from_weight_decay_fn"] = lambda parameter: _last(parameter.name)
    if always_adapt:
        rest["always_adapt"] = True
    return paddle.optimizer.Lamb(rate, coeff, grad_clip=clip, **rest)


@OPTIMIZERS.row(
    "Rprop", learning_rate_range=((1e-5, 50), (5e-3, 0.3)), etas=((0.5, 1.2), (0.9, 1.01))
)
def _rprop(rate: Any, decay: Any, clip: Any, **settings: Any) -> Any:
    # It takes no scheduler.
    rate = getattr(rate, "base_lr", rate)
    return paddle.optimizer.Rprop(rate, grad_clip=clip, **settings)


@OPTIMIZERS.row(
    "LarsMomentum", momentum=(0.9, 0.0), lars_coeff=(0.001, 0.5), lars_weight_decay=(0.0005, 0.1),
    exclude_from_weight_decay=(None, ["b_0"]), epsilon=(0.0, 1e-3), rescale_grad=(1.0, 0.5),
)  # fmt: skip
def _lars(rate: Any, decay: Any, clip: Any, **settings: Any) -> Any:
    return LarsMomentumOptimizer(rate, regularization=decay, grad_clip=clip, **settings)


@OPTIMIZERS.row("ASGD", batch_num=(1, 3))
def _asgd(rate: Any, decay: Any, clip: Any, **settings: Any) -> Any:
    return paddle.optimizer.ASGD(rate, **settings, weight_decay=decay, grad_clip=clip)


# -- schedulers: of the rate ----------------------------------------------------------------------


def _schedule(name: str, make: Callable[..., Any], **values: tuple[Any, ...]) -> None:
    SCHEDULERS[name] = Kind(make, values)


_schedule(
    "NoamDecay",
    lambda rate, d_model, warmup_steps: lr.NoamDecay(d_model, warmup_steps, 8 * rate),
    d_model=(16, 64), warmup_steps=(2, 4, 1),
)  # fmt: skip
_schedule(
    "PiecewiseDecay",
    lambda rate, boundaries: lr.PiecewiseDecay(
        boundaries, [rate / 2**step for step in range(len(boundaries) + 1)]
    ),
    boundaries=([1, 3], [2], [1, 2, 3]),
)
for _name in ("NaturalExpDecay", "InverseTimeDecay", "ExponentialDecay"):
    _schedule(_name, getattr(lr, _name), gamma=(0.5, 0.9))
_schedule(
    "PolynomialDecay", lr.PolynomialDecay, decay_steps=(3, 2), end_lr=(0.001, 0.0),
    power=(1.0, 2.0, 0.5), cycle=FLAG,
)  # fmt: skip
_schedule(
    "LinearWarmup",
    lambda rate, inner, **settings: lr.LinearWarmup(
        lr.StepDecay(rate, 2) if inner else rate, end_lr=rate, **settings
    ),
    warmup_steps=(2, 3), start_lr=(0.0, 0.001), inner=FLAG,
)  # fmt: skip
_schedule("MultiStepDecay", lr.MultiStepDecay, milestones=([1, 3], [2]), gamma=(0.1, 0.7))
_schedule("StepDecay", lr.StepDecay, step_size=(1, 2), gamma=(0.1, 0.5))
_schedule(
    "LambdaDecay",
    lambda rate, falls: lr.LambdaDecay(rate, lambda step: 0.5**step if falls else step / 4),
    falls=(True, False),
)
_schedule(
    "ReduceOnPlateau", lr.ReduceOnPlateau, factor=(0.1, 0.5), patience=(0, 1), cooldown=(0, 1),
    threshold=(1e-4, 0.5), threshold_mode=("rel", "abs"), mode=("min", "max"),
)  # fmt: skip
_schedule("CosineAnnealingDecay", lr.CosineAnnealingDecay, T_max=(3, 1, 5), eta_min=(0, 0.001))
_schedule(
    "MultiplicativeDecay",
    lambda rate, factor: lr.MultiplicativeDecay(rate, lambda step: factor),
    factor=(0.5, 0.9),
)
_schedule(
    "OneCycleLR", lr.OneCycleLR, total_steps=(8, 10), phase_pct=(0.3, 0.5),
    anneal_strategy=("cos", "linear"), three_phase=FLAG,
)  # fmt: skip
_schedule(
    "CyclicLR",
    lambda rate, **settings: lr.CyclicLR(rate / 4, rate, **settings),
    step_size_up=(2, 1), mode=("triangular", "triangular2", "exp_range"), exp_gamma=(0.9, 1.0),
)  # fmt: skip
_schedule("LinearLR", lr.LinearLR, total_steps=(3, 2), start_factor=(0.25, 1.0))
_schedule(
    "CosineAnnealingWarmRestarts", lr.CosineAnnealingWarmRestarts, T_0=(2, 1, 3), T_mult=(1, 2),
    eta_min=(0, 0.001),
)  # fmt: skip


# -- clips and decays -----------------------------------------------------------------------------


@CLIPS.row("value", high=(0.01, 1.0, 0.1), low=(None, -0.005, 0.0))
def _by_value(high: float, low: float | None) -> Any:
    return paddle.nn.ClipGradByValue(high, low)


@CLIPS.row("norm", most=(0.1, 0.01, 10.0))
def _by_norm(most: float) -> Any:
    return paddle.nn.ClipGradByNorm(most)


@CLIPS.row("global norm", most=(0.1, 0.01, 10.0), group=("default_group", "mine"))
def _by_global_norm(most: float, group: str) -> Any:
    return paddle.nn.ClipGradByGlobalNorm(most, group)


@DECAYS.row("L1", coeff=(0.1, 0.001, 0.0))
def _l1(coeff: float) -> Any:
    return L1Decay(coeff)


@DECAYS.row("L2", coeff=(0.1, 0.001, 0.0))
def _l2(coeff: float) -> Any:
    return L2Decay(coeff)


@DECAYS.row("number", coeff=(0.1, 0.0))
def _number(coeff: float) -> Any:
    return coeff
