"""Operators of ai.onnx and ai.graphcore that no Paddle operator emits, against NumPy."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, infer, run

Array = np.ndarray[Any, Any]


def result(make: popart.Builder, names: Any, feeds: dict[str, Array]) -> list[Array]:
    """The named tensors for some feeds."""
    names = [names] if isinstance(names, str) else names
    got = run(infer(make.model, dict.fromkeys(names, "All")), feeds)
    return [got[name] for name in names]


def gradient(make: popart.Builder, y: str, x: str, feeds: dict[str, Array]) -> Array:
    """The gradient of the sum of `y` with respect to `x`."""
    loss = make.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        make.model,
        popart.DataFlow(1, {f"Gradient___{x}": popart.AnchorReturnType("All")}),
        loss,
        popart.SGD({"defaultLearningRate": (0.0, False)}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return run(session, feeds)[f"Gradient___{x}"]


X = np.array([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0], np.float32)


def _build(make: popart.Builder, name: str, x: str, **arguments: Any) -> str:
    return str(getattr(make.aiOnnx, name)([x], **arguments))


@pytest.mark.parametrize(
    ("name", "arguments", "expected", "slope"),
    [
        ("thresholdedrelu", {}, np.where(X > 1, X, 0), X > 1),
        ("thresholdedrelu", {"alpha": 0.5}, np.where(X > 0.5, X, 0), X > 0.5),
        ("shrink", {}, np.where(np.abs(X) > 0.5, X, 0), np.abs(X) > 0.5),
        (
            "shrink",
            {"bias": 0.25, "lambd": 1.0},
            np.where(np.abs(X) > 1, X - 0.25 * np.sign(X), 0),
            np.abs(X) > 1,
        ),
    ],
)
def test_activations_with_an_edge(
    name: str, arguments: dict[str, Any], expected: Array, slope: Array
) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [7], "x")
    y = _build(make, name, x, **arguments)
    np.testing.assert_allclose(result(make, y, {"x": X})[0], expected, rtol=1e-6)
    np.testing.assert_array_equal(gradient(make, y, x, {"x": X}), slope)


def test_shrink_of_integers() -> None:
    make = builder()
    x = make.addInputTensor("INT32", [4], "x")
    y = make.aiOnnx.shrink([x], bias=1.0, lambd=1.5)
    got = result(make, y, {"x": np.array([-3, -1, 1, 2], np.int32)})[0]
    np.testing.assert_array_equal(got, np.array([-2, 0, 0, 1], np.int32))
    assert got.dtype == np.int32


def test_prelu() -> None:
    make = builder()
    x, slope = make.addInputTensor("FLOAT", [2, 3], "x"), make.addInputTensor("FLOAT", [3], "s")
    y = make.aiOnnx.prelu([x, slope])
    feeds = {
        "x": np.array([[-1, 0, 2], [3, -4, 0]], np.float32),
        "s": np.array([0.5, 0.25, -1], np.float32),
    }
    wanted = np.where(feeds["x"] > 0, feeds["x"], feeds["x"] * feeds["s"])
    np.testing.assert_allclose(result(make, y, feeds)[0], wanted, rtol=1e-6)
    got = gradient(make, y, x, feeds)
    np.testing.assert_allclose(got, np.where(feeds["x"] > 0, 1, feeds["s"]), rtol=1e-6)
    with pytest.raises(popart_exception, match=r"the slope .* does not broadcast to"):
        make.aiOnnx.prelu([slope, x])


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
@pytest.mark.parametrize("domain", ["ai.onnx", "ai.graphcore"])
def test_depth_to_space(domain: str, mode: str) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 12, 2, 3], "x")
    namespace = make.aiOnnx if domain == "ai.onnx" else make.aiGraphcore
    y = namespace.depthtospace([x], 2, mode)
    data = np.arange(144, dtype=np.float32).reshape(2, 12, 2, 3)
    expected = np.empty((2, 3, 4, 6), np.float32)
    for c, i, j in itertools.product(range(3), range(2), range(2)):
        source = (i * 2 + j) * 3 + c if mode == "DCR" else c * 4 + i * 2 + j
        expected[:, c, i::2, j::2] = data[:, source]
    np.testing.assert_array_equal(result(make, y, {"x": data})[0], expected)


def test_space_to_depth_undoes_depth_to_space() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [1, 8, 2, 3], "x")
    y = make.aiOnnx.spacetodepth([make.aiOnnx.depthtospace([x], 2)], 2)
    data = np.random.default_rng(0).random((1, 8, 2, 3), np.float32)
    np.testing.assert_array_equal(result(make, y, {"x": data})[0], data)
    for call, message in (
        (lambda: make.aiOnnx.depthtospace([x], 3), "cannot move 8 channels"),
        (lambda: make.aiOnnx.depthtospace([x], 2, "RCD"), "mode is 'RCD', expected DCR or CRD"),
        (lambda: make.aiOnnx.spacetodepth([x], 2), "cannot cut"),
        (lambda: make.aiOnnx.spacetodepth([x], 0), "blocksize must be positive, got 0"),
    ):
        with pytest.raises(popart_exception, match=message):
            call()


@pytest.mark.parametrize("dtype", ["FLOAT", "INT32"])
def test_increment_mod(dtype: str) -> None:
    make = builder()
    x = make.addInputTensor(dtype, [5], "x")
    y = make.aiGraphcore.incrementmod([x], 3.0, 4.0)
    data = np.array([5, -5, 10, 1, 2], np.float32 if dtype == "FLOAT" else np.int32)
    got = result(make, y, {"x": data})[0]
    np.testing.assert_array_equal(got, np.fmod(data + 3, 4).astype(data.dtype))
    assert got.dtype == data.dtype


def test_init() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT16", [2, 3], "x")
    zero = make.aiGraphcore.init([2, 3], popart.DataType.FLOAT16, popart.InitType.Zero)
    count = make.aiGraphcore.init([4], popart.DataType.INT32, popart.InitType.NoInit, 0, "count")
    y = make.aiOnnx.add([x, zero])
    data = np.arange(6, dtype=np.float16).reshape(2, 3)
    np.testing.assert_array_equal(result(make, y, {"x": data})[0], data)
    assert make.getTensorDtypeString(count) == "int32"
    assert make.getTensorShape(count) == [4]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.uint8])
def test_normalize_image(dtype: Any) -> None:
    make = builder()
    out = np.float32 if dtype == np.float32 else np.float16
    x = make.addInputTensor(popart.TensorInfo(dtype, [2, 2, 2, 3]), "x")
    offsets = make.addInputTensor(popart.TensorInfo(out, [3]), "offsets")
    scales = make.addInputTensor(popart.TensorInfo(out, [3]), "scales")
    y = make.aiGraphcore.normalize_image([x, offsets, scales], scale=1 / 255)
    random = np.random.default_rng(0)
    feeds = {
        "x": (random.random((2, 2, 2, 3)) * 255).astype(dtype),
        "offsets": np.array([1, 2, 3], out),
        "scales": np.array([4, 5, 6], out),
    }
    wide = {name: array.astype(np.float32) for name, array in feeds.items()}
    expected = np.zeros((2, 2, 2, 4), np.float32)
    expected[..., :3] = (wide["x"] / np.float32(255) - wide["offsets"]) * wide["scales"]
    got = result(make, y, feeds)[0]
    assert got.dtype == out
    np.testing.assert_allclose(got, expected, rtol=1e-5 if out == np.float32 else 1e-3)
    wrong = make.addInputTensor("FLOAT", [4], "wrong")
    with pytest.raises(popart_exception, match=r"the offsets must be .* got"):
        make.aiGraphcore.normalize_image([x, wrong, scales], 1.0)
    with pytest.raises(popart_exception, match="the image must have 3 channels in its last axis"):
        make.aiGraphcore.normalize_image([wrong, offsets, scales], 1.0)


def _spline_basis(pseudo: Array, sizes: Array, is_open: Array, degree: int) -> tuple[Array, Array]:
    """The recursion of Cox and de Boor over uniform knots, edge by edge."""

    def value(t: float, order: int) -> float:
        if order == 0:
            return 1.0 if 0 <= t < 1 else 0.0
        return (t * value(t, order - 1) + (order + 1 - t) * value(t - 1, order - 1)) / order

    edges, dimensions = pseudo.shape
    count = (degree + 1) ** dimensions
    basis, index = np.ones((edges, count)), np.zeros((edges, count), np.int32)
    for e, s, d in itertools.product(range(edges), range(count), range(dimensions)):
        piece = s // (degree + 1) ** d % (degree + 1)
        place = pseudo[e, d] * (sizes[d] - degree * is_open[d])
        between = place - np.floor(place)
        basis[e, s] *= value(between + degree - piece, degree)
        index[e, s] += (int(place) + piece) % sizes[d] * int(np.prod(sizes[:d]))
    return basis, index


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_spline_basis_and_weighting(degree: int) -> None:
    make = builder()
    pseudo = make.addInputTensor("FLOAT", [4, 2], "pseudo")
    sizes = make.addInputTensor("INT32", [2], "sizes")
    is_open = make.addInputTensor("UINT8", [2], "open")
    x = make.addInputTensor("FLOAT", [4, 3], "x")
    weight = make.addInputTensor("FLOAT", [30, 3, 2], "weight")
    basis, index = make.aiGraphcore.splinebasis([pseudo, sizes, is_open], degree)
    y = make.aiGraphcore.splineweighting([x, weight, basis, index])
    random = np.random.default_rng(degree)
    feeds = {
        "pseudo": np.array([[0.0, 0.05], [0.25, 0.95], [0.5, 0.33], [0.99, 0.71]], np.float32),
        "sizes": np.array([6, 5], np.int32),
        "open": np.array([1, 0], np.uint8),
        "x": random.standard_normal((4, 3)).astype(np.float32),
        "weight": random.standard_normal((30, 3, 2)).astype(np.float32),
    }
    wanted, places = _spline_basis(feeds["pseudo"], feeds["sizes"], feeds["open"], degree)
    got = result(make, [basis, index, y], feeds)
    np.testing.assert_allclose(got[0], wanted, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(got[1], places)
    assert got[1].dtype == np.int32
    sums = sum(
        wanted[:, s, None] * np.einsum("ei,eio->eo", feeds["x"], feeds["weight"][places[:, s]])
        for s in range(wanted.shape[1])
    )
    np.testing.assert_allclose(got[2], sums, rtol=1e-4, atol=1e-5)
    for call, message in (
        (lambda: make.aiGraphcore.splinebasis([pseudo, sizes, is_open], 4), "expected 1, 2 or 3"),
        (
            lambda: make.aiGraphcore.splinebasis([x, sizes, is_open], 1),
            r"the kernel_size must have shape \[3\]",
        ),
        (
            lambda: make.aiGraphcore.splineweighting([pseudo, weight, basis, index]),
            "does not take the 2 features",
        ),
        (
            lambda: make.aiGraphcore.splineweighting([x, weight, pseudo, index]),
            "must have one row for each of the 4 rows",
        ),
    ):
        with pytest.raises(popart_exception, match=message):
            call()


@pytest.mark.parametrize("axes", [None, [1], [-1, 0], [0, 1, 2]])
@pytest.mark.parametrize("keep", [0, 1])
def test_reduce_median(axes: list[int] | None, keep: int) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 3, 4], "x")
    names = make.aiGraphcore.reducemedian([x], axes, keep)
    data = np.random.default_rng(1).permutation(24).astype(np.float32).reshape(2, 3, 4)
    chosen = (0, 1, 2) if axes is None else tuple(axes)
    # The lower of the two in the middle.
    wanted = np.quantile(data, 0.5, axis=chosen, keepdims=bool(keep), method="lower")
    value, index = result(make, names, {"x": data})
    np.testing.assert_array_equal(value, wanted)
    assert index.dtype == np.int32
    whole = np.broadcast_to(
        np.quantile(data, 0.5, axis=chosen, keepdims=True, method="lower"), data.shape
    )
    at = [axis for axis in range(3) if axis in {axis % 3 for axis in chosen}]
    rest = [axis for axis in range(3) if axis not in at]
    hits = (data == whole).transpose(*rest, *at).reshape(*(data.shape[a] for a in rest), -1)
    np.testing.assert_array_equal(index.reshape(-1), hits.argmax(-1).reshape(-1))
    np.testing.assert_array_equal(gradient(make, names[0], x, {"x": data}), data == whole)


def test_the_median_of_no_axes_is_each_number() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 3], "x")
    data = np.arange(6, dtype=np.float32).reshape(2, 3)
    value, index = result(make, make.aiGraphcore.reducemedian([x], [], 0), {"x": data})
    np.testing.assert_array_equal(value, data)
    np.testing.assert_array_equal(index, np.zeros((2, 3)))


def test_the_median_of_nothing() -> None:
    make = builder()
    with pytest.raises(popart_exception, match="has no median: it has no elements"):
        make.aiGraphcore.reducemedian([make.addInputTensor("FLOAT", [0, 2])])


@pytest.mark.parametrize("right", [0, 1])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
def test_bucketize(right: int, dtype: Any) -> None:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo(dtype, [2, 3]), "x")
    bounds = make.addInputTensor(popart.TensorInfo(dtype, [4]), "bounds")
    y = make.aiGraphcore.bucketize([x, bounds], right)
    feeds = {
        "x": np.array([[0, 1, 2], [5, 7, 9]], dtype),
        "bounds": np.array([1, 3, 5, 7], dtype),
    }
    got = result(make, y, feeds)[0]
    wanted = np.digitize(feeds["x"], feeds["bounds"], right=not right)
    np.testing.assert_array_equal(got, wanted)
    assert got.dtype == np.int32
    with pytest.raises(popart_exception, match="The boundaries tensor rank = 2"):
        make.aiGraphcore.bucketize([x, x])
