"""``need_avg_shard``: parts that are balanced by what operators cost, and that fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import paddle
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.cost_model.machines import Machine, machine_named
from paddle_ipu.cost_model.memory import livenesses, predict_memory
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.cost_model.sharding import cut, even_starts, shard
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.options import SessionOptions

POD4 = machine_named("pod4")


def _largest(weights: Sequence[float], starts: Sequence[int]) -> float:
    ends = [*starts[1:], len(weights)]
    return max(sum(weights[a:b]) for a, b in zip(starts, ends, strict=True))


@settings(max_examples=60)
@given(st.lists(st.integers(0, 50), min_size=4, max_size=9), st.integers(1, 4))
def test_no_other_cuts_are_much_better(weights: list[int], parts: int) -> None:
    weights = [weight + 1 for weight in weights]
    starts = cut(weights, [0.0] * len(weights), parts)
    assert starts[0] == 0 and len(set(starts)) == parts and starts == sorted(starts)
    best = min(
        _largest(weights, (0, *inner)) for inner in combinations(range(1, len(weights)), parts - 1)
    )
    assert _largest(weights, starts) <= 1.0301 * best


def test_a_cut_is_where_least_crosses() -> None:
    weights, crossing = [1.0] * 100, [1000.0] * 100
    assert cut(weights, crossing, 2) == [0, 50]
    # Within three hundredths of the best.
    crossing[49] = crossing[20] = 10.0
    assert cut(weights, crossing, 2) == [0, 49]


def _lopsided() -> tuple[Any, Any]:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [16, 1024], "float32")
        for _ in range(4):
            x = paddle.nn.Linear(1024, 1024)(x)
        x = x[:, :16]
        for _ in range(40):
            x = paddle.tanh(x)
        loss = paddle.mean(x)
        paddle.optimizer.SGD(0.1).minimize(loss)
    return main, loss


def _sharded(main: Any, loss: Any, ipus: int) -> Program:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(
        num_ipus=ipus, is_training=True, micro_batch_size=16, enable_manual_shard=True
    )
    strategy.set_pipelining_config(
        enable_pipelining=True, enable_gradient_accumulation=True, accumulation_factor=8
    )
    strategy.set_options({"need_avg_shard": True})
    return predicted_program(main, strategy, ["x"], [loss])


@pytest.mark.parametrize("ipus", [2, 4])
def test_a_lopsided_network_is_balanced_better_than_by_count(
    static_mode: None, ipus: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, loss = _lopsided()
    by_cost = predict(_sharded(main, loss, ipus), POD4).cycles
    monkeypatch.setattr(
        "paddle_ipu.compiler.average_sharding.shard",
        lambda program, groups, count, parts, machine: even_starts(count, parts),
    )
    by_count = predict(_sharded(main, loss, ipus), POD4).cycles
    assert len(by_cost.stages) == len(by_count.stages) == ipus
    slowest, before = (max(s.cycles for s in c.stages) for c in (by_cost, by_count))
    assert slowest < 0.7 * before
    assert by_cost.throughput > by_count.throughput


def test_parts_of_equal_length_stay_where_they_are_as_fast(static_mode: None) -> None:
    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        x = paddle.static.data("x", [16, 64], "float32")
        for _ in range(9):
            x = paddle.tanh(x)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=4, is_training=False, enable_manual_shard=True)
    strategy.set_options({"need_avg_shard": True})
    program = predicted_program(main, strategy, ["x"], [x])
    assert [operator.ipu for operator in program.operators] == [0, 0, 1, 1, 2, 2, 3, 3, 3]


def _tables() -> Program:
    """Four lookups, large and quick, and eight products, small and slow."""
    builder = Builder()
    ids = builder.addInputTensor("INT32", [4])
    x = None
    for _ in range(4):
        table = builder.addInitializedInputTensor(np.zeros((16384, 256), np.float16))
        rows = builder.aiOnnx.gather([table, ids])
        x = rows if x is None else builder.aiOnnx.add([x, rows])
    for _ in range(8):
        weight = builder.addInitializedInputTensor(np.zeros((256, 256), np.float16))
        x = builder.aiOnnx.matmul([x, weight])
    flow = DataFlow(1, {str(x): AnchorReturnType("All")})
    return read_program(builder.model, flow, SessionOptions(), ipus=2)


def _lacking(program: Program, starts: Sequence[int], machine: Machine) -> int:
    """Bytes over; every operator is a group."""
    placed = replace(
        program,
        operators=tuple(
            replace(operator, ipu=int(number >= starts[1]), stage=int(number >= starts[1]))
            for number, operator in enumerate(program.operators)
        ),
    )
    lives = livenesses(placed)
    return predict_memory(placed, machine, Pricing(machine.processor), lives).worst.over


def test_what_would_not_fit_is_cut_by_memory_too() -> None:
    program = _tables()
    count = len(program.operators)
    groups = {operator.name: number for number, operator in enumerate(program.operators)}
    by_time = shard(program, groups, count, 2, POD4)
    # Half of the memory of a POD4's IPU and a little: all four tables do not fit on one.
    small = replace(POD4, processor=replace(POD4.processor, tile_memory=22_000))
    assert _lacking(program, by_time, POD4) == 0
    assert _lacking(program, by_time, small) > 0
    by_memory = shard(program, groups, count, 2, small)
    assert _lacking(program, by_memory, small) == 0
    assert by_memory[1] < by_time[1]


def test_where_nothing_fits_least_is_lacking() -> None:
    program = _tables()
    count = len(program.operators)
    groups = {operator.name: number for number, operator in enumerate(program.operators)}
    tiny = replace(POD4, processor=replace(POD4.processor, tile_memory=4_000))
    starts = shard(program, groups, count, 2, tiny)
    assert 0 < _lacking(program, starts, tiny) < _lacking(program, [0, 8], tiny)
