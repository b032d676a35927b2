"""What a script sets on a product that PopART would refuse is refused, and says where."""

from __future__ import annotations

import re
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import NotSupported
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import Built, build, pair

pytestmark = pytest.mark.usefixtures("static_mode")

HERE = re.escape(__file__)


def _product(attributes: dict[str, Any], *axes: int, transposed: bool = False) -> Built:
    """``x @ w`` with x [rows, *axes] and w [last axis, 6] or its transpose, and attributes."""

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, *axes], "float32")
        shape = [6, axes[-1]] if transposed else [axes[-1], 6]
        y = paddle.matmul(x, paddle.create_parameter(shape, "float32"), transpose_y=transposed)
        for name, value in attributes.items():
            y.block.ops[-1]._set_attr(name, value)
        return ["x"], {"y": y}, None

    return build(make)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        (
            {"serialize_factor": 4},
            "Invalid serialisation factor 4 for output channels dim 6. output_channels dim should "
            r"be a multiple of the serialisation factor. The product is of \[2, 8\] and \[8, 6\]; "
            r"set serialize_factor to a divisor of that axis, serialize_mode \(here "
            r"output_channels\) to another of input_channels, reducing_dim, output_channels, or "
            "leave both out: no number depends on them.",
        ),
        (
            {"serialize_factor": 3, "serialize_mode": "input_channels"},
            "Invalid serialisation factor 3 for input channels dim 2",
        ),
        (
            {"serialize_factor": 3, "serialize_mode": "reducing_dim"},
            "Invalid serialisation factor 3 for reducing dimension 8",
        ),
        ({"serialize_factor": 0}, "Invalid serialisation factor 0. Serialisation factor must be"),
        (
            {"serialize_factor": 2, "serialize_mode": "rows"},
            "is used in a way that PopART does not take: Unsupported mat mul serialization mode "
            "'rows'",
        ),
        (
            {"__available_memory": 1.5},
            r"is used in a way that PopART does not take: availableMemoryProportion must be in",
        ),
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_how_a_product_is_computed(attributes: Any, told: str, transposed: bool) -> None:
    built = _product(attributes, 8, transposed=transposed)
    refused(
        NotSupported,
        rf"^matmul at {HERE}:\d+:? {told}",
        built,
        is_training=False,
        micro_batch_size=2,
    )


def test_a_product_of_many_axes_is_not_cut() -> None:
    told = (
        r"serialize_factor is 2, and x has 4 axes: \[2, 3, 4, 8\]. PopART cuts products of "
        "operands with up to 3: reshape it, or leave serialize_factor out."
    )
    built = _product({"serialize_factor": 2}, 3, 4, 8)
    refused(
        NotSupported,
        rf"^matmul at {HERE}:\d+: {told}",
        built,
        is_training=False,
        micro_batch_size=2,
    )


@pytest.mark.parametrize(
    "attributes",
    [
        {"serialize_factor": 4, "serialize_mode": "none"},
        {"serialize_factor": 3},
        {"serialize_factor": 2, "serialize_mode": "input_channels"},
        {"serialize_factor": 8, "serialize_mode": "reducing_dim"},
        # As upstream has it, 0 sets no share.
        {"__available_memory": 0.0},
        {"__available_memory": 1.0},
    ],
)
def test_what_is_taken(attributes: dict[str, Any]) -> None:
    pair(_product(attributes, 8), is_training=False, micro_batch_size=2)
