"""BERT as a static graph: embeddings, encoder, the heads for masked words, next sentence and SQuAD.

Post-layer-norm BERT as published, in the layout of the Paddle script for IPUs: the masked words lie
in the first ``max_predictions`` slots of each sample and CLS in the slot after them, so that the
heads read slices. Every shape is fixed; the micro-batch is part of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import paddle
import paddle.nn.functional as F  # noqa: N812
from paddle import Tensor
from paddle.nn.initializer import Constant, TruncatedNormal

MASKED_OUT = 1000.0  # subtracted from the attention logits of slots nobody may look at


@dataclass(frozen=True)
class BertConfig:
    """The network's sizes; ``vocabulary_rows`` may exceed the vocabulary, to divide well."""

    vocabulary_rows: int
    hidden: int
    layers: int
    heads: int
    sequence_length: int
    max_predictions: int
    max_positions: int = 512
    dropout: float = 0.1
    layer_norm_epsilon: float = 1e-3
    residual_dropout: float | None = None  # of the encoder; None: ``dropout``
    attention_dropout: float = 0.0
    ignore_index: int = 0  # the label in ``masked_lm_ids`` that is no word

    def __post_init__(self) -> None:
        if self.hidden % self.heads:
            raise ValueError(
                f"hidden size: expected a multiple of the {self.heads} heads, got {self.hidden}"
            )
        if not 0 < self.max_predictions < self.sequence_length <= self.max_positions:
            raise ValueError(
                "expected 0 < max_predictions < sequence_length <= max_positions, got "
                f"{self.max_predictions}, {self.sequence_length}, {self.max_positions}"
            )
        for share in (self.dropout, self.encoder_dropout, self.attention_dropout):
            if not 0.0 <= share < 1.0:
                raise ValueError(f"dropout: expected a share in [0, 1), got {share}")

    @property
    def encoder_dropout(self) -> float:
        """Dropout of what an encoder layer adds to its input."""
        return self.dropout if self.residual_dropout is None else self.residual_dropout


@dataclass(frozen=True)
class PretrainingOutputs:
    """The training loss and the four values a step reports; all scalars."""

    loss: Tensor
    mlm_accuracy: Tensor
    mlm_loss: Tensor
    nsp_accuracy: Tensor
    nsp_loss: Tensor


@dataclass(frozen=True)
class Placement:
    """Which IPU and pipeline stage each part runs on.

    As published for four IPUs: embeddings on IPU 0 stage 0, the encoder in equal parts on the
    others, the pretraining heads back on IPU 0 as the last stage, because the masked-word head
    shares the embedding's weight. With one IPU everything is in one place and nothing is marked.
    """

    num_ipus: int = 1

    def stage(self, index: int, stage: int) -> AbstractContextManager[None]:
        """A guard that puts operators on IPU ``index``, pipeline stage ``stage``."""
        if self.num_ipus == 1:
            return nullcontext()
        guard: AbstractContextManager[None] = paddle.static.ipu_shard_guard(
            index=index, stage=stage
        )
        return guard

    def embedding(self) -> AbstractContextManager[None]:
        return self.stage(0, 0)

    def encoder(self, layer: int, layers: int) -> AbstractContextManager[None]:
        index = self.encoder_ipu(layer, layers)
        return self.stage(index, index)

    def pretraining_heads(self) -> AbstractContextManager[None]:
        return self.stage(0, self.num_ipus)

    def encoder_ipu(self, layer: int, layers: int) -> int:
        """The IPU of encoder layer ``layer``: 1 to num_ipus - 1, or 0 where there is only one."""
        if self.num_ipus == 1:
            return 0
        return 1 + layer * (self.num_ipus - 1) // layers


@dataclass(frozen=True)
class SquadPlacement(Placement):
    """As published for SQuAD: the embedding with the first part of the encoder, the head at the
    end of the last part; each IPU is one pipeline stage."""

    def encoder_ipu(self, layer: int, layers: int) -> int:
        """The IPU of encoder layer ``layer``: 0 to num_ipus - 1."""
        return layer * self.num_ipus // layers


@dataclass(frozen=True)
class Hints:
    """Hints to the compiler for an IPU about single operators; no number depends on them.

    ``available_memory`` is the share of an IPU's memory for each matrix product, ``serialize`` the
    parts that the product with the vocabulary is cut into, ``checkpoint`` marks a tensor that
    recomputation keeps: after each encoder layer but the last of an IPU.
    """

    available_memory: float | None = None
    serialize: int = 1
    checkpoint: Callable[[Tensor], Tensor] | None = None


class Bert:
    """Builds the encoder into the current static program; one object builds one network."""

    def __init__(
        self,
        config: BertConfig,
        placement: Placement | None = None,
        training: bool = True,
        hints: Hints | None = None,
    ) -> None:
        self.config = config
        self.placement = placement or Placement()
        self.training = training
        self.hints = hints or Hints()
        with self.placement.embedding():
            self.words = self._matrix(
                "embeddings.word.weight", config.vocabulary_rows, config.hidden
            )

    def encode(
        self, indices: Tensor, segments: Tensor, positions: Tensor, visible: Tensor
    ) -> Tensor:
        """Hidden states ``[batch * sequence, hidden]`` of int32 indices, segments and positions.

        The three are flat, ``[batch * sequence]``; ``visible`` says which slots may be looked at: a
        boolean ``[batch, sequence]``, or a float ``[batch, 1, 1, sequence]`` that is added to the
        attention's logits, 0 where visible.
        """
        config = self.config
        with self.placement.embedding():
            positions_weight = self._matrix(
                "embeddings.position.weight", config.max_positions, config.hidden
            )
            segments_weight = self._matrix("embeddings.segment.weight", 2, config.hidden)
            x = F.embedding(indices, self.words) + F.embedding(positions, positions_weight)
            x = x + F.embedding(segments, segments_weight)
            x = self._dropout(self._layer_norm(x, "embeddings.norm"), config.dropout)
        is_bias = len(visible.shape) == 4
        bias: Tensor | None = visible if is_bias else None
        built_on = -1
        for layer in range(config.layers):
            with self.placement.encoder(layer, config.layers):
                ipu = self.placement.encoder_ipu(layer, config.layers)
                # Once per IPU, reused by the layers there.
                if bias is None or (ipu != built_on and not is_bias):
                    bias, built_on = self._attention_bias(visible), ipu
                x = self._layer(x, bias, f"encoder.{layer}")
                follows = layer + 1 < config.layers
                if follows and ipu == self.placement.encoder_ipu(layer + 1, config.layers):
                    x = self.hints.checkpoint(x) if self.hints.checkpoint else x
        return x

    def visible_slots(self, masked_count: Tensor, used_end: Tensor) -> Tensor:
        """Boolean ``[batch, sequence]``: the masked words in front and the words behind them.

        ``masked_count`` and ``used_end`` are int32 ``[batch, 1]``, as the loader makes them.
        """
        config = self.config
        with self.placement.embedding():
            slots = paddle.assign(np.arange(config.sequence_length, dtype=np.int32)[None, :])
            behind = paddle.assign(
                (np.arange(config.sequence_length) >= config.max_predictions)[None, :]
            )
            in_front = paddle.less_than(slots, masked_count)
            return paddle.logical_and(
                paddle.logical_or(in_front, behind), paddle.less_than(slots, used_end)
            )

    def linear(
        self,
        x: Tensor,
        name: str,
        outputs: int,
        activation: Callable[[Tensor], Tensor] | None = None,
    ) -> Tensor:
        """``x @ weight + bias`` for ``x`` of ``[rows, inputs]``."""
        y = self.matmul(x, self._matrix(f"{name}.weight", x.shape[-1], outputs))
        y = y + self._vector(f"{name}.bias", outputs, 0.0)
        return activation(y) if activation else y

    def matmul(self, x: Tensor, y: Tensor, transpose_y: bool = False, serialize: int = 1) -> Tensor:
        """``x @ y`` with the hints for it."""
        product = paddle.matmul(x, y, transpose_y=transpose_y)
        if self.hints.available_memory is not None:
            product.block.ops[-1]._set_attr("__available_memory", self.hints.available_memory)
        if serialize > 1:
            product.block.ops[-1]._set_attr("serialize_factor", serialize)
        return product

    def _layer(self, x: Tensor, bias: Tensor, name: str) -> Tensor:
        dropout = self.config.encoder_dropout
        attended = self._dropout(self._attention(x, bias, f"{name}.attention"), dropout)
        x = self._layer_norm(x + attended, f"{name}.attention.norm")
        inner = self.linear(x, f"{name}.feed_forward.inner", 4 * self.config.hidden, gelu)
        outer = self.linear(inner, f"{name}.feed_forward.outer", self.config.hidden)
        return self._layer_norm(x + self._dropout(outer, dropout), f"{name}.feed_forward.norm")

    def _attention(self, x: Tensor, bias: Tensor, name: str) -> Tensor:
        """Multi-head self-attention; as published, only SQuAD drops out its probabilities."""
        config = self.config
        width = config.hidden // config.heads

        def heads(part: str) -> Tensor:
            y = self.linear(x, f"{name}.{part}", config.hidden)
            y = paddle.reshape(y, [-1, config.sequence_length, config.heads, width])
            return paddle.transpose(y, [0, 2, 1, 3])

        scores = self.matmul(heads("query"), heads("key"), transpose_y=True) * width**-0.5 + bias
        shares = self._dropout(F.softmax(scores, axis=-1), config.attention_dropout)
        mixed = self.matmul(shares, heads("value"))
        mixed = paddle.reshape(paddle.transpose(mixed, [0, 2, 1, 3]), [-1, config.hidden])
        return self.linear(mixed, f"{name}.output", config.hidden)

    def _attention_bias(self, visible: Tensor) -> Tensor:
        """0 where visible and -1000 elsewhere, ``[batch, 1, 1, sequence]``."""
        bias = (paddle.cast(visible, "float32") - 1.0) * MASKED_OUT
        return paddle.reshape(bias, [-1, 1, 1, self.config.sequence_length])

    def _layer_norm(self, x: Tensor, name: str) -> Tensor:
        hidden = self.config.hidden
        scale = self._vector(f"{name}.scale", hidden, 1.0)
        shift = self._vector(f"{name}.bias", hidden, 0.0)
        return F.layer_norm(x, hidden, scale, shift, self.config.layer_norm_epsilon)

    def _dropout(self, x: Tensor, share: float) -> Tensor:
        if share == 0.0:
            return x
        return F.dropout(x, share, training=self.training, mode="upscale_in_train")

    def _matrix(self, name: str, rows: int, columns: int) -> Tensor:
        attribute = paddle.ParamAttr(name=name, initializer=TruncatedNormal(0.0, 0.02))
        return paddle.create_parameter([rows, columns], "float32", attr=attribute)

    def _vector(self, name: str, size: int, value: float) -> Tensor:
        attribute = paddle.ParamAttr(name=name, initializer=Constant(value))
        return paddle.create_parameter([size], "float32", attr=attribute)


def gelu(x: Tensor) -> Tensor:
    """The tanh form of GELU, as BERT's published code has it."""
    return F.gelu(x, approximate=True)


def pretraining_feeds(config: BertConfig, micro_batch: int) -> dict[str, Tensor]:
    """The seven int32 inputs of pretraining for one micro-batch, in the loader's order."""
    flat = [micro_batch * config.sequence_length]
    shapes = {
        "indices": flat,
        "segments": flat,
        "positions": flat,
        "mask_tokens_mask_idx": [micro_batch, 1],
        "sequence_mask_idx": [micro_batch, 1],
        "masked_lm_ids": [micro_batch, config.max_predictions],
        "next_sentence_labels": [micro_batch],
    }
    return {name: paddle.static.data(name, shape, "int32") for name, shape in shapes.items()}


def pretraining_network(bert: Bert, feeds: dict[str, Tensor]) -> PretrainingOutputs:
    """Masked words and next sentence: losses (mean over words, over samples) and accuracies.

    A label ``ignore_index`` in ``masked_lm_ids`` is no word and counts neither in the loss nor in
    the accuracy.
    """
    config = bert.config
    visible = bert.visible_slots(feeds["mask_tokens_mask_idx"], feeds["sequence_mask_idx"])
    x = bert.encode(feeds["indices"], feeds["segments"], feeds["positions"], visible)
    with bert.placement.pretraining_heads():
        x = paddle.reshape(x, [-1, config.sequence_length, config.hidden])
        masked = paddle.reshape(x[:, : config.max_predictions], [-1, config.hidden])
        masked = bert._layer_norm(
            bert.linear(masked, "mlm.transform", config.hidden, gelu), "mlm.norm"
        )
        logits = bert.matmul(masked, bert.words, True, bert.hints.serialize)
        logits = logits + bert._vector("mlm.bias", config.vocabulary_rows, 0.0)
        words = paddle.reshape(feeds["masked_lm_ids"], [-1])
        mlm_loss = F.cross_entropy(logits, words, ignore_index=config.ignore_index)
        nothing = paddle.full_like(words, config.ignore_index)
        counted = paddle.cast(paddle.not_equal(words, nothing), "float32")
        mlm_accuracy = paddle.sum(hits(logits, words) * counted) / paddle.sum(counted)

        first = x[:, config.max_predictions]  # CLS, behind the masked words
        pooled = bert.linear(first, "nsp.pooler", config.hidden, paddle.tanh)
        follows = bert.linear(pooled, "nsp.classifier", 2)
        labels = feeds["next_sentence_labels"]
        nsp_loss = F.cross_entropy(follows, labels)
        nsp_accuracy = paddle.mean(hits(follows, labels))
        loss = mlm_loss + nsp_loss
    return PretrainingOutputs(loss, mlm_accuracy, mlm_loss, nsp_accuracy, nsp_loss)


def squad_head(bert: Bert, encoded: Tensor) -> tuple[Tensor, Tensor]:
    """Start and end logits ``[batch, sequence]`` from ``[batch * sequence, hidden]``."""
    last = bert.placement.num_ipus - 1
    with bert.placement.stage(last, last):
        logits = bert.linear(encoded, "squad.classifier", 2)
        logits = paddle.reshape(logits, [-1, bert.config.sequence_length, 2])
        return logits[:, :, 0], logits[:, :, 1]


def squad_loss(
    bert: Bert, start_logits: Tensor, end_logits: Tensor, start_labels: Tensor, end_labels: Tensor
) -> Tensor:
    """Sum of the two mean cross-entropies; the labels are int32 ``[batch]``."""
    last = bert.placement.num_ipus - 1
    with bert.placement.stage(last, last):
        return F.cross_entropy(start_logits, start_labels) + F.cross_entropy(end_logits, end_labels)


def hits(logits: Tensor, labels: Tensor) -> Tensor:
    """1.0 where the largest logit is at the label, float32 of the labels' shape."""
    best = paddle.argmax(logits, axis=-1, dtype="int32")
    return paddle.cast(paddle.equal(best, labels), "float32")
