"""Cases of random operators: what they draw follows the distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import paddle
from scipy import stats

from tests.operators.cases.one_operator import call
from tests.operators.operator_case import Array, CaseTable, Since, integers

TABLE = CaseTable()
_add = TABLE.add

MANY = [64, 64]
SURELY_NOT = 1e-8
"""A test fails by chance less often than this."""


def _x(*shape: int, value: float = 0.0) -> Array:
    return np.full(shape or MANY, value, np.float32)


def follows(output: Array, distribution: Any, dtype: str = "float32") -> None:
    """Kolmogorov and Smirnov's test of a continuous distribution."""
    assert output.dtype == dtype
    assert stats.kstest(output.reshape(-1), distribution.cdf).pvalue > SURELY_NOT


def counts(output: Array, probabilities: Sequence[float], first: int = 0) -> None:
    """Pearson's test of how often each whole number from `first` on was drawn."""
    found = np.bincount(output.reshape(-1).astype(np.int64) - first, minlength=len(probabilities))
    assert found.size == len(probabilities), f"drawn: {np.unique(output)}"
    expected = np.asarray(probabilities) / np.sum(probabilities) * output.size
    assert not found[expected == 0].any()
    few = expected > 0
    assert stats.chisquare(found[few], expected[few]).pvalue > SURELY_NOT


def _each(*distributions: Any, wide: int = -1) -> Callable[[Sequence[Array]], None]:
    """Each output follows its distribution; output `wide` is float64."""

    def check(outputs: Sequence[Array]) -> None:
        for at, (output, distribution) in enumerate(zip(outputs, distributions, strict=True)):
            follows(output, distribution, "float64" if at == wide else "float32")
        for at, output in enumerate(outputs[1:]):
            assert not np.array_equal(output, outputs[at]), "two draws are the same"

    return check


_SEEDED = "its seed makes Paddle repeat the same numbers; they are others here"

# Continuous distributions.
_add(
    "gaussian",
    lambda: [
        paddle.randn(MANY),
        paddle.normal(1.0, 2.0, MANY),
        paddle.tensor.random.gaussian(MANY, 1.0, 0.5, seed=7),
        paddle.tensor.random.gaussian(MANY, 1.0, 0.5, seed=8),
        paddle.normal(paddle.full(MANY, 2.0), paddle.full(MANY, 3.0)),
        paddle.randn(MANY, dtype="float64"),
    ],
    limitation=_SEEDED,
    check=_each(
        stats.norm(),
        stats.norm(1, 2),
        stats.norm(1, 0.5),
        stats.norm(1, 0.5),
        stats.norm(2, 3),
        stats.norm(),
        wide=5,
    ),
)


def _repeats(outputs: Sequence[Array]) -> None:
    np.testing.assert_array_equal(outputs[0], outputs[1])
    assert (outputs[0] != outputs[2]).all()


_add(
    "gaussian",
    lambda: [paddle.tensor.random.gaussian([8], seed=seed) for seed in (7, 7, 8)],
    label="one seed, one draw",
    check=_repeats,
)
_add(
    "uniform",
    lambda: [paddle.uniform([8], min=-1.0, max=1.0, seed=seed) for seed in (7, 7, 8)],
    label="one seed, one draw",
    check=_repeats,
)


def _scalars(outputs: Sequence[Array]) -> None:
    assert [output.shape for output in outputs] == [(), (0, 3)]
    assert np.isfinite(outputs[0])


_add("gaussian", lambda: [paddle.randn([]), paddle.randn([0, 3])], label="small", check=_scalars)
_add(
    "uniform",
    lambda: [
        paddle.rand(MANY),
        paddle.uniform(MANY, min=-1.0, max=1.0),
        paddle.uniform(MANY, min=2.0, max=5.0, seed=3),
        paddle.rand(MANY, dtype="float64"),
    ],
    limitation=_SEEDED,
    check=_each(
        stats.uniform(), stats.uniform(-1, 2), stats.uniform(2, 3), stats.uniform(), wide=3
    ),
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
    check=_each(stats.norm(), stats.norm(2, 0.5), stats.norm(2, 0.5)),
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
    check=_each(stats.uniform(-1, 2), stats.uniform(2, 3), stats.uniform(2, 3)),
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
        paddle.tensor.random.uniform_random_batch_size_like(x, [-1, 64], dtype="float64"),
    ],
    limitation=_SEEDED,
    check=_each(stats.uniform(2, 1), stats.uniform(-1, 2), stats.uniform(-1, 2), wide=2),
    x=_x(),
)


def _truncated(
    mean: float,
    std: float,
    seed: int,
    low: float,
    high: float,
    shape: Sequence[int] = MANY,
    dtype: Any = paddle.float32,
) -> Any:
    return call(
        "truncated_gaussian_random",
        [shape, mean, std, seed, low, high, dtype, paddle.CPUPlace()],
        {},
        {"Out": dtype},
        shape=shape, mean=mean, std=std, seed=seed, dtype=5 if dtype == paddle.float32 else 6,
    )[0]  # fmt: skip


_add(
    "truncated_gaussian_random",
    lambda: [
        _truncated(0.0, 1.0, 0, -2.0, 2.0),
        _truncated(1.0, 3.0, 5, -5.0, 7.0),
        _truncated(0.0, 1.0, 0, -2.0, 2.0, [2, *MANY], paddle.float64),
    ],
    limitation=_SEEDED,
    check=_each(
        stats.truncnorm(-2, 2), stats.truncnorm(-2, 2, 1, 3), stats.truncnorm(-2, 2), wide=2
    ),
)
_add(
    "truncated_gaussian_random",
    lambda: _truncated(1.0, 2.0, 0, 0.0, 2.0),
    label="bounds",
    since=Since("3.0", "the operator has no bounds"),
    check=_each(stats.truncnorm(-0.5, 0.5, 1, 2)),
)
_add(
    "exponential",
    lambda x: [
        paddle.tensor.random.exponential_(paddle.assign(x)),
        paddle.tensor.random.exponential_(paddle.assign(x), lam=4.0),
    ],
    check=_each(stats.expon(), stats.expon(scale=0.25)),
    x=_x(),
)
_add(
    "exponential",
    lambda x: paddle.tensor.random.exponential_(paddle.assign(x), lam=0.0),
    label="of rate 0",
    check=lambda outputs: np.testing.assert_array_equal(outputs[0], np.inf),
    x=_x(),
)
_add(
    "standard_gamma",
    lambda a, b: [paddle.standard_gamma(a), paddle.standard_gamma(b)],
    since=Since("3.0", "the function does not exist"),
    check=_each(stats.gamma(2.5), stats.gamma(0.3)),
    a=_x(value=2.5),
    b=_x(value=0.3),
)


def _dirichlet(outputs: Sequence[Array]) -> None:
    (drawn,) = outputs
    np.testing.assert_allclose(drawn.sum(-1), 1.0, rtol=1e-5)
    for at, alpha in enumerate((0.5, 1.0, 2.5)):
        follows(drawn[:, at], stats.beta(alpha, 4.0 - alpha))


_add(
    "dirichlet",
    lambda a: (
        paddle._C_ops.dirichlet(a)
        if paddle.framework.in_pir_mode()
        else call("dirichlet", [], {"Alpha": a}, {"Out": a.dtype})[0]
    ),
    check=_dirichlet,
    a=np.tile(np.asarray([0.5, 1.0, 2.5], np.float32), (2000, 1)),
)

# Counts and choices.


def _integers(outputs: Sequence[Array]) -> None:
    assert [str(output.dtype) for output in outputs] == ["int64", "int32", "int64"]
    counts(outputs[0], [1, 1, 1, 1, 1], first=2)
    counts(outputs[1], [1, 1, 1])
    assert outputs[2].min() < -1_500_000_000 and outputs[2].max() > 1_500_000_000


_add(
    "randint",
    lambda: [
        paddle.randint(2, 7, MANY),
        paddle.randint(3, shape=MANY, dtype="int32"),
        paddle.randint(-(2**31), 2**31 - 1, MANY),
    ],
    check=_integers,
)


TABLE.refuse(
    "randint",
    lambda: paddle.sum(paddle.randint(2, 7, [3, -1])),
    "sizes that are not known",
)


def _random(outputs: Sequence[Array]) -> None:
    assert [str(output.dtype) for output in outputs] == ["float32", "int64"]
    counts(outputs[0], [1, 1, 1], first=2)
    counts(outputs[1], [1, 1, 1, 1], first=-2)


_add(
    "random",
    lambda x, n: [
        paddle._C_ops.random_(paddle.assign(x), 2, 5),
        paddle._C_ops.random_(paddle.assign(n), -2, 2),
    ],
    since=Since("3.3", "the operator does not exist"),
    check=_random,
    x=_x(),
    n=integers(*MANY),
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
    check=_permutations,
)


def _bernoulli(outputs: Sequence[Array]) -> None:
    drawn, bounds = outputs
    assert str(drawn.dtype) == "float32"
    counts(drawn, [0.7, 0.3])
    np.testing.assert_array_equal(bounds, [0.0, 1.0])


_add(
    "bernoulli",
    lambda x, b: [paddle.bernoulli(x), paddle.bernoulli(b)],
    check=_bernoulli,
    x=_x(value=0.3),
    b=np.asarray([0.0, 1.0], np.float32),
)


def _binomial(outputs: Sequence[Array]) -> None:
    few, many = outputs
    assert str(few.dtype) == "int64"
    counts(few, stats.binom(5, 0.3).pmf(np.arange(6)).tolist())
    assert abs(many.mean() - 700) < 5 and abs(many.var() - 210) < 30


_add(
    "binomial",
    lambda n, m, p, q: [paddle.binomial(n, p), paddle.binomial(m, q)],
    since=Since("3.0", "the function does not exist"),
    check=_binomial,
    n=np.full(MANY, 5, np.int32),
    m=np.full(MANY, 1000, np.int32),
    p=_x(value=0.3),
    q=_x(value=0.7),
)


def _multinomial(outputs: Sequence[Array]) -> None:
    again, without, one = outputs
    assert [str(output.dtype) for output in outputs] == ["int64"] * 3
    assert again.shape == (2, 2000) and without.shape == (3000, 3) and one.shape == (1,)
    counts(again[0], [0.1, 0.2, 0.7])
    counts(again[1], [0.5, 0.5, 0.0])
    for row in without:
        assert len(set(row)) == 3 and 3 not in row
    counts(without[:, 0], [0.1, 0.2, 0.6, 0.0, 0.1])
    # The second, given the first: the first's weight is gone.
    after = without[without[:, 0] == 2][:, 1]
    counts(after, [0.1, 0.2, 0.0, 0.0, 0.1])


_add(
    "multinomial",
    lambda p, q: [
        paddle.multinomial(p, 2000, replacement=True),
        paddle.multinomial(q, 3),
        paddle.multinomial(q[0]),
    ],
    check=_multinomial,
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
    counts(np.minimum(outputs[0], 6), [*head, 1 - sum(head)])
    assert abs(outputs[1].mean() - 80) < 2 and abs(outputs[1].var() - 80) < 12
    assert not outputs[2].any()


_add(
    "poisson",
    lambda x, y, z: [paddle.poisson(x), paddle.poisson(y), paddle.poisson(z)],
    check=_poisson,
    x=_x(value=1.5),
    y=_x(value=80.0),
    z=_x(3),
)
