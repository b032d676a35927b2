"""Lowerings of recurrent layers: one product for the inputs of all steps, then a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
from jax import lax

from paddle_ipu.xla.lowerings.arrays import Inputs, Pair, Single, optional_input
from paddle_ipu.xla.lowerings.registry import Array, Attributes, LoweringContext, lowering
from paddle_ipu.xla.precision import partials

States = tuple[jax.Array, ...]
Step = Callable[[jax.Array, States], States]
"""(the input's part of the gates [N, G * H], states before) -> states after; h is the first."""

Product = Callable[[jax.Array, jax.Array], jax.Array]

_FAR = 1.0
"""From here on an exponential gives tanh to a unit in its last place; XLA's own is 4 off."""


@jax.custom_jvp
def _saturating_tanh(x: jax.Array) -> jax.Array:
    """tanh for a slope of 1 - y * y, all of whose digits hang on the last one of a y near 1."""
    size = jnp.abs(x)
    far = 1 - 2 / (jnp.exp(2 * size) + 1)
    return jnp.where(size < _FAR, jnp.tanh(x), jnp.copysign(far, x))


@_saturating_tanh.defjvp
def _saturating_tanh_jvp(primals: Single, tangents: Single) -> Pair:
    (x,), (tangent,) = primals, tangents
    y = _saturating_tanh(x)
    return y, tangent * (1 - y * y)


_ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    "Sigmoid": jax.nn.sigmoid,
    "Tanh": jnp.tanh,
    "Relu": jax.nn.relu,
}
_RNN_ACTIVATIONS: Mapping[str, Callable[[jax.Array], jax.Array]] = {
    **_ACTIVATIONS,
    "Tanh": _saturating_tanh,
}
"""Of a layer whose state is nothing but the activation, so that it saturates."""


def _scan(
    step: Step, gates: jax.Array, states: States, lengths: Array | None, reverse: bool
) -> list[jax.Array]:
    """Every h [T, N, H] and the last states; behind the end of a sequence h is 0, states stay."""

    def body(before: States, item: Pair) -> tuple[States, jax.Array]:
        time, inputs = item
        after = step(inputs, before)
        if lengths is None:
            return after, after[0]
        inside = (time < lengths)[:, None]
        kept = tuple(jnp.where(inside, a, b) for a, b in zip(after, before, strict=True))
        return kept, jnp.where(inside, after[0], jnp.zeros((), after[0].dtype))

    times = jnp.arange(gates.shape[0], dtype=jnp.int32)
    last, every = lax.scan(body, states, (times, gates), reverse=reverse)
    return [every, *last]


def _projected(x: jax.Array, weights: jax.Array, bias: jax.Array, product: Product) -> jax.Array:
    """x [T, N, I] times weights [G * H, I] transposed, and the bias [G * H]."""
    out = product(x.reshape(-1, x.shape[-1]), weights.T)
    return (out + bias).reshape(*x.shape[:2], weights.shape[0])


def _lstm(
    r: jax.Array,
    f: Callable[[jax.Array], jax.Array],
    g: Callable[[jax.Array], jax.Array],
    product: Product,
) -> Step:
    """Gates in ONNX's order: input, output, forget, cell."""

    def step(gates: jax.Array, states: States) -> States:
        h, c = states
        i, o, forget, cell = jnp.split(gates + product(h, r.T), 4, axis=-1)
        c = f(forget) * c + f(i) * g(cell)
        return f(o) * g(c), c

    return step


def _gru(r: jax.Array, bias: jax.Array, after: bool) -> Step:
    """Gates in ONNX's order: update, reset, hidden; the reset is `after` the product, or before."""
    size = r.shape[1]

    def step(gates: jax.Array, states: States) -> States:
        (h,) = states
        z_x, r_x, h_x = jnp.split(gates, 3, axis=-1)
        rows = 3 * size if after else 2 * size
        z_h, r_h, *h_h = jnp.split(jnp.matmul(h, r[:rows].T) + bias[:rows], rows // size, axis=-1)
        update, reset = jax.nn.sigmoid(z_x + z_h), jax.nn.sigmoid(r_x + r_h)
        of_h = reset * h_h[0] if after else jnp.matmul(reset * h, r[rows:].T) + bias[rows:]
        candidate = jnp.tanh(h_x + of_h)
        return ((1 - update) * candidate + update * h,)

    return step


def _rnn(r: jax.Array, activation: Callable[[jax.Array], jax.Array]) -> Step:
    def step(gates: jax.Array, states: States) -> States:
        return (activation(gates + jnp.matmul(states[0], r.T)),)

    return step


def _layer(
    context: LoweringContext,
    kind: str,
    inputs: Sequence[Array | None],
    names: Sequence[str],
    attributes: Attributes,
    reverse: bool,
) -> list[jax.Array]:
    """One layer in ONNX's layout: Y [T, 1, N, H] and the last states [1, N, H]."""
    x, w, r = (jnp.asarray(value) for value in inputs[:3])
    w, r = w[0], r[0]
    bias = optional_input(inputs, 3)
    both = jnp.zeros(2 * w.shape[0], x.dtype) if bias is None else jnp.asarray(bias)[0]
    of_x, of_h = jnp.split(both, 2)
    lengths = optional_input(inputs, 4)
    states = tuple(
        jnp.zeros((x.shape[1], r.shape[1]), x.dtype) if initial is None else jnp.asarray(initial)[0]
        for initial in (optional_input(inputs, 5 + at) for at in range(2 if kind == "LSTM" else 1))
    )
    known = _RNN_ACTIVATIONS if kind == "RNN" else _ACTIVATIONS
    activations = [known[name] for name in names]
    in_half = kind == "LSTM" and context.sums_in_half(context.precision.half_recurrences)
    product = partials.matmul if in_half else jnp.matmul
    if kind == "GRU":
        gates = _projected(x, w, of_x, product)
        step = _gru(r, of_h, bool(attributes.get("linear_before_reset", 0)))
    else:
        gates = _projected(x, w, of_x + of_h, product)
        is_lstm = kind == "LSTM"
        step = (
            _lstm(r, activations[0], activations[1], product)
            if is_lstm
            else _rnn(r, activations[0])
        )
    every, *last = _scan(step, gates, states, lengths, reverse)
    return [every[:, None], *(state[None] for state in last)]


@lowering("ai.onnx", "LSTM", "GRU", "RNN")
def recurrent(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> list[jax.Array]:
    """One layer, forward; see `popart.shape_inference.recurrent` for the layouts."""
    defaults = {"LSTM": ["Sigmoid", "Tanh"], "GRU": [], "RNN": ["Tanh"]}[context.op_type]
    chosen = list(attributes.get("activations") or [])
    names = [*chosen[: len(defaults)], *defaults[len(chosen) :]]
    # PopART's GRU and RNN ignore lengths, with a warning.
    ignored = None if context.op_type == "LSTM" else 4
    given = [None if at == ignored else value for at, value in enumerate(inputs)]
    return _layer(context, context.op_type, given, names, attributes, False)[: context.num_outputs]


@lowering("ai.paddle_ipu", "Recurrent")
def masked(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> list[jax.Array]:
    """One layer of Paddle's `rnn` over sequences of given lengths, from either end."""
    kind, _, activation = str(attributes["mode"]).partition("_")
    names = ["Sigmoid", "Tanh"] if kind == "LSTM" else [activation.title()] if activation else []
    reverse = bool(attributes.get("reverse", 0))
    return _layer(context, kind, inputs, names, {"linear_before_reset": 1}, reverse)


@lowering("ai.graphcore", "LSTM")
def poplar_lstm(context: LoweringContext, inputs: Inputs, attributes: Attributes) -> Pair:
    """An LSTM in Poplar's layout.

    Gates are in the order forget, input, cell, output; the weights [4, I + H, H] have the rows of
    the input, then those of h.
    """
    x, weights = jnp.asarray(inputs[0]), jnp.asarray(inputs[1])
    hidden = weights.shape[2]
    order = [1, 3, 0, 2]  # to ONNX's input, output, forget, cell
    transposed = jnp.transpose(weights[jnp.asarray(order)], (0, 2, 1)).reshape(4 * hidden, -1)
    bias, states = optional_input(inputs, 2), optional_input(inputs, 3)
    both = None
    if bias is not None:
        one = jnp.asarray(bias)[jnp.asarray(order)].reshape(1, -1)
        both = jnp.concatenate([one, jnp.zeros_like(one)], axis=1)
    h, c = (None, None) if states is None else (states[:1], states[1:])
    w, r = transposed[None, :, : x.shape[2]], transposed[None, :, x.shape[2] :]
    operands = [x, w, r, both, optional_input(inputs, 4), h, c]
    every, last, cell = _layer(context, "LSTM", operands, ["Sigmoid", "Tanh"], {}, False)
    out = every[:, 0] if attributes.get("output_full_sequence", 1) else last[0]
    return out, cell[0]
