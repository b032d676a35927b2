"""A state that another version of Paddle numbered is told; a part of one is not."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.runtime.weights.other_numbers import warn_where_numbered_otherwise

PARTS = ("w_0", "b_0")
PADDLE_3 = [f"layer_norm_{n}.w_0" for n in range(25)] + [f"linear_{n}.w_0" for n in range(37)]
PADDLE_2 = [f"layer_norm_{2 * n}.w_0" for n in range(25)] + ["linear_0.w_0", "linear_2.w_0"]


@pytest.mark.parametrize(
    ("program", "state", "told"),
    [
        (
            PADDLE_3,
            PADDLE_2,
            "has layer_norm_26, which the program has not, and lacks layer_norm_1",
        ),
        (
            PADDLE_2,
            PADDLE_3,
            "has layer_norm_1, which the program has not, and lacks layer_norm_26",
        ),
    ],
)
def test_numbers_of_another_version(program: list[str], state: list[str], told: str) -> None:
    with pytest.warns(UserWarning, match=told):
        warn_where_numbered_otherwise(program, state)


@pytest.mark.parametrize(
    ("program", "state"),
    [
        (PADDLE_3, PADDLE_3),
        (PADDLE_3, PADDLE_3[::3]),
        (PADDLE_3[::3], PADDLE_3),
        (PADDLE_3, []),
        # Another head, whose layers come last.
        ([f"linear_{n}.w_0" for n in (0, 1, 2, 3)], [f"linear_{n}.w_0" for n in (0, 1, 2, 4, 5)]),
        (["weight", "linear_1.w_0_moment1_0"], ["other", "linear_7.b_0"]),
    ],
)
def test_a_part_is_no_other_version(program: list[str], state: list[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_where_numbered_otherwise(program, state)


# Paddle's own word on each.
@pytest.mark.filterwarnings("ignore:This list is not set")
def test_set_program_state_tells(static_mode: None) -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with (
        paddle.static.program_guard(main, startup),
        paddle.utils.unique_name.guard(),
        paddle.static.scope_guard(paddle.static.Scope()),
    ):
        x: Any = paddle.static.data("x", [2, 4], "float32")
        for _ in range(4):
            x = paddle.nn.LayerNorm(4)(x)
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
        numbers = [
            int(name.split(".")[0].removeprefix("layer_norm_")) for name in main.state_dict()
        ]
        # Paddle 2's numbers in Paddle 3, and the other way round.
        others = {2 * n for n in numbers} if max(numbers) == 3 else {n // 2 for n in numbers}
        state = {f"layer_norm_{n}.{part}": np.ones(4, np.float32) for n in others for part in PARTS}
        with pytest.warns(UserWarning, match="which numbers layers otherwise"):
            paddle.static.set_program_state(main, state)
