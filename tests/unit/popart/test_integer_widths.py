"""Which INT64 tensors of a Paddle program have 64 bits, and which are as good with 32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.popart.integer_widths import computed_in_64_bits

Build = Callable[[Any, Any, str], str]


def _found(build: Build) -> frozenset[str]:
    builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
    ids = builder.addInputTensor("INT64", [3], debugContext="ids")
    out = build(builder, builder.aiOnnxOpset11, ids)
    builder.addOutputTensor(out)
    return computed_in_64_bits(builder.model.graph, fetched=[out])


def _table(onnx: Any) -> str:
    return str(onnx.constant(np.ones((4, 2), np.float32)))


def _ids(onnx: Any, *numbers: int) -> str:
    return str(onnx.constant(np.asarray(numbers, np.int64)))


PICKING: dict[str, Build] = {
    "indices": lambda builder, onnx, ids: onnx.gather([_table(onnx), ids], 0),
    "reshaped indices": lambda builder, onnx, ids: onnx.gather(
        [_table(onnx), onnx.reshape([ids, _ids(onnx, 3, 1)])], 0
    ),
    "labels of which one is ignored": lambda builder, onnx, ids: onnx.gather(
        [_table(onnx), onnx.where([onnx.equal([ids, _ids(onnx, -100)]), _ids(onnx, 0), ids])], 0
    ),
    "labels that are reshaped to be compared": lambda builder, onnx, ids: onnx.mul(
        [
            onnx.gather([_table(onnx), ids], 0),
            onnx.cast(
                [onnx.equal([onnx.reshape([ids, _ids(onnx, 3, 1)]), _ids(onnx, 0)])], "FLOAT"
            ),
        ]
    ),
    "labels that are compared with places": lambda builder, onnx, ids: onnx.where(
        [
            onnx.equal([onnx.argmax([onnx.gather([_table(onnx), ids], 0)], 1, 0), ids]),
            _ids(onnx, 1),
            _ids(onnx, 0),
        ]
    ),
}


@pytest.mark.parametrize("name", PICKING)
def test_what_only_picks_elements_has_32_bits(name: str) -> None:
    assert _found(PICKING[name]) == set()


COMPUTING: dict[str, tuple[Build, set[str]]] = {
    "a sum": (lambda builder, onnx, ids: onnx.add([ids, ids]), {"ids", "Add:0"}),
    "a sum of what picks": (
        lambda builder, onnx, ids: onnx.gather([_table(onnx), onnx.add([ids, ids])], 0),
        {"ids", "Add:0"},
    ),
    "a comparison alone": (
        lambda builder, onnx, ids: onnx.equal([ids, _ids(onnx, 5)]),
        {"ids"},
    ),
    "a comparison with the end of 32 bits": (
        lambda builder, onnx, ids: onnx.gather(
            [
                _table(onnx),
                onnx.where([onnx.less([ids, _ids(onnx, 2**31 - 1)]), ids, _ids(onnx, 0)]),
            ],
            0,
        ),
        {"ids", "Where:0"},
    ),
    "a fetch": (lambda builder, onnx, ids: ids, {"ids"}),
    "a constant beyond 32 bits": (
        lambda builder, onnx, ids: onnx.gather(
            [_table(onnx), onnx.where([onnx.equal([ids, ids]), _ids(onnx, 2**40), ids])], 0
        ),
        {"ids", "Constant:0/1", "Where:0"},
    ),
}


@pytest.mark.parametrize("name", COMPUTING)
def test_what_is_computed_with_has_64_bits(name: str) -> None:
    build, expected = COMPUTING[name]
    assert _found(build) == expected


def test_places_fit_32_bits_and_what_is_made_of_them_may_not() -> None:
    def build(builder: Any, onnx: Any, ids: str) -> str:
        builder.addOutputTensor(onnx.gather([_table(onnx), ids], 0))
        place = onnx.argmax([_table(onnx)], 1, 0)
        return str(onnx.mul([place, place]))

    assert _found(build) == {"Mul:0"}
