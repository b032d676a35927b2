"""The table of models: sizes as published, programs that run, names and rows that are refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.errors import OptionError
from paddle_ipu.zoo.bert import Bert, masked_words
from paddle_ipu.zoo.gpt2 import Gpt2
from paddle_ipu.zoo.layer_builder import LayerBuilder
from paddle_ipu.zoo.llama import Llama
from paddle_ipu.zoo.lstm import LstmLanguage
from paddle_ipu.zoo.models import MODELS, Network, model_named
from paddle_ipu.zoo.vit import Vit

PUBLISHED = {
    "bert-base": 110e6,
    "bert-large": 340e6,
    "gpt2": 124e6,
    "gpt2-medium": 355e6,
    "gpt2-large": 774e6,
    "gpt2-xl": 1542e6,
    "llama-7b": 6.7e9,
    "llama-13b": 13.0e9,
    "vit-b": 86e6,
    "vit-l": 307e6,
    "vit-h": 632e6,
    "t5-base": 223e6,
    "t5-large": 738e6,
    "flan-t5-xl": 2.85e9,
    "flan-t5-xxl": 11.1e9,
    "conformer": 44_605_970,
    "resnet18": 11.7e6,
    "resnet34": 21.8e6,
    "resnet50": 25.6e6,
    "resnet101": 44.5e6,
    "resnet152": 60.2e6,
    "resnext50": 25.0e6,
    "resnext101": 83.5e6,
    "mobilenet-v3-small": 2_542_856,
    "mobilenet-v3-large": 5_483_032,
    "efficientnet-b0": 5_288_548,
    "efficientnet-b4": 19_341_616,
    "unet": 31.0e6,
    "lstm-medium": 19.8e6,
    "lstm-large": 66e6,
    "efficientnet-b0-g16": 5.9e6,
    "efficientnet-b4-g16": 19.3e6,
}
"""Parameters as the papers, or the pages of published weights, round them."""


def built(network: Network, training: bool, size: int) -> tuple[Any, Any, list[str]]:
    """(forward program, what it gives, its feeds)."""
    main, builder = paddle.static.Program(), LayerBuilder(training)
    names = paddle.utils.unique_name.guard()
    with paddle.static.program_guard(main, paddle.static.Program()), names:
        return main, network.build(builder, size), builder.feeds


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_as_many_parameters_as_published(name: str, static_mode: None) -> None:
    model = MODELS[name]
    program, _, _ = built(model.network, True, model.network.size)
    trained = [p for p in program.all_parameters() if not p.stop_gradient]
    assert sum(math.prod(p.shape) for p in trained) == model.parameters
    assert model.parameters == pytest.approx(PUBLISHED[name], rel=0.015)


BERT = Bert(8, 2, 2, vocabulary=11, dropout=0.0)
GPT2 = Gpt2(8, 2, 2, vocabulary=11, dropout=0.0)
LLAMA = Llama(8, 2, 2, 12, vocabulary=11)
LSTM = LstmLanguage(8, 2, 0.0, vocabulary=11)
VIT = Vit(8, 2, 2, 56, classes=7, dropout=0.0)
"""A small network of each family that has its own layers here."""


def ran(
    network: Network,
    feed: dict[str, np.ndarray[Any, Any]],
    size: int,
    *,
    training: bool,
    weights: Callable[[str, list[int]], np.ndarray[Any, Any]],
) -> np.ndarray[Any, Any]:
    """What a network gives on Paddle's CPU executor; ones are fed where `feed` has nothing."""
    program, result, names = built(network, training, size)
    with paddle.static.scope_guard(paddle.static.Scope()):
        scope = paddle.static.global_scope()
        for parameter in program.all_parameters():
            array = weights(parameter.name, list(parameter.shape)).astype(np.float32)
            scope.var(parameter.name).get_tensor().set(array, paddle.CPUPlace())
        for name in names:
            if name not in feed:
                tokens = 1 if name in ("label", "next_sentence") else size
                tokens = masked_words(size) if name == "masked_words" else tokens
                feed[name] = np.ones((2, tokens), np.int32)
        (found,) = paddle.static.Executor(paddle.CPUPlace()).run(
            program, feed={name: feed[name] for name in names}, fetch_list=[result]
        )
    return np.asarray(found)


@pytest.mark.parametrize(
    ("network", "layers"), [(BERT, 2), (GPT2, 2), (LLAMA, 2), (LSTM, 2), (VIT, 2)]
)
def test_a_layers_end_is_kept_where_the_rest_is_computed_again(
    network: Network, layers: int, static_mode: None
) -> None:
    strategy = paddle.static.IpuStrategy()
    for training in (True, False):
        program, result, feeds = built(network, training, network.size)
        strategy.set_graph_config(is_training=training, micro_batch_size=2)
        with paddle.static.program_guard(program):
            if training:
                paddle.optimizer.SGD(0.1).minimize(result)
        found = predicted_program(program, strategy, feeds, [result])
        kept = [op for op in found.operators if op.checkpoint]
        assert len(kept) == (layers if training else 0)
        assert all(op.outputs[0].dims[-1] == 8 for op in kept)


def test_operators_name_the_line_of_the_network(static_mode: None) -> None:
    program, result, feeds = built(GPT2, False, 16)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=2)
    found = predicted_program(program, strategy, feeds, [result])
    products = [op.origin for op in found.operators if op.op_type == "MatMul"]
    assert {Path(each.source.rpartition(":")[0]).name for each in products} == {
        "transformer.py",
        "gpt2.py",
    }
    assert "decoder.1.feed_forward.outer" in {each.layer for each in products}


def zeros(name: str, shape: list[int]) -> np.ndarray[Any, Any]:
    return np.zeros(shape)


def normals(name: str, shape: list[int]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(map(ord, name))).standard_normal(shape)


@pytest.mark.parametrize(
    ("network", "size", "loss"),
    [
        (BERT, 16, math.log(11) + math.log(2)),
        (GPT2, 16, math.log(11)),
        (LLAMA, 16, math.log(11)),
        (LSTM, 16, math.log(11)),
        (VIT, 224, math.log(7)),
    ],
)
def test_weights_of_zeros_guess(
    network: Network, size: int, loss: float, static_mode: None
) -> None:
    image = {"image": np.ones((2, 3, 224, 224), np.uint8)}
    assert ran(network, image, size, training=True, weights=zeros) == pytest.approx(loss)


@pytest.mark.parametrize("network", [GPT2, LLAMA, LSTM])
def test_a_decoder_reads_what_is_before_a_token_alone(network: Network, static_mode: None) -> None:
    """A row's loss is that of each token as it is guessed from a row that ends before it."""
    random = np.random.default_rng(0)
    tokens, following = random.integers(0, 11, (2, 2, 4)).astype(np.int32)
    each = []
    for size in range(2, 5):
        logits = ran(network, {"tokens": tokens[:, :size]}, size, training=False, weights=normals)
        log_sums = np.log(np.exp(logits).sum(axis=1))
        each.append(log_sums - logits[[0, 1], following[:, size - 1]])
    whole, begun = (
        size
        * ran(
            network,
            {"tokens": tokens[:, :size], "next_tokens": following[:, :size]},
            size,
            training=True,
            weights=normals,
        )
        for size in (4, 2)
    )
    assert whole - begun == pytest.approx(np.mean(each[1] + each[2]), rel=1e-4)


@pytest.mark.parametrize(("network", "fewest"), [(GPT2, 2), (LLAMA, 2), (LSTM, 2), (BERT, 8)])
def test_every_token_counts(network: Network, fewest: int, static_mode: None) -> None:
    tokens = np.ones((2, fewest), np.int32)
    first = ran(network, {"tokens": tokens}, fewest, training=False, weights=normals)
    for place in range(fewest):
        other = tokens.copy()
        other[:, place] = 2
        found = ran(network, {"tokens": other}, fewest, training=False, weights=normals)
        assert not np.allclose(first, found)


def test_what_is_not_visible_does_not_count(static_mode: None) -> None:
    visible = np.array([[1, 1, 1, 1, 1, 1, 0, 0]] * 2, np.int32)
    found = []
    for last in (1, 2):
        tokens = np.array([[1, 1, 1, 1, 1, 1, last, last]] * 2, np.int32)
        feed = {"tokens": tokens, "visible": visible}
        found.append(ran(BERT, feed, 8, training=False, weights=normals))
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("name", ["bert-large", "BERT Large", "BERT_LARGE", "bertlarge"])
def test_names_are_found_however_they_are_spelt(name: str) -> None:
    assert model_named(name) is MODELS["bert-large"]


def test_an_unknown_name_is_refused_with_a_similar_one() -> None:
    with pytest.raises(
        OptionError, match=r"unknown model 'bert-larg': expected one of bert-base, "
    ):
        model_named("bert-larg")
    with pytest.raises(OptionError, match=r"[a-z0-9]\. Did you mean 'bert-large'\?$"):
        model_named("bert-larg")


@pytest.mark.parametrize(
    ("name", "sequence", "message"),
    [
        ("gpt2", 1025, "sequence is 1025, but a row of gpt2 has 2 to 1024 tokens"),
        ("bert-base", 1, "sequence is 1, but a row of bert-base has 2 to 512 tokens"),
        (
            "vit-b",
            128,
            "sequence is 128, but a row of vit-b is an image of 224 x 224: leave sequence out",
        ),
        (
            "efficientnet-b4",
            224,
            "sequence is 224, but a row of efficientnet-b4 is an image of 380 x 380: leave "
            "sequence out",
        ),
    ],
)
def test_rows_that_a_model_cannot_have(name: str, sequence: int, message: str) -> None:
    with pytest.raises(OptionError, match=f"^{message}$"):
        MODELS[name].row_size(sequence)
