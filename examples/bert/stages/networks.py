"""The two networks of the stages, built into the current static program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import paddle

from examples.bert.model import (
    Bert,
    BertConfig,
    Hints,
    Placement,
    SquadPlacement,
    hits,
    pretraining_feeds,
    pretraining_network,
    squad_head,
    squad_loss,
)
from examples.bert.stages.settings import Settings


@dataclass(frozen=True)
class Network:
    """Feeds by name, fetches by name in the published order, and the loss where it is trained."""

    feeds: list[str]
    fetches: dict[str, Any]
    loss: Any


Build = Callable[[Settings, bool, int, Hints], Network]


def config_of(settings: Settings, *, squad: bool) -> BertConfig:
    """The network's sizes; attention has dropout in SQuAD only, as published."""
    return BertConfig(
        vocabulary_rows=settings.vocab_size,
        hidden=settings.hidden_size,
        layers=settings.num_hidden_layers,
        heads=settings.num_attention_heads,
        sequence_length=settings.seq_len,
        max_predictions=settings.max_predictions_per_seq,
        max_positions=settings.max_position_embeddings,
        dropout=settings.hidden_dropout_prob,
        residual_dropout=settings.attention_probs_dropout_prob,
        attention_dropout=settings.attention_probs_dropout_prob if squad else 0.0,
        ignore_index=settings.ignore_index,
    )


def pretraining(settings: Settings, on_ipu: bool, rows: int, hints: Hints) -> Network:
    """Masked words and next sentence; ``rows`` are those of a micro-batch.

    On an IPU the embedding and the heads that share its weight are on IPU 0, the encoder on the
    others: five stages on four IPUs.
    """
    config = config_of(settings, squad=False)
    placement = Placement(settings.num_ipus if on_ipu else 1)
    if placement.num_ipus > 1 and config.layers < placement.num_ipus - 1:
        raise ValueError(
            f"--num_ipus: expected at most {config.layers + 1} for {config.layers} encoder layers, "
            f"beside the embedding's IPU, got {placement.num_ipus}"
        )
    feeds = pretraining_feeds(config, rows)
    out = pretraining_network(Bert(config, placement, settings.is_training, hints), feeds)
    fetches = {
        "accuracy/MLM": out.mlm_accuracy,
        "loss/MLM": out.mlm_loss,
        "accuracy/NSP": out.nsp_accuracy,
        "loss/NSP": out.nsp_loss,
    }
    return Network(list(feeds), fetches, out.loss)


def squad(settings: Settings, on_ipu: bool, rows: int, hints: Hints) -> Network:
    """Answer spans: the loss and both accuracies in training, else the logits ``[rows, seq_len]``.

    ``input_mask`` is float32 ``[rows, 1, 1, seq_len]``, 0 where visible and -1000 elsewhere.
    """
    config = config_of(settings, squad=True)
    placement = SquadPlacement(settings.num_ipus if on_ipu else 1)
    if config.layers < placement.num_ipus:
        raise ValueError(
            f"--num_ipus: expected at most one for each of the {config.layers} encoder layers, "
            f"got {placement.num_ipus}"
        )
    data = paddle.static.data
    flat = [rows * config.sequence_length]
    feeds = {n: data(n, flat, "int32") for n in ("indices", "segments", "positions")}
    mask_shape = [rows, 1, 1, config.sequence_length]
    feeds["input_mask"] = data("input_mask", mask_shape, "float32")
    bert = Bert(config, placement, settings.is_training, hints)
    x = bert.encode(*(feeds[n] for n in ("indices", "segments", "positions", "input_mask")))
    start, end = squad_head(bert, x)
    if not settings.is_training:
        return Network(list(feeds), {"start_logits": start, "end_logits": end}, None)
    for name in ("start_labels", "end_labels"):
        feeds[name] = data(name, [rows], "int32")
    labels = feeds["start_labels"], feeds["end_labels"]
    loss = squad_loss(bert, start, end, *labels)
    last = placement.num_ipus - 1
    with placement.stage(last, last):
        accuracies = [
            paddle.mean(hits(logits, label))
            for logits, label in zip((start, end), labels, strict=True)
        ]
    fetches = {"start_accuracy": accuracies[0], "end_accuracy": accuracies[1], "loss": loss}
    return Network(list(feeds), fetches, loss)
