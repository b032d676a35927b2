"""Element-by-element arithmetic: values against NumPy, gradients against Paddle's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import mutually_broadcastable_shapes
from scipy import special

from paddle_ipu.errors import LoweringError

f32 = np.float32
inf, nan = np.inf, np.nan


def array(*values: Any) -> np.ndarray[Any, Any]:
    return np.array(values, f32)


@pytest.mark.parametrize(
    ("op_type", "function"),
    [
        ("Neg", np.negative),
        ("Abs", np.abs),
        ("Sqrt", np.sqrt),
        ("Exp", np.exp),
        ("Log", np.log),
        ("Erf", special.erf),
        ("Reciprocal", np.reciprocal),
        ("Floor", np.floor),
        ("Ceil", np.ceil),
        ("Round", np.rint),
        ("Sign", np.sign),
        ("Sin", np.sin),
        ("Cos", np.cos),
        ("Tan", np.tan),
        ("Asin", np.arcsin),
        ("Acos", np.arccos),
        ("Atan", np.arctan),
        ("Sinh", np.sinh),
        ("Cosh", np.cosh),
        ("Asinh", np.arcsinh),
        ("Atanh", np.arctanh),
    ],
)
def test_unary_values(lowered: Any, op_type: str, function: Any) -> None:
    x = np.linspace(0.05, 0.95, 37, dtype=f32)
    if op_type not in ("Sqrt", "Log"):
        x = np.concatenate([-x, x])
    out = lowered(op_type)(x)
    assert out.dtype == f32
    np.testing.assert_allclose(out, function(x), rtol=2e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("op_type", "function"),
    [
        ("Log1p", np.log1p),
        ("Expm1", np.expm1),
        ("Round", np.rint),
        ("NearbyInt", np.rint),
    ],
)
def test_graphcore_unary_values(lowered: Any, op_type: str, function: Any) -> None:
    x = np.array([-0.5, -1e-6, 0, 1e-6, 0.5, 1.5, 2.5], f32)
    out = lowered(op_type, domain="ai.graphcore")(x)
    np.testing.assert_allclose(out, function(x), rtol=1e-6)


def test_acosh_values(lowered: Any) -> None:
    x = np.linspace(1, 9, 17, dtype=f32)
    np.testing.assert_allclose(lowered("Acosh")(x), np.arccosh(x), rtol=1e-6)


@pytest.mark.parametrize(
    ("op_type", "function", "points"),
    [
        ("Abs", paddle.abs, array(-2, -0.0, 0, 3)),
        ("Sqrt", paddle.sqrt, array(0, 1, 4)),
        ("Log", paddle.log, array(0, 1, 4)),
        ("Exp", paddle.exp, array(-1, 0, 1)),
        ("Erf", paddle.erf, array(-1, 0, 1)),
        ("Reciprocal", paddle.reciprocal, array(0, 1, -2)),
        ("Floor", paddle.floor, array(-1, 0, 1.5)),
        ("Ceil", paddle.ceil, array(-1, 0, 1.5)),
        ("Round", paddle.round, array(-1, 0, 2.5)),
        ("Sign", paddle.sign, array(-1, 0, 1)),
        ("Sin", paddle.sin, array(-1, 0, 1)),
        ("Cos", paddle.cos, array(-1, 0, 1)),
        ("Tan", paddle.tan, array(-1, 0, 1)),
        ("Asin", paddle.asin, array(-1, 0, 0.5, 1)),
        ("Acos", paddle.acos, array(-1, 0, 0.5, 1)),
        ("Atan", paddle.atan, array(-1, 0, 1)),
        ("Sinh", paddle.sinh, array(-1, 0, 1)),
        ("Cosh", paddle.cosh, array(-1, 0, 1)),
    ],
)
def test_unary_gradients(
    lowered: Any, same_as_paddle: Any, op_type: str, function: Any, points: Any
) -> None:
    same_as_paddle(lowered(op_type), function, points)


@pytest.mark.parametrize(
    ("op_type", "function", "points"),
    [
        ("Log1p", paddle.log1p, array(-1, 0, 1)),
        ("Expm1", paddle.expm1, array(-1, 0, 1)),
    ],
)
def test_graphcore_unary_gradients(
    lowered: Any, same_as_paddle: Any, op_type: str, function: Any, points: Any
) -> None:
    same_as_paddle(lowered(op_type, domain="ai.graphcore"), function, points)


@pytest.mark.parametrize(
    ("op_type", "function", "first", "second"),
    [
        ("Add", paddle.add, array(1, 2), array(3, 4)),
        ("Sub", paddle.subtract, array(1, 2), array(3, 4)),
        ("Mul", paddle.multiply, array(1, 0), array(0, 4)),
        ("Div", paddle.divide, array(0, 1, 2, 0), array(1, 0, 2, 0)),
        ("Max", paddle.maximum, array(1, 2, 3, -0.0), array(2, 2, 2, 0)),
        ("Min", paddle.minimum, array(1, 2, 3, -0.0), array(2, 2, 2, 0)),
        ("Max", paddle.maximum, array(nan, 1), array(1, nan)),
        ("Min", paddle.minimum, array(nan, 1), array(1, nan)),
        ("Mod", paddle.remainder, array(5, -5, 5, -5, 6), array(3, 3, -3, -3, 3)),
    ],
)
def test_binary_gradients(
    lowered: Any, same_as_paddle: Any, op_type: str, function: Any, first: Any, second: Any
) -> None:
    same_as_paddle(lowered(op_type), function, first, second)


def test_pow_gradients_at_zero_and_below(lowered: Any, same_as_paddle: Any) -> None:
    base, exponent = array(0, 0, 0, 0, 2, -2, -2), array(0, 1, 2, 0.5, 3, 2, 3)
    same_as_paddle(lowered("Pow"), paddle.pow, base, exponent)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, 2.5])
def test_pow_of_a_constant_exponent(lowered: Any, same_as_paddle: Any, exponent: float) -> None:
    points = array(0, 1, 2.5) if exponent % 1 else array(-1.5, 0, 1, 2.5)
    same_as_paddle(
        lowered("Pow", constant=[1]),
        lambda x: paddle.pow(x, exponent),
        points,
        constants=[np.array([exponent], f32)],
    )


def test_pow_broadcasts_to_the_exponent(lowered: Any) -> None:
    out = lowered("Pow", constant=[1])(array(2, 3), np.full((1, 1, 1), 2, f32))
    np.testing.assert_array_equal(out, [[[4, 9]]])


def test_broadcast_gradient_sums(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(lowered("Max"), paddle.maximum, array([1, 2], [2, 0]), array(2))
    same_as_paddle(lowered("Mul"), paddle.multiply, array([1, 2], [2, 0]), array(3, 4))


@pytest.mark.parametrize(
    ("op_type", "function"),
    [
        ("Add", np.add),
        ("Sub", np.subtract),
        ("Mul", np.multiply),
        ("Div", np.divide),
        ("Max", np.maximum),
        ("Min", np.minimum),
    ],
)
@settings(max_examples=12)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), data=st.data())
def test_broadcasting(lowered: Any, op_type: str, function: Any, shapes: Any, data: Any) -> None:
    generator = np.random.default_rng(data.draw(st.integers(0, 9)))
    first, second = (generator.uniform(0.5, 2, shape).astype(f32) for shape in shapes.input_shapes)
    out = lowered(op_type)(first, second)
    assert out.shape == shapes.result_shape and out.dtype == f32
    np.testing.assert_allclose(out, function(first, second), rtol=1e-6)


@settings(max_examples=20)
@given(dividend=st.integers(-9, 9), divisor=st.integers(-4, 4).filter(bool))
def test_integer_division_rounds_towards_zero(lowered: Any, dividend: int, divisor: int) -> None:
    first, second = np.array([dividend], np.int32), np.array([divisor], np.int32)
    expected = int(dividend / divisor)
    assert lowered("Div")(first, second) == [expected]
    folded = lowered("Div").constants(first, second)
    assert isinstance(folded, np.ndarray) and folded == [expected]


def test_mod_signs(lowered: Any) -> None:
    first, second = np.array([5, -5, 5, -5]), np.array([3, 3, -3, -3])
    for dtype in (np.int32, f32):
        a, b = first.astype(dtype), second.astype(dtype)
        graphcore = {"domain": "ai.graphcore"}
        np.testing.assert_array_equal(lowered("Mod")(a, b), np.mod(a, b))
        np.testing.assert_array_equal(lowered("Mod", {"fmod": 1})(a, b), np.fmod(a, b))
        np.testing.assert_array_equal(lowered("Fmod", **graphcore)(a, b), np.fmod(a, b))
        np.testing.assert_array_equal(lowered("Remainder", **graphcore)(a, b), np.mod(a, b))


def test_variadic(lowered: Any) -> None:
    a, b, c = array(1, 5, 3), array(4, 2, 6), array(7, 8, 0)
    np.testing.assert_array_equal(lowered("Max")(a, b, c), [7, 8, 6])
    np.testing.assert_array_equal(lowered("Min")(a, b, c), [1, 2, 0])
    np.testing.assert_array_equal(lowered("Sum")(a, b, c), [12, 15, 9])
    np.testing.assert_array_equal(lowered("Mean")(a, b, c), [4, 5, 3])
    np.testing.assert_array_equal(lowered("Max")(a), a)


@pytest.mark.parametrize("bounds", [(-1.0, 2.0), (None, 2.0), (-1.0, None), (None, None)])
def test_clip_passes_the_gradient_at_its_bounds(
    lowered: Any, same_as_paddle: Any, bounds: Any
) -> None:
    x = array(-2, -1, 0, 2, 3)
    given_inputs = [None if bound is None else np.array(bound, f32) for bound in bounds]
    attributes = {n: b for n, b in zip(("min", "max"), bounds, strict=True) if b is not None}

    def function(t: Any) -> Any:
        return paddle.clip(t, *bounds) if attributes else t * 1

    same_as_paddle(lowered("Clip", constant=[1, 2]), function, x, constants=given_inputs)
    same_as_paddle(lowered("Clip", attributes), function, x)


def test_clip_of_nan_is_nan_without_gradient(lowered: Any) -> None:
    clip = lowered("Clip", {"min": 0.0, "max": 1.0})
    assert np.isnan(clip(array(nan))).all()
    np.testing.assert_array_equal(clip.gradients(array(nan))[0], [0])


def test_clip_of_integers(lowered: Any) -> None:
    out = lowered("Clip", constant=[1])(np.array([-3, 5], np.int32), np.array(0, np.int32))
    assert out.dtype == np.int32 and out.tolist() == [0, 5]


def test_clip_rejects_a_bound_of_several_elements(lowered: Any) -> None:
    with pytest.raises(LoweringError, match=r"input 1, min, must be one number, got shape \(2,\)"):
        lowered("Clip", constant=[1])(array(1, 2), array(0, 1))


def test_clip_rejects_a_bound_computed_at_run_time(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="input 1, min, must be a constant"):
        lowered("Clip")(array(1, 2), array(0))


def test_scale_keeps_the_dtype(lowered: Any) -> None:
    for dtype in (np.float16, f32, np.int32):
        out = lowered("Scale", {"scale": 2.5}, domain="ai.graphcore")(np.array([2, 4], dtype))
        assert out.dtype == dtype and out.tolist() == [5, 10]


def test_scaled_add(lowered: Any) -> None:
    a, b = array(1, 2), array(3, 4)
    by_attribute = lowered("ScaledAdd", {"scale1": -0.5}, domain="ai.graphcore")
    np.testing.assert_array_equal(by_attribute(a, b), [-0.5, 0])
    by_input = lowered("ScaledAdd", domain="ai.graphcore")
    np.testing.assert_array_equal(by_input(a, b, f32(2), f32(3)), [11, 16])
    np.testing.assert_array_equal(by_input(a, b, None, f32(3)), [10, 14])


def test_atan2(lowered: Any, same_as_paddle: Any) -> None:
    y, x = array(0, 1, 0, -0.0, 2, 0), array(0, 0, 1, -1, -3, -1)
    same_as_paddle(lowered("Atan2", domain="ai.graphcore"), paddle.atan2, y, x)


def test_where_gradient(lowered: Any, same_as_paddle: Any) -> None:
    condition = np.array([True, False, True])
    same_as_paddle(lowered("Where"), paddle.where, condition, array(1, 2, 3), array(4, 5, 6))


@pytest.mark.parametrize(
    ("op_type", "expected"), [("Add", [5, 9]), ("Sub", [-1, 5]), ("Mul", [6, 14]), ("Div", [0, 3])]
)
def test_constants_stay_constant(lowered: Any, op_type: str, expected: list[int]) -> None:
    out = lowered(op_type).constants(np.array([2, 7]), np.array([3, 2]))
    assert isinstance(out, np.ndarray) and out.tolist() == expected
    scalar = lowered(op_type).constants(np.array(2), np.array(3))
    assert isinstance(scalar, np.ndarray) and scalar.shape == ()


def test_constants_of_64_bits_meet_tensors_of_32(lowered: Any) -> None:
    out = lowered("Add", constant=[1])(np.array([1, 2], np.int32), np.array([3], np.int64))
    assert out.dtype == np.int32 and out.tolist() == [4, 5]
