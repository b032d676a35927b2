"""What the Builder makes of a transposed convolution, and what it says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder

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
]


@pytest.mark.parametrize(("call", "message"), REFUSED)
def test_what_does_not_fit_is_refused(call: Call, message: str) -> None:
    make = builder()
    inputs = _inputs(make)
    with pytest.raises(popart_exception, match=message):
        call(make.aiOnnx, inputs)
