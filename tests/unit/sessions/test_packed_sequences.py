"""PackedDataBlock: sequences that lie in one tensor end to end, through a subgraph."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.errors import popart_exception
from tests.unit.sessions.session_programs import builder, infer, run, train, weights

LENGTHS = np.array([3, 1, 4, 2, 2], np.int32)
STARTS = np.array([0, 3, 4, 8, 10], np.int32)
DATA = np.arange(1, 25, dtype=np.float32).reshape(12, 2)
LONGEST = 4


def _program(
    batch: int, *, lengths: int = 5, most: tuple[int, ...] = (LONGEST,)
) -> tuple[Any, str]:
    """Each sequence's running sums over its rows, twice them and its own rows added."""
    make = builder()
    ids = [
        make.addInputTensor("FLOAT", [12, 2], "data"),
        make.addInputTensor("INT32", [5], "starts"),
        make.addInputTensor("INT32", [lengths], "lengths"),
    ]
    callback = make.createSubgraphBuilder()
    given = callback.addUntypedInputTensor("sequences")
    axis = callback.aiOnnxOpset11.constant(np.array(1, np.int32))
    callback.addOutputTensor(
        callback.aiOnnxOpset11.add([callback.aiOnnxOpset11.cumsum([given, axis]), given])
    )
    out = make.aiGraphcore.packedDataBlock([*ids, *ids[1:]], list(most), 13, batch, callback)
    return make, str(out)


@pytest.mark.parametrize(("batch", "done"), [(1, 5), (2, 4), (5, 5)])
def test_each_sequence_goes_through_the_subgraph(batch: int, done: int) -> None:
    make, out = _program(batch)
    assert make.getTensorShape(out) == [13, 2]
    expected = np.zeros((13, 2), np.float32)
    for start, length in zip(STARTS[:done], LENGTHS[:done], strict=True):
        rows = DATA[start : start + length]
        expected[start : start + length] = np.cumsum(rows, axis=0) + rows
    for model in (make.model, make.getModelProto()):
        got = run(infer(model, {out: "All"}), {"data": DATA, "starts": STARTS, "lengths": LENGTHS})
        np.testing.assert_array_equal(got[out], expected)


def test_it_has_no_gradient() -> None:
    make = builder()
    w = make.addInitializedInputTensor(DATA, "w")
    places = [make.aiOnnx.constant(item) for item in (STARTS, LENGTHS)]
    callback = make.createSubgraphBuilder()
    callback.addOutputTensor(callback.aiOnnx.neg([callback.addUntypedInputTensor()]))
    out = make.aiGraphcore.packedDataBlock([w, *places, *places], [LONGEST], 12, 1, callback)
    loss = make.aiGraphcore.identityloss([make.aiOnnx.add([out, w])], popart.ReductionType.Sum)
    program = SimpleNamespace(builder=make, loss=loss)
    session = train(program, popart.SGD({"defaultLearningRate": (1.0, False)}))
    run(session, {})
    np.testing.assert_array_equal(weights(session, w)[0], DATA - 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch": 6}, r"PackedDataBlock.* callbackBatchSize is 6, expected 1\.\.5, the sequences"),
        ({"batch": 1, "lengths": 4}, r"input 2 'lengths' is INT32.*\[4\], expected 5 elements"),
        ({"batch": 1, "most": (4, 4)}, r"has 2 maxSequenceLengths, expected 1"),
    ],
)
def test_what_does_not_fit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(popart_exception, match=message):
        _program(**arguments)


def test_an_input_is_missing() -> None:
    make = builder()
    ids = [make.addInputTensor("INT32", [5], name) for name in "abcdef"]
    callback = make.createSubgraphBuilder()
    callback.addOutputTensor(callback.aiOnnx.identity([callback.addUntypedInputTensor()]))
    with pytest.raises(popart_exception, match=r"has 6 inputs, expected 3 for each input of its"):
        make.aiGraphcore.packedDataBlock(ids, [4], 5, 1, callback)
