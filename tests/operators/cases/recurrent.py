"""Cases of recurrent networks."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import paddle

from tests.operators.cases.activation_oracles import sigmoid
from tests.operators.cases.one_operator import operator
from tests.operators.operator_case import Array, CaseTable, normal

TABLE = CaseTable()
_add = TABLE.add

_STEPS, _BATCH, _INPUT, _HIDDEN = 5, 3, 4, 2
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def _weights(mode: str, layers: int, directions: int) -> dict[str, Any]:
    """Paddle's order: of each layer and direction two matrices, then of each two biases."""
    rows = _GATES[mode] * _HIDDEN
    found: dict[str, Any] = {}
    for layer in range(layers):
        width = _HIDDEN * directions if layer else _INPUT
        for direction in range(directions):
            seed = 10 * layer + direction
            found[f"w{layer}{direction}"] = normal(rows, width, seed=seed + 20) * 0.5
            found[f"r{layer}{direction}"] = normal(rows, _HIDDEN, seed=seed + 40) * 0.5
    for name in list(found):
        found[name.replace("w", "b").replace("r", "c")] = normal(rows, seed=len(found)) * 0.5
    return found


def _states(mode: str, layers: int, directions: int) -> dict[str, Any]:
    shape = (layers * directions, _BATCH, _HIDDEN)
    states = {"h": normal(*shape, seed=7)}
    return states | {"c": normal(*shape, seed=8)} if mode == "LSTM" else states


_SLOTS = {
    "x": "Input",
    "pre_state": "PreState",
    "weight_list": "WeightList",
    "sequence_length": "SequenceLength",
}


def _dropout_state() -> Any:
    """The operand that PIR's operator has beside those of ProgramDesc's."""
    return paddle.zeros([1], "uint8") if paddle.framework.in_pir_mode() else None


def _step(mode: str, x: Array, states: list[Array], w: Array, r: Array, b: Array, c: Array) -> Any:
    """The states after one step, by the equations of ``paddle.nn``'s cells."""
    h = states[0]
    of_x, of_h = x @ w.T + b, h @ r.T + c
    if mode == "LSTM":
        i, f, g, o = np.split(of_x + of_h, 4, axis=-1)
        cell = sigmoid(f) * states[1] + sigmoid(i) * np.tanh(g)
        return [sigmoid(o) * np.tanh(cell), cell]
    if mode == "GRU":
        (r_x, z_x, c_x), (r_h, z_h, c_h) = np.split(of_x, 3, -1), np.split(of_h, 3, -1)
        z = sigmoid(z_x + z_h)
        return [z * h + (1 - z) * np.tanh(c_x + sigmoid(r_x + r_h) * c_h)]
    total = of_x + of_h
    return [np.tanh(total) if mode == "RNN_TANH" else np.maximum(total, 0)]


def _oracle(mode: str, layers: int, x: Array, *rest: Array) -> list[Array]:
    """Two directions over sequences of given lengths, in NumPy."""
    states, weights, lengths = rest[:1], list(rest[1:-1]), rest[-1]
    if mode == "LSTM":
        states, weights = rest[:2], weights[1:]
    last: list[list[Array]] = []
    for layer in range(layers):
        every = []
        for direction in (0, 1):
            row = 2 * layer + direction
            pair = weights[2 * row : 2 * row + 2]
            biases = weights[4 * layers + 2 * row : 4 * layers + 2 * row + 2]
            now, found = (
                [state[row] for state in states],
                np.zeros((*x.shape[:2], _HIDDEN), x.dtype),
            )
            for time in range(len(x))[:: -1 if direction else 1]:
                after, inside = _step(mode, x[time], now, *pair, *biases), time < lengths
                now = [np.where(inside[:, None], a, b) for a, b in zip(after, now, strict=True)]
                found[time] = now[0] * inside[:, None]
            every.append(found)
            last.append(now)
        x = np.concatenate(every, -1)
    return [x, *(np.stack(rows) for rows in zip(*last, strict=True))]


def _rnn(
    mode: str,
    layers: int,
    directions: int,
    lengths: Array | None = None,
    dropout: float = 0.0,
    is_test: bool = False,
) -> None:
    weights, states = _weights(mode, layers, directions), _states(mode, layers, directions)
    sizes: dict[str, Any] = {} if lengths is None else {"lengths": lengths}
    label = f"{mode.lower()} {layers}x{directions}{' by length' if sizes else ''}"
    if dropout:
        label += f" dropout {dropout}"

    def build(x: Any, *rest: Any) -> list[Any]:
        given, found = list(rest[: len(states)]), list(rest[len(states) :])
        size = found.pop() if sizes else None
        results = operator(
            "rnn",
            {
                "x": x,
                "pre_state": given,
                "weight_list": found,
                "sequence_length": size,
                "dropout_state_in": _dropout_state(),
                "dropout_prob": dropout,
                "is_bidirec": directions == 2,
                "input_size": _INPUT,
                "hidden_size": _HIDDEN,
                "num_layers": layers,
                "mode": mode,
                # Of dropout between layers.
                "seed": layers,
                "is_test": is_test,
            },
            ("Out", "DropoutState", "State", "Reserve"),
            _SLOTS,
            lists={"State": len(states)},
        )
        return results[:1] + results[2 : 2 + len(states)]

    _add(
        "rnn",
        build,
        label=label,
        # Paddle has no gradient in test mode.
        gradient=() if is_test else ("x", *states, *weights),
        # From the far end, Paddle's gradient takes 0 for the state before the last step of a
        # sequence that ends early; forward takes the initial one.
        oracle=partial(_oracle, mode, layers) if sizes and directions == 2 else None,
        x=normal(_STEPS, _BATCH, _INPUT),
        **states,
        **weights,
        **sizes,
    )


for _mode in _GATES:
    _rnn(_mode, 1, 1)
    _rnn(_mode, 2, 2)
    _rnn(_mode, 1, 2, lengths=np.asarray([5, 2, 0], np.int32))
_rnn("LSTM", 2, 1, lengths=np.asarray([1, 5, 3], np.int32))
_rnn("GRU", 2, 1, dropout=1.0)
_rnn("GRU", 2, 1, dropout=0.5, is_test=True)


def _check_dropout(outputs: Sequence[Array]) -> None:
    """Two plain layers that add nothing: each 1 of x comes out as 0 or, one of four, as 4."""
    kept = outputs[0] != 0
    np.testing.assert_allclose(outputs[0][kept], 4.0, rtol=1e-5)
    assert abs(kept.mean() - 0.25) < 4 * np.sqrt(0.25 * 0.75 / kept.size)


_add(
    "rnn",
    lambda x, h, one, none, bias: operator(
        "rnn",
        {
            "x": x,
            "pre_state": [h],
            "weight_list": [one, none, one, none, bias, bias, bias, bias],
            "sequence_length": None,
            "dropout_state_in": _dropout_state(),
            "dropout_prob": 0.75,
            "is_bidirec": False,
            "input_size": 8,
            "hidden_size": 8,
            "num_layers": 2,
            "mode": "RNN_RELU",
            "seed": 0,
            "is_test": False,
        },
        ("Out", "DropoutState", "State", "Reserve"),
        _SLOTS,
    )[0],
    label="dropout between layers",
    gradient=("x", "one", "none", "bias"),
    check=_check_dropout,
    x=np.ones((20, 16, 8), np.float32),
    h=np.zeros((2, 16, 8), np.float32),
    one=np.eye(8, dtype=np.float32),
    none=np.zeros((8, 8), np.float32),
    bias=np.zeros(8, np.float32),
)


def _gru_unit(
    x: Any, h: Any, w: Any, b: Any = None, activation: int = 2, gate: int = 1, origin: bool = False
) -> list[Any]:
    return operator(
        "gru_unit",
        {
            "input": x,
            "hidden_prev": h,
            "weight": w,
            "bias": b,
            "activation": activation,
            "gate_activation": gate,
            "origin_mode": origin,
        },
        ("Gate", "ResetHiddenPrev", "Hidden"),
        {"input": "Input", "hidden_prev": "HiddenPrev", "weight": "Weight", "bias": "Bias"},
    )


_UNIT: dict[str, Any] = {
    "x": normal(3, 6),
    "h": normal(3, 2, seed=1),
    "w": normal(2, 6, seed=2),
    "b": normal(1, 6, seed=3),
}
_add(
    "gru_unit",
    lambda x, h, w, b: [
        _gru_unit(x, h, w, b)[-1],
        _gru_unit(x, h, w, None, origin=True)[-1],
        _gru_unit(x, h, w, b, activation=3)[-1],
        _gru_unit(x, h, w, b, activation=0, gate=2)[-1],
    ],
    gradient=("x", "h", "w", "b"),
    **_UNIT,
)


def _unit_oracle(x: Array, h: Array, w: Array, b: Array) -> list[Array]:
    of_gates, of_candidate = np.split(w.reshape(-1), [8])
    gates = sigmoid((x + b)[:, :4] + h @ of_gates.reshape(2, 4))
    update, reset = np.split(gates, 2, axis=1)
    candidate = np.tanh((x + b)[:, 4:] + (reset * h) @ of_candidate.reshape(2, 2))
    whole = np.concatenate([gates, candidate], axis=1)
    return [whole, reset * h, update * candidate + (1 - update) * h]


TABLE.refuse(
    "gru_unit",
    lambda x, h, w: _gru_unit(x, h, w)[-1],
    r"input is \[3, 6\] and hidden_prev \[1, 2\]: each row of gates",
    x=normal(3, 6),
    h=normal(1, 2),
    w=normal(2, 6),
)
# PIR's function gives the last result only.
_add(
    "gru_unit",
    lambda x, h, w, b: _gru_unit(x, h, w, b),
    label="all results",
    gpu_only=True,
    oracle=_unit_oracle,
    **_UNIT,
)

TABLE.refuse(
    "rnn",
    lambda x, h, w, r, b: operator(
        "rnn",
        {
            "x": x,
            "pre_state": [h],
            "weight_list": [w, r, b, b],
            "sequence_length": None,
            "dropout_state_in": None,
            "dropout_prob": 0.0,
            "is_bidirec": False,
            "input_size": 4,
            "hidden_size": 2,
            "num_layers": 1,
            "mode": "RNN_TANH",
            "seed": 0,
            "is_test": False,
        },
        ("Out", "DropoutState", "State", "Reserve"),
        _SLOTS,
    )[3],
    "its dropout state and its reserve cannot be read",
    gpu_only=True,
    x=normal(5, 3, 4),
    h=normal(1, 3, 2),
    w=normal(2, 4),
    r=normal(2, 2),
    b=normal(2),
)
