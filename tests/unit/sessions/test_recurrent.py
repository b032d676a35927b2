"""PopART's recurrent operators: numbers against NumPy, and what it says of what it lacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, infer, run

STEPS, BATCH, WIDTH, HIDDEN = 4, 3, 5, 2
X = np.random.default_rng(3).normal(size=(STEPS, BATCH, WIDTH)).astype(np.float32)
LENGTHS = np.asarray([4, 1, 2], np.int32)

Array = np.ndarray[Any, Any]


def _weights(gates: int) -> list[Array]:
    shapes = [(1, gates * HIDDEN, WIDTH), (1, gates * HIDDEN, HIDDEN), (1, 2 * gates * HIDDEN)]
    generator = np.random.default_rng(gates)
    return [generator.normal(size=shape).astype(np.float32) for shape in shapes]


def _states(count: int) -> list[Array]:
    generator = np.random.default_rng(10 + count)
    return [generator.normal(size=(1, BATCH, HIDDEN)).astype(np.float32) for _ in range(count)]


def _sigmoid(x: Array) -> Array:
    return np.asarray(1 / (1 + np.exp(-x)))


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


def _lstm_step(of_x: Array, of_h: Array, h: Array, c: Array) -> list[Array]:
    i, o, f, g = np.split(of_x + of_h, 4, axis=-1)
    cell = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return [_sigmoid(o) * np.tanh(cell), cell]


def _unrolled(
    step: Callable[..., list[Array]], weights: list[Array], states: list[Array], lengths: Array
) -> list[Array]:
    w, r, both = (array[0].astype(np.float64) for array in weights)
    of_x, of_h = np.split(both, 2)
    now, every = [state[0] for state in states], np.zeros((STEPS, 1, BATCH, HIDDEN))
    for time, x in enumerate(X):
        after, inside = step(x @ w.T + of_x, now[0] @ r.T + of_h, *now), (time < lengths)[:, None]
        now = [np.where(inside, a, b) for a, b in zip(after, now, strict=True)]
        every[time, 0] = now[0] * inside
    return [every, *(state[None] for state in now)]


def _gru_step(after: int) -> Callable[..., list[Array]]:
    def step(of_x: Array, of_h: Array, h: Array, again: Callable[[Array], Array]) -> list[Array]:
        z_x, r_x, h_x = np.split(of_x, 3, axis=-1)
        z_h, r_h, h_h = np.split(of_h, 3, axis=-1)
        z, r = _sigmoid(z_x + z_h), _sigmoid(r_x + r_h)
        of_h = r * h_h if after else np.split(again(r * h), 3, axis=-1)[2]
        return [(1 - z) * np.tanh(h_x + of_h) + z * h]

    return step


def _run(emit: Callable[[Any, list[str]], Sequence[str]], *arrays: Array | None) -> list[Array]:
    """The outputs that `emit` makes of inputs, "" for one left out."""
    make = builder()
    names = [
        "" if array is None else make.addInputTensor(popart.TensorInfo(array.dtype, array.shape))
        for array in arrays
    ]
    outputs = emit(make, names)
    feeds = {n: np.array(a, order="C") for n, a in zip(names, arrays, strict=True) if n}
    arrays = run(infer(make.model, dict.fromkeys(outputs, "All")), feeds)
    return [arrays[output] for output in outputs]


def _assert_close(got: list[Array], expected: list[Array]) -> None:
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


def test_lstm_of_sequences_of_different_lengths() -> None:
    weights, states = _weights(4), _states(2)
    got = _run(lambda make, names: make.aiOnnxOpset11.lstm(names, 3), X, *weights, LENGTHS, *states)
    _assert_close(got, _unrolled(_lstm_step, weights, states, LENGTHS))


def test_lstm_without_what_may_be_left_out() -> None:
    weights = _weights(4)
    got = _run(lambda make, names: make.aiOnnxOpset11.lstm(names, 1), X, *weights[:2])
    weights[2][:] = 0
    zeros = [np.zeros((1, BATCH, HIDDEN))] * 2
    _assert_close(got, _unrolled(_lstm_step, weights, zeros, np.full(BATCH, STEPS))[:1])


def test_lstm_with_other_activations() -> None:
    weights, states = _weights(4), _states(2)

    def step(of_x: Array, of_h: Array, h: Array, c: Array) -> list[Array]:
        i, o, f, g = (_relu(gate) for gate in np.split(of_x + of_h, 4, axis=-1))
        return [o * _relu(f * c + i * g), f * c + i * g]

    got = _run(
        lambda make, names: make.aiOnnxOpset11.lstm(names, 3, activations=["Relu"] * 3),
        X, *weights, None, *states,
    )  # fmt: skip
    _assert_close(got, _unrolled(step, weights, states, np.full(BATCH, STEPS)))


@pytest.mark.parametrize("after", [0, 1])
def test_gru(after: int) -> None:
    weights, states = _weights(3), _states(1)
    of_h = weights[2][0, 3 * HIDDEN :].astype(np.float64)

    def step(x: Array, h_x: Array, h: Array) -> list[Array]:
        return _gru_step(after)(x, h_x, h, lambda reset: reset @ weights[1][0].T + of_h)

    got = _run(
        lambda make, names: make.aiOnnxOpset11.gru(names, 2, linear_before_reset=after),
        X, *weights, None, *states,
    )  # fmt: skip
    _assert_close(got, _unrolled(step, weights, states, np.full(BATCH, STEPS)))


@pytest.mark.parametrize(
    ("activations", "function"), [([], np.tanh), (["Relu"], _relu), (["Sigmoid"], _sigmoid)]
)
def test_rnn(activations: list[str], function: Callable[[Array], Array]) -> None:
    weights, states = _weights(1), _states(1)
    got = _run(
        lambda make, names: make.aiOnnxOpset11.rnn(names, 2, activations=activations),
        X, *weights, None, *states,
    )  # fmt: skip
    expected = _unrolled(
        lambda of_x, of_h, h: [function(of_x + of_h)], weights, states, np.full(BATCH, STEPS)
    )
    _assert_close(got, expected)


@pytest.mark.parametrize(("layer", "gates"), [("lstm", 4), ("gru", 3)])
def test_layers_of_operator_set_6_are_those_of_7(layer: str, gates: int) -> None:
    arrays = [X, *_weights(gates)]

    def run_in(opset: int, **options: Any) -> list[Array]:
        make = popart.Builder(opsets={"ai.onnx": opset, "ai.graphcore": 1})
        names = [make.addInputTensor(popart.TensorInfo(a.dtype, a.shape)) for a in arrays]
        methods = getattr(make, f"aiOnnxOpset{opset}")
        (y,) = getattr(methods, layer)(names, 1, **options)
        feeds = dict(zip(names, arrays, strict=True))
        return [run(infer(make.model, {y: "All"}), feeds)[y]]

    _assert_close(run_in(6, output_sequence=1), run_in(7))


@pytest.mark.parametrize("whole", [True, False])
def test_poplars_lstm_is_onnx_with_gates_in_another_order(whole: bool) -> None:
    weights, states = _weights(4), _states(2)
    every, last, cell = _unrolled(_lstm_step, weights, states, LENGTHS)
    w, r, b = (
        np.stack([np.split(array, parts, axis=1)[gate][0] for gate in (2, 0, 3, 1)])
        for array, parts in zip(
            (*weights[:2], weights[2][:, : 4 * HIDDEN] + weights[2][:, 4 * HIDDEN :]),
            (4, 4, 4),
            strict=True,
        )
    )
    got = _run(
        lambda make, names: make.aiGraphcore.lstm(names, int(whole)),
        X,
        np.concatenate([w.transpose(0, 2, 1), r.transpose(0, 2, 1)], axis=1),
        b,
        np.concatenate(states),
        LENGTHS,
    )
    _assert_close(got, [every[:, 0] if whole else last[0], cell[0]])


def _shapes(gates: int) -> list[Array | None]:
    return [X, *_weights(gates), None, *_states(1)]


@pytest.mark.parametrize(
    ("layer", "options", "message"),
    [
        ("lstm", {"direction": "reverse"}, "LSTMOp attribute `direction' must be unset or"),
        ("lstm", {"clip": 1.0}, "LSTMOp attribute `clip' is not supported"),
        ("lstm", {"activation_alpha": [0.5]}, "LSTMOp attribute `activation_alpha' is not"),
        ("lstm", {"input_forget": 1}, "LSTMOp attribute `input_forget' must be set to 0"),
        ("lstm", {"activations": ["Elu"]}, "Activation type 'Elu' is not supported"),
        ("lstm", {"activations": ["Tanh", "Tanh", "Relu"]}, "must be the same for output and"),
        ("lstm", {"activations": ["Tanh"] * 4}, r"Too many activations \(4\) specified"),
        ("lstm", {"hidden_size": 7}, r"hidden_size attribute passed .* \(7\) does not match"),
        ("gru", {"activations": ["Relu"]}, "GRUOp attribute `activations' is not supported"),
        ("gru", {"direction": "bidirectional"}, "Bidirectional GRU has not yet been implemented"),
        ("gru", {"direction": "reverse"}, "direction 'reverse' is not supported"),
        ("rnn", {"activations": ["Tanh"] * 2}, "only supports 1 activation, 2 were specified"),
        ("rnn", {"activations": ["Elu"]}, "Activation type 'Elu' is not supported for"),
        ("rnn", {"direction": "reverse"}, "only supports `forward' direction"),
        ("rnn", {"clip": 2.0}, "Attribute `clip' of .* is not supported"),
    ],
)
def test_what_popart_lacks_is_refused_in_its_words(
    layer: str, options: dict[str, Any], message: str
) -> None:
    gates = {"lstm": 4, "gru": 3, "rnn": 1}[layer]
    with pytest.raises(popart_exception, match=message):
        _run(
            lambda make, names: getattr(make.aiOnnxOpset11, layer)(names, 1, **options),
            *_shapes(gates),
        )


_LSTM = [*_shapes(4), *_states(1)]


@pytest.mark.parametrize(
    ("at", "shape", "message"),
    [
        (1, (1, 8, 4), r"the weights must have shape \[1 8 5\]"),
        (2, (1, 6, 2), r"the recurrence weights must have shape \[1 8 2\]"),
        (3, (1, 8), r"the biases must have shape \[1 16\]"),
        (4, (2, 3), "Invalid rank for sequence length tensor : 2 != 1"),
        (4, (2,), r"Incorrect sequence len shape : \[2\] != \[3\]"),
        (6, (1, 3, 3), r"the initial state must have shape \[1 3 2\]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(at: int, shape: tuple[int, ...], message: str) -> None:
    arrays = list(_LSTM)
    arrays[at] = np.zeros(shape, np.int32 if at == 4 else np.float32)
    with pytest.raises(popart_exception, match=message):
        _run(lambda make, names: make.aiOnnxOpset11.lstm(names, 1), *arrays)


def test_peepholes_are_refused() -> None:
    with pytest.raises(popart_exception, match="Popart does not support peephole connections"):
        _run(
            lambda make, names: make.aiOnnxOpset11.lstm(names, 1),
            *_LSTM,
            np.zeros((1, 3 * HIDDEN), np.float32),
        )


def test_a_saturated_rnn_has_the_slope_of_tanh_to_its_last_place() -> None:
    """With one step and no recurrence Y is tanh(x), so W's gradient is x * (1 - y * y)."""
    data = np.concatenate([np.linspace(-12, -1, 300), np.linspace(1, 12, 300)])
    data = data.astype(np.float32).reshape(1, -1, 1)
    make = builder()
    x = make.addInputTensor("FLOAT", data.shape, "x")
    w = make.addInitializedInputTensor(np.ones((1, 1, 1), np.float32), "w")
    r = make.addInitializedInputTensor(np.zeros((1, 1, 1), np.float32), "r")
    y, _ = make.aiOnnxOpset11.rnn([x, w, r], 2)
    loss = make.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    session = popart.TrainingSession(
        make.getModelProto(),
        popart.DataFlow(1, [y, "Gradient___x"], popart.AnchorReturnType("All")),
        loss,
        popart.ConstSGD(0.1),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    session.weightsFromHost()
    got = run(session, {"x": data})
    found = got[y].reshape(-1)
    expected = np.tanh(data.astype(np.float64)).reshape(-1)
    assert (np.abs(found - expected) <= np.spacing(np.abs(expected.astype(np.float32)))).all()
    slope = 1 - found.astype(np.float64) ** 2
    # Whether y * y is rounded before it is subtracted is the processor's.
    np.testing.assert_allclose(got["Gradient___x"].reshape(-1), slope, rtol=1e-5, atol=6e-8)


@pytest.mark.parametrize(("layer", "gates"), [("gru", 3), ("rnn", 1)])
def test_lengths_are_ignored_where_popart_ignores_them(
    layer: str, gates: int, caplog: pytest.LogCaptureFixture
) -> None:
    def build(make: Any, names: Sequence[str]) -> Any:
        return getattr(make.aiOnnxOpset11, layer)(names, 2)

    arrays = [X, *_weights(gates), LENGTHS, *_states(1)]
    got = _run(build, *arrays)
    assert f"optional input `sequence_lens' of Op(ai.onnx.{layer.upper()}" in caplog.text
    caplog.clear()
    arrays[4] = np.full(BATCH, STEPS, np.int32)
    for left, right in zip(got, _run(build, *arrays), strict=True):
        np.testing.assert_array_equal(left, right)


def test_poplars_lstm_names_the_shape_it_wants() -> None:
    with pytest.raises(popart_exception, match=r"Bad weights shape 1, should be \[4 7 2\]"):
        _run(
            lambda make, names: make.aiGraphcore.lstm(names),
            X,
            np.zeros((4, 6, HIDDEN), np.float32),
        )


def test_an_unknown_mode_is_refused() -> None:
    def emit(make: Any, names: list[str]) -> list[str]:
        given = {"mode": "ELMAN"}
        return list(make.customOp("Recurrent", 1, "ai.paddle_ipu", names, given, 2))

    with pytest.raises(popart_exception, match="mode 'ELMAN' is not known: expected one of LSTM"):
        _run(emit, X, *_weights(1), LENGTHS, *_states(1))


def test_a_serialised_rnn_has_one_activation() -> None:
    """ONNX's default names those of two directions."""
    make = builder()
    x = make.addInputTensor("FLOAT", [1, 1, 1], "x")
    w, r = (make.addInitializedInputTensor(np.full((1, 1, 1), v, np.float32)) for v in (2, 3))
    y, _ = make.aiOnnx.rnn([x, w, r], 2)
    got = run(infer(make.getModelProto(), {y: "All"}), {"x": np.full((1, 1, 1), 0.25, np.float32)})
    np.testing.assert_allclose(got[y].reshape(-1), np.tanh([0.5]), rtol=1e-6)
