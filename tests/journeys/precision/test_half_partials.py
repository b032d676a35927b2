"""Half partials: sums rounded to half after each sixteen products, in products and convolutions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from paddle_ipu.xla.lowerings.channels_last import Geometry
from paddle_ipu.xla.lowerings.half_convolution import convolution
from paddle_ipu.xla.precision import half
from tests.journeys.precision.half_program import run, train

Array = np.ndarray[Any, Any]

HALF: dict[str, Any] = {"partialsTypeMatMuls": "half"}
CONVOLUTIONS: dict[str, Any] = {"convolutionOptions": {"partialsType": "half"}}


def _halves(*shape: int, scale: float = 1.0) -> Array:
    return np.random.default_rng(shape).normal(0, scale, shape).astype(np.float16)


def _written_out(terms: Array) -> Array:
    """The sum over the last axis by its definition: float32 blocks of 16, added up in float16.

    All that the sum goes through stands along a new first axis.
    """
    total = np.zeros(terms.shape[:-1], np.float16)
    totals = [total]
    for at in range(0, terms.shape[-1], 16):
        block = terms[..., at : at + 16].astype(np.float64).sum(-1)
        with np.errstate(over="ignore"):
            total = (total.astype(np.float32) + block.astype(np.float32)).astype(np.float16)
        totals.append(total)
    return np.stack(totals)


def _products(a: Array, b: Array) -> Array:
    """Terms of ``a @ b``, the contracted axis last."""
    return (
        np.asarray(a.astype(np.float32)[..., :, None, :])
        * np.swapaxes(b.astype(np.float32), -1, -2)[..., None, :, :]
    )


def _assert_sums(got: Array, terms: Array, added: Array | None = None) -> None:
    """Equal to the sums over the last axis by their definition, nearly everywhere to the bit.

    A block's float32 sum may round another way than the written-out one: by 16 * 2^-24 of the
    sizes of its terms, and with it a total now and then by a place; the place is that of the
    largest total on the way.

    Args:
        got: the sums.
        terms: [..., terms].
        added: to the sums at the end.
    """
    assert got.dtype == np.float16
    totals = _written_out(terms)
    if added is not None:
        whole = (totals[-1].astype(np.float32) + added.astype(np.float32)).astype(np.float16)
        totals = np.stack([*totals, whole])
    off = np.abs(got.astype(np.float64) - totals[-1].astype(np.float64))
    places = 2 * np.spacing(np.abs(totals).max(0)).astype(np.float64)
    assert (off <= places + 2.0**-20 * np.abs(terms).sum(-1)).all()
    assert (off == 0).mean() > 0.9


def _matmul(builder: Any, a: str, b: str) -> dict[str, str]:
    return {"out": builder.aiOnnxOpset11.matmul([a, b])}


@pytest.mark.parametrize(
    ("first", "second"), [((8, 100), (100, 6)), ((3, 8, 33), (33, 5)), ((2, 1, 4, 16), (3, 16, 4))]
)
def test_products_are_summed_by_sixteen(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    a, b = _halves(*first), _halves(*second)
    got = run({"a": a, "b": b}, _matmul, **HALF)["out"]
    _assert_sums(got, _products(a, b))


def test_a_sum_of_ones_stops_where_sixteen_is_half_a_place() -> None:
    ones = np.ones((1, 50_000), np.float16)
    out = run({"a": ones, "b": ones.T.copy()}, _matmul, **HALF)["out"]
    # At 32768 a place is 32, and the tie goes to even.
    assert float(out[0, 0]) == 32768
    assert float(run({"a": ones, "b": ones.T.copy()}, _matmul)["out"][0, 0]) == np.float16(50_000)


def test_the_error_is_within_the_documented_bound() -> None:
    a, b = _halves(16, 2048), _halves(2048, 16)
    out = run({"a": a, "b": b}, _matmul, **HALF)["out"].astype(np.float64)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    sizes = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    off = np.abs(out - exact)
    assert (off <= sizes * 2048 / 16 * 2.0**-11).all()
    nearest = np.abs(exact.astype(np.float16) - exact)
    assert off.mean() > 3 * nearest.mean()


def test_a_node_is_told_by_itself() -> None:
    a, b = _halves(4, 512), _halves(512, 4)

    def make(kind: str) -> Callable[..., dict[str, str]]:
        def build(builder: Any, a: str, b: str) -> dict[str, str]:
            out = builder.aiOnnxOpset11.matmul([a, b])
            builder.setPartialsType(out, kind)
            return {"out": out}

        return build

    feeds = {"a": a, "b": b}
    in_half, in_float = run(feeds, _matmul, **HALF)["out"], run(feeds, _matmul)["out"]
    assert (in_half != in_float).any()
    np.testing.assert_array_equal(run(feeds, make("HALF"))["out"], in_half)
    np.testing.assert_array_equal(run(feeds, make("FLOAT"), **HALF)["out"], in_float)


def test_only_half_is_summed_in_half() -> None:
    feeds = {"a": _halves(4, 512).astype(np.float32), "b": _halves(512, 4).astype(np.float32)}
    plain = run(feeds, _matmul, dtype="FLOAT")["out"]
    np.testing.assert_array_equal(run(feeds, _matmul, dtype="FLOAT", **HALF)["out"], plain)


def test_gemm_is_a_matrix_product_too() -> None:
    a, b, c = _halves(40, 5), _halves(7, 40), _halves(7)

    def make(builder: Any, a: str, b: str, c: str) -> dict[str, str]:
        out = builder.aiOnnxOpset11.gemm([a, b, c], transA=True, transB=True)
        return {"out": out}

    got = run({"a": a, "b": b, "c": c}, make, **HALF)["out"]
    _assert_sums(got, _products(a.T, b.T), c)


def test_the_gradients_of_a_product_are_summed_likewise() -> None:
    x, w = _halves(64, 40), _halves(40, 12)
    scale = _halves(64, 12)

    def make(builder: Any, x: str, w: str, scale: str) -> str:
        onnx = builder.aiOnnxOpset11
        out = onnx.mul([onnx.matmul([x, w]), scale])
        return str(builder.aiGraphcore.identityloss([out], reduction=popart.ReductionType.Sum))

    got, _ = train(x, [w, scale], make, lambda x, w, scale: {"x": x, "w": w}, **HALF)
    # The result's gradient is `scale`.
    _assert_sums(got["x"], _products(scale, w.T))
    _assert_sums(got["w"], _products(x.T, scale))


def _patches(x: Array, kernel: int, stride: int, pad: int) -> Array:
    """[N, rows, columns, kernel positions * channels] of x [N, C, H, W]."""
    x = np.pad(x, [(0, 0), (0, 0), (pad, pad), (pad, pad)])
    found = np.lib.stride_tricks.sliding_window_view(x, (kernel, kernel), axis=(2, 3))
    found = found[:, :, ::stride, ::stride].transpose(0, 2, 3, 4, 5, 1)
    return found.reshape(*found.shape[:3], -1)


def _conv(builder: Any, x: str, w: str) -> dict[str, str]:
    onnx = builder.aiOnnxOpset11
    return {"out": onnx.conv([x, w], pads=[1, 1, 1, 1], strides=[2, 2])}


def test_convolutions_are_summed_by_position_and_channel() -> None:
    x, w = _halves(2, 20, 9, 8), _halves(6, 20, 3, 3)
    got = run({"x": x, "w": w}, _conv, **CONVOLUTIONS)["out"]
    rows = _patches(x, 3, 2, 1).astype(np.float32)
    kernels = w.transpose(0, 2, 3, 1).reshape(6, -1).astype(np.float32)
    _assert_sums(got.transpose(0, 2, 3, 1), rows[..., None, :] * kernels)
    assert (run({"x": x, "w": w}, _conv)["out"] != got).any()


@pytest.mark.parametrize(
    ("channels", "out", "group", "strides", "padding", "spread", "dilation", "kernel"),
    [
        (4, 6, 2, (2, 1), ((1, 2), (0, 1)), (1, 1), (1, 2), (3, 2)),
        (3, 5, 1, (1, 1), ((1, 1), (1, 1)), (2, 1), (1, 1), (3, 3)),
        (4, 4, 4, (2, 3), ((1, 0), (0, 0)), (1, 1), (1, 1), (3, 2)),
    ],
)
def test_every_form_of_convolution_and_its_gradients(
    channels: int, out: int, group: int, strides: Any, padding: Any, spread: Any, dilation: Any,
    kernel: Any,
) -> None:  # fmt: skip
    x = _halves(2, channels, 7, 8).astype(np.float32)
    w = _halves(out, channels // group, *kernel).astype(np.float32)

    def exact(x: Any, w: Any) -> Any:
        return lax.conv_general_dilated(
            x, w, strides, padding, spread, dilation, feature_group_count=group
        )

    def summed(x: Any, w: Any) -> Any:
        return convolution(x, w, Geometry(strides, padding, spread, dilation, group))

    shape = jax.eval_shape(exact, x, w).shape
    cotangent = _halves(*shape).astype(np.float32)

    def all_of(function: Any) -> Any:
        def both(x: Any, w: Any, cotangent: Any) -> Any:
            value, backward = jax.vjp(function, x, w)
            return value, *backward(cotangent)

        return jax.jit(both, compiler_options=dict(half.COMPILER_OPTIONS))(x, w, cotangent)

    for got, expected in zip(all_of(summed), all_of(exact), strict=True):
        assert got.shape == expected.shape
        got, expected = np.asarray(got), np.asarray(expected)
        np.testing.assert_array_equal(got, got.astype(np.float16).astype(np.float32))
        # Up to 126 terms: eight roundings, of partial sums below four times the largest result.
        assert np.abs(got - expected).max() <= 8 * 2.0**-11 * 4 * np.abs(expected).max()


def test_transposed_convolutions() -> None:
    x, w = _halves(1, 20, 5, 5), _halves(20, 3, 3, 3)

    def make(builder: Any, x: str, w: str) -> dict[str, str]:
        return {"out": builder.aiOnnxOpset11.convtranspose([x, w], strides=[2, 2])}

    plain, got = run({"x": x, "w": w}, make)["out"], run({"x": x, "w": w}, make, **CONVOLUTIONS)
    assert (got["out"] != plain).any()
    np.testing.assert_allclose(got["out"], plain, atol=0.2)


def test_each_of_several_convolutions_has_its_own_type() -> None:
    x, w = _halves(1, 64, 6, 6), _halves(4, 64, 3, 3)

    def make(builder: Any, x: str, w: str) -> dict[str, str]:
        outs = builder.aiGraphcore.multiconv([[x, w], [x, w]], partialsTypes=["half", "float"])
        return {"first": outs[0], "second": outs[1]}

    got = run({"x": x, "w": w}, make)
    assert (got["first"] != got["second"]).any()
    np.testing.assert_allclose(
        got["first"].astype(np.float32), got["second"].astype(np.float32), atol=0.3
    )


def test_lstms_have_an_option_of_their_own() -> None:
    x = _halves(3, 2, 200)
    w, r = _halves(1, 16, 200, scale=0.1), _halves(1, 16, 4, scale=0.1)

    def make(builder: Any, x: str, w: str, r: str) -> dict[str, str]:
        return {"out": builder.aiOnnxOpset11.lstm([x, w, r], 3, clip=None)[0]}

    feeds = {"x": x, "w": w, "r": r}
    plain = run(feeds, make, **HALF, **CONVOLUTIONS)["out"]
    got = run(feeds, make, lstmOptions={"partialsType": "half"})["out"]
    assert (got != plain).any()
    np.testing.assert_allclose(got, plain, atol=0.02)


@pytest.mark.parametrize("name", ["matmulOptions", "lstmOptions"])
def test_another_type_is_refused(name: str) -> None:
    told = rf"{name}\['partialsType'\].*'float' or 'half', got 'double'"
    with pytest.raises(popart_exception, match=told):
        run({"a": _halves(2, 2), "b": _halves(2, 2)}, _matmul, **{name: {"partialsType": "double"}})
