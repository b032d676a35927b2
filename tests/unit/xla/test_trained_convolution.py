"""Convolutions in training by oneDNN, and their gradients, against JAX's in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
from jax import lax

from paddle_ipu.xla.kernels import library, training
from paddle_ipu.xla.kernels.library import Spec
from paddle_ipu.xla.kernels.training import Direction
from paddle_ipu.xla.lowerings import trained_convolution
from paddle_ipu.xla.lowerings.channels_last import Geometry

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no oneDNN here: {library.why_not()}"
)

PLAIN = Spec(
    images=3, channels=16, height=9, width=8, results=32, groups=1, kernel_height=3, kernel_width=3,
    stride_y=1, stride_x=1, gap_y=1, gap_x=1, top=1, left=1, bottom=1, right=1, activation=0,
    has_bias=0, has_addend=0, parts=2,
)  # fmt: skip
ONE = {"kernel_height": 1, "kernel_width": 1, "top": 0, "left": 0, "bottom": 0, "right": 0}
SPECS = {
    "plain": PLAIN,
    "a product": replace(PLAIN, **ONE),
    "a product, strided": replace(PLAIN, **ONE, stride_y=2, stride_x=2),
    "strided, the end unread": replace(PLAIN, height=11, stride_y=3, stride_x=2, bottom=0),
    "padded at one side": replace(PLAIN, top=2, left=0, bottom=0, right=1),
    "dilated": replace(PLAIN, gap_y=2, gap_x=3, top=2, left=3, bottom=2, right=3),
    "three channels": replace(PLAIN, channels=3, height=20, width=20, kernel_height=7, top=3),
    "no multiple of a block": replace(PLAIN, channels=20, results=33),
    "groups": replace(PLAIN, channels=32, groups=4),
    "each channel by itself": replace(PLAIN, channels=32, groups=32),
    "one image": replace(PLAIN, images=1),
    "several threads": replace(PLAIN, images=7, channels=64, results=128, height=14, width=14),
    "blocks of 48, which two threads do not share": replace(
        PLAIN, **ONE, channels=256, results=1024, height=14, width=14
    ),
}


def _drawn(spec: Spec) -> tuple[Array, Array, Array]:
    """x, weights and what comes in for the result."""
    random = np.random.default_rng(0)
    shapes = (
        (spec.images, spec.height, spec.width, spec.channels),
        spec.weights_shape,
        spec.shape,
    )
    x, weights, incoming = (random.standard_normal(shape, np.float32) for shape in shapes)
    return x, weights, incoming


def _by_jax(spec: Spec, x: Any, weights: Any) -> jax.Array:
    out: jax.Array = lax.conv_general_dilated(
        x,
        weights,
        (spec.stride_y, spec.stride_x),
        ((spec.top, spec.bottom), (spec.left, spec.right)),
        rhs_dilation=(spec.gap_y, spec.gap_x),
        dimension_numbers=("NHWC", "OIHW", "NHWC"),
        feature_group_count=spec.groups,
    )
    return out


def _assert_close(got: Any, wanted: Any) -> None:
    assert got.shape == wanted.shape
    assert np.linalg.norm(np.asarray(got) - wanted) < 1e-6 * np.linalg.norm(wanted)


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_result_and_gradients(spec: Spec) -> None:
    x, weights, incoming = _drawn(spec)
    out, pull = jax.vjp(lambda x, w: trained_convolution.convolution(x, w, spec), x, weights)
    with jax.enable_x64(True):
        doubles = [array.astype(np.float64) for array in (x, weights, incoming)]
        wanted, wanted_pull = jax.vjp(lambda x, w: _by_jax(spec, x, w), *doubles[:2])
        expected = [np.asarray(array) for array in (wanted, *wanted_pull(doubles[2]))]
    for got, exact in zip([out, *pull(incoming)], expected, strict=True):
        _assert_close(got, exact)


@pytest.mark.parametrize("name", ["plain", "strided, the end unread", "each channel by itself"])
def test_gradients_can_be_differentiated(name: str) -> None:
    """As ``paddle.grad(create_graph=True)`` does."""
    spec = SPECS[name]
    x, weights, _ = _drawn(spec)

    def penalty(convolve: Any, x: Any, w: Any) -> Any:
        of_x, of_w = jax.grad(lambda x, w: (convolve(x, w) ** 2).sum(), argnums=(0, 1))(x, w)
        return (of_x**2).sum() + (of_w**2).sum()

    both = (0, 1)
    got = jax.jit(
        jax.grad(
            lambda x, w: penalty(lambda x, w: trained_convolution.convolution(x, w, spec), x, w),
            both,
        )
    )(x, weights)
    wanted = jax.jit(jax.grad(lambda x, w: penalty(lambda x, w: _by_jax(spec, x, w), x, w), both))(
        x, weights
    )
    for ours, jaxs in zip(got, wanted, strict=True):
        assert np.linalg.norm(ours - jaxs) < 1e-5 * np.linalg.norm(jaxs)


def test_runs_give_the_same_bits() -> None:
    spec = SPECS["several threads"]
    x, weights, incoming = _drawn(spec)

    @jax.jit
    def step(x: Any, w: Any, incoming: Any) -> Any:
        out, pull = jax.vjp(lambda x, w: trained_convolution.convolution(x, w, spec), x, w)
        return out, *pull(incoming)

    first = step(x, weights, incoming)
    for _ in range(10):
        for one, other in zip(first, step(x, weights, incoming), strict=True):
            assert np.array_equal(one, other)


def test_replicas_in_one_program() -> None:
    spec = SPECS["plain"]
    x, weights, _ = _drawn(spec)
    several = np.stack([x, 2 * x, -x])
    got = jax.vmap(lambda x: trained_convolution.convolution(x, weights, spec))(several)
    for one, own in zip(got, several, strict=True):
        assert np.array_equal(one, trained_convolution.convolution(own, weights, spec))


def test_what_onednn_gets_wrong_is_left_to_xla() -> None:
    """Padding by a whole kernel, and one column by other strides down than across."""
    wide = replace(PLAIN, top=3)
    column = replace(PLAIN, **ONE, width=1, stride_x=2)
    for spec in (wide, column):
        assert not any(training.has_kernel(spec, direction) for direction in Direction)


@pytest.mark.parametrize(
    ("data_dilation", "padding"), [((2, 1), ((1, 1), (1, 1))), ((1, 1), ((-1, 1), (1, 1)))]
)
def test_what_onednn_has_no_form_for_is_left_to_xla(data_dilation: Any, padding: Any) -> None:
    x, weights, _ = _drawn(PLAIN)
    geometry = Geometry((1, 1), padding, data_dilation, (1, 1))
    assert trained_convolution.spec_of(x, weights, geometry) is None  # type: ignore[arg-type]
    for half in (np.float16, np.float64):
        plain = Geometry((1, 1), ((1, 1), (1, 1)), (1, 1), (1, 1))
        given = x.astype(half)
        assert trained_convolution.spec_of(given, weights, plain) is None  # type: ignore[arg-type]


def test_arrays_of_another_size_are_refused() -> None:
    x, weights, _ = _drawn(PLAIN)
    with pytest.raises(jax.errors.JaxRuntimeError, match="arrays that do not fit its spec"):
        training.computed(PLAIN, Direction.FORWARD, x[:2], weights).block_until_ready()  # type: ignore[arg-type]
