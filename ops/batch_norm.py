"""Batch normalisation, by the running statistics or by those of the batch (arXiv:1502.03167)."""

from __future__ import annotations

import numpy as np

from paddle_ipu.ops.context import TranslationContext, product
from paddle_ipu.ops.registry import translator

_CHANNELS_LAST = ("NHWC", "NDHWC", "NLC")


@translator(
    "batch_norm",
    emits=("BatchNormalization", "Reshape", "Identity", "Mul", "Add", "Sub", "Sqrt", "Reciprocal",
           "graphcore.Detach"),
    limits="with running statistics, saved_mean and saved_variance cannot be read",
)  # fmt: skip
def batch_norm(context: TranslationContext) -> list[str | None]:
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` for each channel.

    Running statistics become ``momentum * running + (1 - momentum) * batch``, with the population
    variance of the batch; PopART's own update would happen in training mode only. A batch with one
    element for each channel leaves x and the statistics as they are. Half precision is normalised
    in float32, as Paddle does.

    Results are y, the running mean and variance, and the batch's mean and ``1 / sqrt(variance +
    epsilon)``.
    """
    return _BatchNorm(context).results()


class _BatchNorm:
    """One `batch_norm` node: its operands in float32 and x in a layout that PopART takes."""

    def __init__(self, context: TranslationContext) -> None:
        self.context = context
        x = context.input("x")
        self.shape, self.dtype = context.shape(x), context.dtype(x)
        wide = context.cast(x, "float32")
        self.mean, self.variance = (self._float(name) for name in ("mean", "variance"))
        channels = context.shape(self.mean)[0]
        self.scale = self._float("scale") if context.has("scale") else self._all(1.0, channels)
        self.bias = self._float("bias") if context.has("bias") else self._all(0.0, channels)
        # Channels last: [rows, channels, 1], since PopART wants at least three dimensions.
        rows = [product(self.shape) // max(channels, 1), channels, 1]
        last = len(self.shape) == 2 or context.attr("data_format", "NCHW") in _CHANNELS_LAST
        self.x = context.reshape(wide, rows) if last else wide
        self.elements = rows[0]
        self.epsilon = float(context.attr("epsilon", 1e-5))

    def _float(self, name: str) -> str:
        return self.context.cast(self.context.input(name), "float32")

    def _all(self, number: float, channels: int) -> str:
        return self.context.const(np.full(channels, number), "float32")

    def results(self) -> list[str | None]:
        """The node's results, by the statistics that its attributes choose."""
        context = self.context
        is_test = bool(context.attr("is_test", 0))
        batch_in_test = is_test and bool(context.attr("trainable_statistics", 0))
        if (is_test and not batch_in_test) or context.attr("use_global_stats", 0):
            if any(context.is_used(index) for index in range(3, len(context.node.outputs))):
                raise context.refuse(
                    "with running statistics its saved_mean and saved_variance hold nothing; read "
                    "the running mean and variance."
                )
            y = self._with_running(self.mean, self.variance)
            return [self._shaped(y), self.mean, self.variance]
        if self.elements == 1:
            y = context.onnx.identity([self.x])
            zeros = self._all(0.0, context.shape(self.mean)[0])
            return [self._shaped(y), self.mean, self.variance, zeros, zeros]
        y, mean, variance = self._with_batch()
        running_mean, running_variance = (
            self._moved(self.mean, mean),
            self._moved(self.variance, variance),
        )
        if batch_in_test:
            # Paddle's kernel gives y by the batch's statistics, its gradient by the running ones.
            running = self._with_running(running_mean, running_variance)
            difference = context.onnx.sub([y, running])
            y = context.onnx.add([running, context.graphcore.detach([difference])])
        return [
            self._shaped(y),
            running_mean,
            running_variance,
            mean,
            self._inverse_deviation(variance) if context.is_used(4) else None,
        ]

    def _with_running(self, mean: str, variance: str) -> str:
        inputs = [self.x, self.scale, self.bias, mean, variance]
        return self.context.onnx.batchnormalization(inputs, 1, self.epsilon)[0]

    def _with_batch(self) -> tuple[str, str, str]:
        """(y, mean, population variance) of the batch."""
        channels = self.context.shape(self.mean)[0]
        # Placeholders for the running statistics, which PopART would update in training only.
        unused = [self._all(0.0, channels), self._all(1.0, channels)]
        outputs = self.context.onnx.batchnormalization(
            [self.x, self.scale, self.bias, *unused], 5, self.epsilon
        )
        return outputs[0], outputs[3], outputs[4]

    def _moved(self, running: str, batch: str) -> str:
        """``momentum * running + (1 - momentum) * batch``."""
        onnx, momentum = self.context.onnx, float(self.context.attr("momentum", 0.9))
        kept = onnx.mul([running, self.context.const(np.asarray(momentum), "float32")])
        moved = onnx.mul([batch, self.context.const(np.asarray(1.0 - momentum), "float32")])
        return onnx.add([kept, moved])

    def _inverse_deviation(self, variance: str) -> str:
        onnx = self.context.onnx
        moved = onnx.add([variance, self.context.const(np.asarray(self.epsilon), "float32")])
        return onnx.reciprocal([onnx.sqrt([moved])])

    def _shaped(self, y: str) -> str:
        return self.context.cast(self.context.reshape(y, self.shape), self.dtype)
