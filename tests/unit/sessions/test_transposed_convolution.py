"""What the Builder makes of a transposed convolution, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import Array, builder, infer, run

Call = Callable[[Any, dict[str, str]], Any]


def _inputs(make: popart.Builder) -> dict[str, str]:
    shapes = {
        "image": ("FLOAT", [2, 4, 5, 6]),
        "weights": ("FLOAT", [4, 3, 3, 2]),
        "bias": ("FLOAT", [2]),
    }
    return {name: str(make.addInputTensor(*given, name)) for name, given in shapes.items()}


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
    (
        lambda o, i: o.convtranspose(
            [i["image"], i["weights"]], pads=[1, 0, 0, 1], output_shape=[2, 3, 6, 6]
        ),
        [2, 3, 6, 6],
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
        lambda o, i: o.convtranspose([i["image"], i["weights"]], output_shape=[2, 3, 6, 6]),
        r"output_shape \[2, 3, 6, 6\] must be \[2, 3, 7, 7\], as the pads give",
    ),
    (
        lambda o, i: o.convtranspose([i["image"], i["weights"]], pads=[9, 9, 9, 9]),
        r"has invalid output shape, \[-11, -11\]",
    ),
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_does_not_fit_is_refused(call: Call, message: str) -> None:
    make = builder()
    inputs = _inputs(make)
    with pytest.raises(popart_exception, match=message):
        call(make.aiOnnx, inputs)


def _full(x: Array, w: Array, stride: int) -> Array:
    """Each element of x [n] times the kernel w [k], added up where it lies."""
    out = np.zeros(stride * (len(x) - 1) + len(w), np.float32)
    for at, value in enumerate(x):
        out[at * stride : at * stride + len(w)] += value * w
    return out


def _added(mode: str | None, size: int | None) -> tuple[popart.Builder, str]:
    """x [1, 1, 4] and w [1, 1, 5], stride 2, with `auto_pad` added to the node."""
    make = builder()
    x = make.addInputTensor("FLOAT", [1, 1, 4], "x")
    w = make.addInputTensor("FLOAT", [1, 1, 5], "w")
    sizes = [] if size is None else [size]
    y = make.aiOnnx.convtranspose([x, w], strides=[2], output_shape=sizes)
    if mode is not None:
        make.addNodeAttribute("auto_pad", mode, {y})
    return make, y


@pytest.mark.parametrize("mode", [None, "NOTSET", "SAME_LOWER", "SAME_UPPER"])
@pytest.mark.parametrize("size", [11, 10, 9, 8])
def test_where_an_odd_rest_is_cut_off(mode: str | None, size: int) -> None:
    """At the end; SAME_UPPER cuts it off at the start."""
    make, y = _added(mode, size)
    x, w = np.arange(1, 5, dtype=np.float32), np.array([1, 10, 100, 3, 7], np.float32)
    whole = _full(x, w, 2)
    less = (len(whole) - size) // 2
    more = len(whole) - size - less
    start = more if mode == "SAME_UPPER" else less
    got = run(infer(make.getModelProto(), {y: "All"}), {"x": x[None, None], "w": w[None, None]})
    np.testing.assert_array_equal(got[y][0, 0], whole[start : start + size])


@pytest.mark.parametrize(
    ("mode", "size", "message"),
    [
        ("VALID", 9, "^`VALID` type for auto_pad cannot be used if the `output_shape` is also set"),
        (
            "SAME_UPPER",
            None,
            "^auto_pad SAME_UPPER of a ConvTranspose needs output_shape with 1 sizes",
        ),
        (
            "SAME_LOWER",
            None,
            "^auto_pad SAME_LOWER of a ConvTranspose needs output_shape with 1 sizes",
        ),
    ],
)
def test_auto_pad_that_says_nothing(mode: str, size: int | None, message: str) -> None:
    make, y = _added(mode, size)
    for model in (make.model, make.getModelProto()):
        with pytest.raises(popart_exception, match=message):
            infer(model, {y: "All"})
