"""Optimizer state: by name outside, equal numbers once on the device."""

from __future__ import annotations

import numpy as np

from paddle_ipu.xla.step.optimizer_state import OptimizerState

SHAPES = {"m": (2, 3), "p": (1,), "q": (1,), "r": (1,)}


def _state(**values: float) -> OptimizerState:
    state = OptimizerState(SHAPES, [("p", "q", "r")])
    state.put("m", np.ones((2, 3), np.float32))
    for name, value in values.items():
        state.put(name, np.asarray([value], np.float32))
    return state


def _numbers(state: OptimizerState) -> dict[str, float]:
    return {name: float(np.asarray(array).flat[0]) for name, array in state.by_name().items()}


def test_equal_numbers_are_one_array_of_the_step() -> None:
    state = _state(p=0.5, q=0.5, r=0.5)
    assert not state.split_unequal()
    assert state.device_shapes() == {"m": (2, 3), "p": (1,)}
    assert state.arrays().keys() == {"m", "p"}
    assert state.is_complete
    assert _numbers(state) == {"m": 1.0, "p": 0.5, "q": 0.5, "r": 0.5}
    expanded = state.expanded(state.arrays())
    assert expanded.keys() == SHAPES.keys()
    assert expanded["q"] is expanded["p"]


def test_unequal_numbers_are_split_by_value() -> None:
    state = _state(p=0.5, q=0.25, r=0.5)
    assert state.split_unequal()
    assert not state.split_unequal()
    assert state.device_shapes() == {"m": (2, 3), "p": (1,), "q": (1,)}
    assert state.arrays().keys() == {"m", "p", "q"}
    assert _numbers(state) == {"m": 1.0, "p": 0.5, "q": 0.25, "r": 0.5}
    assert state.is_complete


def test_one_new_number_among_those_of_a_step() -> None:
    state = _state(p=0.5, q=0.5, r=0.5)
    state.replace({name: array * 2 for name, array in state.arrays().items()})
    state.put("r", np.asarray([0.125], np.float32))
    assert _numbers(state) == {"m": 2.0, "p": 1.0, "q": 1.0, "r": 0.125}
    assert state.split_unequal()
    assert state.arrays().keys() == {"m", "p", "r"}


def test_what_is_missing_and_what_is_kept() -> None:
    state = _state(p=0.5)
    assert not state.is_complete
    assert "p" in state
    assert "q" not in state
    state.put("q", np.asarray([0.5], np.float32))
    state.put("r", np.asarray([0.5], np.float32))
    assert state.is_complete
    state.arrays()
    state.keep({"q", "m"})
    assert _numbers(state) == {"m": 1.0, "q": 0.5}
    assert not state.is_complete


def test_what_is_put_is_a_copy() -> None:
    array = np.ones((2, 3), np.float32)
    number = np.asarray([0.5], np.float32)
    state = OptimizerState(SHAPES, [("p", "q", "r")])
    state.put("m", array)
    state.put("p", number)
    array[:], number[:] = 7, 7
    assert _numbers(state) == {"m": 1.0, "p": 0.5}
