"""LayerBuilder with named parameters, built into the current static program."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from paddle_ipu.dialect.annotations import CHECKPOINT

if TYPE_CHECKING:
    from paddle import ParamAttr, Tensor


class LayerBuilder:
    """Builds one network; its parameters are named by the layer that has them.

    Activations of transformers are ``[rows * tokens, hidden]``, so that products have two
    dimensions. Rows are -1: the strategy sets them.

    Args:
        training: dropout is applied, and networks give a loss.

    Attributes:
        feeds: names of what the network is fed, in order.
    """

    def __init__(self, training: bool) -> None:
        # Paddle takes a second to import, and the table of models is read without it.
        import paddle

        self.training = training
        self.feeds: list[str] = []
        self._paddle = paddle
        self._functional = paddle.nn.functional

    def feed(self, name: str, shape: Sequence[int], dtype: str) -> Tensor:
        """A feed ``[rows, *shape]``."""
        self.feeds.append(name)
        return self._paddle.static.data(name, [-1, *shape], dtype)

    def parameter(self, name: str, shape: Sequence[int]) -> Tensor:
        """A trained parameter of float32."""
        return self._paddle.create_parameter(list(shape), "float32", attr=self._attribute(name))

    def _attribute(self, name: str) -> ParamAttr:
        zeros = self._paddle.nn.initializer.Constant(0.0)
        return self._paddle.ParamAttr(name=name, initializer=zeros)

    def linear(self, x: Tensor, name: str, outputs: int, bias: bool = True) -> Tensor:
        """``x @ weight + bias`` of x ``[n, inputs]``."""
        y = self._paddle.matmul(x, self.parameter(f"{name}.weight", [x.shape[-1], outputs]))
        return y + self.parameter(f"{name}.bias", [outputs]) if bias else y

    def layer_norm(self, x: Tensor, name: str, epsilon: float) -> Tensor:
        """Layer norm over the last axis."""
        size = x.shape[-1]
        scale, bias = (self.parameter(f"{name}.{part}", [size]) for part in ("scale", "bias"))
        return self._functional.layer_norm(x, size, scale, bias, epsilon)

    def rms_norm(self, x: Tensor, name: str, epsilon: float) -> Tensor:
        """``x / sqrt(mean(x^2) + epsilon) * scale`` over the last axis."""
        mean = self._paddle.mean(x * x, axis=-1, keepdim=True)
        scale = self.parameter(f"{name}.scale", [x.shape[-1]])
        return x * self._paddle.rsqrt(mean + epsilon) * scale

    def dropout(self, x: Tensor, share: float) -> Tensor:
        """Dropout, where the network is trained."""
        if not self.training or share == 0.0:
            return x
        return self._functional.dropout(x, share, training=True, mode="upscale_in_train")

    def dropped_rows(self, x: Tensor, share: float) -> Tensor:
        """x, where the network is trained without some rows: stochastic depth, arXiv:1603.09382."""
        if not self.training or share == 0.0:
            return x
        # One for each row, of which nobody knows how many there are.
        ones = x[:, :1, :1, :1] * 0.0 + 1.0
        return x * self.dropout(ones, share)

    def embedding(self, indices: Tensor, table: Tensor) -> Tensor:
        """Rows of a table ``[entries, hidden]``: the shape of the indices, then hidden."""
        return self._functional.embedding(indices, table)

    def rows_of(self, table: Tensor, numbers: Sequence[int]) -> Tensor:
        """Rows of a table ``[entries, hidden]`` by constant numbers: ``[numbers, hidden]``."""
        return self.embedding(self._paddle.assign(np.array(numbers, np.int32)), table)

    def convolution(
        self,
        x: Tensor,
        name: str,
        outputs: int,
        kernel: int,
        stride: int,
        *,
        padding: int = 0,
        groups: int = 1,
        bias: bool = True,
    ) -> Tensor:
        """A convolution of x ``[rows, channels, height, width]``.

        Args:
            padding: zeros on each side.
            groups: of channels, each of which reads and makes its own alone.
        """
        shape = [outputs, x.shape[1] // groups, kernel, kernel]
        weight = self.parameter(f"{name}.weight", shape)
        added = self.parameter(f"{name}.bias", [outputs]) if bias else None
        return self._functional.conv2d(x, weight, added, stride, padding, groups=groups)

    def upsampled_convolution(self, x: Tensor, name: str, outputs: int, factor: int) -> Tensor:
        """A transposed convolution: each position of x becomes ``factor`` x ``factor`` of them."""
        weight = self.parameter(f"{name}.weight", [x.shape[1], outputs, factor, factor])
        bias = self.parameter(f"{name}.bias", [outputs])
        return self._functional.conv2d_transpose(x, weight, bias, stride=factor)

    def max_pool(self, x: Tensor, window: int) -> Tensor:
        """The largest of each window of x ``[rows, channels, height, width]``."""
        return self._functional.max_pool2d(x, window)

    def middle(self, x: Tensor, size: int) -> Tensor:
        """The middle ``[rows, channels, size, size]`` of x ``[rows, channels, height, width]``."""
        top, left = (x.shape[2] - size) // 2, (x.shape[3] - size) // 2
        return x[:, :, top : top + size, left : left + size]

    def mean_of_positions(self, x: Tensor) -> Tensor:
        """``[rows, channels, 1, 1]`` of x ``[rows, channels, height, width]``."""
        return self._functional.adaptive_avg_pool2d(x, 1)

    def batch_norm(self, x: Tensor, name: str, epsilon: float) -> Tensor:
        """Batch norm of x ``[rows, channels, height, width]``, by the batch where it is trained."""
        channels = [x.shape[1]]
        scale, bias = (self.parameter(f"{name}.{part}", channels) for part in ("scale", "bias"))
        mean, variance = (self.statistic(f"{name}.{part}", channels) for part in _STATISTICS)
        return self._functional.batch_norm(
            x, mean, variance, scale, bias, training=self.training, epsilon=epsilon
        )

    def group_norm(self, x: Tensor, name: str, groups: int, epsilon: float) -> Tensor:
        """Group norm of x ``[rows, channels, height, width]``: each row's groups of channels."""
        if not hasattr(self._functional, "group_norm"):
            # Paddle 2.6 has it as a layer and here.
            scale, bias = (self._paddle.ParamAttr(name=f"{name}.{p}") for p in ("scale", "bias"))
            return self._paddle.static.nn.group_norm(x, groups, epsilon, scale, bias)
        channels = [x.shape[1]]
        scale, bias = (self.parameter(f"{name}.{part}", channels) for part in ("scale", "bias"))
        return self._functional.group_norm(x, groups, epsilon, scale, bias)

    def statistic(self, name: str, shape: Sequence[int]) -> Tensor:
        """A parameter of float32 that no optimizer changes."""
        attribute = self._paddle.ParamAttr(name=name, trainable=False)
        found = self._paddle.create_parameter(list(shape), "float32", attr=attribute)
        found.stop_gradient = True
        return found

    def convolution_along(
        self, x: Tensor, name: str, outputs: int, kernel: int = 1, groups: int = 1
    ) -> Tensor:
        """A convolution of x ``[rows, channels, places]`` to as many places, without bias."""
        weight = self.parameter(f"{name}.weight", [outputs, x.shape[1] // groups, 1, kernel])
        # By conv1d the convolution would read a view of its weight.
        channels, places = x.shape[1:]
        line = self.reshape(x, [-1, channels, 1, places])
        padding = [0, kernel // 2]
        y = self._functional.conv2d(line, weight, padding=padding, groups=groups)
        return self.reshape(y, [-1, outputs, places])

    def pixels(self, size: int, channels: int = 3) -> Tensor:
        """The feed of images, ``[rows, channels, size, size]`` from -1 to 1.

        Bytes are what the host copies; they become numbers on the IPU.
        """
        image = self.feed("image", [channels, size, size], "uint8")
        return self._paddle.cast(image, "float32") * (1 / 127.5) - 1.0

    def lstm(self, x: Tensor, name: str, hidden: int) -> Tensor:
        """An LSTM ``[rows, tokens, hidden]`` over x ``[rows, tokens, inputs]``, from zeros on."""
        parts = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        attributes = {f"{part}_attr": self._attribute(f"{name}.{part}") for part in parts}
        with warnings.catch_warnings():
            # Paddle looks for the place of a variable, which has none.
            warnings.simplefilter("ignore", UserWarning)
            layer = self._paddle.nn.LSTM(x.shape[-1], hidden, **attributes)
            result = layer(x)[0]
        # A copy of all weights in a row, which no operator reads.
        for copy in layer._flat_weight:
            copy.stop_gradient = True
        return result

    def gelu(self, x: Tensor) -> Tensor:
        """GELU by its tanh form."""
        return self._functional.gelu(x, approximate=True)

    def relu(self, x: Tensor) -> Tensor:
        """``max(x, 0)``."""
        return self._functional.relu(x)

    def sigmoid(self, x: Tensor) -> Tensor:
        """``1 / (1 + exp(-x))``."""
        return self._functional.sigmoid(x)

    def silu(self, x: Tensor) -> Tensor:
        """``x * sigmoid(x)``."""
        return self._functional.silu(x)

    def softmax(self, x: Tensor) -> Tensor:
        """Softmax over the last axis."""
        return self._functional.softmax(x, axis=-1)

    def log_softmax(self, x: Tensor) -> Tensor:
        """The logarithm of softmax over the last axis."""
        return self._functional.log_softmax(x, axis=-1)

    def matmul(self, x: Tensor, y: Tensor, transpose_y: bool = False) -> Tensor:
        """A product of matrices, or of as many as there are in the leading axes."""
        return self._paddle.matmul(x, y, transpose_y=transpose_y)

    def reshape(self, x: Tensor, shape: Sequence[int]) -> Tensor:
        """x in another shape, of which one dimension may be -1."""
        return self._paddle.reshape(x, list(shape))

    def transpose(self, x: Tensor, order: Sequence[int]) -> Tensor:
        """x with its axes in another order."""
        return self._paddle.transpose(x, list(order))

    def concat(self, tensors: Sequence[Tensor], axis: int) -> Tensor:
        """Tensors one behind the other along an axis."""
        return self._paddle.concat(list(tensors), axis=axis)

    def checkpoint(self, x: Tensor) -> Tensor:
        """x, which is kept for backward where what lies between such tensors is computed again."""
        if self.training:
            # A Value of PIR has its operator, as a Variable has.
            made = x.get_defining_op() if hasattr(x, "get_defining_op") else x.op
            mark = getattr(made, "set_int_attr", None) or made._set_attr
            mark(CHECKPOINT, 1)
        return x

    def tanh(self, x: Tensor) -> Tensor:
        """The hyperbolic tangent."""
        return self._paddle.tanh(x)

    def cross_entropy(self, logits: Tensor, labels: Tensor, axis: int = -1) -> Tensor:
        """The mean cross-entropy of logits and int32 labels, which lack the axis of classes."""
        return self._functional.cross_entropy(logits, labels, axis=axis)

    def smoothed_divergence(self, logits: Tensor, labels: Tensor, smoothing: float) -> Tensor:
        """How far ``[n]`` probabilities are from smoothed labels (Kullback and Leibler).

        Args:
            logits: ``[n, classes]``.
            labels: int32 ``[n]``.
            smoothing: share of all classes but the label's.
        """
        other = smoothing / (logits.shape[1] - 1)
        wanted = self._functional.one_hot(labels, logits.shape[1])
        wanted = wanted * (1.0 - smoothing - other) + other
        return (wanted * (self._paddle.log(wanted) - self.log_softmax(logits))).sum(axis=-1)

    def ctc_loss(self, logits: Tensor, labels: Tensor, length: Tensor, count: Tensor) -> Tensor:
        """The mean over rows of the CTC loss (Graves et al., 2006); a scalar. The blank is 0.

        Args:
            logits: ``[rows, places, classes]``.
            labels: int32 ``[rows, most]``.
            length: places of a row that count, int32 ``[rows, 1]``.
            count: its labels, int32 ``[rows, 1]``.
        """
        along = self.transpose(logits, [1, 0, 2])
        # Paddle 2.6 takes none of int32.
        sizes = (self._paddle.cast(self.reshape(x, [-1]), "int64") for x in (length, count))
        return self.mean(self._functional.ctc_loss(along, labels, *sizes, reduction="none"))

    def mean(self, x: Tensor) -> Tensor:
        """The mean of all elements; a scalar."""
        return self._paddle.mean(x)

    def as_float(self, x: Tensor) -> Tensor:
        """Numbers, or 1 where x is true and 0 elsewhere."""
        return self._paddle.cast(x, "float32")

    def logical_and(self, x: Tensor, y: Tensor) -> Tensor:
        """Where both are true."""
        return self._paddle.logical_and(x, y)

    def places_before(self, length: Tensor, places: int, step: int = 1) -> Tensor:
        """Bool ``[rows, places]``: whether ``place * step`` is below a row's length.

        Args:
            length: int32 ``[rows, 1]``.
        """
        starts = self._paddle.arange(0, places * step, step, "int32")
        return self.reshape(starts, [1, places]) < length

    def count(self, marked: Tensor) -> Tensor:
        """How many of a row are true, int32 ``[rows, 1]``; of bool ``[rows, places]``."""
        ones = self._paddle.cast(marked, "int32")
        return self._paddle.sum(ones, axis=1, keepdim=True, dtype="int32")

    def up_to_each(self, tokens: int) -> Tensor:
        """Bool ``[tokens, tokens]``: whether the second is no later than the first."""
        places = self._paddle.arange(0, tokens, 1, "int32")
        return self.reshape(places, [1, tokens]) <= self.reshape(places, [tokens, 1])

    def sinusoids(self, tokens: int, hidden: int) -> Tensor:
        """Sines and cosines ``[tokens, hidden]`` of each place (arXiv:1706.03762), by turns."""
        places = self.reshape(self._paddle.arange(0, tokens, 1, "float32"), [tokens, 1])
        frequencies = 1e4 ** (np.arange(0, -hidden, -2) / hidden)
        angles = places * self._paddle.assign(frequencies[None].astype(np.float32))
        angles = self.reshape(angles, [tokens, hidden // 2, 1])
        pairs = self.concat([self._paddle.sin(angles), self._paddle.cos(angles)], 2)
        return self.reshape(pairs, [tokens, hidden])

    def by_distance(self, values: Tensor) -> Tensor:
        """A matrix ``[heads, tokens, tokens]`` of what belongs to each distance of two tokens.

        Args:
            values: ``[2 * tokens, heads]``, of distances 0 to ``tokens - 1``, then ``-tokens`` to
                -1 from a row's token to a column's.
        """
        twice, heads = values.shape
        tokens = twice // 2
        line = self.reshape(self.transpose(values, [1, 0]), [heads, 1, twice])
        rows = self._paddle.expand(line, [heads, tokens, twice])
        # Cut into rows that are one shorter, the same line begins in each one later.
        flat = self.reshape(rows, [heads, tokens * twice])[:, : tokens * (twice - 1)]
        return self.reshape(flat, [heads, tokens, twice - 1])[:, :, :tokens]

    def hidden_where(self, visible: Tensor, tokens: int) -> Tensor:
        """What is added to attention's scores, ``[rows, 1, 1, tokens]``: 0 where visible is 1.

        Args:
            visible: int32 ``[rows, tokens]``.
        """
        bias = (self._paddle.cast(visible, "float32") - 1.0) * MASKED_OUT
        return self.reshape(bias, [-1, 1, 1, tokens])

    def hidden_after(self, tokens: int) -> Tensor:
        """What is added to attention's scores, ``[tokens, tokens]``: 0 up to a token's place.

        A layer makes its own, which is faster than to send one from stage to stage of a pipeline.
        """
        places = self._paddle.arange(0, tokens, 1, "int32")
        later = self.reshape(places, [1, tokens]) > self.reshape(places, [tokens, 1])
        return self._paddle.cast(later, "float32") * -MASKED_OUT

    def rotary_angles(self, tokens: int, width: int, base: float) -> tuple[Tensor, Tensor]:
        """Cosines and sines ``[tokens, 1, width]`` of each place and element of a head.

        A layer makes its own, as of :meth:`hidden_after`.
        """
        # No table of constants: a program would hold every number of it.
        places = self.reshape(self._paddle.arange(0, tokens, 1, "float32"), [tokens, 1, 1])
        frequencies = base ** (np.arange(0, -width, -2) / width)
        steps = np.concatenate([frequencies, frequencies])[None, None]
        angles = places * self._paddle.assign(steps.astype(np.float32))
        return self._paddle.cos(angles), self._paddle.sin(angles)


_STATISTICS = ("mean", "variance")
MASKED_OUT = 1000.0
"""What is taken from the scores of what a token must not see: enough in half, too."""
