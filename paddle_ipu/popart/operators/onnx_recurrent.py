"""Rows of recurrent layers: ai.onnx LSTM, GRU and RNN, and ai.graphcore LSTM."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import FLOATS, INTS, Attribute, graphcore_row, int_, onnx_row
from paddle_ipu.popart.shape_inference import recurrent

_ACTIVATIONS = [
    ("activation_alpha", Attribute("floats")),
    ("activation_beta", Attribute("floats")),
    ("activations", Attribute("strings")),
    ("clip", Attribute("float")),
    ("direction", Attribute("string", "forward")),
    ("hidden_size", Attribute("int")),
]
_DTYPES = (FLOATS, FLOATS, FLOATS, FLOATS, INTS, FLOATS)

onnx_row(
    "LSTM",
    (3, 8),
    recurrent.lstm,
    _DTYPES,
    [*_ACTIVATIONS, int_("input_forget", 0)],
    outputs=(1, 3),
    version=7,
)
onnx_row(
    "GRU",
    (3, 6),
    recurrent.gru,
    _DTYPES,
    [*_ACTIVATIONS, int_("linear_before_reset", 0)],
    outputs=(1, 2),
    version=7,
)
onnx_row("RNN", (3, 6), recurrent.rnn, _DTYPES, _ACTIVATIONS, outputs=(1, 2), version=7)
graphcore_row(
    "LSTM",
    (2, 5),
    recurrent.poplar_lstm,
    (FLOATS, FLOATS, FLOATS, FLOATS, INTS),
    [("output_full_sequence", Attribute("int", 1, argument="outputFullSequence"))],
    outputs=2,
)
