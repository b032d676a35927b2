"""Batch normalisation, with the running statistics or with those of the batch."""

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
    """``(x - mean) / sqrt(variance + epsilon) * scale + bias`` by channel.

    Running statistics become ``momentum * old + (1 - momentum) * batch``, where the batch's
    variance is that of the population; a batch of one element leaves x and them as they are.
    Half precision is normalised in float32, as Paddle does. The saved results are the batch's mean
    and 1 / standard deviation.
    """
    return _BatchNorm(context).results()


class _BatchNorm:
    def __init__(self, context: TranslationContext) -> None:
        self.context = context
        x = context.input("x")
        self.shape, self.dtype = context.shape(x), context.dtype(x)
        wide = context.cast(x, "float32")
        self.mean, self.variance = (self._float(name) for name in ("mean", "variance"))
        channels = context.shape(self.mean)[0]
        self.scale = self._float("scale") if context.has("scale") else self._all(1.0, channels)
        self.bias = self._float("bias") if context.has("bias") else self._all(0.0, channels)
        # Rows of channels, where they come last; PopART wants three dimensions at least.
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
            # Paddle's derivative is that of the running statistics then.
            running = self._with_running(running_mean, running_variance)
            apart = context.onnx.sub([y, running])
            y = context.onnx.add([running, context.graphcore.detach([apart])])
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
        # Given the running statistics PopART would update them itself, in training only.
        unused = [self._all(0.0, channels), self._all(1.0, channels)]
        outputs = self.context.onnx.batchnormalization(
            [self.x, self.scale, self.bias, *unused], 5, self.epsilon
        )
        return outputs[0], outputs[3], outputs[4]

    def _moved(self, running: str, batch: str) -> str:
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
