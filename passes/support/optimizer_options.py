"""Changes that the strategy's options make to the optimizer of a program.

The options are PopART's; Paddle's own rules follow them as far as they have a meaning there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from paddle_ipu.popart.paddle_optimizer import FAMILIES, PaddleOptimizer, ParameterUpdate

UNBOUNDED = 65504.0
"""The default of ``max_weight_norm``, the largest number of half; no norm is bounded by it."""

_TYPES = {"FLOAT": "float32", "FLOAT16": "float16"}


def with_options(optimizer: PaddleOptimizer, options: Mapping[str, Any]) -> PaddleOptimizer:
    """The optimizer as the options of the group "Optimizer" change it."""
    return replace(
        optimizer,
        updates=tuple(_with_options(update, options) for update in optimizer.updates),
        loss_scaling=float(options["loss_scaling"]),
        bias_correction=not options["use_no_bias_optimizer"],
        state_types=(
            _TYPES[options["accl1_type"]],
            _TYPES[options["accl2_type"]],
            _TYPES[options["accl3_type"]],
        ),
        scaled_state=bool(options["scaled_optimizer_state"]),
    )


def _with_options(update: ParameterUpdate, options: Mapping[str, Any]) -> ParameterUpdate:
    if update.rule in FAMILIES:
        update = _decayed(update, options["weight_decay_mode"])
    if update.rule == "lamb" and options["max_weight_norm"] != UNBOUNDED:
        bound = float(options["max_weight_norm"])
        update = replace(update, settings={**update.settings, "max_weight_norm": bound})
    return update


_OWN_DECAY = {"adamw": "coeff", "lamb": "weight_decay"}
"""Rules that decay the weight itself -> the setting that is its coefficient."""


def _decayed(update: ParameterUpdate, mode: str) -> ParameterUpdate:
    """``decay``: L2 is not added to the gradient; ``l2_regularization``: all decay is."""
    own = _OWN_DECAY.get(update.rule)
    if mode == "decay" and update.l2:
        if own is None:
            return replace(update, l2=0.0, decay=update.l2)
        return _with_own(update, own, update.settings[own] + update.l2, 0.0)
    if mode == "l2_regularization" and own is not None:
        moved = _with_own(update, own, 0.0, update.l2 + update.settings[own])
        if "always_adapt" not in update.settings or not update.settings[own]:
            return moved
        # Without weight_decay Lamb scales its steps only with always_adapt.
        return replace(moved, settings={**moved.settings, "always_adapt": 1.0})
    return update


def _with_own(update: ParameterUpdate, name: str, decay: float, l2: float) -> ParameterUpdate:
    return replace(update, settings={**update.settings, name: decay}, l2=l2)
