"""Recurrent layers and their cells."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
from paddle import nn

from tests.unit.dygraph.layer_case import LayerCase, numbers

_X = numbers(3, 3, 4)
_LENGTHS = np.asarray([3, 1, 2], "int64")


class _Called(nn.Layer):  # type: ignore[misc]
    """A recurrent layer given x, lengths and any number of initial states."""

    def __init__(self, layer: Any, lengths: bool = False) -> None:
        super().__init__()
        self.layer, self.lengths = layer, lengths

    def forward(self, x: Any, *states: Any) -> Any:
        lengths = None
        if self.lengths:
            lengths, states = states[0], states[1:]
        initial = None
        if len(states) == 1:
            initial = states[0]
        if len(states) > 1:
            initial = states
        return self.layer(x, initial, lengths)


class _Halves(nn.RNNCellBase):  # type: ignore[misc]
    """A cell that a user wrote."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    @property
    def state_shape(self) -> tuple[int, ...]:
        """Of one row."""
        return (4,)

    def forward(self, inputs: Any, states: Any = None) -> Any:
        if states is None:
            states = self.get_initial_states(inputs, self.state_shape)
        states = paddle.tanh(self.layer(inputs)) + 0.5 * states
        return states, states


class _Both(nn.Layer):  # type: ignore[misc]
    """A BiRNN with initial states of both directions."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.BiRNN(nn.GRUCell(4, 3), nn.GRUCell(4, 3))

    def forward(self, x: Any, forwards: Any, backwards: Any) -> Any:
        return self.layer(x, (forwards, backwards))


def _state(rows: int, of: str = "state") -> Any:
    return numbers(rows, 3, 3, of=of)


RECURRENT = (
    LayerCase("GRU", lambda: nn.GRU(4, 3), (_X,)),
    LayerCase("GRU", lambda: nn.GRU(4, 3, 2, direction="bidirect"), (_X,), "two_layers_both_ways"),
    LayerCase("GRU", lambda: nn.GRU(4, 3, time_major=True), (_X,), "time_major"),
    LayerCase("GRU", lambda: _Called(nn.GRU(4, 3)), (_X, _state(1)), "initial_state"),
    LayerCase("GRU", lambda: _Called(nn.GRU(4, 3), True), (_X, _LENGTHS), "lengths"),
    LayerCase("LSTM", lambda: nn.LSTM(4, 3), (_X,)),
    LayerCase(
        "LSTM",
        lambda: _Called(nn.LSTM(4, 3, 2, direction="bidirect")),
        (_X, _state(4), _state(4, "cell")),
        "initial_states",
    ),
    # In both directions Paddle's gradient by lengths is not that of what it computes.
    LayerCase(
        "LSTM",
        lambda: _Called(nn.LSTM(4, 3, 2), True),
        (_X, _LENGTHS, _state(2), _state(2, "cell")),
        "lengths",
    ),
    LayerCase("LSTM", lambda: nn.LSTM(4, 3, time_major=True), (_X,), "time_major"),
    LayerCase("SimpleRNN", lambda: nn.SimpleRNN(4, 3), (_X,)),
    LayerCase("SimpleRNN", lambda: nn.SimpleRNN(4, 3, activation="relu"), (_X,), "relu"),
    LayerCase("SimpleRNN", lambda: nn.SimpleRNN(4, 3, 2, direction="bidirect"), (_X,), "both_ways"),
    LayerCase("GRUCell", lambda: nn.GRUCell(4, 3), (numbers(5, 4), numbers(5, 3))),
    LayerCase("LSTMCell", lambda: nn.LSTMCell(4, 3), (numbers(5, 4),)),
    LayerCase("SimpleRNNCell", lambda: nn.SimpleRNNCell(4, 3), (numbers(5, 4), numbers(5, 3))),
    LayerCase("RNNCellBase", lambda: nn.RNN(_Halves()), (_X,)),
    LayerCase("RNN", lambda: nn.RNN(nn.LSTMCell(4, 3)), (_X,)),
    LayerCase("RNN", lambda: nn.RNN(nn.GRUCell(4, 3), is_reverse=True), (_X,), "reverse"),
    LayerCase(
        "RNN", lambda: _Called(nn.RNN(nn.SimpleRNNCell(4, 3)), True), (_X, _LENGTHS), "lengths"
    ),
    LayerCase("BiRNN", lambda: nn.BiRNN(nn.LSTMCell(4, 3), nn.LSTMCell(4, 3)), (_X,)),
    LayerCase("BiRNN", _Both, (_X, numbers(3, 3), numbers(3, 3, of="back")), "initial_states"),
)
