"""extract_optimizer: every rule, decay and clip as Paddle writes them, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import InvalidProgramError, NotSupported
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.popart.paddle_optimizer import Clip, PaddleOptimizer

Read = Callable[..., Compilation]


def _trained(compilation_of: Read, optimizer: Any) -> Compilation:
    x = paddle.static.data("x", [2, 3], "float32")
    loss = paddle.nn.Linear(3, 1)(x).mean()
    optimizer.minimize(loss)
    return compilation_of(["x"], [loss], is_training=True)


def _extracted(compilation_of: Read, optimizer: Any) -> PaddleOptimizer:
    compilation = _trained(compilation_of, optimizer)
    before = len(list(compilation.graph))
    assert ExtractOptimizer().run(compilation)
    assert len(list(compilation.graph)) == before
    assert compilation.loss == compilation.fetches[0]
    assert compilation.optimizer is not None
    first = compilation.optimizer
    ExtractOptimizer().run(compilation)
    assert compilation.optimizer == first
    return first


@pytest.mark.parametrize(
    ("make", "rule", "settings"),
    [
        (lambda: paddle.optimizer.SGD(0.1), "sgd", {}),
        (
            lambda: paddle.optimizer.Momentum(0.1, 0.8, use_nesterov=True),
            "momentum",
            {"mu": 0.8, "use_nesterov": 1.0, "l2": 0.0},
        ),
        (
            lambda: paddle.optimizer.Adam(0.1, 0.7, 0.9, 1e-6),
            "adam",
            {"beta1": 0.7, "beta2": 0.9, "epsilon": 1e-6},
        ),
        (lambda: paddle.optimizer.AdamW(0.1, weight_decay=0.02), "adamw", {"coeff": 0.02}),
        (
            lambda: paddle.optimizer.Lamb(0.1, lamb_weight_decay=0.03),
            "lamb",
            {"weight_decay": 0.03},
        ),
    ],
)
def test_a_rule_and_its_numbers_are_read(
    compilation_of: Read, make: Callable[[], Any], rule: str, settings: dict[str, float]
) -> None:
    found = _extracted(compilation_of, make())
    assert len(found.updates) == 2
    for update in found.updates:
        assert update.rule == rule
        assert {n: update.settings[n] for n in settings} == pytest.approx(settings)
    assert found.clips == ()


def test_l2_decay_is_read_from_the_gradients(compilation_of: Read) -> None:
    decay = paddle.regularizer.L2Decay(0.25)
    found = _extracted(compilation_of, paddle.optimizer.Adam(0.1, weight_decay=decay))
    assert [update.l2 for update in found.updates] == pytest.approx([0.25, 0.25])


@pytest.mark.parametrize(
    ("clip", "expected"),
    [
        (lambda: paddle.nn.ClipGradByGlobalNorm(1.5), (Clip("global_norm", 1.5),)),
        (lambda: paddle.nn.ClipGradByNorm(2.0), (Clip("norm", 2.0),)),
    ],
)
def test_a_clip_is_read_from_the_gradients(
    compilation_of: Read, clip: Callable[[], Any], expected: tuple[Clip, ...]
) -> None:
    found = _extracted(compilation_of, paddle.optimizer.SGD(0.1, grad_clip=clip()))
    assert found.clips == expected
    assert [update.clip for update in found.updates] == [0, 0]


def test_gradients_are_known_by_the_name_they_are_fetched_by(compilation_of: Read) -> None:
    found = _extracted(compilation_of, paddle.optimizer.SGD(0.1))
    assert sorted(found.gradients.values()) == sorted(u.parameter for u in found.updates)


def test_inference_leaves_everything(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    compilation = compilation_of(["x"], [paddle.tanh(x)], is_training=False)
    assert not ExtractOptimizer().run(compilation)
    assert compilation.optimizer is None


def test_training_without_an_optimizer_is_an_error(compilation_of: Read) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    compilation = compilation_of(["x"], [paddle.tanh(x)], is_training=True)
    with pytest.raises(
        InvalidProgramError,
        match="no optimizer: call.* no parameter behind the loss",
    ):
        ExtractOptimizer().run(compilation)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda g, p: g * 0.5, "scale"),
        (lambda g, p: g * g, "multiply"),
        (lambda g, p: paddle.sign(g), "sign"),
        (lambda g, p: paddle.add_n([g, p * p]), "multiply"),
        (lambda g, p: paddle.add_n([g, g]), "add_n"),
    ],
)
def test_a_gradient_changed_by_hand_is_refused(
    compilation_of: Read, change: Callable[[Any, Any], Any], what: str
) -> None:
    x = paddle.static.data("x", [2, 3], "float32")
    loss = (paddle.nn.Linear(3, 1)(x) ** 2).mean()
    pairs = paddle.static.append_backward(loss)
    paddle.optimizer.SGD(0.1).apply_gradients([(p, change(g, p)) for p, g in pairs])
    compilation = compilation_of(["x"], [loss], is_training=True)
    with pytest.raises(
        NotSupported,
        match=rf"the gradient of linear_.* is changed by {what} at .*test_extract_optimizer.py:"
        r"\d+ before the optimizer reads it.* Clips and regularizers that are given to the ",
    ):
        ExtractOptimizer().run(compilation)


@pytest.mark.parametrize(
    "forward",
    [
        lambda w: (w * 0.5).sum(),
        lambda w: (w * 0.5 * 0.5).sum() + (w * 0.5 * w).sum(),
        # Nothing of the product by a half reaches the loss, or no gradient of it.
        lambda w: (w * w).sum() + paddle.zeros_like(w * 0.5).sum(),
        lambda w: (w * w).sum() + (w * 0.5).detach().sum(),
        lambda w: (paddle.split(w * 0.5, 2, axis=0)[1] * 0.5).sum(),
    ],
)
def test_a_change_that_forward_has_too_is_refused(
    compilation_of: Read, forward: Callable[[Any], Any]
) -> None:
    weight = paddle.create_parameter([4, 8], "float32")
    loss = forward(weight)
    pairs = paddle.static.append_backward(loss)
    paddle.optimizer.SGD(0.1).apply_gradients([(p, g * 0.5) for p, g in pairs])
    compilation = compilation_of([], [loss], is_training=True)
    with pytest.raises(NotSupported, match="the gradient of .* is changed by scale at "):
        ExtractOptimizer().run(compilation)


@pytest.mark.parametrize(
    "forward",
    [
        lambda w: (w * 0.5 * 0.5).sum() + (w * 0.5 * w).sum(),
        lambda w: paddle.split(w * 0.5, 2, axis=0)[1] * 0.5,
        lambda w: paddle.assign(w) * 3.0,
        lambda w: w * 2.0 + 1.0,
        lambda w: -w,
        lambda w: w.astype("float64").astype("float32"),
        lambda w: paddle.split(w, 2, axis=0)[0],
        lambda w: paddle.split(w, [1, 3], axis=0)[1],
        lambda w: paddle.unbind(w, 0)[1],
        lambda w: paddle.assign(w),
        lambda w: paddle.add_n([w, w.abs()]),
        lambda w: paddle.flip(w, [0]),
        lambda w: paddle.sign(w),
        lambda w: -w + w * w,
    ],
)
def test_gradients_that_look_like_forward_operators_are_read(
    compilation_of: Read, forward: Callable[[Any], Any]
) -> None:
    weight = paddle.create_parameter([4, 8], "float32")
    loss = forward(weight).sum()
    paddle.optimizer.SGD(0.1).minimize(loss)
    compilation = compilation_of([], [loss], is_training=True)
    ExtractOptimizer().run(compilation)
    assert compilation.optimizer is not None
    assert [update.parameter for update in compilation.optimizer.updates] == [weight.name]


def test_backward_from_another_seed_than_one_is_refused(compilation_of: Read) -> None:
    weight = paddle.create_parameter([4, 8], "float32")
    loss = (weight * weight).sum()
    (gradient,) = paddle.static.gradients([loss], [weight], [paddle.full_like(loss, 3.0)])
    paddle.optimizer.SGD(0.1).apply_gradients([(weight, gradient)])
    compilation = compilation_of([], [loss], is_training=True)
    with pytest.raises(InvalidProgramError, match="training needs exactly one loss, found none"):
        ExtractOptimizer().run(compilation)
