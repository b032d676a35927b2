"""Translators of random numbers, drawn anew in every micro-batch from the session's seed.

With a seed of its own, Paddle's operator gives the same numbers in every run, and so does the IPU
Model by operators of ``ai.paddle_ipu``; PopART's have no such seed. The numbers themselves differ
from Paddle's, their distribution does not.
"""

from __future__ import annotations

import math

from paddle_ipu.dialect import dialect
from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator
from paddle_ipu.ops.result_types import written_as


def _float_dtype(context: TranslationContext) -> str:
    """The result's dtype.

    Raises:
        NotSupported: it is not float16, bfloat16 or float32.
    """
    dtype = context.output_dtype()
    if dtype not in ("float16", "bfloat16", "float32"):
        raise context.refuse(f"it cannot draw {dtype}; draw float32 and cast the result.")
    return dtype


def _shape(context: TranslationContext) -> list[int]:
    """The attribute or constant operand ``shape``.

    Raises:
        NotSupported: a size is below zero, which Paddle takes for one that it does not know.
    """
    shape = context.ints("shape")
    if min(shape, default=0) < 0:
        raise context.refuse(f"shape {shape} has sizes that are not known; give them.")
    return shape


def normal(
    context: TranslationContext, shape: list[int], mean: float, std: float, seed: int = 0
) -> str:
    """Normal numbers in the dtype of the node's result.

    Args:
        context: of the node.
        shape: the static shape.
        mean: of the distribution.
        std: its standard deviation.
        seed: 0 for the session's.
    """
    dtype = int(dialect.DTYPES[_float_dtype(context)])
    if seed == 0:
        return context.onnx.randomnormal(shape, dtype, mean, std)
    attributes = {"shape": shape, "dtype": dtype, "mean": mean, "scale": std, "seed": seed}
    return context.extension("SeededNormal", [], attributes)[0]


def uniform(
    context: TranslationContext,
    shape: list[int],
    low: float,
    high: float,
    seed: int = 0,
    dtype: str | None = None,
) -> str:
    """Uniform numbers in [low, high).

    Args:
        context: of the node.
        shape: the static shape.
        low: the lower bound.
        high: the upper bound.
        seed: 0 for the session's.
        dtype: by default that of the node's result.
    """
    number = int(dialect.DTYPES[dtype or _float_dtype(context)])
    if seed == 0:
        return context.onnx.randomuniform(shape, number, high, low)
    attributes = {"shape": shape, "dtype": number, "low": low, "high": high, "seed": seed}
    return context.extension("SeededUniform", [], attributes)[0]


def _seed(context: TranslationContext) -> int:
    return int(context.attr("seed", 0))


def _refuse_diagonal(context: TranslationContext) -> None:
    if int(context.attr("diag_num", 0)) != 0:
        raise context.refuse("diag_num is not supported; write the diagonal with paddle.diag.")


@translator(
    "gaussian", emits=("RandomNormal", "paddle_ipu.SeededNormal"), limits="the shape is constant"
)
def gaussian(context: TranslationContext) -> str:
    """Normal numbers with ``mean`` and ``std``."""
    mean, std = float(context.attr("mean", 0.0)), float(context.attr("std", 1.0))
    return normal(context, _shape(context), mean, std, _seed(context))


@translator("gaussian_inplace", emits=("RandomNormal", "paddle_ipu.SeededNormal"))
def gaussian_inplace(context: TranslationContext) -> str:
    """Normal numbers in the shape of x."""
    mean, std = float(context.attr("mean", 0.0)), float(context.attr("std", 1.0))
    return normal(context, context.shape(context.input("x")), mean, std, _seed(context))


@translator(
    "uniform",
    emits=("RandomUniform", "paddle_ipu.SeededUniform"),
    limits="shape and bounds are constant",
)
def uniform_(context: TranslationContext) -> str:
    """Uniform numbers in [min, max)."""
    low, high = context.number("min"), context.number("max")
    return uniform(context, _shape(context), low, high, _seed(context))


@translator(
    "uniform_inplace",
    emits=("RandomUniform", "paddle_ipu.SeededUniform"),
    limits="without a diagonal",
)
def uniform_inplace(context: TranslationContext) -> str:
    """Uniform numbers in [min, max), in the shape of x."""
    _refuse_diagonal(context)
    low, high = float(context.attr("min", -1.0)), float(context.attr("max", 1.0))
    return uniform(context, context.shape(context.input("x")), low, high, _seed(context))


@translator(
    "uniform_random_batch_size_like",
    emits=("RandomUniform", "paddle_ipu.SeededUniform"),
    limits="without a diagonal",
)
def uniform_random_batch_size_like(context: TranslationContext) -> str:
    """Uniform numbers; dimension ``output_dim_idx`` is the input's ``input_dim_idx``."""
    _refuse_diagonal(context)
    shape = context.ints("shape")
    size = context.shape(context.input("input"))[int(context.attr("input_dim_idx", 0))]
    shape[int(context.attr("output_dim_idx", 0))] = size
    low, high = float(context.attr("min", -1.0)), float(context.attr("max", 1.0))
    return uniform(context, shape, low, high, _seed(context))


@translator(
    "truncated_gaussian_random",
    emits=("paddle_ipu.TruncatedNormal",),
)
def truncated_gaussian_random(context: TranslationContext) -> str:
    """Normal numbers truncated to ``a`` and ``b``, by default -2 and 2 (Paddle 2's bounds)."""
    mean, std = float(context.attr("mean", 0.0)), float(context.attr("std", 1.0))
    low, high = float(context.attr("a", -2.0)), float(context.attr("b", 2.0))
    if not (std > 0 and low < high):
        raise context.refuse(
            f"std {std} and the bounds {low} and {high}: std has to be above 0, and a below b."
        )
    attributes = {
        "shape": _shape(context),
        "dtype": int(dialect.DTYPES[_float_dtype(context)]),
        "mean": mean,
        "scale": std,
        "low": low,
        "high": high,
        "seed": _seed(context),
    }
    return context.extension("TruncatedNormal", [], attributes)[0]


def _integers(context: TranslationContext, shape: list[int], low: int, high: int) -> str:
    """Uniform integers in [low, high)."""
    if not -(2**31) <= low < high <= 2**31 - 1:
        raise context.refuse(
            f"numbers from {low} to {high} do not fit the device's 32 bits; draw smaller ones."
        )
    drawn = context.extension("RandomInteger", [], {"shape": shape, "low": low, "high": high})[0]
    return context.cast(drawn, context.output_dtype())


@translator("randint", emits=("paddle_ipu.RandomInteger",), limits="shape and bounds are constant")
def randint(context: TranslationContext) -> str:
    """Uniform integers in [low, high)."""
    low, high = int(context.attr("low")), int(context.attr("high"))
    return _integers(context, _shape(context), low, high)


@translator("random", emits=("paddle_ipu.RandomInteger", "Cast"))
def random(context: TranslationContext) -> str:
    """Uniform integers in [from, to), in the shape and dtype of x."""
    low, high = int(context.attr("from")), int(context.attr("to"))
    return _integers(context, context.shape(context.input("x")), low, high)


@translator("randperm", emits=("paddle_ipu.RandomPermutation", "Cast"), limits="n is constant")
def randperm(context: TranslationContext) -> str:
    """A random permutation of 0 to n - 1."""
    order = context.extension("RandomPermutation", [], {"n": int(context.attr("n"))})[0]
    return context.cast(order, context.output_dtype())


@translator("bernoulli", emits=("RandomUniform", "Less", "Cast"))
def bernoulli(context: TranslationContext) -> str:
    """1 with probability ``x``, else 0."""
    x = context.input("x")
    # In float32 for half too: rounded to half, a number may become 1.
    drawn = uniform(context, context.shape(x), 0.0, 1.0, dtype="float32")
    hit = context.onnx.less([drawn, context.cast(x, "float32")])
    return context.cast(hit, context.output_dtype())


@translator("binomial", emits=("paddle_ipu.Binomial",))
def binomial(context: TranslationContext) -> str:
    """The number of successes in ``count`` trials, each with probability ``prob``."""
    count = context.cast(context.input("count"), "float32")
    return context.extension("Binomial", [count, context.input("prob")])[0]


@translator("multinomial", emits=("paddle_ipu.Multinomial",), limits="num_samples is constant")
def multinomial(context: TranslationContext) -> str:
    """Indices drawn in proportion to weights [..., C], with or without replacement."""
    x = context.input("x")
    count, again = int(context.number("num_samples")), int(context.attr("replacement", 0))
    classes = context.shape(x)[-1]
    if not again and count > classes:
        raise context.refuse(
            f"{count} samples of {classes} categories need replacement=True; draw fewer."
        )
    attributes = {"num_samples": count, "replacement": again}
    return context.extension("Multinomial", [x], attributes)[0]


@translator("poisson", emits=("paddle_ipu.Poisson",))
def poisson(context: TranslationContext) -> str:
    """A Poisson-distributed number for each rate."""
    return context.extension("Poisson", [context.input("x")])[0]


@translator("standard_gamma", emits=("paddle_ipu.Gamma",))
def standard_gamma(context: TranslationContext) -> str:
    """A gamma-distributed number of scale 1 for each shape parameter."""
    return context.extension("Gamma", [context.input("x")])[0]


@translator("dirichlet", emits=("paddle_ipu.Gamma", "ReduceSum", "Div"))
def dirichlet(context: TranslationContext) -> str:
    """Dirichlet-distributed vectors along the last axis: gamma numbers divided by their sum."""
    drawn = context.extension("Gamma", [context.input("alpha")])[0]
    total = context.onnx.reducesum([drawn], [context.rank(drawn) - 1], 1)
    return context.onnx.div([drawn, total])


@translator("exponential", emits=("RandomUniform", "Sub", "Log", "Mul"))
def exponential(context: TranslationContext) -> str:
    """Exponentially distributed numbers of rate ``lam``: ``-log(u) / lam`` for u in (0, 1]."""
    x = context.input("x")
    drawn = context.onnx.sub(
        [context.const_like(1.0, x), uniform(context, context.shape(x), 0.0, 1.0)]
    )
    lam = float(context.attr("lam", 1.0))
    rate = context.const_like(-1.0 / lam if lam else -math.inf, x)
    return context.onnx.mul([context.onnx.log([drawn]), rate])


@translator("rrelu", emits=("RandomUniform", "Less", "Where", "Mul"))
def rrelu(context: TranslationContext) -> list[str]:
    """``x`` where not negative, ``factor * x`` elsewhere; and the factors (arXiv:1505.00853).

    The factor is uniform in [lower, upper) in training, their mean in inference.
    """
    x = context.input("x")
    lower, upper = float(context.attr("lower", 0.125)), float(context.attr("upper", 1.0 / 3.0))
    if context.attr("is_test", 0):
        drawn = context.const_like((lower + upper) / 2.0, x)
    else:
        drawn = uniform(context, context.shape(x), lower, upper)
    negative = context.onnx.less([x, context.const_like(0.0, x)])
    factor = context.onnx.where([negative, drawn, context.const_like(1.0, x)])
    return [context.onnx.mul([x, factor]), factor]


@translator(
    "gumbel_softmax",
    emits=("RandomUniform", "Max", "Log", "Neg", "Add", "Sub", "Mul", "Softmax", "Transpose",
           "ArgMax", "OneHot", "Reshape", "graphcore.Detach"),
    limits="with hard=True the gradient is that of the soft sample, as documented; Paddle's kernel "
    "gives zero",
)  # fmt: skip
def gumbel_softmax(context: TranslationContext) -> str:
    """``softmax((x + noise) / temperature)`` (arXiv:1611.01144); with ``hard`` a one-hot sample.

    As in Paddle's kernel the derivative is that of the softmax, without the factor ``1 /
    temperature``.
    """
    operand = context.input("x")
    shape = context.shape(operand)
    # OneHot has no indices without axes.
    x = operand if len(shape) > 1 else context.reshape(operand, [1, product(shape)])
    axis = int(context.attr("axis", -1)) % len(shape) if len(shape) > 1 else 1
    drawn = uniform(context, context.shape(x), 0.0, 1.0)
    # 0 is replaced by the smallest normal number: its logarithm is not finite.
    drawn = context.onnx.max([drawn, context.const_like(2.0**-126, x)])
    noise = context.onnx.neg([context.onnx.log([context.onnx.neg([context.onnx.log([drawn])])])])
    detached = context.graphcore.detach([x])
    scale = context.const_like(1.0 / float(context.attr("temperature", 1.0)), x)
    value = context.onnx.mul([context.onnx.add([detached, noise]), scale])
    logits = context.onnx.add([value, context.onnx.sub([x, detached])])
    last = context.rank(x) - 1
    soft = context.onnx.softmax([context.axis_last(logits, axis)], last)
    if context.attr("hard", 0):
        index = context.onnx.argmax([soft], last, 0)
        size = context.const(context.shape(soft)[last], "int32")
        off_and_on = context.const([0.0, 1.0], context.dtype(x))
        hard = context.onnx.onehot([index, size, off_and_on], -1)
        soft = context.onnx.add([context.onnx.sub([hard, context.graphcore.detach([soft])]), soft])
    back = context.last_axis_back(soft, axis)
    return back if len(shape) > 1 else context.reshape(back, shape)


@translator(
    "class_center_sample",
    emits=("paddle_ipu.ClassCenterSample",),
    limits="there may not be more labels than samples; one rank",
)
def class_center_sample(context: TranslationContext) -> list[str]:
    """Classes with a label and random others, and the index of each label among them.

    See arXiv:2010.05222 (Partial FC).
    """
    label = context.input("label")
    count = int(context.attr("num_samples"))
    labels = product(context.shape(label))
    if labels > count:
        raise context.refuse(
            f"{labels} labels may be of more classes than num_samples={count}, and the number of "
            "sampled classes would not be known; raise num_samples."
        )
    if int(context.attr("nranks", 1)) != 1:
        raise context.refuse("classes over several ranks are not supported; use nranks=1.")
    attributes = {
        "num_classes": int(context.attr("num_classes")),
        "num_samples": count,
        "seed": int(context.attr("seed", 0)) if context.attr("fix_seed", 0) else 0,
    }
    return context.extension("ClassCenterSample", [context.index(label)], attributes, 2)


@translator("shuffle_batch", emits=("paddle_ipu.SeededPermutation", "Reshape", "Gather"))
def shuffle_batch(context: TranslationContext) -> list[str]:
    """Rows in an order that the operand ``seed`` decides, that order, and the next seed."""
    x, seed = context.input("x"), context.input("seed")
    if product(context.shape(seed)) != 1:
        raise context.refuse(f"its seed must be one number, got shape {context.shape(seed)}.")
    shape = context.shape(x)
    rows = product(shape[:-1])
    written_as(context, 1, "int64")
    written_as(context, 2, "int64")
    order, seed = context.extension("SeededPermutation", [seed], {"n": rows}, 2)
    flat = context.reshape(x, [rows, shape[-1]])
    rows_of = context.onnx.gather([flat, order], 0)
    return [context.reshape(rows_of, shape), order, context.reshape(seed, [1])]


@translator(
    "top_p_sampling",
    emits=("paddle_ipu.TopPSampling", "Reshape"),
    limits="without thresholds, seeds of rows and the best k",
)
def top_p_sampling(context: TranslationContext) -> list[str | None]:
    """One sample of each row from the most probable classes whose probabilities sum to p.

    See arXiv:1904.09751 (nucleus sampling). Results are its probability and its index, [B, 1] each.
    """
    for name in ("threshold", "topp_seed"):
        if context.has(name):
            raise context.refuse(f"{name} is not supported; leave it out.")
    if int(context.attr("k", 0)) > 0:
        raise context.refuse("k is not supported; use paddle.topk for the best k.")
    mode = str(context.attr("mode", "truncated"))
    if mode not in ("truncate", "truncated"):
        raise context.refuse(f"mode is {mode!r}; expected 'truncated'.")
    written_as(context, 1, "int64")
    x = context.input("x")
    attributes = {"seed": max(int(context.attr("seed", -1)), 0)}
    drawn = context.extension("TopPSampling", [x, context.input("ps")], attributes, 2)
    return [context.reshape(result, [context.shape(x)[0], 1]) for result in drawn]
