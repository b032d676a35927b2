"""``paddle.fluid.layers``: activations, and the `act` argument of other layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import paddle
import paddle.nn.functional as F  # noqa: N812


def _plain(today: Callable[..., Any]) -> Callable[..., Any]:
    def layer(x: Any, name: str | None = None) -> Any:
        return today(x)

    return layer


def softmax(input: Any, use_cudnn: bool = True, name: str | None = None, axis: int = -1) -> Any:
    """Softmax along an axis."""
    return F.softmax(input, axis=axis)


def gelu(x: Any, approximate: bool = False) -> Any:
    """GELU, by erf or by tanh."""
    return F.gelu(x, approximate=approximate)


def leaky_relu(x: Any, alpha: float = 0.02, name: str | None = None) -> Any:
    """``x`` where positive, else ``alpha * x``; today's default slope is 0.01."""
    return F.leaky_relu(x, alpha)


def elu(x: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    """``x`` where positive, else ``alpha * (exp(x) - 1)``."""
    return F.elu(x, alpha)


def relu6(x: Any, threshold: float = 6.0, name: str | None = None) -> Any:
    """``x`` clipped to 0 and the threshold."""
    return paddle.clip(x, 0.0, threshold)


def swish(x: Any, beta: float = 1.0, name: str | None = None) -> Any:
    """``x * sigmoid(beta * x)``."""
    return x * F.sigmoid(x if beta == 1.0 else beta * x)


def hard_sigmoid(x: Any, slope: float = 0.2, offset: float = 0.5, name: str | None = None) -> Any:
    """``clip(slope * x + offset, 0, 1)``; today's default slope is 1/6."""
    return paddle.clip(paddle.scale(x, slope, offset), 0.0, 1.0)


def hard_swish(
    x: Any,
    threshold: float = 6.0,
    scale: float = 6.0,
    offset: float = 3.0,
    name: str | None = None,
) -> Any:
    """``x * clip(x + offset, 0, threshold) / scale``."""
    return x * paddle.clip(x + offset, 0.0, threshold) / scale


def brelu(x: Any, t_min: float = 0.0, t_max: float = 24.0, name: str | None = None) -> Any:
    """``x`` clipped to both bounds."""
    return paddle.clip(x, t_min, t_max)


abs = _plain(paddle.abs)
acos = _plain(paddle.acos)
asin = _plain(paddle.asin)
atan = _plain(paddle.atan)
ceil = _plain(paddle.ceil)
cos = _plain(paddle.cos)
cosh = _plain(paddle.cosh)
erf = _plain(paddle.erf)
exp = _plain(paddle.exp)
floor = _plain(paddle.floor)
log = _plain(paddle.log)
logsigmoid = _plain(F.log_sigmoid)
reciprocal = _plain(paddle.reciprocal)
relu = _plain(F.relu)
round = _plain(paddle.round)
rsqrt = _plain(paddle.rsqrt)
sigmoid = _plain(F.sigmoid)
sign = _plain(paddle.sign)
silu = _plain(F.silu)
sin = _plain(paddle.sin)
sinh = _plain(paddle.sinh)
softplus = _plain(F.softplus)
softsign = _plain(F.softsign)
sqrt = _plain(paddle.sqrt)
square = _plain(paddle.square)
tan = _plain(paddle.tan)
tanh = _plain(paddle.tanh)
tanh_shrink = _plain(F.tanhshrink)

_ACTS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "brelu": brelu,
    "elu": elu,
    "exp": exp,
    "gelu": gelu,
    "hard_sigmoid": hard_sigmoid,
    "hard_swish": hard_swish,
    "leaky_relu": leaky_relu,
    "log": log,
    "logsigmoid": logsigmoid,
    "relu": relu,
    "relu6": relu6,
    "sigmoid": sigmoid,
    "silu": silu,
    "softmax": softmax,
    "softplus": softplus,
    "softsign": softsign,
    "sqrt": sqrt,
    "square": square,
    "swish": swish,
    "tanh": tanh,
}


def activated(value: Any, act: str | None) -> Any:
    """The value behind the activation that a layer's `act` names, with its default settings.

    Raises:
        ValueError: no activation has that name.
    """
    if act is None:
        return value
    if act not in _ACTS:
        raise ValueError(
            f"act={act!r}: expected None or one of {', '.join(_ACTS)}. Call the activation you "
            "want on the layer's result, from paddle.nn.functional."
        )
    return _ACTS[act](value)
