"""What stages send one another: from stage to stage, as it is read, and gradients back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.cost_model.stage_copies import StageCopy, stage_copies
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.enums import VirtualGraphMode
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.popart.options import SessionOptions

ROWS, WIDTH = 8, 64
WHOLE = ROWS * WIDTH * 2
"""Bytes of an activation."""


def beginning(builder: Builder, x: str, part: int) -> str:
    """The first `part` columns of x."""
    ends = [builder.aiOnnx.constant(np.array([n], np.int64)) for n in (0, part, 1)]
    return builder.aiOnnx.slice([x, *ends])


def skipping(
    part: int = WIDTH,
    *,
    training: bool = True,
    pipelined: bool = True,
    ipus: tuple[int, ...] = (0, 1, 2, 3),
) -> Program:
    """Four stages of a product; the last one reads what the first made, too, or its beginning."""
    builder = Builder()
    x = builder.addInputTensor("FLOAT16", [ROWS, WIDTH])
    skipped = ""
    for stage, ipu in enumerate(ipus):
        weight = builder.addInitializedInputTensor(
            np.zeros((WIDTH, WIDTH), np.float16), f"w{stage}"
        )
        with builder.virtualGraph(ipu), builder.pipelineStage(stage):
            x = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, weight])])
            if not stage:
                skipped = x if part == WIDTH else beginning(builder, x, part)
            if stage == 3:
                losses = [builder.aiGraphcore.l1loss([y], 0.1) for y in (x, skipped)]
                loss = builder.aiOnnx.add(losses)
    options = SessionOptions()
    options.virtualGraphMode = VirtualGraphMode.Manual
    options.enablePipelining = pipelined
    options.enableGradientAccumulation, options.accumulationFactor = True, 8
    optimizer: Any = SGD({"defaultLearningRate": (0.1, False)}) if training else None
    return read_program(
        builder.model,
        DataFlow(1, {loss: AnchorReturnType("All")}),
        options,
        optimizer,
        loss=loss if training else None,
    )


def told(copies: list[StageCopy]) -> set[tuple[str, int, int, int, bool, bool]]:
    return {(c.tensor.name, c.source, c.target, c.bytes, c.returns, c.read) for c in copies}


def test_a_copy_goes_from_stage_to_stage() -> None:
    found = told(stage_copies(skipping()))
    first, second, third = "Tanh:0", "Tanh:0/1", "Tanh:0/2"
    assert found == {
        (first, 0, 1, WHOLE, True, True),
        (first, 1, 2, WHOLE, True, False),
        (first, 2, 3, WHOLE, True, True),
        (second, 1, 2, WHOLE, True, True),
        (third, 2, 3, WHOLE, True, True),
    }


def test_without_a_pipeline_it_goes_at_once() -> None:
    hops = {(c.source, c.target) for c in stage_copies(skipping(pipelined=False))}
    assert hops == {(0, 1), (1, 2), (2, 3), (0, 3)}


def test_inference_sends_nothing_back() -> None:
    assert not any(copy.returns for copy in stage_copies(skipping(training=False)))


def test_stages_of_one_ipu_share_its_memory() -> None:
    hops = {(c.source, c.target) for c in stage_copies(skipping(ipus=(0, 1, 2, 0)))}
    assert hops == {(0, 1), (1, 2), (2, 3)}
    sent = [c for c in stage_copies(skipping(ipus=(0, 1, 2, 0))) if c.tensor.name == "Tanh:0"]
    assert [(c.source, c.target) for c in sent] == [(0, 1)]


@pytest.mark.parametrize("part", [8, 32])
def test_of_a_slice_the_slice_is_sent(part: int) -> None:
    sizes = {
        (c.source, c.target): c.bytes
        for c in stage_copies(skipping(part))
        if c.tensor.name == "Tanh:0"
    }
    # The second stage reads the whole, too; what goes on is the slice.
    assert sizes == {(0, 1): WHOLE, (1, 2): ROWS * part * 2, (2, 3): ROWS * part * 2}


def test_the_stages_between_hold_what_they_send_on_and_its_gradient() -> None:
    lives = livenesses(skipping())
    assert [lives[stage].passing for stage in range(4)] == [{}, {}, {"Tanh:0": 2 * WHOLE}, {}]
    ahead = livenesses(skipping(training=False))
    assert ahead[2].passing == {"Tanh:0": WHOLE}


def test_a_slice_is_kept_as_a_copy_where_another_stage_made_it() -> None:
    """Its reader keeps the slice of each micro-batch on its way, not what it is a slice of."""
    kept = {t.name: t.bytes for t in livenesses(skipping(8))[3].stash}
    assert kept.get("Slice:0", 0) <= ROWS * 8 * 2
    assert "Tanh:0" not in kept


def test_what_is_sent_on_takes_memory_and_links() -> None:
    long = predict(skipping(), machine_named("POD4"))
    short = predict(skipping(8), machine_named("POD4"))
    assert long.cycles.copies > short.cycles.copies
    sent_on = [predicted.memory.ipus[2].categories["stash"] for predicted in (long, short)]
    assert sent_on[0] - sent_on[1] == 2 * (WHOLE - ROWS * 8 * 2)
