"""Cases of layers and of choices that draw random numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention
from scipy import stats

from tests.operators.cases.one_operator import call, operator
from tests.operators.cases.random import MANY, counts, follows
from tests.operators.operator_case import Array, CaseTable, Since, floats, normal, uniform

TABLE = CaseTable()
_add = TABLE.add


def _repeats_somewhere(outputs: Sequence[Array]) -> None:
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def _cotangent(shape: Sequence[int]) -> Array:
    """The weight of the first output in the loss of a case."""
    return np.random.default_rng(7).uniform(0.5, 2.0, shape).astype(np.float32)


def _rrelu(x: Array) -> Callable[[Sequence[Array]], None]:
    def check(outputs: Sequence[Array]) -> None:
        out, gradient = outputs
        negative = x < 0
        np.testing.assert_array_equal(out[~negative], x[~negative])
        factor = out[negative] / x[negative]
        follows(factor, stats.uniform(0.1, 0.3))
        weight = _cotangent(x.shape)
        np.testing.assert_allclose(gradient[~negative], weight[~negative])
        np.testing.assert_allclose(gradient[negative], (weight[negative] * factor), rtol=1e-5)

    return check


_add(
    "rrelu",
    lambda x: F.rrelu(x, 0.1, 0.4, training=True),
    gradient=("x",),
    label="training",
    check=_rrelu(normal(*MANY)),
    x=normal(*MANY),
)
_add(
    "rrelu",
    lambda x: F.rrelu(x, 0.1, 0.4, training=False),
    gradient=("x",),
    x=np.asarray([-2.0, -1.0, 0.0, -0.0, 1.0], np.float32),
)


def _gumbel(x: Array, temperature: float) -> Callable[[Sequence[Array]], None]:
    def check(outputs: Sequence[Array]) -> None:
        soft, hard, columns, gradient = outputs
        np.testing.assert_allclose(soft.sum(1), 1.0, rtol=1e-5)
        weights = np.exp(x[0]) / np.exp(x[0]).sum()
        counts(soft.argmax(1), weights.tolist())
        counts(hard.argmax(1), weights.tolist())
        np.testing.assert_allclose(np.sort(hard, axis=1), np.eye(4)[-1:] * np.ones_like(hard),
                                   atol=1e-6)  # fmt: skip
        np.testing.assert_allclose(columns.sum(0), 1.0, rtol=1e-5)
        # log(y_i / y_j) of two classes is logistic, times the temperature.
        difference = (np.log(soft[:, 0]) - np.log(soft[:, 1])) * temperature
        follows(difference - (x[0, 0] - x[0, 1]), stats.logistic())
        assert np.isfinite(gradient).all() and np.abs(gradient).min(axis=0).max() > 0

    return check


_LOGITS = np.tile(np.asarray([0.0, 1.0, -1.0, 0.5], np.float32), (2000, 1))
_add(
    "gumbel_softmax",
    lambda x: [
        F.gumbel_softmax(x, temperature=2.0),
        F.gumbel_softmax(x, hard=True),
        F.gumbel_softmax(x, axis=0),
    ],
    gradient=("x",),
    check=_gumbel(_LOGITS, 2.0),
    x=_LOGITS,
)


_add(
    "gumbel_softmax",
    lambda x, y: [
        F.gumbel_softmax(x),
        F.gumbel_softmax(x, hard=True),
        paddle.sum(F.gumbel_softmax(y, hard=True)),
    ],
    label="number and vector",
    since=Since("3.0", "the axis of a single number is refused"),
    check=lambda outputs: np.testing.assert_array_equal(outputs, np.ones(3, np.float32)),
    x=np.asarray(3, np.float32),
    y=floats(1.0, 2.0, 3.0),
)


def _gumbel_gradient(outputs: Sequence[Array]) -> None:
    out, gradient = outputs
    weight = _cotangent(out.shape)
    # Paddle's kernel: the derivative of the softmax, not divided by the temperature.
    expected = out * (weight - (out * weight).sum(-1, keepdims=True))
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


_add(
    "gumbel_softmax",
    lambda x: F.gumbel_softmax(x, temperature=2.0),
    gradient=("x",),
    label="gradient",
    check=_gumbel_gradient,
    x=_LOGITS[:20],
)


def _centers(labels: Array) -> Callable[[Sequence[Array]], None]:
    def check(outputs: Sequence[Array]) -> None:
        remapped, sampled = outputs
        assert remapped.dtype == sampled.dtype == labels.dtype and sampled.shape == (8,)
        assert len(set(sampled)) == 8 and sampled.min() >= 0 and sampled.max() < 20
        np.testing.assert_array_equal(sampled[remapped], labels)
        positive = np.unique(labels)
        np.testing.assert_array_equal(sampled[: positive.size], positive)

    return check


_CLASSES = np.asarray([11, 5, 1, 3, 12, 5], np.int64)
_add(
    "class_center_sample",
    lambda label: F.class_center_sample(label, 20, 8),
    check=_centers(_CLASSES),
    label_=_CLASSES,
)


def _seeded_centers(outputs: Sequence[Array]) -> None:
    sampled = [outputs[at] for at in (1, 3, 5)]
    _centers(_CLASSES)(outputs[:2])
    np.testing.assert_array_equal(sampled[0], sampled[1])
    assert (sampled[0] != sampled[2]).any()


def _centers_by_seed(label: Any, seed: int, classes: int = 20) -> list[Any]:
    return call(
        "class_center_sample",
        [label, classes, 8, 0, 0, 1, True, seed],
        {"Label": label},
        {"RemappedLabel": "int64", "SampledLocalClassCenter": "int64"},
        num_classes=classes,
        num_samples=8,
        fix_seed=True,
        seed=seed,
    )


_add(
    "class_center_sample",
    lambda label: [
        result
        for seed, classes in ((7, 20), (7, 20), (8, 15))
        for result in _centers_by_seed(label, seed, classes)
    ],
    label="one seed, one draw",
    check=_seeded_centers,
    label_=_CLASSES,
)
TABLE.refuse(
    "class_center_sample",
    lambda label: F.class_center_sample(label, 20, 4),
    "6 labels may be of more classes than num_samples=4",
    label_=_CLASSES,
)


def _shuffled(x: Array) -> Callable[[Sequence[Array]], None]:
    def check(outputs: Sequence[Array]) -> None:
        out, order, seed, again, other, gradient = outputs
        np.testing.assert_array_equal(np.sort(order.reshape(-1)), np.arange(60))
        assert (order.reshape(-1) != np.arange(60)).sum() > 40
        np.testing.assert_array_equal(out.reshape(60, 3), x.reshape(60, 3)[order.reshape(-1)])
        np.testing.assert_array_equal(order, again)
        assert (order != other).any() and (seed != 7).all()
        expected = np.zeros((60, 3), np.float32)
        expected[order.reshape(-1)] = _cotangent(x.shape).reshape(60, 3)
        np.testing.assert_allclose(gradient.reshape(60, 3), expected)

    return check


def _shuffle(x: Any, seed: Any, first: int = 0) -> list[Any]:
    out, order, following = call(
        "shuffle_batch",
        [x, seed, first],
        {"X": x, "Seed": seed},
        {"Out": "float32", "ShuffleIdx": "int64", "SeedOut": "int64"},
        startup_seed=first,
    )
    return [out.reshape([4, 15, 3]), order.cast("int64"), following.cast("int64")]


_add(
    "shuffle_batch",
    # A seed for the first time counts only where none is given.
    lambda x, s: [*_shuffle(x, s), _shuffle(x, s, 5)[1], _shuffle(x, s + 1)[1]],
    gradient=("x",),
    check=_shuffled(normal(4, 15, 3)),
    x=normal(4, 15, 3),
    s=np.asarray([7]),
)


def _next_seed(outputs: Sequence[Array]) -> None:
    assert outputs[0].shape == (1,)


_add(
    "shuffle_batch",
    lambda x, s: call(
        "shuffle_batch",
        [x, s, 0],
        {"X": x, "Seed": s},
        {"Out": "float32", "ShuffleIdx": "int64", "SeedOut": "int64"},
        startup_seed=0,
    )[2].cast("int64"),
    label="a seed of two axes",
    check=_next_seed,
    x=normal(4, 15, 3),
    s=np.asarray([[7]]),
)
TABLE.refuse(
    "shuffle_batch",
    _shuffle,
    "its seed must be one number, got shape \\[2\\]",
    x=normal(4, 15, 3),
    s=np.asarray([7, 7]),
)


def _top_p(outputs: Sequence[Array]) -> None:
    scores, ids = outputs
    assert scores.dtype == np.float32 and ids.dtype == np.int64 and ids.shape == (3000, 1)
    weights = np.asarray([0.1, 0.4, 0.2, 0.3], np.float32)
    np.testing.assert_allclose(scores, weights[ids])
    # The first reach 0.5 with 0.4 and a third of 0.3.
    counts(ids, [0.0, 0.4, 0.0, 0.1])


def _sample(x: Any, p: Any, **more: Any) -> list[Any]:
    return operator("top_p_sampling", {"x": x, "ps": p, **more}, ("out", "ids"), shape=[3000, 1])


_NUCLEUS: dict[str, Any] = {
    "x": np.tile(np.asarray([0.1, 0.4, 0.2, 0.3], np.float32), (3000, 1)),
    "p": np.full((3000, 1), 0.5, np.float32),
}
_add("top_p_sampling", _sample, check=_top_p, gpu_only=True, **_NUCLEUS)
_add(
    "top_p_sampling",
    lambda x, p: [_sample(x, p, seed=seed)[1] for seed in (5, 5, 6)],
    label="one seed, one draw",
    gpu_only=True,
    check=_repeats_somewhere,
    **_NUCLEUS,
)
TABLE.refuse(
    "top_p_sampling",
    lambda x, p: _sample(x, p, threshold=p)[0],
    "threshold is not supported",
    gpu_only=True,
    **_NUCLEUS,
)
TABLE.refuse(
    "top_p_sampling",
    lambda x, p: _sample(x, p, k=2)[0],
    "k is not supported",
    since=Since("3.0", "the operator has no k"),
    gpu_only=True,
    **_NUCLEUS,
)


def _dropout(x: Any, p: float, mode: str, seed: int = 0) -> list[Any]:
    results = call(
        "dropout",
        [x, None, p, False, mode, seed, seed != 0],
        {"X": x},
        {"Out": x.dtype, "Mask": "uint8"},
        dropout_prob=p,
        is_test=False,
        dropout_implementation=mode,
        seed=seed,
        fix_seed=seed != 0,
    )
    if paddle.framework.in_pir_mode():
        # Paddle's function keeps the mask to itself.
        return list(results[0].get_defining_op().results())
    return results


def _dropped(x: Array) -> Callable[[Sequence[Array]], None]:
    def check(outputs: Sequence[Array]) -> None:
        up, mask, down, below, all_, ones, none, zeros, gradient = outputs
        assert [kept.dtype for kept in (mask, below, ones, zeros)] == [np.uint8] * 4
        counts(mask, [0.25, 0.75])
        np.testing.assert_allclose(up, x * mask / 0.75, rtol=1e-6)
        np.testing.assert_allclose(down, x * below, rtol=1e-6)
        assert (mask != below).any()
        np.testing.assert_array_equal(all_, x)
        assert ones.all() and not none.any() and not zeros.any()
        weights = np.random.default_rng(7)
        first, second, third, _ = (weights.uniform(0.5, 2.0, x.shape) for _ in range(4))
        expected = first * mask / 0.75 + second * below + third
        np.testing.assert_allclose(gradient, expected, rtol=1e-5)

    return check


def _dropped_anew(outputs: Sequence[Array]) -> None:
    for output in outputs[:2]:
        counts((output != 0).astype(np.uint8), [0.25, 0.75])
    assert ((outputs[0] != 0) != (outputs[1] != 0)).any()


_add(
    "dropout",
    lambda x: [_dropout(x, 0.25, "upscale_in_train", seed=7)[0] for _ in range(2)],
    label="fixed seed",
    gradient=("x",),
    limitation="its seed makes Paddle drop the same elements in every run; here they are others",
    check=_dropped_anew,
    x=np.ones(MANY, np.float32),
)
_add(
    "dropout",
    lambda x: [
        *_dropout(x, 0.25, "upscale_in_train"),
        *_dropout(x, 0.25, "downgrade_in_infer"),
        *_dropout(x, 0.0, "upscale_in_train"),
        *_dropout(x, 1.0, "upscale_in_train"),
    ],
    gradient=("x",),
    label="masks",
    check=_dropped(uniform(*MANY)),
    x=uniform(*MANY),
)
