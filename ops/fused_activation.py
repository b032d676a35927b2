"""Activations by the names that fused operators have as an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from paddle_ipu.ops.context import TranslationContext

Activation = Callable[[TranslationContext, str], str]

_IDENTITY = ("", "identity", "linear", "none")


def _onnx(name: str) -> Activation:
    return lambda context, x: str(getattr(context.onnx, name)([x]))


def _graphcore(name: str) -> Activation:
    return lambda context, x: str(getattr(context.graphcore, name)([x]))


def _relu6(context: TranslationContext, x: str) -> str:
    bounds = [context.const_like(0.0, x), context.const_like(6.0, x)]
    return context.onnx.clip([x, *bounds])


ACTIVATIONS: Mapping[str, Activation] = {
    "relu": _onnx("relu"),
    "relu6": _relu6,
    "sigmoid": _onnx("sigmoid"),
    "tanh": _onnx("tanh"),
    "gelu": _graphcore("geluerf"),
    "gelu_erf": _graphcore("geluerf"),
    "gelu_tanh": _graphcore("gelu"),
    "swish": _graphcore("swish"),
    "silu": _graphcore("swish"),
}


def activate(context: TranslationContext, x: str, name: str) -> str:
    """``activation(x)``, or `x` itself for an identity.

    Args:
        context: of the node.
        x: the tensor.
        name: Paddle's name; "", "identity", "linear" and "none" are identities.

    Raises:
        NotSupported: the name is not known.
    """
    if name in _IDENTITY:
        return x
    if name not in ACTIVATIONS:
        raise context.refuse(
            f"activation {name!r} is not supported; one of {', '.join(ACTIVATIONS)} is."
        )
    return ACTIVATIONS[name](context, x)
