"""Plans of programs whose weights fill many IPUs: how many are tried, and where they are cut."""

from __future__ import annotations

import numpy as np
import pytest

from paddle_ipu.cost_model.cuttings import Cuttings
from paddle_ipu.cost_model.least_memory import least_over
from paddle_ipu.cost_model.machines import MACHINES
from paddle_ipu.cost_model.memory import livenesses, predict_memory
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.placement import Cutter, crossing_bytes, place
from paddle_ipu.cost_model.plan import plan
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.options import SessionOptions
from tests.unit.cost_model.programs import chain

GC200 = Pricing(MACHINES["POD4"].processor)


def weights_of(program: Program, ipu: int) -> set[str]:
    return {
        tensor.name
        for operator in program.operators
        if operator.ipu == ipu
        for tensor in operator.read
        if tensor.role == "weight"
    }


def test_weights_of_more_than_16_ipus_are_spread_over_more() -> None:
    """64 layers of 2 MB; one IPU of 6 tiles holds 3.8 MB."""
    machine = MACHINES["POD64"].with_tiles(6)
    program = chain(64, 8, 1024, training=False)
    assert sum(weight.bytes for weight in program.weights) > 16 * machine.processor.memory
    found = plan(program, machine)
    assert found.best is not None
    settings = found.best.prediction.program.settings
    assert settings.ipus // settings.replicas in (32, 64)
    assert found.too_large < 100, "fewer IPUs are not tried"


def embedded(layers: int) -> Program:
    """An embedding of 4096 rows, and layers that widen to 8 times as many columns and back."""
    builder, width = Builder(), 64
    indices = builder.addInputTensor("INT32", [16])
    table = np.zeros((4096, width), np.float16)
    x = builder.aiOnnx.gather([builder.addInitializedInputTensor(table, "table"), indices])
    for layer in range(layers):
        for name, shape in (("up", (width, 8 * width)), ("down", (8 * width, width))):
            weight = builder.addInitializedInputTensor(
                np.zeros(shape, np.float16), f"{name}{layer}"
            )
            x = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, weight])])
    flow = DataFlow(1, {x: AnchorReturnType("All")})
    return read_program(builder.model, flow, SessionOptions())


def test_a_first_ipu_may_hold_little_beside_an_embedding() -> None:
    program = embedded(8)
    even, little = (Cutter(program, GC200, False).balanced(4, first) for first in (1.0, 0.0))
    assert even is not None and little is not None
    held = [weights_of(place(program, cuts), 0) for cuts in (even, little)]
    assert {"table", "up0", "down0"} <= held[0]
    assert held[1] < held[0] and "table" in held[1]
    assert len(little.starts) == 4 and little.ipus == (0, 1, 2, 3)


@pytest.mark.parametrize("ipus", [2, 3, 5])
def test_cuts_may_be_kept_to_where_few_bytes_cross(ipus: int) -> None:
    program = embedded(7)
    cuts = Cutter(program, GC200, False).balanced(ipus, crossing=1.5)
    assert cuts is not None
    count = len(program.operators)
    crossing = crossing_bytes(program, range(count), count)
    narrow = 16 * 64 * 2
    assert [crossing[start] for start in cuts.starts[1:]] == [narrow] * (ipus - 1)


def test_micro_batches_larger_than_one_that_does_not_fit_are_not_tried() -> None:
    machine = MACHINES["POD4"].with_tiles(1)
    found = plan(chain(4, 1, 1024, training=False), machine)
    assert found.closest is not None and found.closest.prediction.program.rows == 1
    assert found.too_large < 14, "the planner has as many micro-batches, for one and more IPUs"


@pytest.mark.parametrize("ipus", range(2, 9))
def test_as_many_ipus_work_as_there_are(ipus: int) -> None:
    """Five parts of eight equal layers are no faster than four of two, but are smaller."""
    cuts = Cutter(chain(8, 8, 512, training=False), GC200, False).balanced(ipus)
    assert cuts is not None
    assert cuts.ipus == tuple(range(ipus)) and list(cuts.starts) == sorted({*cuts.starts})


def test_early_stages_may_be_the_shorter_ones() -> None:
    """Early stages keep most micro-batches for backward."""
    cutter = Cutter(chain(48, 8, 512), GC200, True)
    lengths = {}
    for growth in (1.0, 0.5):
        cuts = cutter.balanced(8, growth=growth)
        assert cuts is not None
        ends = (*cuts.starts[1:], len(chain(48, 8, 512).operators))
        lengths[growth] = [end - start for start, end in zip(cuts.starts, ends, strict=True)]
    assert lengths[0.5] == sorted(lengths[0.5])
    assert lengths[0.5][0] <= 0.7 * lengths[1.0][0]
    assert lengths[0.5][-1] >= 1.3 * lengths[0.5][0]


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("rows", [8, 512])
def test_what_is_held_at_least_is_no_more_than_what_is_held(rows: int, recompute: bool) -> None:
    program = chain(16, rows, 1024, stages=8, accumulation=32, recompute=recompute)
    lives = livenesses(program)
    for tiles in (4, 8, 16, 64, 1472):
        machine = MACHINES["POD16"].with_tiles(tiles)
        pricing = Pricing(machine.processor)
        least = least_over(program, machine, pricing.constants)
        held = predict_memory(program, machine, pricing, lives).worst.over
        assert least <= held
        assert least > 0 or tiles > 8


def test_a_stages_inputs_of_all_micro_batches_on_their_way_are_held_at_least() -> None:
    """Half: 4 layers of 2 MB of weights and as much of sums, 7 x 8 MB of an input for the first."""
    program = chain(4, 4096, 1024, stages=4, accumulation=32, recompute=True)
    machine = MACHINES["POD4"].with_tiles(4)
    pricing = Pricing(machine.processor)
    mega = 1024 * 1024
    held = 2 * 2 * mega + 7 * 8 * mega
    per_tile = int(held / 4 * pricing.constants.tile_imbalance)
    expected = (per_tile - machine.processor.tile_memory) * 4
    assert least_over(program, machine, pricing.constants) == expected


def test_plans_of_several_machines_may_share_cuts() -> None:
    program = chain(16, 8, 1024, stages=4, accumulation=64, recompute=True)
    pods = [MACHINES[name].with_tiles(32) for name in ("POD4", "POD8", "POD16")]
    shared = Cuttings(program, pods[0].processor)
    for pod in pods:
        alone, found = plan(program, pod), plan(program, pod, cuttings=shared)
        assert found.too_large == alone.too_large
        assert [c.prediction.cycles.throughput for c in found.candidates] == [
            c.prediction.cycles.throughput for c in alone.candidates
        ]
        for each in (alone, found):
            assert (each.closest is None) == bool(each.candidates)
    assert alone.candidates


def test_the_closest_lacks_no_more_than_the_smallest_strategy() -> None:
    """It has the least memory for products, its state off the chip and the fewest rows."""
    found = plan(chain(8, 8, 1024, accumulation=64), MACHINES["POD4"].with_tiles(1))
    assert not found.candidates and found.closest is not None
    settings = found.closest.prediction.program.settings
    assert settings.ipus // settings.replicas == 4
    assert not settings.state_on_chip and settings.recomputation == "Pipeline"
    assert found.closest.prediction.program.rows == 1
