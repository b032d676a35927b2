"""T5: what distances share, what encoder and decoder see, and what stands on which IPU."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.t5 import T5, number_of

FLAN = T5(8, 2, 2, 12, vocabulary=11, dropout=0.0)
FIRST = replace(FLAN, tied=True)
TOKENS = 6


def built(network: T5, training: bool, size: int) -> tuple[Any, Any, list[str]]:
    """(program, what it gives, its feeds)."""
    main, builder = paddle.static.Program(), LayerBuilder(training)
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(main, paddle.static.Program()), names:
        return main, network.build(builder, size), builder.feeds


def rows(**changes: Any) -> dict[str, np.ndarray[Any, Any]]:
    """Two whole rows."""
    random = np.random.default_rng(1)
    names = ("tokens", "written", "next_tokens")
    whole = {name: random.integers(0, 11, (2, TOKENS)).astype(np.int32) for name in names}
    return {**whole, "visible": np.ones((2, TOKENS), np.int32), **changes}


def ran(
    network: T5, fed: dict[str, np.ndarray[Any, Any]], *, training: bool, scale: float = 1.0
) -> np.ndarray[Any, Any]:
    """What a network gives on Paddle's CPU executor, its weights drawn by their names."""
    program, result, names = built(network, training, TOKENS)
    with paddle.static.scope_guard(paddle.static.Scope()):
        for parameter in program.all_parameters():
            random = np.random.default_rng(sum(map(ord, parameter.name)))
            array = scale * random.standard_normal(parameter.shape)
            tensor = paddle.static.global_scope().var(parameter.name).get_tensor()
            tensor.set(array.astype(np.float32), paddle.CPUPlace())
        (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
            program, feed={name: fed[name] for name in names}, fetch_list=[result]
        )
    return np.asarray(found)


def changed(name: str, place: int) -> dict[str, np.ndarray[Any, Any]]:
    """The rows with another token at a place."""
    fed = rows()
    fed[name] = fed[name].copy()
    fed[name][:, place] = (fed[name][:, place] + 1) % 11
    return fed


def test_near_distances_have_their_own_numbers_and_far_ones_share_them() -> None:
    """Of 16 numbers, 8 are of one distance each, then each reaches 2 ** 0.5 times as far."""
    last = [*range(8), 11, 15, 22, 31, 45, 63, 90, 1000]
    first = [0, *(before + 1 for before in last)]
    for number, (nearest, farthest) in enumerate(zip(first, last, strict=False)):
        for distance in (nearest, farthest):
            assert number_of(-distance, both_ways=True) == number
            if distance:
                assert number_of(distance, both_ways=True) == 16 + number


def test_a_decoder_has_all_numbers_for_what_lies_before() -> None:
    """Of 32 numbers, 16 are of one distance each, then each reaches 2 ** (3 / 16) times as far."""
    assert [number_of(-distance, both_ways=False) for distance in range(16)] == [*range(16)]
    assert {number_of(distance, both_ways=False) for distance in (0, 1, 500)} == {0}
    for number in range(16, 31):
        farthest = math.ceil(16 * 2 ** ((number - 15) * 3 / 16)) - 1
        assert number_of(-farthest, both_ways=False) == number
        assert number_of(-farthest - 1, both_ways=False) == number + 1
    assert number_of(-100000, both_ways=False) == 31


def test_a_matrix_of_distances_has_one_value_along_each_diagonal(static_mode: None) -> None:
    values = np.random.default_rng(0).standard_normal((10, 3)).astype(np.float32)
    main, builder = paddle.static.Program(), LayerBuilder(False)
    with paddle.static.program_guard(main, paddle.static.Program()):
        fed = paddle.static.data("values", [10, 3], "float32")
        matrix = builder.by_distance(fed)
    (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
        main, feed={"values": values}, fetch_list=[matrix]
    )
    places = np.arange(5)
    distances = places[None, :] - places[:, None]
    np.testing.assert_array_equal(found, values[distances % 10].transpose(2, 0, 1))


@pytest.mark.parametrize("network", [FIRST, FLAN])
def test_weights_of_zeros_guess(network: T5, static_mode: None) -> None:
    assert ran(network, rows(), training=True, scale=0.0) == pytest.approx(math.log(11))


@pytest.mark.parametrize("network", [FIRST, FLAN])
@pytest.mark.parametrize("name", ["tokens", "written"])
def test_every_token_of_either_row_counts(network: T5, name: str, static_mode: None) -> None:
    whole = ran(network, rows(), training=False)
    assert whole.shape == (2, 11)
    for place in range(TOKENS):
        assert not np.allclose(whole, ran(network, changed(name, place), training=False))


def test_what_the_encoder_does_not_see_does_not_count(static_mode: None) -> None:
    visible = np.array([[1, 1, 1, 1, 0, 0]] * 2, np.int32)
    whole = ran(FLAN, rows(visible=visible), training=False)
    other = ran(FLAN, {**changed("tokens", 5), "visible": visible}, training=False)
    np.testing.assert_array_equal(whole, other)
    assert not np.allclose(whole, ran(FLAN, rows(), training=False))


def test_the_decoder_reads_what_is_before_a_token_alone(static_mode: None) -> None:
    """How much likelier one word is than another at a place, by the loss of each as its label."""

    def likelier(fed: dict[str, np.ndarray[Any, Any]], place: int) -> float:
        losses = []
        for label in (3, 7):
            labels = fed["next_tokens"].copy()
            labels[:, place] = label
            losses.append(float(ran(FLAN, {**fed, "next_tokens": labels}, training=True)))
        return TOKENS * (losses[1] - losses[0])

    assert likelier(changed("written", 3), 2) == pytest.approx(likelier(rows(), 2), abs=1e-4)
    assert abs(likelier(changed("written", 3), 4) - likelier(rows(), 4)) > 1e-2


@pytest.mark.parametrize(("network", "outputs"), [(FIRST, 0), (FLAN, 1)])
def test_the_first_version_writes_with_the_embedding_of_its_words(
    network: T5, outputs: int, static_mode: None
) -> None:
    program, _, _ = built(network, True, TOKENS)
    names = {parameter.name for parameter in program.all_parameters()}
    assert sum(name.startswith("output.") for name in names) == outputs
    assert sum(name.endswith("feed_forward.up.weight") for name in names) == 4 * outputs


def test_weights_are_read_where_a_pipeline_can_be_cut(static_mode: None) -> None:
    """Words and distances are read once each, not by every layer; layers' ends are kept."""
    program, result, feeds = built(FLAN, True, TOKENS)
    with paddle.static.program_guard(program):
        paddle.optimizer.SGD(0.1).minimize(result)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=True, micro_batch_size=2)
    found = predicted_program(program, strategy, feeds, [result])
    ends = [at for at, op in enumerate(found.operators) if op.checkpoint]
    assert [found.operators[at].outputs[0].dims for at in ends] == [(2 * TOKENS, 8)] * 4
    readers: dict[str, list[int]] = {}
    for at, op in enumerate(found.operators):
        for tensor in op.read:
            readers.setdefault(tensor.name, []).append(at)
    assert len(readers["embeddings.word"]) == 2
    assert max(readers["embeddings.word"]) < ends[0]
    assert all(len(readers[f"{part}.distances"]) == 1 for part in ("encoder", "decoder"))
