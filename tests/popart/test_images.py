"""What the Builder makes of operators on images, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.popart.session_programs import builder

Call = Callable[[Any, dict[str, str]], Any]


def _inputs(make: popart.Builder) -> dict[str, str]:
    shapes = {
        "image": ("FLOAT", [2, 4, 5, 6]),
        "line": ("FLOAT", [2, 4, 5]),
        "weights": ("FLOAT", [4, 3, 3, 2]),
        "bias": ("FLOAT", [2]),
        "boxes": ("FLOAT", [3, 4]),
        "images": ("INT32", [3]),
        "matrix": ("INT32", [3, 1]),
    }
    found = {name: str(make.addInputTensor(*given, name)) for name, given in shapes.items()}
    found["scales"] = str(make.aiOnnx.constant(np.asarray([1, 1, 2, 0.5], np.float32)))
    found["one scale"] = str(make.aiOnnx.constant(np.asarray([2], np.float32)))
    found["none"] = str(make.aiOnnx.constant(np.zeros(0, np.float32)))
    found["sizes"] = str(make.aiOnnx.constant(np.asarray([2, 4, 3, 9], np.int64)))
    found["one size"] = str(make.aiOnnx.constant(np.asarray([2], np.int64)))
    return found


SHAPES: list[tuple[Call, list[int]]] = [
    (lambda o, i: o.convtranspose([i["image"], i["weights"]]), [2, 3, 7, 7]),
    (
        lambda o, i: o.convtranspose(
            [i["image"], i["weights"]],
            group=2,
            strides=[2, 3],
            pads=[1, 0, 0, 1],
            output_padding=[1, 2],
        ),
        [2, 6, 11, 18],
    ),
    (lambda o, i: o.convtranspose([i["image"], i["weights"]], output_shape=[6, 6]), [2, 3, 6, 6]),
    (lambda o, i: o.resize([i["image"], i["none"], i["scales"]]), [2, 4, 10, 3]),
    (lambda o, i: o.resize([i["image"], i["none"], i["none"], i["sizes"]]), [2, 4, 3, 9]),
    (lambda o, i: o.lrn([i["image"]], 3), [2, 4, 5, 6]),
    (
        lambda o, i: o.roialign(
            [i["image"], i["boxes"], i["images"]], output_height=2, output_width=3
        ),
        [3, 4, 2, 3],
    ),
]


@pytest.mark.parametrize(("call", "expected"), SHAPES)
def test_shapes(call: Call, expected: list[int]) -> None:
    make = builder()
    assert make.getTensorShape(call(make.aiOnnx, _inputs(make))) == expected


REFUSED: list[tuple[Call, str]] = [
    (
        lambda o, i: o.convtranspose([i["weights"], i["weights"]]),
        "Unexpected number of channels in the input tensor: 3. Given non-transposed weight",
    ),
    (
        lambda o, i: o.convtranspose([i["image"], i["weights"]], dilations=[2, 1]),
        "Non default value for dilations is not supported",
    ),
    (
        lambda o, i: o.convtranspose([i["image"], i["weights"], i["bias"]]),
        r"the bias must have shape \[3\]",
    ),
    (
        lambda o, i: o.convtranspose([i["image"], i["weights"]], output_shape=[6]),
        r"output_shape \[6\] must have 2 sizes",
    ),
    (
        lambda o, i: o.convtranspose([i["image"], i["weights"]], pads=[9, 9, 9, 9]),
        r"has invalid output shape, \[-11, -11\]",
    ),
    (
        lambda o, i: o.resize([i["image"], i["none"], i["scales"]], exclude_outside=1),
        "Unsupported value '1' for attribute 'exclude_outside'",
    ),
    (
        lambda o, i: o.resize([i["image"], i["none"], i["scales"]], mode="best"),
        "Unrecognised resize mode",
    ),
    (
        lambda o, i: o.resize([i["image"], i["none"], i["scales"]], nearest_mode="best"),
        "Unrecognised resize nearest mode best",
    ),
    (
        lambda o, i: o.resize(
            [i["image"], i["none"], i["scales"]],
            coordinate_transformation_mode="tf_crop_and_resize",
        ),
        "Unsupported coordinate transformation mode",
    ),
    (
        lambda o, i: o.resize(
            [i["image"], i["none"], i["scales"]], coordinate_transformation_mode="best"
        ),
        "Unrecognised resize coordinate transformation mode best",
    ),
    (
        lambda o, i: o.resize([i["image"], i["none"], i["one scale"]]),
        r"dimensions of the resize op scales \(1\) must match the number of dimensions .* \(4\)",
    ),
    (
        lambda o, i: o.resize([i["image"], i["none"], i["none"], i["one size"]]),
        r"length of sizes \(1\) does not match the rank of input shape \(4\)",
    ),
    (
        lambda o, i: o.roialign([i["line"], i["boxes"], i["images"]]),
        "The size of input data must be 4",
    ),
    (
        lambda o, i: o.roialign([i["image"], i["bias"], i["images"]]),
        "The size of input rois must be 2",
    ),
    (
        lambda o, i: o.roialign([i["image"], i["boxes"], i["matrix"]]),
        "The size of input batch_index must be 1",
    ),
    (
        lambda o, i: o.roialign([i["image"], i["boxes"], i["images"]], mode="max"),
        "mode 'max' is not supported",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_does_not_fit_is_refused(call: Call, message: str) -> None:
    make = builder()
    inputs = _inputs(make)
    with pytest.raises(popart_exception, match=message):
        call(make.aiOnnx, inputs)
