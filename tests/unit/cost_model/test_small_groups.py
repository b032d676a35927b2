"""Convolutions of groups of at most four channels slide their windows, as poplibs' SLIC does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.matmul_plan import Product, Sliding, plan_product, sliding_cycles
from paddle_ipu.cost_model.operator_cost import conv_products
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.popart.options import SessionOptions

GC200 = machine_named("POD4").processor


def convolution(
    channels: int, kernel: int, stride: int = 1, *, groups: int = 8, dtype: str = "float16"
) -> Program:
    """One convolution of groups of so many channels on two images of 32 x 32, trained."""
    builder = Builder()
    width = channels * groups
    x = builder.addInputTensor(
        {"float16": "FLOAT16", "float32": "FLOAT"}[dtype], [2, width, 32, 32]
    )
    weights = [
        builder.addInitializedInputTensor(np.zeros(shape, dtype))
        for shape in ((width, width, 1, 1), (width, channels, kernel, kernel))
    ]
    x = builder.aiOnnx.conv([x, weights[0]])
    pad = kernel // 2
    x = builder.aiOnnx.conv(
        [x, weights[1]], group=groups, strides=[stride, stride], pads=[pad, pad, pad, pad]
    )
    loss = builder.aiGraphcore.l1loss([x], 0.1)
    optimizer: Any = SGD({"defaultLearningRate": (0.1, False)})
    flow = DataFlow(1, {loss: AnchorReturnType("All")})
    return read_program(builder.model, flow, SessionOptions(), optimizer, loss=loss)


def products(program: Program) -> tuple[Product, Product, Product]:
    """Forward, and the gradients of what is read and of the weights."""
    last = [op for op in program.operators if op.op_type == "Conv"][-1]
    forward, (data, weights) = conv_products(last)
    return forward, data, weights


def test_filters_gradients_read_an_image_anew_for_each_column_of_the_window() -> None:
    square, stepped = (products(convolution(16, 3, stride))[2] for stride in (1, 2))
    assert (square.left_share, stepped.left_share) == (1 / 3, 2 / 3)
    builder = Builder()
    x = builder.addInputTensor("FLOAT16", [2, 16, 1, 64])
    first = builder.addInitializedInputTensor(np.zeros((16, 16, 1, 1), "float16"))
    line = builder.addInitializedInputTensor(np.zeros((16, 16, 1, 15), "float16"))
    x = builder.aiOnnx.conv([builder.aiOnnx.conv([x, first]), line], pads=[0, 7, 0, 7])
    loss = builder.aiGraphcore.l1loss([x], 0.1)
    optimizer: Any = SGD({"defaultLearningRate": (0.1, False)})
    flow = DataFlow(1, {loss: AnchorReturnType("All")})
    program = read_program(builder.model, flow, SessionOptions(), optimizer, loss=loss)
    _, _, weights = products(program)
    # 15 columns of one line: 15 times as many elements as the image has.
    assert weights.left_share == 1.0
    assert (weights.piece, weights.turned) == (64, {"left", "right"})


@pytest.mark.parametrize(
    ("channels", "kernel", "stride", "forward", "backward"),
    [
        # Eight groups of one channel are two fours; a row of 3 is filled up to 4, one of 5 to 8.
        (1, 3, 1, Sliding(1, 2, 3, 1), Sliding(1, 2, 3, 1)),
        (1, 5, 1, Sliding(1, 2, 10, 1), Sliding(1, 2, 10, 1)),
        (2, 3, 1, Sliding(2, 4, 3, 1), Sliding(2, 4, 3, 1)),
        # Three channels are filled up to four; five such groups fill the AMP unit.
        (3, 3, 1, Sliding(4, 5, 3, 1), Sliding(4, 5, 3, 1)),
        (4, 3, 1, Sliding(4, 4, 3, 1), Sliding(4, 4, 3, 1)),
        # Backward of a stride has windows of 2 x 2, and of 3 x 3.
        (4, 3, 2, Sliding(4, 4, 3, 2), Sliding(4, 4, 2, 1)),
        (4, 5, 2, Sliding(4, 4, 10, 2), Sliding(4, 4, 3, 1)),
    ],
)
def test_windows_slide_by_four_positions_and_four_channels(
    channels: int, kernel: int, stride: int, forward: Sliding, backward: Sliding
) -> None:
    found = products(convolution(channels, kernel, stride))
    assert [product.sliding for product in found] == [forward, backward, None]


@pytest.mark.parametrize(
    "program",
    [
        convolution(8, 3),
        convolution(4, 3, 3),
        convolution(4, 3, groups=1),
        convolution(1, 3, dtype="float32"),
    ],
    ids=["eight channels", "stride of 3", "one group", "float32"],
)
def test_others_do_not(program: Program) -> None:
    assert [product.sliding for product in products(program)] == [None, None, None]


def test_sliding_cycles_by_hand() -> None:
    # 96 positions are 16 a worker, on three lines of 7; poplibs loads weights of four groups in 97
    # cycles, has 26 of the supervisor, 19 of each worker and 20 for each line.
    found = sliding_cycles(96, Sliding(1, 4, 3, 1), 2, GC200, 7)
    assert found == 288 + 4 * 3 * (97 + 26 + 6 * (19 + 3 * 20 + 16))


def test_a_position_takes_a_cycle_for_each_four_positions_of_the_window() -> None:
    """In the limit of a long line, of all workers together; the AMP unit's 16 channels take 36."""
    depthwise = Sliding(channels=1, quads=4, blocks=3, stride=1)
    more, fewer = (sliding_cycles(m, depthwise, 2, GC200, m) for m in (120_000, 60_000))
    assert (more - fewer) / 60_000 == pytest.approx(4 * 3)
    two = replace(depthwise, stride=2)
    more, fewer = (sliding_cycles(m, two, 2, GC200, m) for m in (120_000, 60_000))
    assert (more - fewer) / 60_000 == pytest.approx(2 * 4 * 3)
    # Partial sums in float: the input is passed twice.
    more, fewer = (sliding_cycles(m, depthwise, 4, GC200, m) for m in (120_000, 60_000))
    assert (more - fewer) / 60_000 == pytest.approx(2 * 4 * 3)


def test_the_faster_of_both_ways_is_planned() -> None:
    forward = products(convolution(1, 3, groups=64))[0]
    large, small = (replace(forward, m=rows, partial=2) for rows in (400_000, 64))
    without = [plan_product(replace(one, sliding=None), GC200, 0.6) for one in (large, small)]
    found = [plan_product(one, GC200, 0.6) for one in (large, small)]
    assert found[0].compute < 0.6 * without[0].compute
    assert found[1].cycles <= without[1].cycles
