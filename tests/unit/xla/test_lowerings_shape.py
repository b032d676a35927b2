"""Moving, cutting, joining and retyping against NumPy and onnx's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import paddle
import paddle.nn.functional as F  # noqa: N812 - the name everyone uses
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from paddle_ipu.errors import LoweringError

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


def i64(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int64)


def onnx_reference(op_type: str, inputs: list[Any], outputs: int = 1, **attributes: Any) -> Any:
    """What onnx's own evaluator computes for one node of opset 11."""
    names = [f"i{index}" for index in range(len(inputs))]
    results = [f"o{index}" for index in range(outputs)]
    node = onnx.helper.make_node(op_type, names, results, **attributes)
    graph = onnx.helper.make_graph(
        [node],
        "g",
        [
            onnx.helper.make_tensor_value_info(
                name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), None
            )
            for name, value in zip(names, inputs, strict=True)
        ],
        [onnx.helper.make_tensor_value_info(name, 1, None) for name in results],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 11)])
    return ReferenceEvaluator(model).run(None, dict(zip(names, inputs, strict=True)))


@settings(max_examples=40)
@given(
    starts=st.lists(st.integers(-6, 6), min_size=3, max_size=3),
    ends=st.lists(st.sampled_from([-(2**63), -5, -1, 0, 2, 9, 2**31 - 1]), min_size=3, max_size=3),
    steps=st.lists(st.sampled_from([-2, -1, 1, 2]), min_size=3, max_size=3),
)
def test_slice(lowered: Any, starts: list[int], ends: list[int], steps: list[int]) -> None:
    inputs = [X, i64(*starts), i64(*ends), i64(2, 0, -2), i64(*steps)]
    # NumPy differs from ONNX in one thing: walking backwards, ONNX clamps the start to the front.
    first, second, third = (
        slice(max(start, -size) if step < 0 else start, end, step)
        for size, start, end, step in zip((4, 2, 3), starts, ends, steps, strict=True)
    )
    expected = X[second, third, first]
    rule = lowered("Slice", constant=[1, 2, 3, 4])
    np.testing.assert_array_equal(rule(*inputs), expected)
    np.testing.assert_array_equal(rule.constants(*inputs), expected)


def test_slice_by_attributes(lowered: Any) -> None:
    attributes = {"starts": [1, -2], "ends": [3, 1000], "axes": [1, 2]}
    for domain in ("ai.onnx", "ai.graphcore"):
        np.testing.assert_array_equal(lowered("Slice", attributes, domain=domain)(X), X[:, 1:, -2:])


def test_slice_without_axes_and_with_an_empty_one(lowered: Any) -> None:
    out = lowered("Slice", constant=[1, 2, 4])(X, i64(0, 1), i64(1, 3), None, i64(1, 2))
    np.testing.assert_array_equal(out, X[0:1, 1:3:2])


def test_slice_gradient(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(
        lowered("Slice", constant=[1, 2, 3, 4]),
        lambda t: t[:, ::-1, 1:4:2],
        X,
        constants=[i64(-1, 1), i64(-100, 4), i64(1, 2), i64(-1, 2)],
    )


def test_slice_refusals(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="must have one length, and no step may be 0"):
        lowered("Slice", constant=[1, 2, 3, 4])(X, i64(0), i64(1), i64(0), i64(0))
    with pytest.raises(LoweringError, match="input 1, starts, must be a constant"):
        lowered("Slice", constant=[2])(X, i64(0).astype(np.int32), i64(1))


@pytest.mark.parametrize(
    ("shape", "expected"),
    [([0, -1], (2, 12)), ([-1], (24,)), ([4, 0, -1], (4, 3, 2)), ([2, 3, 2, 2], (2, 3, 2, 2))],
)
def test_reshape(lowered: Any, shape: list[int], expected: tuple[int, ...]) -> None:
    by_input = lowered("Reshape", constant=[1])(X, i64(*shape))
    by_attribute = lowered("Reshape", {"shape": shape}, domain="ai.graphcore")(X)
    for out in (by_input, by_attribute):
        np.testing.assert_array_equal(out, X.reshape(expected))


def test_reshape_to_a_scalar(lowered: Any) -> None:
    assert lowered("Reshape", constant=[1])(np.ones((1, 1), np.float32), i64()).shape == ()


def test_reshape_refusals(lowered: Any) -> None:
    rule = lowered("Reshape", constant=[1])
    for shape in (i64(5, -1), i64(-1, -1), i64(23)):
        with pytest.raises(LoweringError, match="the number of elements must stay the same"):
            rule(X, shape)
    with pytest.raises(LoweringError, match="keeps an axis that a tensor of shape"):
        rule(X, i64(24, 1, 1, 0))


@pytest.mark.parametrize("axis", [0, 1, 2, 3, -1, None])
def test_flatten(lowered: Any, axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    (expected,) = onnx_reference("Flatten", [X], **attributes)
    np.testing.assert_array_equal(lowered("Flatten", attributes)(X), expected)


def test_transpose(lowered: Any) -> None:
    np.testing.assert_array_equal(lowered("Transpose")(X), X.T)
    out = lowered("Transpose", {"perm": [1, 2, 0]})(X)
    np.testing.assert_array_equal(out, X.transpose(1, 2, 0))


def test_squeeze_and_unsqueeze(lowered: Any) -> None:
    wide = X[:, None, :, :, None]
    for axes in ([1, 4], [-1, -4]):
        np.testing.assert_array_equal(lowered("Unsqueeze", {"axes": axes})(X), wide)
        np.testing.assert_array_equal(lowered("Squeeze", {"axes": axes})(wide), X)
    np.testing.assert_array_equal(lowered("Squeeze")(wide), X)
    with pytest.raises(LoweringError, match=r"cannot squeeze axes \[0\] of shape \[2, 3, 4\]"):
        lowered("Squeeze", {"axes": [0]})(X)


def test_concat(lowered: Any) -> None:
    out = lowered("Concat", {"axis": -2})(X, X[:, :1])
    np.testing.assert_array_equal(out, np.concatenate([X, X[:, :1]], 1))


def test_split(lowered: Any) -> None:
    parts = lowered("Split", {"axis": -1, "split": [1, 3]}, num_outputs=2)(X)
    for part, expected in zip(parts, np.split(X, [1], 2), strict=True):
        np.testing.assert_array_equal(part, expected)
    parts = lowered("Split", num_outputs=2)(X)
    for part, expected in zip(parts, X, strict=True):
        np.testing.assert_array_equal(part[0], expected)
    with pytest.raises(LoweringError, match="does not split into 2 outputs of sizes that are eq"):
        lowered("Split", {"axis": 1}, num_outputs=2)(X)
    with pytest.raises(LoweringError, match=r"into 2 outputs of sizes \[1, 1\]"):
        lowered("Split", {"axis": 1, "split": [1, 1]}, num_outputs=2)(X)


def test_expand_broadcasts_both_ways(lowered: Any, same_as_paddle: Any) -> None:
    x = X[:, :1]
    out = lowered("Expand", constant=[1])(x, i64(5, 1, 3, 1))
    np.testing.assert_array_equal(out, np.broadcast_to(x, (5, 2, 3, 4)))
    same_as_paddle(
        lowered("Expand", constant=[1]),
        lambda t: paddle.expand(t, [2, 3, 4]),
        x,
        constants=[i64(2, 3, 4)],
    )


def test_tile(lowered: Any, same_as_paddle: Any) -> None:
    same_as_paddle(
        lowered("Tile", constant=[1]),
        lambda t: paddle.tile(t, [2, 1, 3]),
        X,
        constants=[i64(2, 1, 3)],
    )


def test_reverse(lowered: Any) -> None:
    for axes in ([0], [1, -1], []):
        out = lowered("Reverse", {"dimensions": axes}, domain="ai.graphcore")(X)
        np.testing.assert_array_equal(out, np.flip(X, axes) if axes else X)


@pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
def test_pad(lowered: Any, same_as_paddle: Any, mode: str) -> None:
    x = X[None]
    pads = [0, 0, 1, 2, 0, 0, 2, 1]
    mode_of_paddle = {"edge": "replicate"}.get(mode, mode)

    def function(t: Any) -> Any:
        return F.pad(t, [2, 1, 1, 2], mode=mode_of_paddle, value=0.0)

    same_as_paddle(
        lowered("Pad", {"mode": mode}, constant=[1]), function, x, constants=[i64(*pads)]
    )
    same_as_paddle(lowered("Pad", {"mode": mode, "pads": pads}), function, x)


def test_pad_value_and_negative_pads(lowered: Any) -> None:
    out = lowered("Pad", constant=[1, 2])(X[0], i64(-1, 1, 0, 0), np.array(7, np.float32))
    np.testing.assert_array_equal(out, np.pad(X[0][1:], [(0, 0), (1, 0)], constant_values=7))
    out = lowered("Pad", {"pads": [0, 1, 0, 0], "value": 7.0})(X[0])
    np.testing.assert_array_equal(out, np.pad(X[0], [(0, 0), (1, 0)], constant_values=7))
    with pytest.raises(LoweringError, match="only 'constant' takes negative pads"):
        lowered("Pad", {"pads": [-1, 0, 0, 0], "mode": "edge"})(X[0])


@pytest.mark.parametrize(
    ("to", "dtype"),
    [(1, "float32"), (6, "int32"), (7, "int32"), (9, "bool"), (10, "float16"), (11, "float32"),
     (12, "uint32"), (16, "bfloat16"), ("FLOAT16", "float16"), ("INT64", "int32"),
     ("BOOL", "bool")],
)  # fmt: skip
def test_cast(lowered: Any, to: int | str, dtype: str) -> None:
    x = np.array([-1.75, 0, 2.5], np.float32) if "u" not in dtype else np.array([0.5, 2.5], "f")
    out = lowered("Cast", {"to": to})(x)
    assert out.dtype == dtype
    np.testing.assert_array_equal(out.astype(np.float32), x.astype(out.dtype).astype(np.float32))


def test_cast_refuses_types_the_device_lacks(lowered: Any) -> None:
    with pytest.raises(LoweringError, match="data type 8 does not exist on the device; expected"):
        lowered("Cast", {"to": 8})(X)
    with pytest.raises(LoweringError, match="data type 'STRING' does not exist"):
        lowered("Cast", {"to": "STRING"})(X)


def test_cast_passes_gradients_between_floats(lowered: Any) -> None:
    (gradient,) = lowered("Cast", {"to": "FLOAT16"}).gradients(X)
    assert gradient.dtype == np.float32
    np.testing.assert_array_equal(gradient, np.ones_like(X))


def test_detach_stops_the_gradient(lowered: Any) -> None:
    detach = lowered("Detach", domain="ai.graphcore")
    np.testing.assert_array_equal(detach(X), X)
    np.testing.assert_array_equal(detach.gradients(X)[0], np.zeros_like(X))


def test_identity_and_nop(lowered: Any) -> None:
    for rule in (lowered("Identity"), lowered("Nop", domain="ai.graphcore")):
        np.testing.assert_array_equal(rule(X), X)
        np.testing.assert_array_equal(rule.gradients(X)[0], np.ones_like(X))


def test_constants(lowered: Any) -> None:
    assert lowered("Constant", {"value": X}).constants() is X
    filled = lowered("ConstantOfShape", {"value": np.array([3], np.int32)}).constants(i64(2, 2))
    assert isinstance(filled, np.ndarray)
    assert filled.dtype == np.int32 and filled.tolist() == [[3, 3], [3, 3]]
    default = lowered("ConstantOfShape", constant=[0])(i64(2000))
    assert default.dtype == np.float32 and default.shape == (2000,) and not default.any()


def test_shape_arithmetic_stays_constant(lowered: Any) -> None:
    """The chain that exporters write to reshape: Shape, Gather, Unsqueeze, Concat."""
    import jax

    def chain(x: Any) -> Any:
        shape = lowered("Shape").constants(x)
        rows = lowered("Gather").constants(shape, np.array(0))
        rows = lowered("Unsqueeze", {"axes": [0]}).constants(rows)
        tail = lowered("Slice").constants(shape, i64(1), i64(2**31 - 1))
        tail = lowered("Cast", {"to": "INT64"}).constants(tail)
        (count, last) = lowered("Split", num_outputs=2).constants(tail)
        count = lowered("Mul").constants(count, lowered("Squeeze").constants(last))
        target = lowered("Concat", {"axis": 0}).constants(rows, count)
        target = lowered("Identity").constants(lowered("Reshape").constants(target, i64(-1)))
        target = lowered("Transpose").constants(lowered("Detach", domain="ai.graphcore")
                                                .constants(target))  # fmt: skip
        return lowered("Reshape").constants(x, target)

    assert jax.jit(chain)(X).shape == (2, 12)
