"""Layers that hold others, or parameters."""

from __future__ import annotations

from typing import Any

import paddle
from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_X = numbers(4, 6)


class _Plain(nn.Layer):  # type: ignore[misc]
    """A parameter and a buffer of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([6, 3])
        self.register_buffer("seen", paddle.zeros([3]))

    def forward(self, x: Any) -> Any:
        product = x.matmul(self.weight)
        paddle.assign(self.seen + product.detach().sum(0), self.seen)
        return product


class _Listed(nn.Layer):  # type: ignore[misc]
    def __init__(self, holder: Any) -> None:
        super().__init__()
        self.holder = holder

    def forward(self, x: Any) -> Any:
        for layer in self.holder:
            x = layer(x)
        return x


class _Named(nn.Layer):  # type: ignore[misc]
    def __init__(self, holder: Any) -> None:
        super().__init__()
        self.holder = holder

    def forward(self, x: Any) -> Any:
        return self.holder["last"](self.holder["first"](x))


class _Parameters(nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.held = nn.ParameterList([self.create_parameter([6, 6]) for _ in range(2)])

    def forward(self, x: Any) -> Any:
        for parameter in self.held:
            x = x.matmul(parameter)
        return x


class _NamedParameters(nn.Layer):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.held = nn.ParameterDict({"one": self.create_parameter([6, 6])})

    def forward(self, x: Any) -> Any:
        return x.matmul(self.held["one"])


CONTAINERS = (
    LayerCase("Layer", _Plain, (_X,)),
    LayerCase(
        "LayerDict",
        lambda: _Named(nn.LayerDict({"first": nn.Linear(6, 5), "last": nn.Linear(5, 2)})),
        (_X,),
    ),
    LayerCase(
        "LayerList", lambda: _Listed(nn.LayerList([nn.Linear(6, 5), nn.Linear(5, 2)])), (_X,)
    ),
    LayerCase("ParameterDict", _NamedParameters, (_X,)),
    LayerCase("ParameterList", _Parameters, (_X,)),
    LayerCase("Sequential", lambda: nn.Sequential(nn.Linear(6, 5), nn.Tanh()), (_X,)),
    LayerCase(
        "Sequential",
        lambda: nn.Sequential(("first", nn.Linear(6, 5)), ("last", nn.Tanh())),
        (_X,),
        "named",
    ),
)
