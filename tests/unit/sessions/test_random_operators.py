"""Random operators and sequence losses through PopART's own builder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception


def _run(builder: Any, *outputs: str, feeds: dict[str, np.ndarray] | None = None) -> list[Any]:
    feeds = feeds or {}
    flow = popart.DataFlow(1, {output: popart.AnchorReturnType("All") for output in outputs})
    device = popart.DeviceManager().createIpuModelDevice({})
    session = popart.InferenceSession(builder.getModelProto(), flow, device)
    session.prepareDevice()
    session.setRandomSeed(3)
    anchors = session.initAnchorArrays()
    session.run(popart.PyStepIO(feeds, anchors))
    return [np.array(anchors[output]) for output in outputs]


@pytest.fixture
def builder() -> Any:
    return popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})


def test_normal_and_uniform_numbers(builder: Any) -> None:
    shape = [50, 40]
    normal = builder.aiOnnx.randomnormal(shape, 1, 2.0, 3.0)
    uniform = builder.aiOnnx.randomuniform(shape, 1, 5.0, -1.0)
    x = builder.addInputTensor("FLOAT", shape)
    like = builder.aiOnnx.randomnormallike([x])
    flat = builder.aiOnnx.randomuniformlike([x], 1, 2.0, 1.0)
    got = _run(builder, normal, uniform, like, flat, feeds={x: np.zeros(shape, np.float32)})
    # Five standard deviations of the mean of 2000 draws.
    for drawn, mean, spread in zip(
        got, (2.0, 2.0, 0.0, 1.5), (3.0, 3**0.5, 1.0, 12**-0.5), strict=True
    ):
        assert drawn.shape == (50, 40)
        assert abs(drawn.mean() - mean) < 5 * spread / 2000**0.5
        np.testing.assert_allclose(drawn.std(), spread, rtol=0.1)
    assert got[1].min() >= -1 and got[1].max() < 5
    assert got[3].min() >= 1 and got[3].max() < 2


@pytest.mark.parametrize("kind", ["randomnormal", "randomuniform"])
def test_a_seed_is_the_session_s(builder: Any, kind: str) -> None:
    told = (
        r"^ai.onnx.Random.*:1: Optional seed attribute is not supported. Use session::setRandomSeed"
    )
    with pytest.raises(popart_exception, match=told):
        getattr(builder.aiOnnx, kind)([2], seed=1.0)


def test_only_floats_are_drawn(builder: Any) -> None:
    told = (
        r"^The data type DOUBLE is not supported in Poplar. Op.* cannot draw DOUBLE: expected FLOAT"
    )
    with pytest.raises(popart_exception, match=told):
        builder.aiOnnx.randomnormal([2], 11)
    x = builder.addInputTensor("FLOAT", [2])
    with pytest.raises(popart_exception, match=told):
        builder.aiOnnx.randomnormallike([x], 11)
    double = builder.addInputTensor("DOUBLE", [2])
    told = (
        r"^ai.onnx.RandomUniformLike:1 : Unsupported data type requested: DOUBLE. Op.* cannot draw"
    )
    with pytest.raises(popart_exception, match=told):
        builder.aiOnnx.randomuniformlike([double])


_LOGS = np.log(np.random.default_rng(0).dirichlet(np.ones(4), size=(5, 2)).astype(np.float32))
_CTC: tuple[np.ndarray, ...] = (
    _LOGS,
    np.asarray([[1, 2, 2], [3, 0, 0]], np.uint32),
    np.asarray([5, 4], np.uint32),
    np.asarray([3, 1], np.uint32),
)


def _every_alignment(logs: np.ndarray, labels: list[int], blank: int) -> float:
    """``-log`` of the sum over all sequences that collapse to the labels."""
    total = 0.0
    for path in np.ndindex(*[logs.shape[1]] * len(logs)):
        collapsed = [token for at, token in enumerate(path) if at == 0 or path[at - 1] != token]
        if [token for token in collapsed if token != blank] == labels:
            total += float(np.exp(sum(logs[at, token] for at, token in enumerate(path))))
    return -float(np.log(total))


def _ctc(builder: Any, *options: Any) -> tuple[Any, dict[str, np.ndarray]]:
    inputs = [
        builder.addInputTensor("FLOAT" if array.dtype.kind == "f" else "UINT32", array.shape)
        for array in _CTC
    ]
    loss = builder.aiGraphcore.ctcloss(inputs, *options)
    return loss, dict(zip(inputs, _CTC, strict=True))


@pytest.mark.parametrize(
    ("kind", "reduce"),
    [
        ("NoReduction", lambda losses: losses),
        ("Sum", lambda losses: losses.sum()),
        # Each by the length of its labels, then the average.
        ("Mean", lambda losses: (losses / [3, 1]).mean()),
    ],
)
def test_ctc_sums_over_every_alignment(builder: Any, kind: str, reduce: Any) -> None:
    loss, feeds = _ctc(builder, getattr(popart.ReductionType, kind))
    (got,) = _run(builder, loss, feeds=feeds)
    losses = np.asarray(
        [_every_alignment(_LOGS[:5, 0], [1, 2, 2], 0), _every_alignment(_LOGS[:4, 1], [3], 0)]
    )
    np.testing.assert_allclose(got, reduce(losses), rtol=1e-5)


def test_ctc_of_labels_that_do_not_fit(builder: Any) -> None:
    inputs = [builder.addInputTensor("FLOAT", [1, 1, 4])]
    inputs += [builder.addInputTensor("UINT32", shape) for shape in ([1, 2], [1], [1])]
    none = popart.ReductionType.NoReduction
    outputs = [
        builder.aiGraphcore.ctcloss(inputs, none),
        builder.aiGraphcore.ctcloss(inputs, none, 0, "UNDEFINED", True),
    ]
    arrays = (_LOGS[:1, :1], *(np.asarray(x, np.uint32) for x in ([[1, 2]], [1], [2])))
    infinite, zero = _run(builder, *outputs, feeds=dict(zip(inputs, arrays, strict=True)))
    assert infinite[0] == np.inf and zero[0] == 0


def test_ctc_wants_one_batch(builder: Any) -> None:
    inputs = [builder.addInputTensor("FLOAT", [5, 2, 4])]
    inputs += [builder.addInputTensor("UINT32", shape) for shape in ([3, 2], [2], [2])]
    with pytest.raises(popart_exception, match="the size of the first dimension being 2 to"):
        builder.aiGraphcore.ctcloss(inputs)


def _best_collapsed(logs: np.ndarray, blank: int, count: int) -> list[tuple[list[int], float]]:
    """The most probable labels over every path, with their log probability."""
    chances: dict[tuple[int, ...], float] = {}
    for path in np.ndindex(*[logs.shape[1]] * len(logs)):
        merged = [token for at, token in enumerate(path) if at == 0 or path[at - 1] != token]
        key = tuple(token for token in merged if token != blank)
        chance = float(np.exp(sum(logs[at, token] for at, token in enumerate(path))))
        chances[key] = chances.get(key, 0.0) + chance
    ranked = sorted(chances.items(), key=lambda item: -item[1])[:count]
    return [(list(labels), float(np.log(chance))) for labels, chance in ranked]


@pytest.mark.parametrize("blank", [0, 2])
def test_ctc_beam_search_finds_the_most_probable_labels(builder: Any, blank: int) -> None:
    logs = builder.addInputTensor("FLOAT", _LOGS.shape)
    lengths = builder.addInputTensor("UINT32", [2])
    outputs = builder.aiGraphcore.ctcbeamsearchdecoder([logs, lengths], blank, 100, 3)
    feeds = {logs: _LOGS, lengths: np.asarray([5, 4], np.uint32)}
    chances, sizes, labels = _run(builder, *outputs, feeds=feeds)
    assert chances.shape == sizes.shape == (2, 3) and labels.shape == (2, 3, 5)
    for row, length in enumerate((5, 4)):
        expected = _best_collapsed(_LOGS[:length, row], blank, 3)
        for at, (wanted, chance) in enumerate(expected):
            assert labels[row, at, : sizes[row, at]].tolist() == wanted
            np.testing.assert_allclose(chances[row, at], chance, rtol=1e-4)
