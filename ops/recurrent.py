"""Translators of recurrent networks: ``paddle.nn.LSTM``, ``GRU``, ``SimpleRNN``, and `gru_unit`."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.ops.context import TranslationContext
from paddle_ipu.ops.fused_activation import activate
from paddle_ipu.ops.registry import translator

_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN_TANH": (0,), "RNN_RELU": (0,)}
"""Index of each of ONNX's gates among Paddle's: those are input, forget, cell, output for LSTM, and
reset, update, cell for GRU."""


def _in_onnx_order(context: TranslationContext, tensor: str, order: Sequence[int]) -> str:
    """A weight or bias with its gates in ONNX's order."""
    if len(order) == 1:
        return tensor
    size = context.shape(tensor)[0] // len(order)
    parts = context.onnx.split([tensor], len(order), 0, [size] * len(order))
    return context.onnx.concat([parts[gate] for gate in order], 0)


def _front(context: TranslationContext, tensor: str) -> str:
    """[...] as [1, ...], with ONNX's axis of directions."""
    return context.reshape(tensor, [1, *context.shape(tensor)])


class _Layers:
    """An `rnn` node: its mode, and its weights and states by layer and direction."""

    def __init__(self, context: TranslationContext) -> None:
        self.context = context
        self.mode = str(context.attr("mode"))
        self.order = _ORDER[self.mode]
        self.weights = context.inputs("weight_list")
        self.lengths = context.optional("sequence_length")
        self.directions = 2 if context.attr("is_bidirec", 0) else 1
        self.count = int(context.attr("num_layers", 1))
        states = context.inputs("pre_state")
        rows = self.count * self.directions
        self.states: list[list[str]] = [
            [state] if rows == 1 else list(context.onnx.split([state], rows, 0, [1] * rows))
            for state in states
        ]

    def of(self, layer: int, direction: int) -> tuple[str, str, str]:
        """ONNX's W, R and B of a layer and direction; Paddle lists all weights, then all biases."""
        at = 2 * (layer * self.directions + direction)
        biases = at + 2 * self.count * self.directions
        ordered = [
            _in_onnx_order(self.context, tensor, self.order)
            for tensor in (*self.weights[at : at + 2], *self.weights[biases : biases + 2])
        ]
        both = self.context.onnx.concat(ordered[2:], 0)
        w, r, b = (_front(self.context, tensor) for tensor in (*ordered[:2], both))
        return w, r, b

    def run(self, x: str, layer: int, direction: int) -> list[str]:
        """Y [T, N, H] and the final states [1, N, H] of a layer in one direction.

        ONNX's operators serve where they can. With lengths only PopART's LSTM does, and only
        forwards: the others are the extension Recurrent, which leaves the padding of a sequence
        alone.
        """
        context, at = self.context, layer * self.directions + direction
        operands = [x, *self.of(layer, direction)]
        states = [rows[at] for rows in self.states]
        if self.lengths is not None and (direction or self.mode != "LSTM"):
            y, *last = context.extension(
                "Recurrent",
                [*operands, self.lengths, *states],
                {"mode": self.mode, "reverse": direction},
                1 + len(states),
            )
        else:
            if direction:
                operands[0] = context.graphcore.reverse([x], [0])
            y, *last = self._onnx([*operands, self.lengths or "", *states])
        y = context.reshape(y, [*context.shape(x)[:2], context.shape(states[0])[2]])
        if direction and self.lengths is None:
            y = context.graphcore.reverse([y], [0])
        return [y, *last]

    def _onnx(self, operands: list[str]) -> list[str]:
        onnx = self.context.onnx
        # PopART reads it from the weights; other readers of ONNX require the attribute.
        settings = {"clip": None, "hidden_size": self.context.shape(operands[2])[-1]}
        if self.mode == "LSTM":
            return list(onnx.lstm(operands, 3, **settings))
        if self.mode == "GRU":
            return list(onnx.gru(operands, 2, linear_before_reset=1, **settings))
        activation = self.mode.removeprefix("RNN_").title()
        return list(onnx.rnn(operands, 2, activations=[activation], **settings))


@translator(
    "rnn",
    emits=("LSTM", "GRU", "RNN", "Split", "Concat", "Reshape", "Dropout", "Mul",
           "graphcore.Reverse", "paddle_ipu.Recurrent"),
    limits="of weights as arrays; the dropout state and the reserve cannot be read",
)  # fmt: skip
def rnn(context: TranslationContext) -> list[str | None]:
    """Layers of LSTM, GRU or plain RNN over x [T, N, I], in one direction or both.

    Results are the output [T, N, directions * H] and the final states [layers * directions, N, H].
    Steps past the end of a sequence give 0 and keep its state. Dropout is between layers.
    """
    layers = _Layers(context)
    x, p = context.input("x"), float(context.attr("dropout_prob", 0.0))
    if context.is_used(1) or context.is_used(2 + len(layers.states)):
        raise context.refuse("its dropout state and its reserve cannot be read.")
    last: list[list[str]] = []
    for layer in range(layers.count):
        if layer and p > 0.0 and not context.attr("is_test", 0):
            if p >= 1.0:
                x = context.onnx.mul([x, context.const_like(0.0, x)])
            else:
                x = context.onnx.dropout([x], 1, p)[0]
        every = []
        for direction in range(layers.directions):
            y, *states = layers.run(x, layer, direction)
            every.append(y)
            last.append(states)
        x = every[0] if len(every) == 1 else context.onnx.concat(every, 2)
    final = [
        rows[0] if len(rows) == 1 else context.onnx.concat(list(rows), 0)
        for rows in zip(*last, strict=True)
    ]
    return [x, None, *final, None]


_UNIT_ACTIVATIONS = ("identity", "sigmoid", "tanh", "relu")


@translator(
    "gru_unit",
    emits=("Add", "Sub", "Mul", "MatMul", "Sigmoid", "Tanh", "Relu", "Split", "Concat", "Reshape"),
)
def gru_unit(context: TranslationContext) -> list[str]:
    """A step of a gated recurrent unit: gates [N, 3H], reset state and new state [N, H].

    ``input`` [N, 3H] is the projection of x for the update gate, the reset gate and the candidate.
    ``weight`` [H, 3H] is in memory an array [H, 2H] of the gates, then one [H, H] of the candidate.
    The new state is ``u * candidate + (1 - u) * hidden``; with ``origin_mode`` u and ``1 - u`` are
    exchanged.
    """
    onnx = context.onnx
    x, before, weight = (context.input(name) for name in ("input", "hidden_prev", "weight"))
    size = context.shape(before)[1]
    if context.shape(x)[0] != context.shape(before)[0]:
        raise context.refuse(
            f"input is {context.shape(x)} and hidden_prev {context.shape(before)}: each row of "
            "gates needs a state of its own, beyond which Paddle's kernel reads."
        )
    bias = context.optional("bias")
    if bias is not None:
        x = onnx.add([x, context.reshape(bias, [1, 3 * size])])
    flat = context.reshape(weight, [3 * size * size])
    of_gates, of_candidate = onnx.split([flat], 2, 0, [2 * size * size, size * size])
    x_gates, x_candidate = onnx.split([x], 2, 1, [2 * size, size])
    product = onnx.matmul([before, context.reshape(of_gates, [size, 2 * size])])
    gates = activate(context, onnx.add([x_gates, product]), _activation(context, "gate_"))
    update, reset = onnx.split([gates], 2, 1, [size, size])
    kept = onnx.mul([reset, before])
    product = onnx.matmul([kept, context.reshape(of_candidate, [size, size])])
    candidate = activate(context, onnx.add([x_candidate, product]), _activation(context))
    if context.attr("origin_mode", 0):
        moved = onnx.add([candidate, onnx.mul([update, onnx.sub([before, candidate])])])
    else:
        moved = onnx.add([before, onnx.mul([update, onnx.sub([candidate, before])])])
    return [onnx.concat([gates, candidate], 1), kept, moved]


def _activation(context: TranslationContext, which: str = "") -> str:
    return _UNIT_ACTIVATIONS[int(context.attr(f"{which}activation", 1 if which else 2))]
