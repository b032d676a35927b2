"""Programs by PopART's interface: what optimizers and session options make of a small one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from paddle_ipu import popart
from tests.unit.sessions.session_programs import Linear, infer, options, train

_RATE = {"defaultLearningRate": (0.05, False), "defaultWeightDecay": (0.1, True)}
_MOMENTUM = {**_RATE, "defaultMomentum": (0.9, True), "defaultDampening": (0.1, True)}
_FORMS = popart.SGDAccumulatorAndMomentum
_DECAYS = popart.WeightDecayMode

OPTIMIZERS: Mapping[str, Callable[[], Any]] = {
    "SGD": lambda: popart.SGD(_RATE),
    "SGD with all numbers constant": lambda: popart.ConstSGD(0.05, 0.1, 2.0),
    "SGD with momentum, combined": lambda: popart.SGD(
        _MOMENTUM, accumulatorAndMomentum=_FORMS.Combined
    ),
    "SGD with momentum, separate": lambda: popart.SGD(
        _MOMENTUM, accumulatorAndMomentum=_FORMS.Separate
    ),
    "SGD with Nesterov": lambda: popart.SGD(
        {**_RATE, "defaultMomentum": (0.9, True), "nesterov": (True, True)}
    ),
    "SGD with clipping": lambda: popart.SGD(
        _RATE, clip_norm_settings=[popart.ClipNormSettings.clipAllWeights(0.1)]
    ),
    **{
        f"Adam, {mode.name}, {decay.name}": partial(popart.Adam, _RATE, mode, decay)
        for mode in popart.AdamMode
        for decay in (_DECAYS.Decay, _DECAYS.L2Regularization)
    },
    "Adam with scaled state": lambda: popart.Adam(
        {**_RATE, "lossScaling": (8.0, False)}, scaled_optimizer_state=True
    ),
    **{
        f"adaptive, {mode.name}": partial(popart.Adaptive, _RATE, mode)
        for mode in popart.AdaptiveMode
    },
    "adaptive, TensorFlow's RMSProp": lambda: popart.Adaptive(
        {**_RATE, "defaultMomentum": (0.5, True)}, rmsprop_tf_variant=True
    ),
}
"""Name -> what makes the optimizer."""


def sessions() -> dict[str, Callable[[], object]]:
    """Name -> what compiles a session."""
    found: dict[str, Callable[[], object]] = {}
    for name, make in OPTIMIZERS.items():
        found[name] = partial(_train, make)
        found[f"{name}, accumulation"] = partial(_train, make, accumulation=3)
    for kind in ("All", "Final", "Sum"):
        anchors = dict.fromkeys(("loss", "out"), kind)
        found[f"anchors {kind}"] = partial(_train, OPTIMIZERS["SGD"], anchors, 2, accumulation=2)
        found[f"inference, anchors {kind}"] = partial(_infer, kind)
    return found


def _train(
    make: Callable[[], Any],
    anchors: Mapping[str, str] | None = None,
    batches: int = 1,
    accumulation: int = 1,
) -> None:
    program = Linear()
    ids = {getattr(program, name): kind for name, kind in (anchors or {}).items()}
    train(program, make(), ids, batches=batches, settings=options(accumulation))


def _infer(kind: str) -> None:
    program = Linear()
    infer(program.builder.model, {program.out: kind}, batches=2)
