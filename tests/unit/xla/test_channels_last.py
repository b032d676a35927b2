"""Convolution with channels last, and its gradients, against JAX's own of channels first."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from paddle_ipu.xla.lowerings.channels_last import (
    Geometry,
    convolution,
    inference_convolution,
)

SIDES = (11, 10, 7)
KERNEL = (3, 2, 4)
GEOMETRIES = {
    "plain": ((1, 1, 1), ((0, 0), (0, 0), (0, 0)), (1, 1, 1), (1, 1, 1)),
    "padded": ((1, 1, 1), ((1, 2), (0, 3), (2, 0)), (1, 1, 1), (1, 1, 1)),
    "strided, the end unread": ((3, 2, 2), ((1, 0), (0, 1), (0, 0)), (1, 1, 1), (1, 1, 1)),
    "kernels dilated": ((2, 1, 1), ((2, 2), (1, 0), (3, 3)), (1, 1, 1), (2, 3, 2)),
    "data spread": ((1, 1, 2), ((2, 2), (1, 1), (3, 3)), (2, 3, 2), (1, 1, 1)),
    "all of it": ((2, 3, 1), ((4, 1), (1, 2), (3, 3)), (2, 1, 3), (1, 2, 2)),
    "cut": ((1, 2, 1), ((-1, 0), (0, -2), (2, -1)), (1, 1, 1), (1, 1, 1)),
    "padded by more than a kernel": ((2, 2, 1), ((5, 4), (3, 3), (4, 6)), (1, 1, 1), (1, 1, 1)),
}


def _convolved(x: Any, weights: Any, *geometry: Any) -> jax.Array:
    return convolution(x, weights, Geometry(*geometry))


@pytest.mark.parametrize("rank", [1, 2, 3])
def test_result_and_gradients(rank: int) -> None:
    random = np.random.default_rng(rank)
    x = random.standard_normal((3, 4, *SIDES[:rank]), np.float32)
    weights = random.standard_normal((5, 4, *KERNEL[:rank]), np.float32)

    def everywhere(convolve: Any, x: Any, w: Any, incoming: Any = None) -> dict[str, list[Any]]:
        """Geometry -> the result and, of what comes in for it, both gradients."""
        found = {}
        for name, geometry in GEOMETRIES.items():
            ways = tuple(part[:rank] for part in geometry)
            out, backward = jax.vjp(lambda x, w, ways=ways: convolve(x, w, *ways), x, w)
            found[name] = [out, *(backward(incoming[name]) if incoming else ())]
        return found

    # All geometries in one program each: XLA compiles what is not compiled by operators faster.
    shapes = jax.eval_shape(lambda x, w: everywhere(lax.conv_general_dilated, x, w), x, weights)
    incoming = {
        name: random.standard_normal(out.shape, np.float32) for name, (out,) in shapes.items()
    }
    ours, jaxs = (
        jax.jit(lambda x, w, i, c=convolve: everywhere(c, x, w, i))(x, weights, incoming)
        for convolve in (_convolved, lax.conv_general_dilated)
    )
    for name, expected in jaxs.items():
        for got, wanted in zip(ours[name], expected, strict=True):
            assert got.shape == wanted.shape, name
            error = np.linalg.norm(got - wanted) / np.linalg.norm(wanted)
            assert error < 1e-6, (name, error)


def test_second_derivative() -> None:
    """Gradients can be differentiated once more, as ``paddle.grad(create_graph=True)`` does."""
    random = np.random.default_rng(0)
    x = random.standard_normal((2, 3, 6, 6), np.float32)
    weights = random.standard_normal((4, 3, 3, 3), np.float32)
    geometry: Any = ((2, 1), ((1, 1), (0, 1)), (1, 1), (1, 1))

    def penalty(convolve: Any, w: Any) -> Any:
        of_x = jax.grad(lambda x: (convolve(x, w, *geometry) ** 2).sum())(x)
        return (of_x**2).sum()

    ours, jaxs = (
        jax.jit(jax.grad(lambda w, c=convolve: penalty(c, w)))(weights)
        for convolve in (_convolved, lax.conv_general_dilated)
    )
    assert np.linalg.norm(ours - jaxs) < 1e-6 * np.linalg.norm(jaxs)


def test_every_convolution_of_a_loop_has_channels_last() -> None:
    """The layout XLA's fast kernels take: batch, space, channels; space, in, out."""

    def step(weights: Any, x: Any) -> tuple[Any, Any]:
        loss, gradient = jax.value_and_grad(
            lambda w: (convolution(convolution(x, w, one), w, one) ** 2).sum()
        )(weights)
        return weights - gradient, loss

    one = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    x, weights = np.ones((2, 4, 3, 5, 5), np.float32), np.ones((3, 3, 3, 3), np.float32)
    text = jax.jit(lambda w, x: lax.scan(step, w, x)).lower(weights, x).as_text()
    layouts = [
        line.split("dim_numbers = ")[1] for line in text.splitlines() if "dim_numbers" in line
    ]
    assert len(layouts) == 5  # two forward, two of weights, one of data
    assert all(line.startswith("[b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]") for line in layouts)


# Geometries whose windows are fewer than the kernels, and kernels of one element.
PRODUCTS = [
    ((2, 3, 5, 4), (96, 3, 3, 2), (2, 1), ((1, 1), (0, 1)), (1, 1), (1, 1)),
    ((1, 4, 7), (24, 4, 3), (2,), ((0, 1),), (1,), (2,)),
    ((2, 3, 4, 5), (6, 3, 1, 1), (2, 3), ((1, 0), (0, 0)), (1, 1), (1, 1)),
    ((1, 2, 3, 3, 3), (5, 2, 1, 1, 1), (1, 1, 1), ((0, 0),) * 3, (1, 1, 1), (1, 1, 1)),
]


@pytest.mark.parametrize(("x", "weights", "strides", "padding", "spread", "dilation"), PRODUCTS)
def test_a_matrix_product_in_place_of_a_convolution_has_its_result(
    x: Any, weights: Any, strides: Any, padding: Any, spread: Any, dilation: Any
) -> None:
    draw = np.random.default_rng(0)
    x, weights = (draw.normal(size=shape).astype(np.float32) for shape in (x, weights))
    geometry = Geometry(strides, padding, spread, dilation)
    text = jax.jit(lambda x, w: inference_convolution(x, w, geometry)).lower(x, weights).as_text()
    assert "stablehlo.convolution" not in text and "stablehlo.dot" in text
    expected = convolution(x, weights, geometry)
    got = inference_convolution(x, weights, geometry)
    assert got.shape == expected.shape
    assert np.linalg.norm(got - expected) < 1e-6 * np.linalg.norm(expected)


def test_a_convolution_of_many_windows_stays_one() -> None:
    x, weights = np.ones((2, 3, 8, 8), np.float32), np.ones((4, 3, 3, 3), np.float32)
    one = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
    text = jax.jit(lambda x, w: inference_convolution(x, w, one)).lower(x, weights).as_text()
    assert "stablehlo.convolution" in text
