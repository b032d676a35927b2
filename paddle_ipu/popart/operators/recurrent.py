"""Rows of recurrent layers: ONNX's LSTM, GRU and RNN, Graphcore's LSTM, and our Recurrent."""

from __future__ import annotations

from paddle_ipu.popart.op_schema import (
    FLOATS,
    INTS,
    READS_EVERYTHING,
    Attribute,
    OpCost,
    graphcore_row,
    int_,
    onnx_row,
    paddle_ipu_row,
)
from paddle_ipu.popart.shape_inference import recurrent

_ACTIVATIONS = [
    ("activation_alpha", Attribute("floats")),
    ("activation_beta", Attribute("floats")),
    ("activations", Attribute("strings")),
    ("clip", Attribute("float")),
    ("direction", Attribute("string", "forward")),
    ("hidden_size", Attribute("int")),
]
# A gate's sigmoid or tanh.
_COST = OpCost("recurrent", 6, 12)
_DTYPES = (FLOATS, FLOATS, FLOATS, FLOATS, INTS, FLOATS)

onnx_row(
    "LSTM", (3, 8), recurrent.lstm, _DTYPES, _COST, READS_EVERYTHING,
    [*_ACTIVATIONS, int_("input_forget", 0)], version=7, outputs=(1, 3),
)  # fmt: skip
onnx_row(
    "GRU", (3, 6), recurrent.gru, _DTYPES, _COST, READS_EVERYTHING,
    [*_ACTIVATIONS, int_("linear_before_reset", 0)], version=7, outputs=(1, 2),
)  # fmt: skip
onnx_row(
    "RNN", (3, 6), recurrent.rnn, _DTYPES, _COST, READS_EVERYTHING,
    _ACTIVATIONS, version=7, outputs=(1, 2),
)  # fmt: skip
graphcore_row(
    "LSTM", (2, 5), recurrent.poplar_lstm, (FLOATS, FLOATS, FLOATS, FLOATS, INTS),
    _COST, READS_EVERYTHING,
    [("output_full_sequence", Attribute("int", 1, argument="outputFullSequence"))], outputs=2,
)  # fmt: skip
# Over sequences of different lengths, from either end.
paddle_ipu_row(
    "Recurrent", (6, 7), recurrent.masked, (FLOATS, FLOATS, FLOATS, FLOATS, INTS, FLOATS),
    _COST, READS_EVERYTHING,
    [("mode", Attribute("string", required=True)), int_("reverse", 0)], outputs=(2, 3),
)  # fmt: skip
