"""Resize, Upsample, LRN and RoiAlign of ai.onnx: numbers, gradients, refusals.

ONNX's node tests have more of them, see `tests.operators.onnx_nodes`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.builder import Builder
from tests.unit.sessions.session_programs import builder, infer, run

Array = np.ndarray[Any, Any]
X = np.arange(1, 17, dtype=np.float32).reshape(1, 1, 4, 4)


def _constants(make: popart.Builder, *arrays: Any) -> list[str]:
    return [make.aiOnnx.constant(np.asarray(array)) for array in arrays]


def _resize(make: popart.Builder, x: str, scales: Any, sizes: Any, **options: Any) -> str:
    roi = np.asarray(options.pop("roi", ()), np.float32)
    inputs = _constants(make, roi, np.asarray(scales, np.float32), np.asarray(sizes, np.int64))
    return str(make.aiOnnx.resize([x, *inputs], **options))


def _one(array: Array, scales: Any, sizes: Any, **options: Any) -> Array:
    make = builder()
    x = make.addInputTensor(popart.TensorInfo(array.dtype, list(array.shape)), "x")
    y = _resize(make, x, scales, sizes, **options)
    return run(infer(make.model, {y: "All"}), {"x": array})[y]


@pytest.mark.parametrize(
    ("mode", "out"),
    [
        ("round_prefer_floor", [1, 1, 2, 2, 3]),
        ("round_prefer_ceil", [1, 2, 2, 3, 3]),
        ("floor", [1, 1, 2, 2, 3]),
        ("ceil", [1, 2, 2, 3, 3]),
    ],
)
def test_the_nearest_element(mode: str, out: list[int]) -> None:
    """Places are 0, 0.5, 1, 1.5 and 2."""
    x = np.array([1, 2, 3], np.float32)
    options = {"coordinate_transformation_mode": "align_corners", "nearest_mode": mode}
    np.testing.assert_array_equal(_one(x, [], [5], **options), out)


def _onnx_resized(x: Array, scales: Any, sizes: Any, options: dict[str, Any]) -> Array:
    """What ONNX's reference implementation makes of it."""
    inputs = [helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, x.shape)]
    tensors = [
        numpy_helper.from_array(np.asarray(scales, np.float32), "scales"),
        numpy_helper.from_array(np.asarray(sizes, np.int64), "sizes"),
    ]
    names = ["x", "", "" if len(sizes) else "scales", *(["sizes"] if len(sizes) else [])]
    node = helper.make_node("Resize", names, ["y"], **options)
    outputs = [helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)]
    graph = helper.make_graph([node], "resize", inputs, outputs, tensors)
    # That of opset 11 asks for a region that nobody reads.
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    (out,) = ReferenceEvaluator(model).run(None, {"x": x})
    return np.asarray(out)


PLACES = ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric")


# onnx 1.17 counts the corners of no element.
@pytest.mark.filterwarnings("ignore:divide by zero encountered in scalar floor_divide")
@pytest.mark.parametrize("coordinates", PLACES)
@pytest.mark.parametrize("mode", ["nearest", "linear", "cubic"])
@pytest.mark.parametrize("scale", [0.3, 0.51, 0.8, 1.5, 2.6, 3.0001])
def test_lengths_that_are_no_whole_numbers(mode: str, coordinates: str, scale: float) -> None:
    """As ONNX's reference: formulas have the length before it is rounded down."""
    options = {"mode": mode, "coordinate_transformation_mode": coordinates}
    for size in (2, 3, 7):
        x = np.random.default_rng(size).random((1, size), np.float32)
        wanted = _onnx_resized(x, [1.0, scale], [], options)
        got = _one(x, [1.0, scale], [], **options)
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-6)


def test_lengths_are_of_single_precision() -> None:
    """0.7 is a little less in single precision, and 10 times that is 7 again."""
    assert _one(np.zeros(10, np.float32), [0.7], []).shape == (7,)
    assert _one(np.zeros(3, np.float32), [np.nextafter(np.float32(2), 0)], []).shape == (5,)


@pytest.mark.parametrize("coordinates", PLACES)
@pytest.mark.parametrize("dtype", [np.int64, np.int32])
def test_sizes_instead_of_scales(coordinates: str, dtype: Any) -> None:
    """The name of the scales is empty then, that of the region may be too."""
    x = np.random.default_rng(0).random((2, 3), np.float32)
    options = {"mode": "linear", "coordinate_transformation_mode": coordinates}
    for size in (1, 2, 3, 7):
        make = builder()
        name = make.addInputTensor(popart.TensorInfo("FLOAT", [2, 3]), "x")
        (sizes,) = _constants(make, np.array([2, size], dtype))
        y = make.aiOnnx.resize([name, "", "", sizes], **options)
        got = run(infer(make.getModelProto(), {y: "All"}), {"x": x})[y]
        np.testing.assert_allclose(got, _onnx_resized(x, [], [2, size], options), rtol=1e-5)


@pytest.mark.parametrize("mode", ["round_prefer_floor", "pytorch", "floor", "ceil"])
@pytest.mark.parametrize("opset", [10, 11])
@pytest.mark.parametrize("scale", [0.51, 2.0, 2.6, 3.0001])
def test_spellings_of_the_nearest_element(opset: int, mode: str, scale: float) -> None:
    """`nearest_mode` may be added to a node of opset 10 too; ``pytorch`` is PopART's own."""
    make = Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
    x = make.addInputTensor(popart.TensorInfo("FLOAT", [7]), "x")
    scales = make.aiOnnx.constant(np.array([scale], np.float32))
    if opset == 10:
        y = make.aiOnnx.resize([x, scales])
        make.addNodeAttribute("nearest_mode", mode, {y})
    else:
        y = make.aiOnnx.resize([x, "", scales], nearest_mode=mode)
    data = np.arange(7, dtype=np.float32)
    at = np.arange(int(7 * scale))
    place = at / scale if mode == "pytorch" else (at + 0.5) / scale - 0.5
    rounded = {
        "round_prefer_floor": np.ceil(place - 0.5),
        "pytorch": np.floor(place),
        "floor": np.floor(place),
        "ceil": np.ceil(place),
    }[mode]
    got = run(infer(make.getModelProto(), {y: "All"}), {"x": data})[y]
    np.testing.assert_array_equal(got, np.clip(rounded, 0, 6))


def test_integers_stay_integers() -> None:
    got = _one(np.array([3, 1, 2], np.int32), [2.0], [])
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, [3, 3, 1, 1, 2, 2])


@pytest.mark.parametrize(
    ("coordinates", "places"),
    [
        ("half_pixel", [-0.25, 0.25, 0.75, 1.25, 1.75, 2.25]),
        ("pytorch_half_pixel", [-0.25, 0.25, 0.75, 1.25, 1.75, 2.25]),
        ("align_corners", [0, 0.4, 0.8, 1.2, 1.6, 2]),
        ("asymmetric", [0, 0.5, 1, 1.5, 2, 2.5]),
        ("tf_half_pixel_for_nn", [0.25, 0.75, 1.25, 1.75, 2.25, 2.75]),
    ],
)
def test_linear_interpolation(coordinates: str, places: list[float]) -> None:
    x = np.array([1, 3, 8], np.float32)
    got = _one(x, [2.0], [], mode="linear", coordinate_transformation_mode=coordinates)
    np.testing.assert_allclose(got, np.interp(places, [0, 1, 2], x), rtol=1e-6)


def test_a_region_is_cut_out() -> None:
    options = {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}
    x = np.array([1, 3, 8], np.float32)
    got = _one(x, [], [3], roi=[0.5, 1.5], extrapolation_value=-1.0, **options)
    np.testing.assert_allclose(got, [3, 8, -1], rtol=1e-6)


def test_a_polynomial_of_degree_two_survives_cubic_interpolation() -> None:
    """With the coefficient -0.5, away from the edges."""
    x = np.arange(8, dtype=np.float32) ** 2
    got = _one(x, [2.0], [], mode="cubic", cubic_coeff_a=-0.5)
    places = (np.arange(16) + 0.5) / 2 - 0.5
    np.testing.assert_allclose(got[3:-3], places[3:-3] ** 2, rtol=1e-5)


@pytest.mark.parametrize(("opset", "method"), [(9, "upsample"), (10, "resize")])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_up_to_opset_10(opset: int, method: str, mode: str) -> None:
    make = Builder(opsets={"ai.onnx": opset})
    x = make.addInputTensor("FLOAT", [3], "x")
    scales = make.aiOnnx.constant(np.array([2], np.float32))
    y = getattr(make.aiOnnx, method)([x, scales], mode)
    data = np.array([1, 3, 8], np.float32)
    places = np.arange(6) / 2
    wanted = data[np.floor(places).astype(int)]
    if mode == "linear":
        wanted = np.interp(places, [0, 1, 2], data)
    np.testing.assert_allclose(run(infer(make.model, {y: "All"}), {"x": data})[y], wanted)


def _gradient(make: popart.Builder, y: str, cotangent: Array, feeds: dict[str, Array]) -> Array:
    weight = make.aiOnnx.constant(cotangent)
    product = make.aiOnnx.mul([y, weight])
    loss = make.aiGraphcore.identityloss([product], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        make.model,
        popart.DataFlow(1, {"Gradient___x": popart.AnchorReturnType("All")}),
        loss,
        popart.SGD({"defaultLearningRate": (0.0, False)}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    return run(session, feeds)["Gradient___x"]


def test_the_gradient_of_nearest_adds_what_an_element_became() -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [3], "x")
    y = _resize(make, x, [2.0], [])
    got = _gradient(make, y, np.arange(6, dtype=np.float32), {"x": np.ones(3, np.float32)})
    np.testing.assert_array_equal(got, [1, 5, 9])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"mode": "area"}, "mode is 'area', expected one of nearest, linear, cubic"),
        ({"nearest_mode": "up"}, "nearest_mode is 'up', expected one of round_prefer_floor"),
        (
            {"coordinate_transformation_mode": "corner"},
            "coordinate_transformation_mode is 'corner', expected one of half_pixel",
        ),
        (
            {"scales": [1.0] * 4, "sizes": [1] * 4},
            r"^Resize op has inputs for `sizes` and `scales`. Only one of these tensors should be",
        ),
        ({"scales": []}, "^Resize op has no input for `size` or `scales`. One of these tensors"),
        (
            {"scales": [2.0]},
            r"resize op scales \(1\) must match the number of dimensions of the inp",
        ),
        ({"scales": [1, 1, 0, 1]}, "scales must be positive, got"),
        ({"scales": [], "sizes": [2]}, r"sizes \[2\] must hold one size for each of the 4 dim"),
        (
            {"coordinate_transformation_mode": "tf_crop_and_resize", "roi": [0.0, 1.0]},
            "roi must hold a start and an end for each of the 4 dimensions",
        ),
    ],
)
def test_resizing_that_is_refused(options: dict[str, Any], message: str) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", list(X.shape), "x")
    given = {"scales": [1.0, 1.0, 2.0, 2.0], "sizes": [], **options}
    with pytest.raises(popart_exception, match=message):
        _resize(make, x, given.pop("scales"), given.pop("sizes"), **given)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_local_response_normalization(size: int) -> None:
    make = builder()
    x = make.addInputTensor("FLOAT", [2, 4, 3], "x")
    y = make.aiOnnx.lrn([x], size, alpha=0.5, beta=0.6, bias=1.5)
    data = np.random.default_rng(size).standard_normal((2, 4, 3)).astype(np.float32)

    def reference(data: Array) -> Array:
        squares = np.zeros_like(data)
        for channel in range(4):
            low, high = channel - (size - 1) // 2, channel + size // 2 + 1
            squares[:, channel] = (data[:, max(low, 0) : high] ** 2).sum(1)
        return np.asarray(data / (1.5 + 0.5 / size * squares) ** 0.6)

    got = run(infer(make.model, {y: "All"}), {"x": data})[y]
    np.testing.assert_allclose(got, reference(data), rtol=1e-5)
    weights = np.random.default_rng(9).standard_normal(data.shape).astype(np.float32)
    gradient = _gradient(make, y, weights, {"x": data})
    wide, step = data.astype(np.float64), 1e-6
    for at in np.ndindex(data.shape):
        moved = np.zeros_like(wide)
        moved[at] = step
        slope = ((reference(wide + moved) - reference(wide - moved)) * weights).sum() / (2 * step)
        assert gradient[at] == pytest.approx(slope, rel=1e-3, abs=1e-5)
    with pytest.raises(popart_exception, match="LRN requires size to be >= 1. size is 0"):
        make.aiOnnx.lrn([x], 0)


def test_roi_align_of_whole_pixels() -> None:
    """A box over 2 x 2 pixels, two samples an axis: the mean of bilinear samples."""
    make = builder()
    x = make.addInputTensor("FLOAT", list(X.shape), "x")
    boxes = make.addInputTensor("FLOAT", [2, 4], "boxes")
    images = make.addInputTensor("INT32", [2], "images")
    y = make.aiOnnx.roialign([x, boxes, images], "avg", 1, 1, 2, 0.5)
    feeds = {
        "x": X,
        "boxes": np.array([[0, 0, 4, 4], [2, 2, 6, 6]], np.float32),
        "images": np.zeros(2, np.int32),
    }
    got = run(infer(make.model, {y: "All"}), feeds)[y]
    # The samples lie at 0.5 and 1.5, and one pixel further: X grows by 1 and by 4 a pixel.
    np.testing.assert_allclose(got.reshape(-1), [6, 11], rtol=1e-6)
    with pytest.raises(popart_exception, match="mode is 'max', PopART has avg only"):
        make.aiOnnx.roialign([x, boxes, images], "max")
    with pytest.raises(popart_exception, match="The size of input rois must be 2"):
        make.aiOnnx.roialign([x, make.addInputTensor("FLOAT", [4]), images])
    with pytest.raises(popart_exception, match=r"the boxes must have shape \[R, 4\]"):
        make.aiOnnx.roialign([x, boxes, make.addInputTensor("INT32", [3])])
