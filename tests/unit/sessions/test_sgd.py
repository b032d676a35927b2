"""PopART's SGD, step by step, against its equations in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import NotSupported
from tests.unit.sessions.session_programs import (
    B,
    Linear,
    W,
    builder,
    micro_batches,
    options,
    run,
    train,
    weights,
)

Array = np.ndarray[Any, Any]
COMBINED = popart.SGDAccumulatorAndMomentum.Combined
SEPARATE = popart.SGDAccumulatorAndMomentum.Separate
STEPS = 4


class Reference:
    """PopART's update of one weight in float64.

    `form` is None without momentum. `a` micro-batches are accumulated, `mean` and `post` say how
    they are averaged. Gradients given to :meth:`step` carry the loss scaling `ls`.
    """

    def __init__(
        self,
        w: Array,
        form: Any,
        lr: float,
        wd: float = 0.0,
        mm: float = 0.0,
        dm: float = 0.0,
        vs: float = 1.0,
        ls: float = 1.0,
        nesterov: bool = False,
        a: int = 1,
        mean: bool = False,
        post: bool = True,
    ) -> None:
        self.w = w.astype(np.float64)
        self.form, self.lr, self.wd, self.mm, self.dm, self.vs = form, lr, wd, mm, dm, vs
        self.ls, self.nesterov, self.a, self.mean, self.post = ls, nesterov, a, mean, post
        start = self.w * (1 - dm) * wd * vs
        self.v = start if form is COMBINED else np.zeros_like(start)

    def step(self, gradients: list[Array]) -> None:
        total = np.zeros_like(self.w)
        for k, g in enumerate(gradients):
            if self.mean and not self.post:
                total = total * (1 - 1 / (k + 1)) + g / (k + 1)
            else:
                total = total + g
        keep, vs, ls = 1 - self.dm, self.vs, self.ls
        post_a = self.a if self.mean and self.post else 1
        if self.form is None:
            self.w *= 1 - self.lr * keep * self.wd
            self.w -= self.lr * keep / (ls * post_a) * total
        elif self.form is SEPARATE:
            scale = keep * vs / (ls * post_a)
            self.v = self.mm * self.v + self.wd * keep * vs * self.w + scale * total
            instant = vs * (total / ls + self.wd * self.w) + self.mm * self.v
            self.w = self.w - self.lr / vs * (instant if self.nesterov else self.v)
        else:
            for g in gradients:
                self.v = self.v + keep * vs / (ls * (self.a if self.mean else 1)) * g
            raw = sum(gradients, np.zeros_like(self.w))
            instant = vs * (raw / ls + self.wd * self.w) + self.mm * self.v
            self.w = self.w - self.lr / vs * (instant if self.nesterov else self.v)
            self.v = self.v * self.mm + keep * self.wd * vs * self.w


def gradients_of(x: Array, w: Reference, b: Reference, ls: float) -> dict[str, list[Array]]:
    """Loss-scaled gradients of each micro-batch in x [micro-batches, 3, 2]."""
    each = [Linear.gradients(micro, w.w, b.w) for micro in x]
    return {name: [ls * g[name] for g in each] for name in ("w", "b")}


def both(reference_w: Reference, reference_b: Reference, session: Any, steps: Any) -> None:
    """Runs steps of micro-batches and compares weights, and velocities, after each."""
    for x in steps:
        run(session, {"x": x})
        gradients = gradients_of(x, reference_w, reference_b, reference_w.ls)
        reference_w.step(gradients["w"])
        reference_b.step(gradients["b"])
        names = ["w", "b"] if reference_w.form is None else ["w", "b", "Accl___w"]
        expected = [reference_w.w, reference_b.w, reference_w.v]
        for name, got, wanted in zip(names, weights(session, *names), expected, strict=False):
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-6, err_msg=name)


def steps_of(micro: int = 1, count: int = STEPS) -> Array:
    return micro_batches(count * micro).reshape(count, micro, 3, 2)


@pytest.mark.parametrize("constant", [True, False], ids=["const", "changeable"])
@pytest.mark.parametrize(
    ("form", "numbers", "nesterov"),
    [
        pytest.param(None, {}, False, id="plain"),
        pytest.param(None, {"wd": 0.3, "dm": 0.25}, False, id="plain-decay-dampening"),
        pytest.param(SEPARATE, {"mm": 0.9}, False, id="separate"),
        pytest.param(
            SEPARATE, {"mm": 0.9, "wd": 0.2, "dm": 0.3, "vs": 0.5, "ls": 8.0}, False,
            id="separate-everything",
        ),
        pytest.param(SEPARATE, {"mm": 0.8, "wd": 0.1, "vs": 2.0}, True, id="separate-nesterov"),
        pytest.param(COMBINED, {"mm": 0.9}, False, id="combined"),
        pytest.param(
            COMBINED, {"mm": 0.9, "wd": 0.2, "dm": 0.3, "vs": 0.5, "ls": 8.0}, False,
            id="combined-everything",
        ),
        pytest.param(COMBINED, {"mm": 0.8, "wd": 0.1, "vs": 2.0}, True, id="combined-nesterov"),
    ],
)  # fmt: skip
def test_forms(form: Any, numbers: dict[str, float], nesterov: bool, constant: bool) -> None:
    optimizer = sgd(form, numbers, nesterov, constant)
    session = train(Linear(), optimizer)
    w = Reference(W, form, lr=0.05, nesterov=nesterov, **numbers)
    b = Reference(B, form, lr=0.05, nesterov=nesterov, **numbers)
    both(w, b, session, steps_of())


KEYS = {
    "wd": "defaultWeightDecay",
    "mm": "defaultMomentum",
    "dm": "defaultDampening",
    "vs": "defaultVelocityScaling",
    "ls": "lossScaling",
}


def sgd(
    form: Any, numbers: dict[str, float], nesterov: bool = False, constant: bool = True,
    lr: float = 0.05,
) -> popart.SGD:  # fmt: skip
    values = {KEYS[name]: (value, constant) for name, value in numbers.items()}
    values["defaultLearningRate"] = (lr, constant)
    values["nesterov"] = (float(nesterov), True)
    return popart.SGD(values, accumulatorAndMomentum=form or COMBINED)


REDUCTIONS = {
    "sum": (popart.ReductionType.Sum, popart.MeanReductionStrategy.Post),
    "mean-post": (popart.ReductionType.Mean, popart.MeanReductionStrategy.Post),
    "mean-running": (popart.ReductionType.Mean, popart.MeanReductionStrategy.Running),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(
    ("form", "nesterov"),
    [(None, False), (SEPARATE, False), (SEPARATE, True), (COMBINED, False), (COMBINED, True)],
    ids=["plain", "separate", "separate-nesterov", "combined", "combined-nesterov"],
)
def test_accumulation(form: Any, nesterov: bool, reduction: str) -> None:
    kind, strategy = REDUCTIONS[reduction]
    numbers = {"wd": 0.1, "ls": 4.0} | ({} if form is None else {"mm": 0.7})
    settings = options(
        3,
        accumulationAndReplicationReductionType=kind,
        meanAccumulationAndReplicationReductionStrategy=strategy,
    )
    session = train(Linear(), sgd(form, numbers, nesterov, lr=0.02), settings=settings)
    mean, post = kind.name == "Mean", strategy.name == "Post"
    w, b = (
        Reference(start, form, 0.02, nesterov=nesterov, a=3, mean=mean, post=post, **numbers)
        for start in (W, B)
    )
    both(w, b, session, steps_of(3))


def test_batches_per_step_are_updates_one_after_another() -> None:
    x = steps_of()
    session = train(Linear(), sgd(SEPARATE, {"mm": 0.9}), batches=STEPS)
    run(session, {"x": x})
    w, b = Reference(W, SEPARATE, 0.05, mm=0.9), Reference(B, SEPARATE, 0.05, mm=0.9)
    for micro in x:
        gradients = gradients_of(micro, w, b, 1.0)
        w.step(gradients["w"])
        b.step(gradients["b"])
    np.testing.assert_allclose(weights(session, "w")[0], w.w, rtol=1e-5)


def test_a_weight_of_its_own_settings() -> None:
    optimizer = sgd(SEPARATE, {"wd": 0.2})
    optimizer.insertSpecific("w", {"momentum": (0.9, True), "learningRate": (0.01, True)})
    session = train(Linear(), optimizer)
    w = Reference(W, SEPARATE, 0.01, wd=0.2, mm=0.9)
    b = Reference(B, None, 0.05, wd=0.2)
    for x in steps_of():
        run(session, {"x": x})
        gradients = gradients_of(x, w, b, 1.0)
        w.step(gradients["w"])
        b.step(gradients["b"])
    got_w, got_b = weights(session, "w", "b")
    np.testing.assert_allclose(got_w, w.w, rtol=1e-5)
    np.testing.assert_allclose(got_b, b.w, rtol=1e-5)
    with pytest.raises(popart.popart_runtime_error, match="no tensor 'Accl___b' in tensors"):
        weights(session, "Accl___b")


@pytest.mark.parametrize("form", [None, SEPARATE, COMBINED], ids=["plain", "separate", "combined"])
def test_changing_values_between_runs(form: Any) -> None:
    numbers = {"wd": 0.1, "ls": 2.0} | ({} if form is None else {"mm": 0.5, "dm": 0.1, "vs": 0.5})
    changed = {"wd": 0.3, "ls": 16.0} | ({} if form is None else {"mm": 0.9, "dm": 0.3, "vs": 2.0})
    # A momentum of 0 that may change has a velocity, so it stays constant here.
    optimizer, later = sgd(form, numbers, constant=False), sgd(form, changed, False, False, lr=0.01)
    session = train(Linear(), optimizer)
    w, b = (Reference(start, form, 0.05, **numbers) for start in (W, B))
    first, second = steps_of()[:2], steps_of()[2:]
    both(w, b, session, first)
    session.updateOptimizerFromHost(later)
    for reference in (w, b):
        reference.lr = 0.01
        for name, value in changed.items():
            setattr(reference, name, value)
    both(w, b, session, second)


def test_replacements_that_are_not_valid() -> None:
    base: dict[str, Any] = {
        "defaultLearningRate": (0.1, False), "defaultWeightDecay": (0.1, True),
        "defaultMomentum": (0.5, False), "nesterov": (0.0, False),
    }  # fmt: skip
    session = train(Linear(), popart.SGD(base))
    start = "New optimizer is not a valid replacement. "
    cases = [
        ({"defaultLearningRate": (0.2, True)}, "Problem with learningRate"),
        ({"defaultWeightDecay": (0.2, True)}, "Values are constant but do not match"),
        ({"nesterov": (1.0, False)}, "Nesterov momentum is compiled"),
    ]
    for change, why in cases:
        with pytest.raises(popart.popart_runtime_error, match=f"{start}.*{why}"):
            session.updateOptimizerFromHost(popart.SGD({**base, **change}))
    with pytest.raises(popart.popart_runtime_error, match=start + "SGDAccumulatorAndMomentum do"):
        session.updateOptimizerFromHost(popart.SGD(base, accumulatorAndMomentum=SEPARATE))
    with pytest.raises(popart.popart_runtime_error, match=start + "Can not replace optimizer of"):
        session.updateOptimizerFromHost(popart.Adam({}))
    specific = popart.SGD(base)
    specific.insertSpecific("w", {"learningRate": (0.2, False)})
    with pytest.raises(popart.popart_runtime_error, match="different number of specific tensors"):
        session.updateOptimizerFromHost(specific)
    # Nothing of it took effect.
    x = steps_of(count=1)
    w, b = (Reference(start_, COMBINED, 0.1, wd=0.1, mm=0.5) for start_ in (W, B))
    both(w, b, session, x)


def test_what_has_no_lowering() -> None:
    with pytest.raises(NotSupported, match="accumType of popart.SGD is INT32; gradients are"):
        train(Linear(), popart.SGD({}, accumType=popart.DataType.INT32))
    with pytest.raises(NotSupported, match="accl1_type of popart.Adam is INT32; optimizer state"):
        train(Linear(), popart.Adam({}, accl1_type=popart.DataType.INT32))
    with pytest.raises(TypeError, match="a popart.SGD, popart.Adam or popart.Adaptive, got a str"):
        train(Linear(), "sgd")


def test_variables_that_are_not_updated() -> None:
    """Weights behind a Detach and weights off the loss's path stay."""
    program = Linear()
    make = program.builder
    onnx = make.aiOnnxOpset11
    frozen = {
        "detached": np.array([0.5, 2.0], np.float32),
        "aside": np.array([3.0, -3.0], np.float32),
    }
    ids = {name: make.addInitializedInputTensor(array, name) for name, array in frozen.items()}
    picked = onnx.gather([program.w, onnx.constant(np.array([1, 0], np.int32))])
    flag = onnx.constant(np.array([True, False]))
    chosen = onnx.where([flag, picked, make.aiGraphcore.detach([ids["detached"]])])
    total = onnx.add([onnx.reducesum([chosen], axes=[0, 1], keepdims=0), program.loss])
    program.loss = make.aiGraphcore.identityloss([total])
    beside = onnx.mul([ids["aside"], program.x])
    session = train(program, sgd(SEPARATE, {"mm": 0.9, "wd": 0.5}), {beside: "All"})
    for x in steps_of(count=2):
        run(session, {"x": x})
    for (name, before), after in zip(frozen.items(), weights(session, *frozen), strict=True):
        np.testing.assert_array_equal(after, before, err_msg=name)
    assert not np.array_equal(weights(session, "w")[0], W)


@pytest.mark.parametrize("array", [np.array([1, 0], np.int32), np.array([True, False])])
def test_integers_that_are_read_are_no_variables(array: Any) -> None:
    program = Linear()
    make = program.builder
    index = make.addInitializedInputTensor(array, "index")
    indices = make.aiOnnxOpset11.cast([index], "INT32")
    picked = make.aiOnnxOpset11.gather([program.w, indices])
    with pytest.raises(
        popart.popart_exception,
        match="Currently only floating point variable tensors are updatable: 'index' is (INT32|BO)",
    ):
        train(program, popart.SGD({}), {picked: "All"})
    session = train(program, popart.SGD({}))  # Nothing that is wanted reads it.
    run(session, {"x": steps_of(count=1)[0]})


def test_half_weights_accumulate_in_the_type_asked_for() -> None:
    """Adding 1 to 2048 is lost in half; in float32 it is not, and loss scaling is undone in it."""
    make = builder()
    x = make.addInputTensor(popart.TensorInfo(np.float16, [1]), "x")
    w = make.addInitializedInputTensor(np.zeros(1, np.float16), "w")
    loss = make.aiGraphcore.identityloss([make.aiOnnxOpset11.mul([x, w])])
    feed = np.array([2048, 1, 1, 1], np.float16)
    results = {}
    for dtype in (popart.DataType.UNDEFINED, popart.DataType.FLOAT):
        optimizer = popart.SGD({"defaultLearningRate": (2.0**-10, True)}, accumType=dtype)
        program = type("Program", (), {"builder": make, "loss": loss})
        session = train(program, optimizer, settings=options(4))
        run(session, {"x": feed})
        results[dtype.name] = float(weights(session, "w")[0][0])
    assert results["UNDEFINED"] == -2.0
    assert results["FLOAT"] == float(np.float16(-2051 * 2.0**-10))
    optimizer = popart.SGD({"defaultLearningRate": (2.0**10, True), "lossScaling": (2.0**12, True)})
    session = train(program, optimizer)
    run(session, {"x": np.array([2.0**-18], np.float16)})
    assert float(weights(session, "w")[0][0]) == -(2.0**-8)
