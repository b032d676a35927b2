"""ipu_shard_guard and set_ipu_shard on programs under construction."""

from __future__ import annotations

from typing import Any

import numpy as np
import paddle
import pytest

LEGACY = paddle.__version__.startswith("2.")
"""Whether programs are made of ProgramDesc operators."""


def placements(program: Any, name: str = "tanh") -> list[tuple[int | None, int | None]]:
    """(ipu_index, ipu_stage) of the operators called `name`, None where it is not written."""
    return [
        tuple(attribute(op, a) for a in ("ipu_index", "ipu_stage"))
        for op in operators(program)
        if name in (op.type if LEGACY else op.name()).split(".")
    ]


def attribute(op: Any, name: str) -> int | None:
    if not op.has_attr(name):
        return None
    return int(op.attr(name) if LEGACY else op.int_attr(name))


def operators(program: Any) -> list[Any]:
    if LEGACY:
        return [op for block in program.blocks for op in block.ops]
    return operators_of(program.global_block())


def operators_of(block: Any) -> list[Any]:
    found = []
    for op in block.ops:
        found.append(op)
        for nested in op.blocks():
            found += operators_of(nested)
    return found


@pytest.fixture
def x(static_program: Any) -> Any:
    return paddle.static.data("x", [2, 4], "float32")


def test_operators_inside_get_index_and_stage(static_program: Any, x: Any) -> None:
    y = paddle.tanh(x)
    with paddle.static.ipu_shard_guard(index=2, stage=3):
        y = paddle.tanh(y)
    paddle.tanh(y)
    assert placements(static_program) == [(None, None), (2, 3), (None, None)]


def test_negative_means_not_written(static_program: Any, x: Any) -> None:
    with paddle.static.ipu_shard_guard(index=1):
        y = paddle.tanh(x)
    with paddle.static.ipu_shard_guard(stage=0):
        y = paddle.tanh(y)
    with paddle.static.ipu_shard_guard():
        paddle.tanh(y)
    assert placements(static_program) == [(1, None), (None, 0), (None, None)]


def test_innermost_guard_wins_and_outer_one_comes_back(static_program: Any, x: Any) -> None:
    with paddle.static.ipu_shard_guard(index=0, stage=0):
        y = paddle.tanh(x)
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            y = paddle.tanh(y)
            with paddle.static.ipu_shard_guard(index=2):
                y = paddle.tanh(y)
        paddle.tanh(y)
    assert placements(static_program) == [(0, 0), (1, 1), (2, None), (0, 0)]


def test_guard_ends_with_an_exception(static_program: Any, x: Any) -> None:
    with pytest.raises(ZeroDivisionError), paddle.static.ipu_shard_guard(index=1):
        y = paddle.tanh(x)
        raise ZeroDivisionError
    paddle.tanh(y)
    assert placements(static_program) == [(1, None), (None, None)]


def test_attributes_survive_clone(static_program: Any, x: Any) -> None:
    with paddle.static.ipu_shard_guard(index=2, stage=3):
        paddle.tanh(x)
    assert placements(static_program.clone()) == [(2, 3)]


def test_parameters_and_data_have_no_place(static_program: Any) -> None:
    with paddle.static.ipu_shard_guard(index=1):
        paddle.nn.Linear(4, 3)(paddle.static.data("x", [2, 4], "float32"))
    if not LEGACY:  # A legacy program has variables in their place.
        assert placements(static_program, "parameter") == [(None, None)] * 2
        assert placements(static_program, "data") == [(None, None)]
    assert placements(static_program, "matmul_v2" if LEGACY else "matmul") == [(1, None)]


def test_operators_of_a_branch_are_placed(static_program: Any, x: Any) -> None:
    def branch() -> Any:
        y = paddle.tanh(x)
        with paddle.static.ipu_shard_guard(index=1):
            return paddle.tanh(y)

    with paddle.static.ipu_shard_guard(index=0):
        paddle.static.nn.cond(paddle.mean(x) > 0, branch, lambda: paddle.tanh(x))
    assert placements(static_program) == [(0, None), (1, None), (0, None)]


def test_program_guard_inside_of_a_shard_guard(static_program: Any, x: Any) -> None:
    other = paddle.static.Program()
    with paddle.static.ipu_shard_guard(index=1):
        paddle.tanh(x)
        with paddle.static.program_guard(other):
            paddle.tanh(paddle.static.data("z", [2], "float32"))
        paddle.tanh(x)
    assert placements(static_program) == [(1, None), (1, None)]
    assert placements(other) == [(1, None)]


def test_set_ipu_shard_on_a_function(static_program: Any, x: Any) -> None:
    y = paddle.static.set_ipu_shard(paddle.tanh, index=1, stage=2)(x)
    paddle.tanh(y)
    assert placements(static_program) == [(1, 2), (None, None)]


def test_set_ipu_shard_on_a_layer(static_program: Any, x: Any) -> None:
    layer = paddle.nn.Tanh()
    assert paddle.static.set_ipu_shard(layer, index=1, stage=2) is layer
    paddle.nn.Tanh()(layer(x))
    assert type(layer).__name__ == "Tanh"
    assert isinstance(layer, paddle.nn.Tanh)
    assert placements(static_program) == [(1, 2), (None, None)]


def test_set_ipu_shard_refuses_what_cannot_be_called() -> None:
    with pytest.raises(TypeError, match=r"Only accept paddle\.nn\.Layer or function"):
        paddle.static.set_ipu_shard(3)


def test_guard_in_dynamic_mode_changes_no_result() -> None:
    assert paddle.in_dynamic_mode()
    with paddle.static.ipu_shard_guard(index=1):
        y = paddle.tanh(paddle.zeros([2]))
    assert y.numpy().tolist() == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"index": "1"}, r"index must be an int, got str \('1'\)\. Leave it out"),
        ({"stage": 1.0}, r"stage must be an int, got float \(1\.0\).*write no ipu_stage"),
    ],
)
def test_guard_wants_integers(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message), paddle.static.ipu_shard_guard(**arguments):
        pass


def test_placed_program_runs(static_program: Any, x: Any) -> None:
    with paddle.static.ipu_shard_guard(index=1, stage=2):
        y = paddle.tanh(x)
    feed = {"x": np.ones([2, 4], "float32")}
    (got,) = paddle.static.Executor().run(static_program, feed=feed, fetch_list=[y])
    assert got == pytest.approx(np.tanh(feed["x"]))
