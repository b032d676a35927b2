"""Which concatenations a kernel does, and that nobody sees a difference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from paddle_ipu import popart
from paddle_ipu.xla.kernels import library
from tests.unit.xla.inference_sessions import XLAS_OWN, Made, run

Array = np.ndarray[Any, Any]

pytestmark = pytest.mark.skipif(
    library.version() is None, reason=f"no kernel here: {library.why_not()}"
)

CACHE = (2, 4, 63, 64)
NEW = (2, 4, 1, 64)


class Program:
    """A PopART program; what it is fed is drawn."""

    def __init__(self) -> None:
        self.builder = popart.Builder(opsets={"ai.onnx": 11, "ai.graphcore": 1})
        self.onnx = self.builder.aiOnnx
        self.feeds: dict[str, Array] = {}

    def input(self, *shape: int, kind: str = "FLOAT") -> str:
        name = str(self.builder.addInputTensor(popart.TensorInfo(kind, list(shape))))
        drawn = np.random.default_rng(len(self.feeds)).standard_normal(shape)
        self.feeds[name] = (100 * drawn).astype({"FLOAT": np.float32, "INT32": np.int32}[kind])
        return name

    def joined(self, *names: str, axis: int) -> str:
        return str(self.onnx.concat(list(names), axis))

    def shaped(self, x: str, *shape: int) -> str:
        return str(self.onnx.reshape([x, self.onnx.constant(np.array(shape, np.int64))]))


Case = Callable[[Program], list[str]]
FOUND: dict[str, Case] = {}
LEFT: dict[str, Case] = {}


def found(make: Case) -> Case:
    FOUND[make.__name__] = make
    return make


def left(make: Case) -> Case:
    LEFT[make.__name__] = make
    return make


@found
def keys_before_and_a_new_one(p: Program) -> list[str]:
    return [p.joined(p.input(*CACHE), p.onnx.neg([p.input(*NEW)]), axis=2)]


@found
def an_axis_from_the_end(p: Program) -> list[str]:
    return [p.joined(p.onnx.neg([p.input(*NEW)]), p.input(*CACHE), axis=-2)]


@found
def a_cache_of_another_shape(p: Program) -> list[str]:
    cache = p.onnx.identity([p.shaped(p.input(8, 63, 64), *CACHE)])
    return [p.joined(cache, p.onnx.neg([p.input(*NEW)]), axis=2)]


@found
def half_of_it_computed(p: Program) -> list[str]:
    return [p.joined(p.input(64, 256), p.onnx.neg([p.input(64, 256)]), axis=1)]


@found
def three_in_the_middle_of_a_program(p: Program) -> list[str]:
    new = p.onnx.neg([p.input(*NEW)])
    whole = p.joined(new, p.input(*CACHE), new, axis=2)
    return [whole, p.onnx.neg([whole])]


@left
def most_of_it_computed(p: Program) -> list[str]:
    return [p.joined(p.input(64, 256), p.onnx.neg([p.input(64, 257)]), axis=1)]


@left
def few_elements(p: Program) -> list[str]:
    return [p.joined(p.input(60, 256), p.input(3, 256), axis=0)]


@left
def short_rows(p: Program) -> list[str]:
    return [p.joined(p.input(4096, 16), p.input(4096, 16), axis=1)]


@left
def a_weight(p: Program) -> list[str]:
    weight = p.builder.addInitializedInputTensor(np.ones((64, 300), np.float32))
    return [p.joined(weight, p.input(64, 256), axis=1)]


@left
def integers(p: Program) -> list[str]:
    return [p.joined(*(p.input(64, 256, kind="INT32") for _ in range(2)), axis=1)]


@left
def a_turned_feed(p: Program) -> list[str]:
    turned = p.onnx.transpose([p.input(256, 64)], perm=(1, 0))
    return [p.joined(turned, p.onnx.neg([p.input(64, 16)]), axis=1)]


def made_of(make: Case, **options: Any) -> Made:
    """A case as a session."""
    program = Program()
    names = make(program)
    return Made(program.builder, program.feeds, names, **options)


@pytest.mark.parametrize("name", FOUND)
def test_feeds_are_joined_by_the_kernel(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = made_of(FOUND[name])
    assert made.count("Concat") == 1
    results = made.run()
    monkeypatch.setattr(library, "version", lambda: None)
    by_xla = made_of(FOUND[name])
    assert by_xla.count("Concat") == 0
    for own, wanted in zip(results, by_xla.run(), strict=True):
        np.testing.assert_array_equal(own, wanted)


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_to_xla(name: str) -> None:
    made = made_of(LEFT[name])
    assert made.count("Concat") == 0
    made.session.prepareDevice()


@pytest.mark.parametrize(
    "options", [o for o in XLAS_OWN if "enableNonStableSoftmax" not in o], ids=str
)
def test_options_that_leave_it_to_xla(options: dict[str, Any]) -> None:
    assert made_of(keys_before_and_a_new_one, **options).count("Concat") == 0


def test_several_batches_of_a_run() -> None:
    program = Program()
    name = keys_before_and_a_new_one(program)[0]
    program.builder.addOutputTensor(name)
    session = popart.InferenceSession(
        program.builder.getModelProto(),
        popart.DataFlow(3, {name: popart.AnchorReturnType("All")}),
        popart.DeviceManager().createIpuModelDevice({}),
    )
    session.prepareDevice()
    cache, new = (
        np.stack([array + number for number in range(3)]) for array in program.feeds.values()
    )
    feeds = dict(zip(program.feeds, (cache, new), strict=True))
    np.testing.assert_array_equal(run(session, feeds)[name], np.concatenate([cache, -new], axis=3))
