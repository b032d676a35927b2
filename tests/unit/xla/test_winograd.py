"""Convolutions of 3 by 3 by Winograd's algorithm give what NumPy gives in float64.

Each test runs with every length of vectors that this processor has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.xla.kernels import library, ways
from paddle_ipu.xla.kernels.library import Spec
from tests.unit.xla import convolutions
from tests.unit.xla.convolutions import LARGE, ONE

pytestmark = pytest.mark.usefixtures("vector_lanes")


def _ours(**changed: Any) -> Spec:
    return replace(LARGE, lanes=library.lanes(), **changed)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_convolution_is_that_of_numpy(data: st.DataObject) -> None:
    def drawn(least: int, most: int) -> int:
        return data.draw(st.integers(least, most))

    convolutions.check(
        _ours(
            images=drawn(1, 4),
            channels=library.lanes() * drawn(1, 3),
            height=drawn(3, 12),
            width=drawn(3, 12),
            results=drawn(1, 70),
            top=drawn(0, 3),
            left=drawn(0, 3),
            bottom=drawn(0, 3),
            right=drawn(0, 3),
            activation=drawn(0, 1),
            has_bias=drawn(0, 1),
            has_addend=drawn(0, 1),
            parts=drawn(1, 5),
        )
    )


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"height": 23, "width": 19, "results": 61, "has_addend": 1, "activation": 1},
        {"images": 40, "parts": 3},
        {"channels": 256, "results": 256, "height": 3, "width": 3},
        {"channels": 256, "results": 256, "height": 3, "width": 3, "has_addend": 1},
    ],
    ids=str,
)
def test_what_threads_share_is_put_together(changed: dict[str, int]) -> None:
    convolutions.check(_ours(**changed))


@pytest.mark.parametrize(
    "changed",
    [ONE, {"stride_y": 2}, {"gap_x": 2}, {"groups": 2}, {"channels": 12}, {"activation": 2}],
    ids=str,
)
def test_other_convolutions_are_onednns(changed: dict[str, int]) -> None:
    assert library.packed(_ours(**changed)) is None
    assert ways.fastest(replace(LARGE, **changed)).lanes == 0


def test_the_fastest_way_has_the_longest_vectors() -> None:
    assert ways.fastest(LARGE).lanes == library.lanes()
    # Fewer than 16 tiles; a result of few channels.
    assert ways.fastest(replace(LARGE, images=1, height=6, width=8)).lanes == 0
    assert ways.fastest(replace(LARGE, results=8)).lanes == 0


def test_relu_makes_zero_of_what_is_no_number() -> None:
    spec = _ours(activation=1)
    x, *others = convolutions.numbers(spec)
    x[1, 2, 3, 4] = np.nan
    # Paddle's CPU kernel of relu does, too.
    assert (convolutions.given(spec, x, *others)[1, 1:4, 2:5] == 0).all()


def test_weights_are_packed_and_unpacked() -> None:
    spec = _ours(results=61)
    _, weights, _, _ = convolutions.numbers(spec)
    packed = convolutions.packed(spec, weights)
    np.testing.assert_array_equal(library.unpack(spec, packed, weights.shape), weights)


def test_runs_give_the_same_bits() -> None:
    spec = _ours(images=3)
    arrays = convolutions.numbers(spec)
    first = convolutions.given(spec, *arrays)
    for _ in range(5):
        np.testing.assert_array_equal(convolutions.given(spec, *arrays), first)


def test_vectors_that_no_processor_has_are_refused() -> None:
    assert library.packed(replace(LARGE, lanes=32)) is None


@pytest.mark.parametrize("channels", [16, 64, 512])
def test_fewer_multiplications_are_no_less_exact(channels: int) -> None:
    spec = _ours(channels=channels, results=48, height=8, width=8)
    x, weights, bias, addend = convolutions.numbers(spec)
    expected = convolutions.expected(spec, x, weights, bias, addend)
    by_onednn = replace(spec, lanes=0)
    found, plain = (
        np.linalg.norm(convolutions.given(s, x, weights, bias, addend) - expected)
        for s in (spec, by_onednn)
    )
    assert found <= 2 * plain


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("has_addend", [0, 1])
def test_what_is_not_finite_reaches_what_its_kernel_touches(value: float, has_addend: int) -> None:
    spec = _ours(height=11, width=9, has_addend=has_addend)
    x, weights, bias, addend = convolutions.numbers(spec)
    x[1, 4, 3, 2] = value
    expected = convolutions.expected(spec, x, weights, bias, addend)
    found = convolutions.given(spec, x, weights, bias, addend)
    reached = np.zeros(spec.shape, bool)
    reached[1, 3:6, 2:5] = True
    np.testing.assert_array_equal(found[reached], expected[reached])
    assert np.isfinite(found[~reached]).all()
    found, expected = found[~reached], expected[~reached]
    assert np.linalg.norm(found - expected) <= 1e-6 * np.linalg.norm(expected)


def test_weights_that_are_not_finite_reach_their_channel_only() -> None:
    x, weights, bias, addend = convolutions.numbers(_ours())
    weights[37, 5, 1, 1] = np.inf
    found = convolutions.given(_ours(), x, weights, bias, addend)
    assert not np.isfinite(found[..., 37]).any()
    assert np.isfinite(np.delete(found, 37, axis=-1)).all()


def test_large_numbers_do_not_overflow_between() -> None:
    x, weights, bias, addend = convolutions.numbers(_ours())
    x, weights = np.float32(3e38) * np.sign(x), weights * np.float32(1e-4)
    expected = convolutions.expected(_ours(), x, weights, bias, addend)
    found = convolutions.given(_ours(), x, weights, bias, addend)
    assert np.linalg.norm(found / 1e38 - expected / 1e38) <= 1e-6 * np.linalg.norm(expected / 1e38)
