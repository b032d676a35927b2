"""ERNIE's encoder with a classifier on it, of paddle.nn's layers.

Sizes and names are those of ERNIE 2.0 and 3.0: embeddings of words, positions, sentence types and
task types are added up and normalised, layers of attention and feed-forward have their norms behind
the residuals, and the first token's result, through a tanh, stands for the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle
from paddle import nn


@dataclass(frozen=True)
class ErnieConfig:
    """Sizes; the defaults in brackets are ERNIE 3.0 Base's."""

    vocab_size: int  # 40000
    hidden_size: int  # 768
    num_hidden_layers: int  # 12
    num_attention_heads: int  # 12
    intermediate_size: int  # 3072
    sequence_length: int  # up to 2048
    num_classes: int
    type_vocab_size: int = 4
    task_type_vocab_size: int = 3
    dropout: float = 0.1
    pad_token_id: int = 0


class ErnieEmbeddings(nn.Layer):
    """The sum of four embeddings, normalised."""

    def __init__(self, config: ErnieConfig) -> None:
        super().__init__()
        normal = nn.initializer.TruncatedNormal(0.0, 0.02)

        def table(rows: int) -> Any:
            return nn.Embedding(rows, config.hidden_size, weight_attr=normal)

        self.word_embeddings = table(config.vocab_size)
        self.position_embeddings = table(config.sequence_length)
        self.token_type_embeddings = table(config.type_vocab_size)
        self.task_type_embeddings = table(config.task_type_vocab_size)
        self.layer_norm = nn.LayerNorm(config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.positions = np.arange(config.sequence_length, dtype=np.int64)

    def forward(self, input_ids: Any, token_type_ids: Any, task_type_ids: Any) -> Any:
        """``[rows, tokens, hidden]`` of three tensors ``[rows, tokens]``."""
        embedded = self.word_embeddings(input_ids)
        embedded = embedded + self.position_embeddings(paddle.assign(self.positions))
        embedded = embedded + self.token_type_embeddings(token_type_ids)
        embedded = embedded + self.task_type_embeddings(task_type_ids)
        return self.dropout(self.layer_norm(embedded))


class ErnieForSequenceClassification(nn.Layer):
    """Logits ``[rows, classes]`` of texts."""

    def __init__(self, config: ErnieConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = ErnieEmbeddings(config)
        layer = nn.TransformerEncoderLayer(
            config.hidden_size,
            config.num_attention_heads,
            config.intermediate_size,
            dropout=config.dropout,
            activation="gelu",
            normalize_before=False,
        )
        self.encoder = nn.TransformerEncoder(layer, config.num_hidden_layers)
        self.pooler = nn.Linear(config.hidden_size, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.classifier = nn.Linear(config.hidden_size, config.num_classes)

    def forward(self, input_ids: Any, token_type_ids: Any, task_type_ids: Any) -> Any:
        """The logits; tokens that only fill up a text are not looked at."""
        padding = paddle.cast(paddle.equal(input_ids, self.config.pad_token_id), "float32")
        mask = paddle.unsqueeze(padding * -1e4, [1, 2])
        encoded = self.encoder(self.embeddings(input_ids, token_type_ids, task_type_ids), mask)
        pooled = paddle.tanh(self.pooler(encoded[:, 0]))
        return self.classifier(self.dropout(pooled))


def feeds(config: ErnieConfig) -> list[Any]:
    """The program's inputs; -1 becomes the micro-batch when the program is compiled."""
    names = ("input_ids", "token_type_ids", "task_type_ids")
    return [paddle.static.data(name, [-1, config.sequence_length], "int64") for name in names]
