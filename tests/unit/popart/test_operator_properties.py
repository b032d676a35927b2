"""Families of PopART's operators against NumPy, on shapes, axes and dtypes drawn by Hypothesis.

Shapes may have no axis or no element. Each example is one program with many operators.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

from paddle_ipu import popart
from tests.unit.sessions.session_programs import builder, infer, run

Array = np.ndarray[Any, Any]
Make = Callable[[Any, list[str]], str]
Reference = Callable[..., Array]

_FEW = settings(max_examples=8, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
SHAPES = array_shapes(min_dims=0, min_side=0, max_dims=4, max_side=3)
FULL_SHAPES = array_shapes(min_dims=1, min_side=1, max_dims=4, max_side=3)
NUMBERS = st.sampled_from(["float32", "int32"])


def values(shape: Sequence[int], dtype: str = "float32", seed: int = 0) -> Array:
    """Numbers away from zero; small ones of integers."""
    random = np.random.default_rng(seed)
    if dtype == "bool":
        return np.asarray(random.random(tuple(shape)) < 0.5)
    sign = np.where(random.random(tuple(shape)) < 0.5, -1, 1)
    size = random.uniform(1, 5, tuple(shape))
    return np.asarray(sign * size).astype(dtype)


def agree(inputs: Sequence[Array], rows: Sequence[tuple[Make, Reference]]) -> None:
    """Each row's operator, all in one program, gives what its reference gives."""
    make = builder()
    names = [
        make.addInputTensor(popart.TensorInfo(array.dtype, list(array.shape)), f"x{at}")
        for at, array in enumerate(inputs)
    ]
    made = [emit(make, names) for emit, _ in rows]
    got = run(infer(make.model, dict.fromkeys(made, "All")),
              dict(zip(names, inputs, strict=True)))  # fmt: skip
    with np.errstate(all="ignore"):
        wanted = [np.asarray(reference(*inputs)) for _, reference in rows]
    for name, expected in zip(made, wanted, strict=True):
        result = got[name]
        assert list(expected.shape) == make.getTensorShape(name), name
        assert result.shape == expected.shape, name
        assert result.dtype.kind == expected.dtype.kind, name
        if expected.dtype.kind in "biu":
            np.testing.assert_array_equal(result, expected, err_msg=name)
        else:
            np.testing.assert_allclose(result, expected, rtol=2e-5, atol=1e-6, err_msg=name)


def onnx(method: str, *arguments: Any, **keywords: Any) -> Make:
    """A call of an operator of ai.onnx with the inputs that the reference gets."""

    def emit(make: Any, names: list[str]) -> str:
        made = getattr(make.aiOnnx, method)(names, *arguments, **keywords)
        return str(made if isinstance(made, str) else made[0])

    return emit


def graphcore(method: str, *arguments: Any) -> Make:
    """The same of ai.graphcore."""
    return lambda make, names: str(getattr(make.aiGraphcore, method)(names, *arguments))


def _truncated(a: Array, b: Array) -> Array:
    return np.asarray(np.trunc(a / b)).astype(a.dtype) if a.dtype.kind == "i" else a / b


@_FEW
@given(mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=4, max_side=3), NUMBERS)
def test_binary_operators(shapes: Any, dtype: str) -> None:
    inputs = [values(shape, dtype, seed) for seed, shape in enumerate(shapes.input_shapes)]
    rows: list[tuple[Make, Reference]] = [
        (onnx("add"), np.add),
        (onnx("sub"), np.subtract),
        (onnx("mul"), np.multiply),
        (onnx("div"), _truncated),
        (onnx("max"), np.maximum),
        (onnx("min"), np.minimum),
        (onnx("sum"), np.add),
        (onnx("equal"), np.equal),
        (onnx("less"), np.less),
        (onnx("greater"), np.greater),
        (onnx("mod", fmod=1), np.fmod),
        (graphcore("fmod"), np.fmod),
        (graphcore("remainder"), np.remainder),
    ]
    if dtype == "float32":
        rows.append((graphcore("atan2"), np.arctan2))
        rows.append((onnx("mean"), lambda a, b: (a + b) / np.float32(2)))
    else:
        rows.append((graphcore("bitwiseand"), np.bitwise_and))
        rows.append((graphcore("bitwisexor"), np.bitwise_xor))
        rows.append((graphcore("bitwisexnor"), lambda a, b: ~(a ^ b)))
    agree(inputs, rows)


@_FEW
@given(mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=3, max_side=3))
def test_logic(shapes: Any) -> None:
    inputs = [values(shape, "bool", seed) for seed, shape in enumerate(shapes.input_shapes)]
    agree(
        inputs,
        [
            (onnx("logical_and"), np.logical_and),
            (onnx("logical_or"), np.logical_or),
            (onnx("equal"), np.equal),
            (lambda make, names: make.aiOnnx.logical_not(names[:1]), lambda a, b: ~a),
        ],
    )


@_FEW
@given(mutually_broadcastable_shapes(num_shapes=3, min_dims=0, max_dims=3, max_side=3), NUMBERS)
def test_where_of_three_shapes(shapes: Any, dtype: str) -> None:
    kinds = ("bool", dtype, dtype)
    inputs = [
        values(shape, kind, seed)
        for seed, (shape, kind) in enumerate(zip(shapes.input_shapes, kinds, strict=True))
    ]
    agree(inputs, [(onnx("where"), np.where)])


UNARY: list[tuple[Make, Reference]] = [
    (onnx("abs"), np.abs),
    (onnx("neg"), np.negative),
    (onnx("exp"), np.exp),
    (onnx("sin"), np.sin),
    (onnx("tanh"), np.tanh),
    (onnx("reciprocal"), np.reciprocal),
    (onnx("floor"), np.floor),
    (onnx("ceil"), np.ceil),
    (onnx("round"), np.round),
    (onnx("sign"), np.sign),
    (onnx("relu"), lambda x: np.maximum(x, 0)),
    (onnx("sigmoid"), lambda x: 1 / (1 + np.exp(-x))),
    (onnx("softsign"), lambda x: x / (1 + np.abs(x))),
    (onnx("leakyrelu", 0.25), lambda x: np.where(x < 0, x * np.float32(0.25), x)),
    (onnx("elu", 2.0), lambda x: np.where(x < 0, 2 * np.expm1(x), x)),
    (onnx("hardsigmoid"), lambda x: (np.float32(0.2) * x + np.float32(0.5)).clip(0, 1)),
    (onnx("thresholdedrelu", 1.5), lambda x: np.where(x > 1.5, x, np.float32(0))),
    (onnx("isnan"), np.isnan),
    (graphcore("expm1"), np.expm1),
    (graphcore("scale", -1.5), lambda x: x * np.float32(-1.5)),
    (graphcore("swish"), lambda x: x / (1 + np.exp(-x))),
    (onnx("identity"), lambda x: x),
    (onnx("cast", "INT32"), lambda x: x.astype(np.int32)),
    (onnx("cast", "BOOL"), lambda x: x.astype(np.bool_)),
    (onnx("shape"), lambda x: np.array(x.shape, np.int32)),
]


@_FEW
@given(SHAPES)
def test_unary_operators(shape: tuple[int, ...]) -> None:
    rows = UNARY if shape else UNARY[:-1]
    agree([values(shape)], rows)


def _some_axes(data: st.DataObject, rank: int) -> list[int]:
    """Different axes, some counted from the end."""
    chosen = data.draw(st.lists(st.sampled_from(range(rank)), min_size=1, unique=True))
    return [axis - rank if data.draw(st.booleans()) else axis for axis in chosen]


@_FEW
@given(st.data(), NUMBERS)
def test_reductions(data: st.DataObject, dtype: str) -> None:
    x = values(data.draw(FULL_SHAPES), dtype)
    axes, keep = _some_axes(data, x.ndim), data.draw(st.booleans())

    def reduced(function: Callable[..., Any]) -> Reference:
        return lambda x: function(x, axis=tuple(axes), keepdims=keep).astype(x.dtype)

    rows: list[tuple[Make, Reference]] = [
        (onnx("reducesum", axes, int(keep)), reduced(np.sum)),
        (onnx("reducemax", axes, int(keep)), reduced(np.max)),
        (onnx("reducemin", axes, int(keep)), reduced(np.min)),
        (onnx("reduceprod", axes, int(keep)), reduced(np.prod)),
        (onnx("reducel1", axes, int(keep)), lambda x: reduced(np.sum)(np.abs(x))),
        (onnx("reducesumsquare", axes, int(keep)), lambda x: reduced(np.sum)(x * x)),
        (
            onnx("argmax", axes[0], int(keep)),
            lambda x: np.argmax(x, axes[0], keepdims=keep).astype(np.int32),
        ),
    ]
    if dtype == "float32":
        rows += [
            (onnx("reducemean", axes, int(keep)), reduced(np.mean)),
            (onnx("reducel2", axes, int(keep)), lambda x: np.sqrt(reduced(np.sum)(x * x))),
            (
                onnx("reducelogsumexp", axes, int(keep)),
                lambda x: np.log(reduced(np.sum)(np.exp(x))),
            ),
        ]
    agree([x], rows)


@_FEW
@given(st.data())
def test_reductions_over_every_axis(data: st.DataObject) -> None:
    """Without axes; of no element the sum is 0 and the product 1."""
    agree(
        [values(data.draw(SHAPES))],
        [
            (onnx("reducesum", None, 0), lambda x: np.sum(x, dtype=np.float32)),
            (onnx("reduceprod", None, 0), lambda x: np.prod(x, dtype=np.float32)),
            (
                onnx("reducesumsquare", None, 1),
                lambda x: np.sum(x * x, dtype=np.float32, keepdims=True),
            ),
        ],
    )


def _soft(x: Array, axis: int) -> Array:
    """Softmax over `axis` and all behind it."""
    axis %= x.ndim
    flat = x.reshape(*x.shape[:axis], -1)
    powers = np.exp(flat - flat.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True)).reshape(x.shape)


@_FEW
@given(st.data())
def test_operators_along_one_axis(data: st.DataObject) -> None:
    x = values(data.draw(FULL_SHAPES))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    count = data.draw(st.integers(1, x.shape[axis]))

    def emit_topk(make: Any, names: list[str]) -> str:
        k = make.aiOnnx.constant(np.array([count]))
        return str(make.aiOnnx.topk([*names, k], axis)[0])

    def emit_cumsum(make: Any, names: list[str]) -> str:
        return str(make.aiOnnx.cumsum([*names, make.aiOnnx.constant(np.array(axis))]))

    agree(
        [x],
        [
            (onnx("softmax", axis), lambda x: _soft(x, axis)),
            (onnx("logsoftmax", axis), lambda x: np.log(_soft(x, axis))),
            (emit_cumsum, lambda x: np.cumsum(x, axis)),
            (
                emit_topk,
                lambda x: np.take(np.flip(np.sort(x, axis), axis), range(count), axis),
            ),
            (
                lambda make, names: make.aiGraphcore.sort(names, axis)[0],
                lambda x: np.sort(x, axis),
            ),
            (graphcore("reverse", [axis % x.ndim]), lambda x: np.flip(x, axis)),
            (onnx("flatten", axis), lambda x: x.reshape(int(np.prod(x.shape[:axis])), -1)
             if x.shape[:axis] else x.reshape(1, -1)),
        ],
    )  # fmt: skip


@_FEW
@given(st.data(), st.sampled_from(["float32", "int32", "bool"]))
def test_operators_that_move_data(data: st.DataObject, dtype: str) -> None:
    x = values(data.draw(array_shapes(min_dims=1, min_side=0, max_dims=4, max_side=3)), dtype)
    order = data.draw(st.permutations(range(x.ndim)))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    place = data.draw(st.integers(-x.ndim - 1, x.ndim))
    start = data.draw(st.integers(-4, 4))
    end = data.draw(st.integers(-4, 4))
    step = data.draw(st.sampled_from([1, 2]))
    repeats = data.draw(st.lists(st.integers(1, 2), min_size=x.ndim, max_size=x.ndim))

    def ints(make: Any, *numbers: int) -> str:
        return str(make.aiOnnx.constant(np.array(numbers, np.int64)))

    def emit_slice(make: Any, names: list[str]) -> str:
        bounds = [ints(make, number) for number in (start, end, axis, step)]
        return str(make.aiOnnx.slice([*names, *bounds]))

    def sliced(x: Array) -> Array:
        parts = [slice(None)] * x.ndim
        parts[axis] = slice(start, end, step)
        return x[tuple(parts)]

    agree(
        [x],
        [
            (onnx("transpose", list(order)), lambda x: x.transpose(order)),
            (onnx("transpose"), lambda x: x.transpose()),
            (onnx("unsqueeze", [place]), lambda x: np.expand_dims(x, place)),
            (emit_slice, sliced),
            (
                lambda make, names: make.aiOnnx.concat([*names, *names], axis),
                lambda x: np.concatenate([x, x], axis),
            ),
            (
                lambda make, names: make.aiOnnx.tile([*names, ints(make, *repeats)]),
                lambda x: np.tile(x, repeats),
            ),
            (
                lambda make, names: make.aiOnnx.reshape([*names, ints(make, -1)]),
                lambda x: x.reshape(-1),
            ),
            (
                lambda make, names: make.aiOnnx.expand([*names, ints(make, 2, *x.shape)]),
                lambda x: np.broadcast_to(x, (2, *x.shape)),
            ),
        ],
    )


@_FEW
@given(st.data())
def test_gathers(data: st.DataObject) -> None:
    x = values(data.draw(FULL_SHAPES))
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    shape = data.draw(array_shapes(min_dims=0, min_side=0, max_dims=2, max_side=3))
    size = x.shape[axis]
    indices = np.random.default_rng(1).integers(-size, size, shape).astype(np.int32)
    agree(
        [x, np.asarray(indices)],
        [(onnx("gather", axis), lambda x, at: np.take(x, at, axis))],
    )


@_FEW
@given(st.data())
def test_pads(data: st.DataObject) -> None:
    """By constants, also cutting; by reflection and by the edge where it fits."""
    x = values(data.draw(FULL_SHAPES))
    widths = [(data.draw(st.integers(-1, 2)), data.draw(st.integers(0, 2))) for _ in range(x.ndim)]
    flat = [before for before, _ in widths] + [after for _, after in widths]

    def padded(x: Array) -> Array:
        cut = tuple(slice(max(-before, 0), None) for before, _ in widths)
        kept = [(max(before, 0), after) for before, after in widths]
        return np.pad(x[cut], kept, constant_values=1.5)

    def emit(make: Any, names: list[str]) -> str:
        ops = make.aiOnnx
        constants = [ops.constant(np.array(flat)), ops.constant(np.array(1.5, np.float32))]
        return str(ops.pad([*names, *constants]))

    edge = [max(width, 0) for width in flat]
    pairs = list(zip(edge[: x.ndim], edge[x.ndim :], strict=True))
    agree(
        [x],
        [
            (emit, padded),
            (
                lambda make, names: make.aiOnnx.pad(
                    [*names, make.aiOnnx.constant(np.array(edge))], "edge"
                ),
                lambda x: np.pad(x, pairs, "edge"),
            ),
        ],
    )


@_FEW
@given(st.data())
def test_matrix_products(data: st.DataObject) -> None:
    batches = data.draw(
        mutually_broadcastable_shapes(num_shapes=2, min_dims=0, max_dims=2, max_side=2)
    )
    m, k, n = (data.draw(st.integers(1, 3)) for _ in range(3))
    left, right = batches.input_shapes
    agree(
        [values((*left, m, k)), values((*right, k, n), seed=1)],
        [(onnx("matmul"), np.matmul)],
    )


@_FEW
@given(st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.data())
def test_gemm(m: int, k: int, n: int, data: st.DataObject) -> None:
    turn_a, turn_b = data.draw(st.booleans()), data.draw(st.booleans())
    bias = data.draw(st.sampled_from([(), (1,), (n,), (m, 1), (m, n)]))
    agree(
        [
            values((k, m) if turn_a else (m, k)),
            values((n, k) if turn_b else (k, n), seed=1),
            values(bias, seed=2),
        ],
        [
            (
                onnx("gemm", 0.5, -2.0, int(turn_a), int(turn_b)),
                lambda a, b, c: (
                    np.float32(0.5) * ((a.T if turn_a else a) @ (b.T if turn_b else b)) - 2 * c
                ),
            )
        ],
    )
