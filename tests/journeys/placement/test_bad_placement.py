"""Placements that PopART would refuse are refused, and say where."""

from __future__ import annotations

import re
from typing import Any

import paddle
import pytest

from paddle_ipu.errors import (
    InvalidProgramError,
)
from tests.journeys.refusals import refused
from tests.journeys.training.side_by_side import (
    Built,
    build,
)

pytestmark = pytest.mark.usefixtures("static_mode")

HERE = re.escape(__file__)


def _placed(*places: tuple[int, int] | None) -> Built:
    """One Linear + tanh for each place, inside its guard; the loss belongs to the last place."""

    def layer(x: Any) -> Any:
        return paddle.tanh(paddle.nn.Linear(4, 4)(x))

    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 4], "float32")
        for number, place in enumerate(places):
            last = number == len(places) - 1
            if place is None:
                x = layer(x).mean() if last else layer(x)
                continue
            with paddle.static.ipu_shard_guard(index=place[0], stage=place[1]):
                x = layer(x).mean() if last else layer(x)
        return ["x"], {"y": x}, None

    return build(make)


@pytest.mark.parametrize(
    ("places", "pipelining", "message"),
    [
        ([None, None], False, "no Ops have been annotated with virtual graph information. Build"),
        (
            [(0, -1), None],
            False,
            r"Either all Ops must have their virtual graph ids set, or none must. 4 operator\(s\) "
            rf"stand outside of every ipu_shard_guard: matmul at {HERE}:\d+ \(linear_\d+\); ",
        ),
        (
            [(0, -1), (2, -1)],
            False,
            rf"matmul at {HERE}:\d+ \(linear_\d+\) has been assigned to an invalid virtual graph "
            "2. numIPUs = 2. Raise num_ipus or lower the guard's index",
        ),
        (
            [(0, 0), (1, -1)],
            True,
            "Only some ops have had their pipeline stage set. Ops missing the pipeline stage: "
            rf"matmul at {HERE}",
        ),
        (
            [(0, 0), (1, 2)],
            True,
            "The set of pipeline stages for all Ops contains 2 stages, but stage 1 is missing. "
            "Number the stages 0, 1, 2",
        ),
        (
            [(0, 0), (1, 0)],
            True,
            "Ops have the same pipeline stage 0, but different virtual graph ids 0 and 1 "
            rf"\(matmul at {HERE}:\d+ \(linear_\d+\)\). Give each stage one IPU",
        ),
        (
            [(0, 1), (1, 0)],
            True,
            "is consumed in an earlier pipeline stage than it is produced: tanh at .* is in stage "
            "1, matmul at .* in stage 0",
        ),
        (
            [(0, 0), (1, 1), (0, 2)],
            True,
            r"For pipelining, depth \(batchesPerStep\) must equal at least the number of pipeline "
            r"stages \(3\), got 2: 3 forward stage",
        ),
    ],
)
def test_placements(places: list[tuple[int, int] | None], pipelining: bool, message: str) -> None:
    refused(
        InvalidProgramError,
        message,
        _placed(*places),
        {"enable_pipelining": pipelining, "batches_per_step": 2},
        num_ipus=2,
        is_training=False,
        enable_manual_shard=True,
    )


def test_too_few_micro_batches_for_a_pipeline_that_trains() -> None:
    def make() -> tuple[list[str], dict[str, Any], Any]:
        x = paddle.static.data("x", [-1, 4], "float32")
        with paddle.static.ipu_shard_guard(index=0, stage=0):
            x = paddle.nn.Linear(4, 4)(x)
        with paddle.static.ipu_shard_guard(index=1, stage=1):
            loss = paddle.nn.Linear(4, 1)(x).mean()
        paddle.optimizer.SGD(0.1).minimize(loss)
        return ["x"], {"loss": loss}, None

    refused(
        InvalidProgramError,
        r"depth \(gradient accumulation factor\) must equal at least the number of pipeline stages "
        r"\(3\), got 2: 2 forward stage\(s\) and 1 backward",
        build(make),
        {
            "enable_pipelining": True,
            "enable_gradient_accumulation": True,
            "accumulation_factor": 2,
        },
        num_ipus=2,
        enable_manual_shard=True,
    )
