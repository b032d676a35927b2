"""Inference of recurrent layers, with PopART's refusals."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.shape_inference.context import InferenceContext
from paddle_ipu.popart.tensorinfo import TensorInfo, shape_string

_log = logging.getLogger("popart.op")

_ACTIVATIONS = ("Sigmoid", "Tanh", "Relu", "Softmax", "Gelu", "Hard_Sigmoid")


def _expect(ctx: InferenceContext, index: int, what: str, dims: tuple[int, ...]) -> None:
    if ctx.has(index) and ctx.info(index).dims != dims:
        raise ctx.error(
            f"the {what} must have shape {shape_string(dims)}, got {ctx.info(index)} in input "
            f"{index} '{ctx.input_id(index)}'"
        )


def _outputs(ctx: InferenceContext, gates: int, states: int) -> list[TensorInfo]:
    """Y [T, 1, N, H] and the last state or states [1, N, H] of one layer in ONNX's layout."""
    dtype = ctx.same_dtype(0, 1, 2, 3, *range(5, 5 + states))
    steps, batch, width = ctx.expect_rank(0, 3, 3).dims
    hidden = ctx.expect_rank(2, 3, 3).dims[2]
    if ctx.attributes.get("hidden_size") not in (None, hidden):
        raise popart_exception(
            f"hidden_size attribute passed to {ctx.op} ({ctx.attributes['hidden_size']}) does not "
            f"match hidden size calculated from recurrenceWeights tensor ({hidden})."
        )
    _expect(ctx, 1, "weights", (1, gates * hidden, width))
    _expect(ctx, 2, "recurrence weights", (1, gates * hidden, hidden))
    _expect(ctx, 3, "biases", (1, 2 * gates * hidden))
    if ctx.has(4):
        lengths = ctx.info(4).dims
        if len(lengths) != 1:
            raise popart_exception(f"Invalid rank for sequence length tensor : {len(lengths)} != 1")
        if lengths != (batch,):
            raise popart_exception(
                f"Incorrect sequence len shape : {shape_string(lengths)} != [{batch}]"
            )
    for at in range(states):
        _expect(ctx, 5 + at, "initial state", (1, batch, hidden))
    last = TensorInfo.of(dtype, (1, batch, hidden))
    return [TensorInfo.of(dtype, (steps, 1, batch, hidden)), *[last] * states]


def _refuse(ctx: InferenceContext, message: str, *attributes: str) -> None:
    for name in attributes:
        if ctx.attributes.get(name):
            raise popart_exception(message.format(name))


def _check_activations(names: Sequence[str], where: str = "") -> None:
    for name in names:
        if name not in _ACTIVATIONS[:3]:
            raise popart_exception(f"Activation type '{name}' is not supported{where}")


def _ignore_lengths(ctx: InferenceContext) -> None:
    if ctx.has(4):
        _log.warning("optional input `sequence_lens' of %s will be ignored", ctx.op)


def lstm(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [T, N, I], w [1, 4H, I], r [1, 4H, H], b, lengths, h, c) -> y, last h, last c."""
    if ctx.has(7):
        raise popart_exception("Popart does not support peephole connections")
    if ctx.attributes["direction"] != "forward":
        raise popart_exception("LSTMOp attribute `direction' must be unset or `forward'")
    _refuse(
        ctx,
        "LSTMOp attribute `{}' is not supported",
        "activation_alpha",
        "activation_beta",
        "clip",
    )
    _refuse(ctx, "LSTMOp attribute `{}' must be set to 0", "input_forget")
    names = ctx.attributes.get("activations") or []
    _check_activations(names[:2])
    if len(names) >= 3 and names[1] != names[2]:
        raise popart_exception("LSTM activations must be the same for output and forget gates.")
    if len(names) > 3:
        raise popart_exception(
            f"Too many activations ({len(names)}) specified. Number of activations should be 1 or "
            "3."
        )
    return _outputs(ctx, 4, 2)[: ctx.num_outputs]


def gru(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [T, N, I], w [1, 3H, I], r [1, 3H, H], b, ignored lengths, h) -> y, last h."""
    _refuse(
        ctx,
        "GRUOp attribute `{}' is not supported",
        "activations",
        "activation_alpha",
        "activation_beta",
        "clip",
    )
    direction = ctx.attributes["direction"]
    if direction == "bidirectional":
        raise popart_exception(
            f"Bidirectional GRU has not yet been implemented. This is for Op {ctx.op}"
        )
    if direction != "forward":
        raise ctx.error(f"direction '{direction}' is not supported: only 'forward' is")
    _ignore_lengths(ctx)
    return _outputs(ctx, 3, 1)[: ctx.num_outputs]


def rnn(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [T, N, I], w [1, H, I], r [1, H, H], b, no lengths, h) -> y, last h."""
    names = ctx.attributes.get("activations", ["Tanh"])
    if len(names) != 1:
        raise popart_exception(f"{ctx.op} only supports 1 activation, {len(names)} were specified")
    _check_activations(names, f" for {ctx.op}")
    _refuse(
        ctx,
        f"Attribute `{{}}' of {ctx.op} is not supported",
        "activation_alpha",
        "activation_beta",
        "clip",
    )
    if ctx.attributes["direction"] != "forward":
        raise popart_exception(f"{ctx.op} only supports `forward' direction")
    _ignore_lengths(ctx)
    return _outputs(ctx, 1, 1)[: ctx.num_outputs]


def poplar_lstm(ctx: InferenceContext) -> list[TensorInfo]:
    """(x [T, N, I], w [4, I + H, H], b [4, H], states [2, N, H], lengths [N]) -> out, last cell."""
    dtype = ctx.same_dtype(0, 1, 2, 3)
    steps, batch, width = ctx.expect_rank(0, 3, 3).dims
    hidden = ctx.expect_rank(1, 3, 3).dims[2]
    for index, what, dims in (
        (1, "weights", (4, width + hidden, hidden)),
        (2, "bias", (4, hidden)),
        (3, "initialState", (2, batch, hidden)),
    ):
        if ctx.has(index) and ctx.info(index).dims != dims:
            raise popart_exception(f"Bad {what} shape {index}, should be {shape_string(dims)}")
    _expect(ctx, 4, "sequence lengths", (batch,))
    cell = TensorInfo.of(dtype, (batch, hidden))
    full = TensorInfo.of(dtype, (steps, batch, hidden))
    return [full if ctx.attributes["output_full_sequence"] else cell, cell]


GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
"""How many rows of weights each unit of a recurrent layer has, by Paddle's name of the layer."""


def masked(ctx: InferenceContext) -> list[TensorInfo]:
    """As ONNX's LSTM, GRU and RNN, with lengths, in either direction; `mode` is Paddle's."""
    mode = ctx.attributes["mode"]
    if mode not in GATES:
        raise ctx.error(f"mode '{mode}' is not known: expected one of {', '.join(GATES)}")
    return _outputs(ctx, GATES[mode], 2 if mode == "LSTM" else 1)
