"""Activations."""

from __future__ import annotations

from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_X = numbers(4, 6)
_IMAGE = numbers(2, 4, 3, 3)

ACTIVATIONS = (
    LayerCase("CELU", lambda: nn.CELU(0.7), (_X,)),
    LayerCase("ELU", lambda: nn.ELU(0.7), (_X,)),
    LayerCase("GELU", lambda: nn.GELU(), (_X,)),
    LayerCase("GELU", lambda: nn.GELU(True), (_X,), "tanh"),
    LayerCase("GLU", lambda: nn.GLU(), (_X,)),
    LayerCase("Hardshrink", lambda: nn.Hardshrink(), (_X,)),
    LayerCase("Hardsigmoid", lambda: nn.Hardsigmoid(), (3.0 * _X,)),
    LayerCase("Hardswish", lambda: nn.Hardswish(), (3.0 * _X,)),
    LayerCase("Hardtanh", lambda: nn.Hardtanh(-0.4, 0.9), (_X,)),
    LayerCase("LeakyReLU", lambda: nn.LeakyReLU(0.1), (_X,)),
    LayerCase("LogSigmoid", lambda: nn.LogSigmoid(), (_X,)),
    LayerCase("LogSoftmax", lambda: nn.LogSoftmax(0), (_X,)),
    LayerCase("Maxout", lambda: nn.Maxout(2), (_IMAGE,)),
    LayerCase("Mish", lambda: nn.Mish(), (_X,)),
    LayerCase("PReLU", lambda: nn.PReLU(), (_X,)),
    LayerCase("PReLU", lambda: nn.PReLU(4, 0.1), (_IMAGE,), "channels"),
    LayerCase("RReLU", lambda: nn.RReLU(), (_X,), frozen=True),
    LayerCase("ReLU", lambda: nn.ReLU(), (_X,)),
    LayerCase("ReLU6", lambda: nn.ReLU6(), (6.0 * _X,)),
    LayerCase("SELU", lambda: nn.SELU(), (_X,)),
    LayerCase("Sigmoid", lambda: nn.Sigmoid(), (_X,)),
    LayerCase("Silu", lambda: nn.Silu(), (_X,)),
    LayerCase("Softmax", lambda: nn.Softmax(), (_X,)),
    LayerCase("Softmax2D", lambda: nn.Softmax2D(), (_IMAGE,)),
    LayerCase("Softplus", lambda: nn.Softplus(2.0, 3.0), (_X,)),
    LayerCase("Softshrink", lambda: nn.Softshrink(), (_X,)),
    LayerCase("Softsign", lambda: nn.Softsign(), (_X,)),
    LayerCase("Swish", lambda: nn.Swish(), (_X,)),
    LayerCase("Tanh", lambda: nn.Tanh(), (_X,)),
    LayerCase("Tanhshrink", lambda: nn.Tanhshrink(), (_X,)),
    LayerCase("ThresholdedReLU", lambda: nn.ThresholdedReLU(0.3), (_X,)),
)
