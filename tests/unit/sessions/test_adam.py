"""PopART's Adam and Adaptive, step by step, against their equations in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from tests.unit.sessions.session_programs import (
    B,
    Linear,
    W,
    micro_batches,
    options,
    run,
    train,
    weights,
)

Array = np.ndarray[Any, Any]
AdamMode, AdaptiveMode = popart.AdamMode, popart.AdaptiveMode
DECAY, L2 = popart.WeightDecayMode.Decay, popart.WeightDecayMode.L2Regularization
STEPS = 4


def as_floats(numbers: dict[str, float]) -> dict[str, float]:
    """The numbers as PopART has them: 1 - 0.999 is another number in float32."""
    return {name: float(np.float32(number)) for name, number in numbers.items()}


class AdamReference:
    """PopART's update of one weight in float64; `scaled` state is in units of `ls`."""

    def __init__(self, w: Array, mode: Any, decay: Any = DECAY, **numbers: float) -> None:
        given = {"lr": 0.05, "wd": 0.0, "b1": 0.9, "b2": 0.999, "eps": 1e-6, "mwn": 10.0}
        given |= {"ls": 1.0, "clip": 0.0, "scaled": 0.0} | numbers
        self.n = as_floats(given)
        self.w, self.mode, self.decay = w.astype(np.float64), mode, decay
        self.m, self.v, self.t = np.zeros_like(self.w), np.zeros_like(self.w), 0

    def arriving(self, g: Array) -> Array:
        """What the moments are given, before a clip."""
        s = g + self.n["wd"] * self.w if self.decay is L2 else g
        return s * self.n["ls"] if self.n["scaled"] else s

    def step(self, s: Array) -> None:
        n, mode = self.n, self.mode
        units = n["ls"] if n["scaled"] else 1.0
        self.t += 1
        self.m = n["b1"] * self.m + (1 - n["b1"]) * s
        if mode is AdamMode.AdaMax:
            self.v = np.maximum(n["b2"] * self.v, np.abs(s))
        else:
            self.v = n["b2"] * self.v + (1 - n["b2"]) * s**2
        m, v = self.m, self.v
        if mode in (AdamMode.Adam, AdamMode.Lamb, AdamMode.AdaMax):
            m = m / (1 - n["b1"] ** self.t)
        if mode in (AdamMode.Adam, AdamMode.Lamb):
            v = v / (1 - n["b2"] ** self.t)
        v = v if mode is AdamMode.AdaMax else np.sqrt(v)
        x = m / (v + n["eps"] * units)
        x = x + n["wd"] * self.w if self.decay is DECAY else x
        ratio = 1.0
        if mode in (AdamMode.Lamb, AdamMode.LambNoBias):
            r1, r2 = np.linalg.norm(self.w), np.linalg.norm(x)
            ratio = min(r1, n["mwn"]) / r2 if n["mwn"] and r1 and r2 else 1.0
        self.w = self.w - n["lr"] * ratio * x

    def state(self) -> dict[str, Array]:
        counts = self.mode in (AdamMode.Adam, AdamMode.Lamb, AdamMode.AdaMax)
        step = {"Step___": np.asarray(self.t)} if counts else {}
        return {"Accl1___": self.m, "Accl2___": self.v, **step}


class AdaptiveReference:
    """PopART's update of one weight in float64."""

    def __init__(
        self, w: Array, mode: Any, decay: Any = DECAY, tf: bool = False, **numbers: float
    ) -> None:
        self.n = as_floats({"lr": 0.05, "wd": 0.0, "a": 0.99, "mm": 0.0, "eps": 1e-6} | numbers)
        self.w, self.mode, self.decay, self.tf = w.astype(np.float64), mode, decay, tf
        self.v1 = np.ones_like(self.w) if tf else np.zeros_like(self.w)
        self.v2, self.v3 = np.zeros_like(self.w), np.zeros_like(self.w)

    def arriving(self, g: Array) -> Array:
        return g + self.n["wd"] * self.w if self.decay is L2 else g

    def step(self, s: Array) -> None:
        n, mode = self.n, self.mode
        lr, a, eps, momentum = n["lr"], n["a"], n["eps"], n["mm"] > 0
        keep = 1.0 if mode is AdaptiveMode.AdaGrad else a
        gain = 1.0 if mode is AdaptiveMode.AdaGrad else 1 - a
        self.v1 = keep * self.v1 + gain * s**2
        below = self.v1
        if mode is AdaptiveMode.CenteredRMSProp:
            self.v2 = a * self.v2 + (1 - a) * s
            below = self.v1 - self.v2**2
        x = s / np.sqrt(below + eps) if self.tf else s / (np.sqrt(below) + eps)
        if mode is AdaptiveMode.AdaDelta:
            x = s * np.sqrt(self.v2 + eps) / np.sqrt(self.v1 + eps)
            self.v2 = a * self.v2 + (1 - a) * x**2
        if momentum:
            x = self.v3 = n["mm"] * self.v3 + (lr * x if self.tf else x)
        wd = n["wd"] if self.decay is DECAY else 0.0
        if self.tf and momentum:
            self.w = self.w * (1 - wd) - x
        else:
            self.w = self.w * (1 - lr * wd) - lr * x

    def state(self) -> dict[str, Array]:
        second = self.mode in (AdaptiveMode.CenteredRMSProp, AdaptiveMode.AdaDelta)
        third = {"Accl3___": self.v3} if self.n["mm"] else {}
        return {"Accl1___": self.v1, **({"Accl2___": self.v2} if second else {}), **third}


def follow(session: Any, w: Any, b: Any, steps: Any, tolerance: float = 1e-5) -> None:
    """Runs steps of micro-batches and compares weights and state after each."""
    for x in steps:
        run(session, {"x": x})
        each = [Linear.gradients(micro, w.w, b.w) for micro in x]
        arriving = [ref.arriving(sum(g[n] for g in each)) for ref, n in ((w, "w"), (b, "b"))]
        clip = w.n.get("clip", 0.0)
        norm = np.sqrt(sum((s**2).sum() for s in arriving))
        factor = clip / max(clip, norm) if clip else 1.0
        w.step(arriving[0] * factor)
        b.step(arriving[1] * factor)
        expected = {prefix + "w": array for prefix, array in w.state().items()}
        expected |= {prefix + "b": array for prefix, array in b.state().items()}
        expected |= {"w": w.w, "b": b.w}
        for (name, wanted), got in zip(expected.items(), weights(session, *expected), strict=True):
            far = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
            assert far <= tolerance, (name, got, wanted)


def steps_of(micro: int = 1, count: int = STEPS) -> Array:
    return micro_batches(count * micro).reshape(count, micro, 3, 2)


ADAM_KEYS = {
    "lr": "defaultLearningRate", "wd": "defaultWeightDecay", "b1": "defaultBeta1",
    "b2": "defaultBeta2", "eps": "defaultEps", "mwn": "defaultMaxWeightNorm", "ls": "lossScaling",
    "a": "defaultAlpha", "mm": "defaultMomentum",
}  # fmt: skip


def values(numbers: dict[str, float], constant: bool = True) -> dict[str, tuple[float, bool]]:
    settings = {ADAM_KEYS[name]: (value, constant) for name, value in numbers.items()}
    return {"defaultLearningRate": (0.05, constant)} | settings


ADAM = {
    "plain": (AdamMode.Adam, DECAY, {}),
    "decay": (AdamMode.Adam, DECAY, {"wd": 0.3, "b1": 0.8, "b2": 0.9, "eps": 1e-3, "ls": 8.0}),
    "L2": (AdamMode.Adam, L2, {"wd": 0.3}),
    "no bias": (AdamMode.AdamNoBias, DECAY, {"wd": 0.1}),
    "adamax": (AdamMode.AdaMax, L2, {"wd": 0.1, "eps": 1e-2}),
    "lamb": (AdamMode.Lamb, DECAY, {"wd": 0.1}),
    "lamb, bounded": (AdamMode.Lamb, L2, {"wd": 0.1, "mwn": 0.5}),
    "lamb, unbounded": (AdamMode.Lamb, DECAY, {"mwn": 0.0}),
    "lamb, no bias": (AdamMode.LambNoBias, DECAY, {"wd": 0.1, "b1": 0.5}),
}


@pytest.mark.parametrize("name", ADAM)
def test_modes_of_adam(name: str) -> None:
    mode, decay, numbers = ADAM[name]
    session = train(Linear(), popart.Adam(values(numbers), mode, decay))
    references = (AdamReference(start, mode, decay, **numbers) for start in (W, B))
    follow(session, *references, steps_of())


def test_values_of_adam_change_between_runs() -> None:
    first, later = {"wd": 0.1, "ls": 2.0}, {"wd": 0.3, "ls": 8.0, "b1": 0.5, "b2": 0.9, "eps": 0.1}
    common = {"b1": 0.9, "b2": 0.999, "eps": 1e-6}
    session = train(Linear(), popart.Adam(values(common | first, False)))
    w, b = (AdamReference(start, AdamMode.Adam, **common, **first) for start in (W, B))
    follow(session, w, b, steps_of()[:2])
    session.updateOptimizerFromHost(popart.Adam(values(later, False)))
    for reference in (w, b):
        reference.n |= as_floats(later)
    follow(session, w, b, steps_of()[2:])


def test_replacements_of_adam_that_are_not_valid() -> None:
    session = train(Linear(), popart.Adam(values({"wd": 0.1})))
    start = "New optimizer is not a valid replacement. "
    for made, why in (
        (popart.Adam(values({"wd": 0.2})), "Problem with weightDecay.*constant but do not match"),
        (popart.Adam(values({"wd": 0.1}), AdamMode.Lamb), "Adam modes do not match"),
        (popart.Adaptive({}), "Can not replace optimizer of type Adam"),
    ):
        with pytest.raises(popart.popart_runtime_error, match=start + why):
            session.updateOptimizerFromHost(made)


ADAPTIVE = {
    "adagrad": (AdaptiveMode.AdaGrad, DECAY, False, {"wd": 0.2}),
    "rmsprop": (AdaptiveMode.RMSProp, DECAY, False, {"a": 0.9, "wd": 0.2}),
    "rmsprop, L2, momentum": (AdaptiveMode.RMSProp, L2, False, {"a": 0.9, "wd": 0.2, "mm": 0.7}),
    "rmsprop as TensorFlow's": (AdaptiveMode.RMSProp, DECAY, True, {"wd": 0.2}),
    "centred": (AdaptiveMode.CenteredRMSProp, DECAY, False, {"mm": 0.7, "wd": 0.1, "eps": 1e-3}),
    "centred as TensorFlow's": (
        AdaptiveMode.CenteredRMSProp, DECAY, True, {"mm": 0.7, "wd": 0.01, "eps": 1e-3},
    ),
    "adadelta": (AdaptiveMode.AdaDelta, L2, False, {"a": 0.8, "wd": 0.1, "lr": 1.0, "eps": 1e-2}),
}  # fmt: skip


@pytest.mark.parametrize("name", ADAPTIVE)
def test_modes_of_adaptive(name: str) -> None:
    mode, decay, tf, numbers = ADAPTIVE[name]
    given = values(numbers)
    made = popart.Adaptive(given, mode, decay, rmsprop_tf_variant=tf)
    references = (AdaptiveReference(start, mode, decay, tf, **numbers) for start in (W, B))
    follow(train(Linear(), made), *references, steps_of())


def test_a_momentum_of_adaptive_that_may_change_has_its_state() -> None:
    made = popart.Adaptive(values({}) | {"defaultMomentum": (0.0, False)})
    session = train(Linear(), made)
    session.updateOptimizerFromHost(popart.Adaptive(values({}) | {"defaultMomentum": (0.5, False)}))
    references = (AdaptiveReference(start, AdaptiveMode.RMSProp, mm=0.5) for start in (W, B))
    follow(session, *references, steps_of())


# -- what goes with them --------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [AdamMode.Adam, AdamMode.AdaMax])
def test_scaled_state_is_in_units_of_the_loss_scaling(mode: Any) -> None:
    numbers = {"wd": 0.2, "ls": 16.0, "eps": 1e-3}
    made = popart.Adam(values(numbers), mode, L2, scaled_optimizer_state=True)
    references = [AdamReference(start, mode, L2, scaled=1.0, **numbers) for start in (W, B)]
    follow(train(Linear(), made), *references, steps_of())


@pytest.mark.parametrize("mode", [AdamMode.AdamNoBias, AdamMode.AdaMax])
def test_scaled_state_follows_a_loss_scaling_that_changes(mode: Any) -> None:
    first = {"ls": 16.0, "eps": 1e-3}

    def adam(numbers: dict[str, float]) -> Any:
        return popart.Adam(values(numbers, False), mode, scaled_optimizer_state=True)

    session = train(Linear(), adam(first), batches=2)
    unscaled = train(Linear(), popart.Adam(values({"eps": 1e-3}), mode), batches=2)
    x = steps_of(2)
    for step, scaling in enumerate((16.0, 4.0, 64.0)):
        session.updateOptimizerFromHost(adam(first | {"ls": scaling}))
        for each in (session, unscaled):
            run(each, {"x": x[step]})
        names = ["w", "b", "Accl1___w", "Accl2___w"]
        power = 1 if mode is AdamMode.AdaMax else 2
        units = [1.0, 1.0, scaling, scaling**power]
        for got, wanted, unit in zip(
            weights(session, *names), weights(unscaled, *names), units, strict=True
        ):
            np.testing.assert_allclose(got, wanted * unit, rtol=1e-5)


def test_state_in_half() -> None:
    numbers = {"b1": 0.5, "b2": 0.5}
    half = popart.DataType.FLOAT16
    made = popart.Adam(values(numbers), accl1_type=half, accl2_type=half)
    session = train(Linear(), made)
    whole = train(Linear(), popart.Adam(values(numbers)))
    m = np.zeros_like(W)
    for x in steps_of(count=2):
        g = Linear.gradients(x[0], *(a.astype(np.float64) for a in weights(session, "w", "b")))
        for each in (session, whole):
            run(each, {"x": x})
        m = (0.5 * m + 0.5 * g["w"].astype(np.float32)).astype(np.float16).astype(np.float32)
    session.weightsToHost()
    got = np.empty(W.shape, np.float16)
    session.readWeights(popart.PyWeightsIO({"Accl1___w": got}))
    np.testing.assert_allclose(got.astype(np.float32), m, rtol=1e-3)
    # The rounding is there, and the weights stay near those of whole state.
    assert not np.array_equal(got.astype(np.float32), weights(whole, "Accl1___w")[0])
    np.testing.assert_allclose(weights(session, "w")[0], weights(whole, "w")[0], rtol=5e-3)


@pytest.mark.parametrize("decay", [DECAY, L2])
def test_clips_bound_what_the_moments_are_given(decay: Any) -> None:
    numbers = {"wd": 0.5, "ls": 4.0}
    clip = [popart.ClipNormSettings.clipAllWeights(0.7)]
    made = popart.Adam(values(numbers), weight_decay_mode=decay, clip_norm_settings=clip)
    references = [AdamReference(s, AdamMode.Adam, decay, clip=0.7, **numbers) for s in (W, B)]
    follow(train(Linear(), made), *references, steps_of())


def test_accumulated_micro_batches_are_summed() -> None:
    session = train(Linear(), popart.Adam(values({"ls": 4.0})), settings=options(2))
    follow(session, *(AdamReference(s, AdamMode.Adam) for s in (W, B)), steps_of(2))


def test_values_of_one_weight() -> None:
    made = popart.Adam(values({"wd": 0.1}))
    made.insertSpecific("w", {"learningRate": (0.01, True), "beta1": (0.5, True)})
    w = AdamReference(W, AdamMode.Adam, wd=0.1, lr=0.01, b1=0.5)
    follow(train(Linear(), made), w, AdamReference(B, AdamMode.Adam, wd=0.1), steps_of())


def test_a_saved_model_goes_on(tmp_path: Any) -> None:
    made = popart.Adam(values({"ls": 4.0}, False), scaled_optimizer_state=True)
    x = steps_of()
    session = train(Linear(), made)
    run(session, {"x": x[0]})
    session.modelToHost(str(tmp_path / "model.onnx"))
    again = train(Linear(), made, model=str(tmp_path / "model.onnx"))
    for each in (session, again):
        run(each, {"x": x[1]})
    names = ["w", "b", "Accl1___w", "Accl2___b", "Step___w"]
    for name, got, wanted in zip(
        names, weights(again, *names), weights(session, *names), strict=True
    ):
        np.testing.assert_array_equal(got, wanted, err_msg=name)
    assert weights(again, "Step___w")[0] == 2
