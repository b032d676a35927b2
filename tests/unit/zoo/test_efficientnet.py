"""EfficientNet: layers as the paper's tables have them, and what rows and groups share."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.cost_model.program import Operator, Program
from paddle_ipu.zoo.efficientnet import EfficientNet
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.models import MODELS

SMALL = EfficientNet(0.25, 0.1, 32, 0.0, classes=5)
SMALL_G16 = replace(SMALL, group=16, expand=4, norm_groups=4)


def program_of(network: Any, training: bool = False) -> Program:
    main, builder = paddle.static.Program(), LayerBuilder(training)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=training, micro_batch_size=2)
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(main, paddle.static.Program()), names:
        result = network.build(builder, network.size)
        if training:
            paddle.optimizer.SGD(0.1).minimize(result)
    return predicted_program(main, strategy, builder.feeds, [result])


def convolutions(program: Program) -> dict[str, Operator]:
    """Layer -> its convolution."""
    return {op.origin.layer: op for op in program.operators if op.op_type == "Conv"}


def ran(network: EfficientNet, image: np.ndarray[Any, Any], training: bool) -> np.ndarray[Any, Any]:
    """What a network gives on Paddle's CPU executor, with weights that its seed chose."""
    main, builder = paddle.static.Program(), LayerBuilder(training)
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(main, paddle.static.Program()), names:
        result = network.build(builder, network.size)
    feed = {"image": image, "label": np.zeros((len(image), 1), np.int32)}
    with paddle.static.scope_guard(paddle.static.Scope()):
        for parameter in main.all_parameters():
            random = np.random.default_rng(sum(map(ord, parameter.name)))
            array = random.standard_normal(parameter.shape).astype(np.float32)
            if parameter.name.endswith(("scale", "variance")):
                array = np.abs(array) + 0.5
            tensor = paddle.static.global_scope().var(parameter.name).get_tensor()
            tensor.set(array / math.sqrt(max(1, array[0].size)), paddle.CPUPlace())
        (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
            main, feed={name: feed[name] for name in builder.feeds}, fetch_list=[result]
        )
    return np.asarray(found)


def images(rows: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).integers(0, 256, (rows, 3, 32, 32)).astype(np.uint8)


@pytest.mark.parametrize(
    ("name", "channels", "sides"),
    [
        (
            "efficientnet-b0",
            [16, 24, 40, 80, 112, 192, 320, 1280],
            [112, 56, 28, 14, 14, 7, 7, 7],
        ),
        (
            "efficientnet-b4",
            [24, 32, 56, 112, 160, 272, 448, 1792],
            [190, 95, 48, 24, 24, 12, 12, 12],
        ),
    ],
)
def test_stages_make_the_images_of_the_papers_first_table(
    name: str, channels: list[int], sides: list[int], static_mode: None
) -> None:
    made = convolutions(program_of(MODELS[name].network))
    last = {layer.split(".")[1]: op for layer, op in made.items() if layer.endswith("project")}
    shapes = [op.outputs[0].dims for op in (*last.values(), made["head"])]
    assert shapes == [(2, c, side, side) for c, side in zip(channels, sides, strict=True)]


def test_the_variant_for_ipus_convolves_groups_of_16_channels(static_mode: None) -> None:
    """But of the 24 channels of B4's second block, which are one group."""
    made = convolutions(program_of(MODELS["efficientnet-b4-g16"].network))
    widths = {layer: op.read[1].dims[1] for layer, op in made.items() if layer.endswith("spatial")}
    assert widths.pop("blocks.0.1.spatial") == 24
    assert set(widths.values()) == {16}


@pytest.mark.parametrize("network", [SMALL, SMALL_G16])
def test_the_end_of_each_block_is_kept(network: EfficientNet, static_mode: None) -> None:
    program = program_of(network, training=True)
    blocks = {
        op.origin.layer.rpartition(".")[0]
        for op in program.operators
        if op.origin.layer.endswith("project")
    }
    kept = [op for op in program.operators if op.checkpoint and len(op.outputs[0].dims) == 4]
    assert len(kept) == len(blocks) == 7


@pytest.mark.parametrize("network", [SMALL, SMALL_G16])
def test_a_row_is_classified_by_itself_in_inference(
    network: EfficientNet, static_mode: None
) -> None:
    both = ran(network, images(2), training=False)
    one = ran(network, images(1), training=False)
    np.testing.assert_allclose(both[:1], one, rtol=1e-4, atol=1e-5)
    assert np.abs(both[0] - both[1]).max() > 1e-3


@pytest.mark.parametrize(
    ("network", "shares"), [(SMALL, True), (SMALL_G16, False)], ids=["batch", "group"]
)
def test_rows_share_statistics_by_batch_norm_alone(
    network: EfficientNet, shares: bool, static_mode: None
) -> None:
    """The loss of two equal rows beside one of them with another."""
    pair = images(2)
    alone = [float(ran(network, np.stack([row, row]), training=True)) for row in pair]
    together = float(ran(network, pair, training=True))
    assert (abs(together - sum(alone) / 2) > 1e-3) is shares


def test_stochastic_depth_leaves_out_whole_rows(static_mode: None) -> None:
    main, builder = paddle.static.Program(), LayerBuilder(True)
    with paddle.static.program_guard(main, paddle.static.Program()):
        kept = builder.dropped_rows(builder.feed("x", [3, 4, 4], "float32"), 0.25)
    (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
        main, feed={"x": np.ones((400, 3, 4, 4), np.float32)}, fetch_list=[kept]
    )
    rows = np.asarray(found).reshape(400, -1)
    assert (rows == rows[:, :1]).all()
    np.testing.assert_allclose(np.unique(rows), [0.0, 4 / 3], rtol=1e-6)
    assert 50 < (rows[:, 0] == 0.0).sum() < 150
