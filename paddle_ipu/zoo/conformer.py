"""Conformer (arXiv:2005.08100): speech to text by an encoder with convolutions, and a decoder.

As graphcore/examples has it in ``speech/conformer/pytorch``: keys and values are of one projection,
relative positions are not shifted, and convolutions are followed by a layer norm.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from paddle_ipu.zoo.layer_builder import MASKED_OUT, LayerBuilder

if TYPE_CHECKING:
    from paddle import Tensor

_EPSILON = 1e-5
_FRAMES_A_PLACE = 4
"""Of two convolutions with a stride of 2."""


@dataclass(frozen=True, slots=True)
class Conformer:
    """Sizes of a Conformer.

    Attributes:
        inner: elements between the two products of a feed-forward part.
        kernel: places that a layer's convolution sees.
        words: of a row's text, its end with them.
        bins: of a frame's spectrum.
        smoothing: probability that the loss wants of all words but the right one.
        ctc: share of CTC's loss.
    """

    hidden: int
    layers: int
    decoder_layers: int
    heads: int
    inner: int
    kernel: int
    vocabulary: int
    words: int
    bins: int = 80
    dropout: float = 0.1
    smoothing: float = 0.1
    ctc: float = 0.3

    items: ClassVar[str] = "frames"
    size: ClassVar[int] = 1220
    most: ClassVar[int] = 20000
    rows: ClassVar[int] = 4
    optimizer: ClassVar[str] = "Adam"

    def __str__(self) -> str:
        return (
            f"encoder, {self.layers} layers of {self.hidden} with convolutions of {self.kernel}, "
            f"and decoder, {self.decoder_layers} layers, {self.heads} heads"
        )

    def build(self, builder: LayerBuilder, size: int) -> Tensor:
        """The loss; in inference CTC's log probabilities, ``[rows, places, vocabulary]``.

        Args:
            size: frames of a row.
        """
        frames = builder.feed("frames", [1], "int32")
        x, places = self._subsampled(builder, size)
        visible = builder.places_before(frames, places, step=_FRAMES_A_PLACE)
        x = self._encoded(builder, x, visible)
        logits = builder.linear(x, "alignment", self.vocabulary)
        logits = builder.reshape(logits, [-1, places, self.vocabulary])
        if not builder.training:
            return builder.log_softmax(logits)
        return self._loss(builder, x, logits, builder.count(visible))

    def _subsampled(self, builder: LayerBuilder, size: int) -> tuple[Tensor, int]:
        """What the encoder reads, ``[rows * places, hidden]``, and the places of a row."""
        x = builder.feed("features", [size, self.bins], "float32")
        x = x - builder.statistic("features.mean", [self.bins])
        x = x * builder.statistic("features.scale", [self.bins])
        x = builder.reshape(x, [-1, 1, size, self.bins])
        for number in range(2):
            x = builder.convolution(x, f"subsampling.{number}", self.hidden, kernel=3, stride=2)
            x = builder.relu(x)
        places, width = x.shape[2:]
        x = builder.reshape(builder.transpose(x, [0, 2, 1, 3]), [-1, self.hidden * width])
        return builder.linear(x, "subsampling.output", self.hidden), places

    def _encoded(self, builder: LayerBuilder, x: Tensor, visible: Tensor) -> Tensor:
        """The encoder's output, of the shape of x ``[rows * places, hidden]``.

        Args:
            visible: bool ``[rows, places]``.
        """
        places = visible.shape[1]
        x = builder.dropout(x * math.sqrt(self.hidden), self.dropout)
        positions = builder.dropout(builder.sinusoids(places, self.hidden), self.dropout)
        seen = builder.reshape(visible, [-1, 1, 1, places])
        for layer in range(self.layers):
            name = f"encoder.{layer}"
            x = x + self._fed_forward(builder, x, f"{name}.macaron", _swish) * 0.5
            inner = f"{name}.attention"
            normed = builder.layer_norm(x, f"{inner}.norm", _EPSILON)
            attended = _attention(
                builder, normed, normed, inner, self.heads, (places, places), seen, positions
            )
            x = x + builder.dropout(attended, self.dropout)
            inner = f"{name}.convolution"
            normed = builder.layer_norm(x, f"{inner}.norm", _EPSILON)
            convolved = _convolved(builder, normed, inner, places, self.kernel)
            x = x + builder.dropout(convolved, self.dropout)
            x = x + self._fed_forward(builder, x, f"{name}.feed_forward", _swish) * 0.5
            x = builder.checkpoint(builder.layer_norm(x, f"{name}.norm", _EPSILON))
        return builder.layer_norm(x, "encoder.norm", _EPSILON)

    def _decoded(
        self, builder: LayerBuilder, memory: Tensor, visible: Tensor, written: Tensor
    ) -> Tensor:
        """Logits of a row's words, ``[rows * words, vocabulary]``.

        Args:
            memory: the encoder's output ``[rows * places, hidden]``.
            visible: of it, bool ``[rows, places]``.
            written: words that a row has, bool ``[rows, words]``.
        """
        places = visible.shape[1]
        table = builder.parameter("decoder.word", [self.vocabulary, self.hidden])
        x = builder.embedding(builder.feed("previous_words", [self.words], "int32"), table)
        x = x * math.sqrt(self.hidden) + builder.sinusoids(self.words, self.hidden)
        x = builder.dropout(builder.reshape(x, [-1, self.hidden]), self.dropout)
        before = builder.logical_and(
            builder.reshape(written, [-1, 1, 1, self.words]), builder.up_to_each(self.words)
        )
        seen = builder.reshape(visible, [-1, 1, 1, places])
        for layer in range(self.decoder_layers):
            name = f"decoder.{layer}"
            for part, source, length, mask in (
                ("attention", None, self.words, before),
                ("memory", memory, places, seen),
            ):
                inner = f"{name}.{part}"
                normed = builder.layer_norm(x, f"{inner}.norm", _EPSILON)
                attended = _attention(
                    builder, normed, normed if source is None else source, inner, self.heads,
                    (self.words, length), mask,
                )  # fmt: skip
                x = x + builder.dropout(attended, self.dropout)
            x = x + self._fed_forward(builder, x, f"{name}.feed_forward", LayerBuilder.relu)
            x = builder.checkpoint(x)
        x = builder.layer_norm(x, "decoder.norm", _EPSILON)
        return builder.linear(x, "decoder.output", self.vocabulary)

    def _fed_forward(
        self,
        builder: LayerBuilder,
        x: Tensor,
        name: str,
        activation: Callable[[LayerBuilder, Tensor], Tensor],
    ) -> Tensor:
        """What feed-forward makes of the norm of x ``[n, hidden]``."""
        normed = builder.layer_norm(x, f"{name}.norm", _EPSILON)
        wide = activation(builder, builder.linear(normed, f"{name}.inner", self.inner))
        narrow = builder.linear(builder.dropout(wide, self.dropout), f"{name}.outer", self.hidden)
        return builder.dropout(narrow, self.dropout)

    def _loss(
        self, builder: LayerBuilder, memory: Tensor, logits: Tensor, length: Tensor
    ) -> Tensor:
        """Of the words that the decoder guesses, and of those that the encoder aligns: of a row.

        Args:
            memory: the encoder's output ``[rows * places, hidden]``.
            logits: of the alignment, ``[rows, places, vocabulary]``.
            length: places that a row has, int32 ``[rows, 1]``.
        """
        written = builder.places_before(builder.feed("length", [1], "int32"), self.words)
        visible = builder.places_before(length, logits.shape[1])
        guessed = self._decoded(builder, memory, visible, written)
        words = builder.feed("words", [self.words], "int32")
        wrong = builder.smoothed_divergence(guessed, builder.reshape(words, [-1]), self.smoothing)
        wrong = wrong * builder.reshape(builder.as_float(written), [-1])
        # A text's end is no label of CTC.
        aligned = builder.ctc_loss(logits, words, length, builder.count(written) - 1)
        return builder.mean(wrong) * ((1.0 - self.ctc) * self.words) + aligned * self.ctc


def _swish(builder: LayerBuilder, x: Tensor) -> Tensor:
    """``x * sigmoid(x)`` by two operators, as the published network has it."""
    return x * builder.sigmoid(x)


def _convolved(builder: LayerBuilder, x: Tensor, name: str, places: int, kernel: int) -> Tensor:
    """The convolution part of x ``[rows * places, hidden]``: gated, by channel, projected."""
    hidden = x.shape[1]
    x = builder.transpose(builder.reshape(x, [-1, places, hidden]), [0, 2, 1])
    x = builder.convolution_along(x, f"{name}.inner", 2 * hidden)
    x = x[:, :hidden] * builder.sigmoid(x[:, hidden:])
    x = builder.convolution_along(x, f"{name}.depthwise", hidden, kernel, groups=hidden)
    x = builder.layer_norm(builder.transpose(x, [0, 2, 1]), f"{name}.inner.norm", _EPSILON)
    x = _swish(builder, builder.transpose(x, [0, 2, 1]))
    x = builder.convolution_along(x, f"{name}.outer", hidden)
    return builder.reshape(builder.transpose(x, [0, 2, 1]), [-1, hidden])


def _attention(
    builder: LayerBuilder,
    x: Tensor,
    source: Tensor,
    name: str,
    heads: int,
    places: tuple[int, int],
    visible: Tensor,
    positions: Tensor | None = None,
) -> Tensor:
    """Attention of x ``[rows * places, hidden]`` to a source, projected to the shape of x.

    Args:
        places: of a row of x, and of the source.
        visible: bool, what of the source is seen; broadcast to ``[rows, heads, *places]``.
        positions: are seen beside the keys, ``[places, hidden]``.
    """
    hidden = x.shape[1]
    width = hidden // heads

    def by_head(y: Tensor, places: int, bias: str = "") -> Tensor:
        y = builder.reshape(y, [-1, places, heads, width])
        if bias:
            y = y + builder.parameter(f"{name}.{bias}", [heads, width])
        return builder.transpose(y, [0, 2, 1, 3])

    def scores_of(bias: str, key: Tensor) -> Tensor:
        return builder.matmul(by_head(query, places[0], bias), key, transpose_y=True)

    query = builder.linear(x, f"{name}.query", hidden)
    weight = builder.parameter(f"{name}.source.weight", [hidden, hidden])
    bias = builder.parameter(f"{name}.source.bias", [hidden])
    # The published network computes them twice.
    key, value = (by_head(builder.matmul(source, weight) + bias, places[1]) for _ in range(2))
    if positions is None:
        scores = scores_of("", key)
    else:
        placed = builder.linear(positions, f"{name}.position", hidden, bias=False)
        scores = scores_of("key_bias", key)
        scores = scores + scores_of("position_bias", by_head(placed, places[1]))
    seen = builder.as_float(visible)
    scores = scores * width**-0.5 * seen + (seen - 1.0) * MASKED_OUT
    mixed = builder.matmul(builder.softmax(scores) * seen, value)
    mixed = builder.reshape(builder.transpose(mixed, [0, 2, 1, 3]), [-1, hidden])
    return builder.linear(mixed, f"{name}.output", hidden)
