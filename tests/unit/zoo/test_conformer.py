"""Conformer: the parameters of its parts, what is seen and what counts, the loss."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.errors import OptionError
from paddle_ipu.zoo.conformer import Conformer
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.models import MODELS

SMALL = Conformer(
    8, 2, 2, 2, 12, 3, vocabulary=5, words=3, bins=9, dropout=0.0
)  # fmt: skip
FRAMES, PLACES = 31, 7


def built(network: Conformer, training: bool, size: int) -> tuple[Any, Any, list[str]]:
    """(program, what it gives, its feeds)."""
    main, builder = paddle.static.Program(), LayerBuilder(training)
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(main, paddle.static.Program()), names:
        return main, network.build(builder, size), builder.feeds


def feed(**changes: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Two whole rows."""
    random = np.random.default_rng(0)
    whole = {
        "features": random.standard_normal((2, FRAMES, SMALL.bins)).astype(np.float32),
        "frames": np.full((2, 1), FRAMES, np.int32),
        "words": random.integers(1, 5, (2, 3)).astype(np.int32),
        "previous_words": random.integers(1, 5, (2, 3)).astype(np.int32),
        "length": np.full((2, 1), 3, np.int32),
    }
    return {**whole, **changes}


def ran(
    network: Conformer, fed: dict[str, np.ndarray[Any, Any]], *, training: bool, scale: float = 1.0
) -> np.ndarray[Any, Any]:
    """What a network gives on Paddle's CPU executor, its weights drawn by their names."""
    program, result, names = built(network, training, fed["features"].shape[1])
    with paddle.static.scope_guard(paddle.static.Scope()):
        for parameter in program.all_parameters():
            random = np.random.default_rng(sum(map(ord, parameter.name)))
            array = scale * random.standard_normal(parameter.shape).astype(np.float32)
            tensor = paddle.static.global_scope().var(parameter.name).get_tensor()
            tensor.set(array.astype(np.float32), paddle.CPUPlace())
        (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
            program, feed={name: fed[name] for name in names}, fetch_list=[result]
        )
    return np.asarray(found)


def test_parts_have_the_parameters_of_the_published_network(static_mode: None) -> None:
    """Counted from ``src/`` of the public example, with ``configs/train.yaml``."""
    hidden, inner, words = 256, 2048, 4233
    norm, linear = 2 * hidden, hidden * hidden + hidden
    forward = hidden * inner + inner + inner * hidden + hidden + norm
    attention = 3 * linear + norm
    convolution = hidden * 2 * hidden + hidden * 15 + norm + hidden * hidden + norm
    counts = {
        "subsampling": 9 * hidden + hidden + 9 * hidden**2 + hidden + 19 * hidden**2 + hidden,
        "encoder": 12 * (2 * forward + attention + hidden**2 + norm + convolution + norm) + norm,
        "alignment": hidden * words + words,
        "decoder": words * hidden + 6 * (2 * attention + forward) + norm + hidden * words + words,
    }
    program, _, _ = built(MODELS["conformer"].network, True, 1220)
    found = dict.fromkeys(counts, 0)
    for parameter in program.all_parameters():
        if not parameter.stop_gradient:
            found[parameter.name.split(".")[0]] += math.prod(parameter.shape)
    assert found == counts
    assert sum(counts.values()) == MODELS["conformer"].parameters


def test_two_convolutions_leave_a_quarter_of_the_frames(static_mode: None) -> None:
    # A tensor of a program that is gone cannot be read.
    program, result, _ = built(MODELS["conformer"].network, False, 1220)
    assert [list(result.shape), len(program.blocks)] == [[-1, 304, 4233], 1]


def test_inference_gives_log_probabilities(static_mode: None) -> None:
    found = ran(SMALL, feed(), training=False)
    assert found.shape == (2, PLACES, 5)
    np.testing.assert_allclose(np.exp(found).sum(axis=2), 1.0, rtol=1e-5)


def alignments(places: int, labels: tuple[int, ...]) -> int:
    """How many ways of a blank 0 and labels along the places are read as the labels."""

    def read(way: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(label for label, _ in itertools.groupby(way) if label)

    return sum(read(way) == labels for way in itertools.product((0, 1, 2), repeat=places))


def test_weights_of_zeros_guess(static_mode: None) -> None:
    """The divergence of smoothed labels from equal shares, and CTC's of equally likely ways."""
    words = np.array([[1, 1, 2], [1, 2, 2]], np.int32)
    length = np.array([[3], [2]], np.int32)
    found = ran(SMALL, feed(words=words, length=length), training=True, scale=0.0)
    right, other = 0.9, 0.1 / 4
    each = math.log(5) + right * math.log(right) + 4 * other * math.log(other)
    text = each * (3 + 2) / 2
    # The last word of a row is its end, which is not aligned.
    ways = (alignments(PLACES, (1, 1)), alignments(PLACES, (1,)))
    aligned = np.mean([PLACES * math.log(5) - math.log(n) for n in ways])
    assert found == pytest.approx(0.7 * text + 0.3 * aligned, rel=1e-5)


def test_words_are_guessed_from_those_before_them(static_mode: None) -> None:
    """The first two words of rows of two: what is after the second changes no loss."""
    length = np.full((2, 1), 2, np.int32)
    losses = []
    for place, changed in ((0, 0), (2, 1), (1, 1)):
        previous = feed()["previous_words"].copy()
        previous[:, place] = (previous[:, place] + changed) % 5
        losses.append(ran(SMALL, feed(previous_words=previous, length=length), training=True))
    assert losses[0] == losses[1]
    assert losses[0] != losses[2]


def test_the_end_of_a_row_counts_for_what_reaches_it_by_convolution_alone(
    static_mode: None,
) -> None:
    """Place p is made of frames 4p to 4p + 6; attention sees none of which the first is behind."""
    alone = replace(SMALL, kernel=1)
    fed = feed(frames=np.full((2, 1), 13, np.int32))
    first = ran(alone, fed, training=False)
    fed["features"] = fed["features"].copy()
    fed["features"][:, 19:] = 9.0
    other = ran(alone, fed, training=False)
    np.testing.assert_allclose(first[:, :4], other[:, :4], rtol=1e-4)
    assert not np.allclose(first[:, 6], other[:, 6])


def test_the_predictor_sees_its_convolutions_its_losses_and_its_layers_ends(
    static_mode: None,
) -> None:
    program, result, feeds = built(SMALL, True, FRAMES)
    with paddle.static.program_guard(program):
        paddle.optimizer.SGD(0.1).minimize(result)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=True, micro_batch_size=2)
    found = predicted_program(program, strategy, feeds, [result])
    convolutions = {op.origin.layer: op for op in found.operators if op.op_type == "Conv"}
    depthwise = convolutions["encoder.1.convolution.depthwise"]
    assert depthwise.attributes["group"] == 8
    assert depthwise.outputs[0].dims == (2, 8, 1, PLACES)
    assert convolutions["encoder.0.convolution.inner"].outputs[0].dims == (2, 16, 1, PLACES)
    (aligned,) = (op for op in found.operators if op.op_type == "Ctc")
    assert aligned.read[0].dims == (PLACES, 2, 5)
    # The position tables, of any length, are made on the IPU.
    assert {t.name.split(".")[0] for t in found.weights} == {
        "subsampling", "features", "encoder", "alignment", "decoder",
    }  # fmt: skip
    ends = [op for op in found.operators if op.checkpoint]
    assert [op.outputs[0].dims for op in ends] == [(2 * PLACES, 8)] * 2 + [(2 * 3, 8)] * 2


def test_a_row_of_too_few_frames_is_refused() -> None:
    message = "^sequence is 6, but a row of conformer has 7 to 20000 frames$"
    with pytest.raises(OptionError, match=message):
        MODELS["conformer"].row_size(6)
    assert MODELS["conformer"].row_size(7) == 7
