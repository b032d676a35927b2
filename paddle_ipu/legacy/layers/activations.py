"""``paddle.fluid.layers``: activations, and the `act` argument of other layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import paddle
import paddle.nn.functional as F  # noqa: N812

if TYPE_CHECKING:
    from paddle import Tensor

    Layer = Callable[..., Tensor]


def _plain(today: Layer) -> Layer:
    return lambda x, name=None: today(x)


FORWARDED: dict[str, Layer] = {
    **{
        name: _plain(getattr(paddle, name))
        for name in (
            "abs acos asin atan ceil cos cosh erf exp floor log reciprocal round rsqrt sign sin "
            "sinh sqrt square tan tanh"
        ).split()
    },
    **{name: _plain(getattr(F, name)) for name in "relu sigmoid silu softplus softsign".split()},
    "logsigmoid": _plain(F.log_sigmoid),
    "tanh_shrink": _plain(F.tanhshrink),
    "brelu": lambda x, t_min=0.0, t_max=24.0, name=None: paddle.clip(x, t_min, t_max),
    "elu": lambda x, alpha=1.0, name=None: F.elu(x, alpha),
    "gelu": lambda x, approximate=False: F.gelu(x, approximate=approximate),
    "hard_sigmoid": lambda x, slope=0.2, offset=0.5, name=None: paddle.clip(
        paddle.scale(x, slope, offset), 0.0, 1.0
    ),
    "hard_swish": lambda x, threshold=6.0, scale=6.0, offset=3.0, name=None: (
        x * paddle.clip(x + offset, 0.0, threshold) / scale
    ),
    "leaky_relu": lambda x, alpha=0.02, name=None: F.leaky_relu(x, alpha),
    "relu6": lambda x, threshold=6.0, name=None: paddle.clip(x, 0.0, threshold),
    "softmax": lambda input, use_cudnn=True, name=None, axis=-1: F.softmax(input, axis=axis),
    "swish": lambda x, beta=1.0, name=None: x * F.sigmoid(x if beta == 1.0 else beta * x),
}
"""Layer -> its old arguments and defaults, by a function of today's Paddle."""

_ACTS = (
    "abs brelu elu exp gelu hard_sigmoid hard_swish leaky_relu log logsigmoid relu relu6 sigmoid "
    "silu softmax softplus softsign sqrt square swish tanh"
).split()


def activated(value: Tensor, act: str | None) -> Tensor:
    """Applies the activation that a layer's `act` names, with its default settings.

    Args:
        value: the result of the layer.
        act: name of an activation; None for none.

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
    return FORWARDED[act](value)
