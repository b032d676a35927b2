"""U-Net: images as the paper's figure has them, and which pixels a result is made of."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.compiler.prediction_target import target_of_zoo
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.models import MODELS
from paddle_ipu.zoo.unet import UNet

SMALL = UNet(channels=2, levels=3, classes=3, size=60, dropout=0.0)
RESULT = 20
"""Height and width of its result: levels begin with 60, 28, 12, 16 and 24, and lose 4 each."""


def ran(image: np.ndarray[Any, Any], training: bool, scale: float = 1.0) -> np.ndarray[Any, Any]:
    """What the small network gives on Paddle's CPU executor, with weights that are not negative."""
    main, builder = paddle.static.Program(), LayerBuilder(training)
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(main, paddle.static.Program()), names:
        result = SMALL.build(builder, SMALL.size)
    random = np.random.default_rng(0)
    feed = {"image": image, "labels": np.ones((len(image), RESULT, RESULT), np.int32)}
    with paddle.static.scope_guard(paddle.static.Scope()):
        for parameter in main.all_parameters():
            array = scale * random.uniform(0.5, 1.5, parameter.shape)
            array = array / math.prod(parameter.shape[1:])
            tensor = paddle.static.global_scope().var(parameter.name).get_tensor()
            tensor.set(array.astype(np.float32), paddle.CPUPlace())
        (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
            main, feed={name: feed[name] for name in builder.feeds}, fetch_list=[result]
        )
    return np.asarray(found)


def test_levels_make_the_images_of_the_papers_figure(static_mode: None) -> None:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=1)
    program = target_of_zoo(MODELS["unet"], strategy).program
    made = [op for op in program.operators if op.origin.layer.endswith((".second", "classifier"))]
    shapes = [op.outputs[0].dims[1:3] for op in made if op.op_type == "Conv"]
    assert shapes == [
        (64, 568), (128, 280), (256, 136), (512, 64), (1024, 28),
        (512, 52), (256, 100), (128, 196), (64, 388), (2, 388),
    ]  # fmt: skip


def test_weights_of_zeros_guess(static_mode: None) -> None:
    image = np.ones((2, 1, 60, 60), np.uint8)
    assert ran(image, training=True, scale=0.0) == pytest.approx(math.log(3))


def test_a_decoder_reads_the_middle_of_what_the_encoder_made(static_mode: None) -> None:
    """The result of an image that was moved by as much as the levels halve it moves with it."""
    random = np.random.default_rng(1)
    wide = random.integers(128, 256, (1, 1, 60, 64)).astype(np.uint8)
    left, right = (ran(wide[..., at : at + 60], training=False) for at in (0, 4))
    assert left.shape == (1, 3, RESULT, RESULT)
    np.testing.assert_allclose(left[..., 4:], right[..., :-4], rtol=1e-4, atol=1e-4)


def test_a_results_middle_is_made_of_the_images_middle(static_mode: None) -> None:
    """A pixel in the middle changes the result's middle; its skip connections lie right."""
    image = np.full((1, 1, 60, 60), 128, np.uint8)
    other = image.copy()
    other[..., 28:32, 28:32] = 255
    change = np.abs(ran(other, training=False) - ran(image, training=False))[0].sum(0)
    rows = (change.sum(1) * np.arange(RESULT)).sum() / change.sum()
    columns = (change.sum(0) * np.arange(RESULT)).sum() / change.sum()
    assert rows == pytest.approx((RESULT - 1) / 2, abs=0.1)
    assert columns == pytest.approx((RESULT - 1) / 2, abs=0.1)
