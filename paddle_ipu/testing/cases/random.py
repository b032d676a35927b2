"""Cases of random operators: what they draw follows the distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812 - Paddle's own convention
from scipy import stats

from paddle_ipu.testing.cases.one_operator import operator
from paddle_ipu.testing.cases.operator_calls import call
from paddle_ipu.testing.operator_case import Array, CaseTable, Since, integers, normal, uniform

TABLE = CaseTable()
_add = TABLE.add

_MANY = [64, 64]
_SURELY_NOT = 1e-8
"""A test fails by chance less often than this."""


def _x(*shape: int, value: float = 0.0) -> Array:
    return np.full(shape or _MANY, value, np.float32)


def _follows(output: Array, distribution: Any) -> None:
    """Kolmogorov and Smirnov's test of a continuous distribution."""
    assert output.dtype == np.float32
    assert stats.kstest(output.reshape(-1), distribution.cdf).pvalue > _SURELY_NOT


def _counts(output: Array, probabilities: Sequence[float], first: int = 0) -> None:
    """Pearson's test of how often each whole number from `first` on was drawn."""
    found = np.bincount(output.reshape(-1).astype(np.int64) - first, minlength=len(probabilities))
    assert found.size == len(probabilities), f"drawn: {np.unique(output)}"
    expected = np.asarray(probabilities) / np.sum(probabilities) * output.size
    assert not found[expected == 0].any()
    few = expected > 0
    assert stats.chisquare(found[few], expected[few]).pvalue > _SURELY_NOT


def _each(*distributions: Any) -> Callable[[Sequence[Array]], None]:
    """Each output follows its distribution."""

    def judge(outputs: Sequence[Array]) -> None:
        for output, distribution in zip(outputs, distributions, strict=True):
            _follows(output, distribution)
        for at, output in enumerate(outputs[1:]):
            assert not np.array_equal(output, outputs[at]), "two draws are the same"

    return judge


_SEEDED = "its seed makes Paddle repeat the same numbers; they are others here"

# Continuous distributions.
_add(
    "gaussian",
    lambda: [
        paddle.randn(_MANY),
        paddle.normal(1.0, 2.0, _MANY),
        paddle.tensor.random.gaussian(_MANY, 1.0, 0.5, seed=7),
        paddle.tensor.random.gaussian(_MANY, 1.0, 0.5, seed=8),
        paddle.normal(paddle.full(_MANY, 2.0), paddle.full(_MANY, 3.0)),
    ],
    limitation=_SEEDED,
    judge=_each(
        stats.norm(), stats.norm(1, 2), stats.norm(1, 0.5), stats.norm(1, 0.5), stats.norm(2, 3)
    ),
)


def _repeats_somewhere(outputs: Sequence[Array]) -> None:
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).any()


def _repeats(outputs: Sequence[Array]) -> None:
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).all()


_add(
    "gaussian",
    lambda: [paddle.tensor.random.gaussian([8], seed=seed) for seed in (7, 7, 8)],
    label="one seed, one draw",
    judge=_repeats,
)
_add(
    "uniform",
    lambda: [paddle.uniform([8], seed=seed) for seed in (7, 7, 8)],
    label="one seed, one draw",
    judge=_repeats,
)


def _scalars(outputs: Sequence[Array]) -> None:
    assert [output.shape for output in outputs] == [(), (0, 3)]
    assert np.isfinite(outputs[0])


_add("gaussian", lambda: [paddle.randn([]), paddle.randn([0, 3])], label="small", judge=_scalars)
_add(
    "uniform",
    lambda: [
        paddle.rand(_MANY),
        paddle.uniform(_MANY, min=-1.0, max=1.0),
        paddle.uniform(_MANY, min=2.0, max=5.0, seed=3),
    ],
    limitation=_SEEDED,
    judge=_each(stats.uniform(), stats.uniform(-1, 2), stats.uniform(2, 3)),
)
_add(
    "gaussian_inplace",
    lambda x: [
        call(
            "gaussian_inplace_",
            [paddle.assign(x), *given],
            {"x": paddle.assign(x)},
            {"out": x.dtype},
            "gaussian_inplace",
            mean=given[0],
            std=given[1],
            seed=given[2],
        )[0]
        for given in ((0.0, 1.0, 0), (2.0, 0.5, 0), (2.0, 0.5, 9))
    ],
    limitation=_SEEDED,
    judge=_each(stats.norm(), stats.norm(2, 0.5), stats.norm(2, 0.5)),
    x=_x(),
)
_add(
    "uniform_inplace",
    lambda x: [
        call(
            "uniform_inplace_",
            [paddle.assign(x), *given, 0, 0, 1.0],
            {"X": paddle.assign(x)},
            {"Out": x.dtype},
            "uniform_random_inplace",
            min=given[0],
            max=given[1],
            seed=given[2],
        )[0]
        for given in ((-1.0, 1.0, 0), (2.0, 5.0, 0), (2.0, 5.0, 9))
    ],
    limitation=_SEEDED,
    judge=_each(stats.uniform(-1, 2), stats.uniform(2, 3), stats.uniform(2, 3)),
    x=_x(),
)
TABLE.refuse(
    "uniform_inplace",
    lambda x: call(
        "uniform_inplace_",
        [paddle.assign(x), -1.0, 1.0, 0, 2, 1, 1.0],
        {"X": paddle.assign(x)},
        {"Out": x.dtype},
        "uniform_random_inplace",
        diag_num=2,
    ),
    "diag_num is not supported",
    x=_x(4, 4),
)
_add(
    "uniform_random_batch_size_like",
    lambda x: [
        paddle.tensor.random.uniform_random_batch_size_like(x, [-1, 64], min=2.0, max=3.0),
        paddle.tensor.random.uniform_random_batch_size_like(
            x, [64, 1], input_dim_idx=1, output_dim_idx=1, seed=4
        ),
    ],
    limitation=_SEEDED,
    judge=_each(stats.uniform(2, 1), stats.uniform(-1, 2)),
    x=_x(),
)


def _truncated(mean: float, std: float, seed: int, low: float, high: float) -> Any:
    return call(
        "truncated_gaussian_random",
        [_MANY, mean, std, seed, low, high, paddle.float32, paddle.CPUPlace()],
        {},
        {"Out": "float32"},
        shape=_MANY, mean=mean, std=std, seed=seed, dtype=5,
    )[0]  # fmt: skip


_add(
    "truncated_gaussian_random",
    lambda: [_truncated(0.0, 1.0, 0, -2.0, 2.0), _truncated(1.0, 3.0, 5, -5.0, 7.0)],
    limitation=_SEEDED,
    judge=_each(stats.truncnorm(-2, 2), stats.truncnorm(-2, 2, 1, 3)),
)
_add(
    "truncated_gaussian_random",
    lambda: _truncated(1.0, 2.0, 0, 0.0, 2.0),
    label="bounds",
    since=Since("3.0", "the operator has no bounds"),
    judge=_each(stats.truncnorm(-0.5, 0.5, 1, 2)),
)
_add(
    "exponential",
    lambda x: [
        paddle.tensor.random.exponential_(paddle.assign(x)),
        paddle.tensor.random.exponential_(paddle.assign(x), lam=4.0),
    ],
    judge=_each(stats.expon(), stats.expon(scale=0.25)),
    x=_x(),
)
_add(
    "standard_gamma",
    lambda a, b: [paddle.standard_gamma(a), paddle.standard_gamma(b)],
    since=Since("3.0", "the function does not exist"),
    judge=_each(stats.gamma(2.5), stats.gamma(0.3)),
    a=_x(value=2.5),
    b=_x(value=0.3),
)


def _dirichlet(outputs: Sequence[Array]) -> None:
    (drawn,) = outputs
    np.testing.assert_allclose(drawn.sum(-1), 1.0, rtol=1e-5)
    for at, alpha in enumerate((0.5, 1.0, 2.5)):
        _follows(drawn[:, at], stats.beta(alpha, 4.0 - alpha))


_add(
    "dirichlet",
    lambda a: (
        paddle._C_ops.dirichlet(a)
        if paddle.framework.in_pir_mode()
        else call("dirichlet", [], {"Alpha": a}, {"Out": a.dtype})[0]
    ),
    judge=_dirichlet,
    a=np.tile(np.asarray([0.5, 1.0, 2.5], np.float32), (2000, 1)),
)

# Counts and choices.


def _integers(outputs: Sequence[Array]) -> None:
    assert [str(output.dtype) for output in outputs] == ["int64", "int32", "int64"]
    _counts(outputs[0], [1, 1, 1, 1, 1], first=2)
    _counts(outputs[1], [1, 1, 1])
    assert outputs[2].min() < -1_500_000_000 and outputs[2].max() > 1_500_000_000


_add(
    "randint",
    lambda: [
        paddle.randint(2, 7, _MANY),
        paddle.randint(3, shape=_MANY, dtype="int32"),
        paddle.randint(-(2**31), 2**31 - 1, _MANY),
    ],
    judge=_integers,
)


def _random(outputs: Sequence[Array]) -> None:
    assert [str(output.dtype) for output in outputs] == ["float32", "int64"]
    _counts(outputs[0], [1, 1, 1], first=2)
    _counts(outputs[1], [1, 1, 1, 1], first=-2)


_add(
    "random",
    lambda x, n: [
        paddle._C_ops.random_(paddle.assign(x), 2, 5),
        paddle._C_ops.random_(paddle.assign(n), -2, 2),
    ],
    since=Since("3.3", "the operator does not exist"),
    judge=_random,
    x=_x(),
    n=integers(*_MANY),
)
TABLE.refuse(
    "random",
    lambda n: paddle._C_ops.random_(paddle.assign(n), 0, 2**40),
    "do not fit the device's 32 bits",
    since=Since("3.3", "the operator does not exist"),
    n=integers(2, 2),
)


def _permutations(outputs: Sequence[Array]) -> None:
    assert [str(output.dtype) for output in outputs] == ["int64", "int32", "float32"]
    for output in outputs:
        np.testing.assert_array_equal(np.sort(output), np.arange(output.size))
    assert (outputs[0] != np.arange(500)).sum() > 400


_add(
    "randperm",
    lambda: [paddle.randperm(500), paddle.randperm(5, "int32"), paddle.randperm(5, "float32")],
    judge=_permutations,
)


def _bernoulli(outputs: Sequence[Array]) -> None:
    drawn, bounds = outputs
    assert str(drawn.dtype) == "float32"
    _counts(drawn, [0.7, 0.3])
    np.testing.assert_array_equal(bounds, [0.0, 1.0])


_add(
    "bernoulli",
    lambda x, b: [paddle.bernoulli(x), paddle.bernoulli(b)],
    judge=_bernoulli,
    x=_x(value=0.3),
    b=np.asarray([0.0, 1.0], np.float32),
)


def _binomial(outputs: Sequence[Array]) -> None:
    few, many = outputs
    assert str(few.dtype) == "int64"
    _counts(few, stats.binom(5, 0.3).pmf(np.arange(6)).tolist())
    assert abs(many.mean() - 700) < 5 and abs(many.var() - 210) < 30


_add(
    "binomial",
    lambda n, m, p, q: [paddle.binomial(n, p), paddle.binomial(m, q)],
    since=Since("3.0", "the function does not exist"),
    judge=_binomial,
    n=np.full(_MANY, 5, np.int32),
    m=np.full(_MANY, 1000, np.int32),
    p=_x(value=0.3),
    q=_x(value=0.7),
)


def _multinomial(outputs: Sequence[Array]) -> None:
    again, without, one = outputs
    assert [str(output.dtype) for output in outputs] == ["int64"] * 3
    assert again.shape == (2, 2000) and without.shape == (3000, 3) and one.shape == (1,)
    _counts(again[0], [0.1, 0.2, 0.7])
    _counts(again[1], [0.5, 0.5, 0.0])
    for row in without:
        assert len(set(row)) == 3 and 3 not in row
    _counts(without[:, 0], [0.1, 0.2, 0.6, 0.0, 0.1])
    # The second, given the first: the first's weight is gone.
    after = without[without[:, 0] == 2][:, 1]
    _counts(after, [0.1, 0.2, 0.0, 0.0, 0.1])


_add(
    "multinomial",
    lambda p, q: [
        paddle.multinomial(p, 2000, replacement=True),
        paddle.multinomial(q, 3),
        paddle.multinomial(q[0]),
    ],
    judge=_multinomial,
    p=np.asarray([[1, 2, 7], [5, 5, 0]], np.float32),
    q=np.tile(np.asarray([1, 2, 6, 0, 1], np.float32), (3000, 1)),
)
TABLE.refuse(
    "multinomial",
    lambda p: call("multinomial", [p, 4, False], {"X": p}, {"Out": "int64"}, num_samples=4)[0],
    "4 samples of 3 categories need replacement=True",
    since=Since("3.0", "Paddle itself refuses it"),
    p=np.asarray([1, 2, 7], np.float32),
)


def _poisson(outputs: Sequence[Array]) -> None:
    assert str(outputs[0].dtype) == "float32"
    head = stats.poisson(1.5).pmf(np.arange(6)).tolist()
    _counts(np.minimum(outputs[0], 6), [*head, 1 - sum(head)])
    assert abs(outputs[1].mean() - 80) < 2 and abs(outputs[1].var() - 80) < 12
    assert not outputs[2].any()


_add(
    "poisson",
    lambda x, y, z: [paddle.poisson(x), paddle.poisson(y), paddle.poisson(z)],
    judge=_poisson,
    x=_x(value=1.5),
    y=_x(value=80.0),
    z=_x(3),
)

# Layers.


def _cotangent(shape: Sequence[int]) -> Array:
    """The weight of the first output in the loss of a case."""
    return np.random.default_rng(7).uniform(0.5, 2.0, shape).astype(np.float32)


def _rrelu(x: Array) -> Callable[[Sequence[Array]], None]:
    def judge(outputs: Sequence[Array]) -> None:
        out, gradient = outputs
        negative = x < 0
        np.testing.assert_array_equal(out[~negative], x[~negative])
        factor = out[negative] / x[negative]
        _follows(factor, stats.uniform(0.1, 0.3))
        weight = _cotangent(x.shape)
        np.testing.assert_allclose(gradient[~negative], weight[~negative])
        np.testing.assert_allclose(gradient[negative], (weight[negative] * factor), rtol=1e-5)

    return judge


_add(
    "rrelu",
    lambda x: F.rrelu(x, 0.1, 0.4, training=True),
    gradient="x",
    label="training",
    judge=_rrelu(normal(*_MANY)),
    x=normal(*_MANY),
)
_add(
    "rrelu",
    lambda x: F.rrelu(x, 0.1, 0.4, training=False),
    gradient="x",
    x=np.asarray([-2.0, -1.0, 0.0, -0.0, 1.0], np.float32),
)


def _gumbel(x: Array, temperature: float) -> Callable[[Sequence[Array]], None]:
    def judge(outputs: Sequence[Array]) -> None:
        soft, hard, columns, gradient = outputs
        np.testing.assert_allclose(soft.sum(1), 1.0, rtol=1e-5)
        weights = np.exp(x[0]) / np.exp(x[0]).sum()
        _counts(soft.argmax(1), weights.tolist())
        _counts(hard.argmax(1), weights.tolist())
        np.testing.assert_allclose(np.sort(hard, axis=1), np.eye(4)[-1:] * np.ones_like(hard),
                                   atol=1e-6)  # fmt: skip
        np.testing.assert_allclose(columns.sum(0), 1.0, rtol=1e-5)
        # log(y_i / y_j) of two classes is logistic, times the temperature.
        difference = (np.log(soft[:, 0]) - np.log(soft[:, 1])) * temperature
        _follows(difference - (x[0, 0] - x[0, 1]), stats.logistic())
        assert np.isfinite(gradient).all() and np.abs(gradient).min(axis=0).max() > 0

    return judge


_LOGITS = np.tile(np.asarray([0.0, 1.0, -1.0, 0.5], np.float32), (2000, 1))
_add(
    "gumbel_softmax",
    lambda x: [
        F.gumbel_softmax(x, temperature=2.0),
        F.gumbel_softmax(x, hard=True),
        F.gumbel_softmax(x, axis=0),
    ],
    gradient="x",
    judge=_gumbel(_LOGITS, 2.0),
    x=_LOGITS,
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
    gradient="x",
    label="gradient",
    judge=_gumbel_gradient,
    x=_LOGITS[:20],
)


def _centers(labels: Array) -> Callable[[Sequence[Array]], None]:
    def judge(outputs: Sequence[Array]) -> None:
        remapped, sampled = outputs
        assert remapped.dtype == sampled.dtype == labels.dtype and sampled.shape == (8,)
        assert len(set(sampled)) == 8 and sampled.min() >= 0 and sampled.max() < 20
        np.testing.assert_array_equal(sampled[remapped], labels)
        positive = np.unique(labels)
        np.testing.assert_array_equal(sampled[: positive.size], positive)

    return judge


_CLASSES = np.asarray([11, 5, 1, 3, 12, 5], np.int64)
_add(
    "class_center_sample",
    lambda label: F.class_center_sample(label, 20, 8),
    judge=_centers(_CLASSES),
    label_=_CLASSES,
)
TABLE.refuse(
    "class_center_sample",
    lambda label: F.class_center_sample(label, 20, 4),
    "6 labels may be of more classes than num_samples=4",
    label_=_CLASSES,
)


def _shuffled(x: Array) -> Callable[[Sequence[Array]], None]:
    def judge(outputs: Sequence[Array]) -> None:
        out, order, seed, again, other, gradient = outputs
        np.testing.assert_array_equal(np.sort(order.reshape(-1)), np.arange(60))
        assert (order.reshape(-1) != np.arange(60)).sum() > 40
        np.testing.assert_array_equal(out.reshape(60, 3), x.reshape(60, 3)[order.reshape(-1)])
        np.testing.assert_array_equal(order, again)
        assert (order != other).any() and (seed != 7).all()
        expected = np.zeros((60, 3), np.float32)
        expected[order.reshape(-1)] = _cotangent(x.shape).reshape(60, 3)
        np.testing.assert_allclose(gradient.reshape(60, 3), expected)

    return judge


def _shuffle(x: Any, seed: Any) -> list[Any]:
    out, order, following = call(
        "shuffle_batch",
        [x, seed, 0],
        {"X": x, "Seed": seed},
        {"Out": "float32", "ShuffleIdx": "int64", "SeedOut": "int64"},
    )
    return [out.reshape([4, 15, 3]), order.cast("int64"), following.cast("int64")]


_add(
    "shuffle_batch",
    lambda x, s: [*_shuffle(x, s), _shuffle(x, s)[1], _shuffle(x, s + 1)[1]],
    gradient="x",
    judge=_shuffled(normal(4, 15, 3)),
    x=normal(4, 15, 3),
    s=np.asarray([7]),
)


def _top_p(outputs: Sequence[Array]) -> None:
    scores, ids = outputs
    assert scores.dtype == np.float32 and ids.dtype == np.int64 and ids.shape == (3000, 1)
    weights = np.asarray([0.1, 0.4, 0.2, 0.3], np.float32)
    np.testing.assert_allclose(scores, weights[ids])
    # The first reach 0.5 with 0.4 and a third of 0.3.
    _counts(ids, [0.0, 0.4, 0.0, 0.1])


def _sample(x: Any, p: Any, **more: Any) -> list[Any]:
    return operator("top_p_sampling", {"x": x, "ps": p, **more}, "out ids", shape=[3000, 1])


_NUCLEUS: dict[str, Any] = {
    "x": np.tile(np.asarray([0.1, 0.4, 0.2, 0.3], np.float32), (3000, 1)),
    "p": np.full((3000, 1), 0.5, np.float32),
}
_add("top_p_sampling", _sample, judge=_top_p, gpu_only=True, **_NUCLEUS)
_add(
    "top_p_sampling",
    lambda x, p: [_sample(x, p, seed=seed)[1] for seed in (5, 5, 6)],
    label="one seed, one draw",
    gpu_only=True,
    judge=_repeats_somewhere,
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


def _dropout(x: Any, p: float, mode: str) -> list[Any]:
    results = call(
        "dropout",
        [x, None, p, False, mode, 0, False],
        {"X": x},
        {"Out": x.dtype, "Mask": "uint8"},
        dropout_prob=p,
        is_test=False,
        dropout_implementation=mode,
    )
    if paddle.framework.in_pir_mode():
        # Paddle's function keeps the mask to itself.
        return list(results[0].get_defining_op().results())
    return results


def _dropped(x: Array) -> Callable[[Sequence[Array]], None]:
    def judge(outputs: Sequence[Array]) -> None:
        up, mask, down, below, all_, ones, none, zeros, gradient = outputs
        assert [kept.dtype for kept in (mask, below, ones, zeros)] == [np.uint8] * 4
        _counts(mask, [0.25, 0.75])
        np.testing.assert_allclose(up, x * mask / 0.75, rtol=1e-6)
        np.testing.assert_allclose(down, x * below, rtol=1e-6)
        assert (mask != below).any()
        np.testing.assert_array_equal(all_, x)
        assert ones.all() and not none.any() and not zeros.any()
        weights = np.random.default_rng(7)
        first, second, third, _ = (weights.uniform(0.5, 2.0, x.shape) for _ in range(4))
        expected = first * mask / 0.75 + second * below + third
        np.testing.assert_allclose(gradient, expected, rtol=1e-5)

    return judge


_add(
    "dropout",
    lambda x: [
        *_dropout(x, 0.25, "upscale_in_train"),
        *_dropout(x, 0.25, "downgrade_in_infer"),
        *_dropout(x, 0.0, "upscale_in_train"),
        *_dropout(x, 1.0, "upscale_in_train"),
    ],
    gradient="x",
    label="masks",
    judge=_dropped(uniform(*_MANY)),
    x=uniform(*_MANY),
)
