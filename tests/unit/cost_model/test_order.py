"""Which alternative the predictor thinks faster: physics that any figure must agree with."""

from __future__ import annotations

from dataclasses import replace

import pytest

from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.machines import MACHINES, PROCESSORS
from paddle_ipu.cost_model.operator_cost import Pricing, conv_products
from paddle_ipu.cost_model.part_costs import Cost
from paddle_ipu.cost_model.placement import Cuts, place
from paddle_ipu.cost_model.plan import plan
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Operator, Program, Tensor
from paddle_ipu.popart.schema import schema_of
from tests.unit.cost_model.programs import chain

POD16 = replace(MACHINES["POD16"], host_bandwidth=1e15)
PRICING = Pricing(PROCESSORS["GC200"])


def predicted(program: Program) -> Prediction:
    return predict(program, POD16)


def throughput(program: Program) -> float:
    """Rows a second but for what the host needs for a run."""
    cycles = predicted(program).cycles
    return program.samples / (cycles.seconds - cycles.host)


def tensor(name: str, *dims: int, role: str = "activation") -> Tensor:
    elements = 1
    for dim in dims:
        elements *= dim
    return Tensor(name, dims, "float16", role, 2, elements)


def cost(op_type: str, out: Tensor, *read: Tensor, **attributes: object) -> tuple[Cost, Cost]:
    operator = Operator(
        "op", op_type, schema_of("", op_type), read, (out,), attributes,
        gradient=True, half_partials=True,
    )  # fmt: skip
    found = PRICING.cost_of(operator)
    assert found.priced
    return found.forward, found.backward


def test_larger_micro_batches_are_faster() -> None:
    rates = [throughput(chain(4, rows, 512, accumulation=8)) for rows in (8, 32, 128, 512)]
    assert rates == sorted(set(rates))


def test_half_is_faster_than_float() -> None:
    half, single = (throughput(chain(2, 512, 512, dtype=kind)) for kind in ("float16", "float32"))
    assert 1.5 < half / single < 4.5


def test_even_stages_are_faster_than_uneven_ones() -> None:
    program = chain(8, 512, 512, stages=4, accumulation=64)
    starts = [op.stage for op in program.operators]
    even = tuple(starts.index(stage) for stage in range(4))
    uneven = (0, even[1] + 2, even[2] + 2, even[3] + 2)
    rates = [throughput(place(program, Cuts(cut, (0, 1, 2, 3)))) for cut in (even, uneven)]
    assert rates[0] > 1.1 * rates[1]


def test_one_batch_on_more_replicas_scales_less_and_less() -> None:
    rates = []
    for replicas in (1, 4, 16, 64, 256):
        program = chain(2, 64, 512, accumulation=256 // replicas, replicas=replicas)
        machine = replace(MACHINES["POD256"], host_bandwidth=1e15)
        cycles = predict(program, machine).cycles
        rates.append(program.samples / (cycles.seconds - cycles.host) / replicas)
    assert rates == sorted(set(rates), reverse=True)
    assert rates[1] > 0.9 * rates[0]


def test_training_costs_about_three_times_inference() -> None:
    training, inference = (
        predicted(chain(8, 512, 512, training=kind)).cycles.per_update for kind in (True, False)
    )
    assert 2.5 < training / inference < 5


def test_a_depthwise_convolution_is_cheaper_than_a_dense_one_but_not_by_its_products() -> None:
    x, out = tensor("x", 8, 128, 28, 28), tensor("y", 8, 128, 28, 28)
    shape = {"kernel_shape": (3, 3), "strides": (1, 1)}
    dense, _ = cost("Conv", out, x, tensor("w", 128, 128, 3, 3, role="weight"), **shape, group=1)
    weight = tensor("w", 128, 1, 3, 3, role="weight")
    depthwise, _ = cost("Conv", out, x, weight, **shape, group=128)
    assert dense.flops == pytest.approx(128 * depthwise.flops)
    assert dense.cycles / 128 < depthwise.cycles < dense.cycles


def test_small_groups_fill_the_amp_unit_together() -> None:
    x, out = tensor("x", 8, 64, 28, 28), tensor("y", 8, 64, 28, 28)
    weight = tensor("w", 64, 4, 3, 3, role="weight")
    operator = Operator("c", "Conv", schema_of("", "Conv"), (x, weight), (out,), {"group": 16})
    product, _ = conv_products(operator)
    # Groups of 4 channels: four make 16.
    assert (product.groups, product.combined) == (4, 4)
    assert (product.k, product.n) == (9 * 16, 16)
    assert product.flops == 2 * 8 * 28 * 28 * 64 * 4 * 9


def layer(op_type: str, gates: int, steps: int) -> tuple[Cost, Cost]:
    x, out = tensor("x", steps, 32, 128), tensor("y", steps, 1, 32, 256)
    weights = tensor("w", 1, gates * 256, 128, role="weight")
    recurrence = tensor("r", 1, gates * 256, 256, role="weight")
    return cost(op_type, out, x, weights, recurrence)


def test_a_recurrent_layer_pays_for_each_of_its_steps() -> None:
    short, long = (layer("LSTM", 4, steps) for steps in (16, 64))
    assert long[0].cycles == pytest.approx(4 * short[0].cycles)
    assert long[1].cycles > 3 * short[1].cycles
    assert short[0].flops == 2 * 16 * 32 * (128 + 256) * 4 * 256
    # One product of as many rows, all at once, is much faster.
    rows, weight = tensor("a", 16 * 32, 384), tensor("w", 384, 1024, role="weight")
    at_once, _ = cost("MatMul", tensor("b", 16 * 32, 1024), rows, weight)
    assert at_once.flops == short[0].flops and at_once.cycles < short[0].cycles / 4


def test_more_gates_take_longer_and_both_layouts_of_lstm_agree() -> None:
    forward = [
        layer(kind, gates, 16)[0].cycles for kind, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4))
    ]
    assert forward == sorted(set(forward))
    # Of one gate [1, 256, 128]: 256 units, not 128 + 128 joined.
    assert layer("RNN", 1, 16)[0].flops == 2 * 16 * 32 * (128 + 256) * 256
    joined = tensor("w", 4, 128 + 256, 256, role="weight")
    poplar, _ = cost("LSTM", tensor("y", 16, 32, 256), tensor("x", 16, 32, 128), joined)
    assert poplar.cycles == forward[2]


def test_the_latency_of_inference_is_of_all_stages_and_less_than_a_full_run() -> None:
    whole = predicted(chain(4, 8, 512, training=False)).cycles
    assert whole.host == CONSTANTS.run_seconds
    assert whole.latency == pytest.approx(whole.host + whole.per_update / 1.33e9)
    stages = chain(4, 8, 512, stages=4, training=False).with_settings(batches_per_step=16)
    found = predicted(stages).cycles
    assert found.latency == pytest.approx(found.host + 4 * found.steady / 1.33e9)
    assert found.seconds / 16 < found.latency < found.seconds
    assert predicted(chain(2, 8, 512)).cycles.latency == 0


def test_plans_of_inference_choose_their_rows_unless_told() -> None:
    program = chain(4, 8, 512, training=False)
    free, told = plan(program, POD16).best, plan(program, POD16, batch=128).best
    assert free is not None and told is not None
    rows = [found.prediction.program.rows for found in (free, told)]
    assert rows[0] > 8
    assert told.prediction.program.settings.replicas * rows[1] == 128
    assert free.prediction.cycles.throughput >= told.prediction.cycles.throughput


@pytest.mark.parametrize(("tiles", "is_tight"), [(22, False), (24, True)])
def test_plans_leave_room_in_memory(tiles: int, is_tight: bool) -> None:
    program = chain(8, 64, 512, accumulation=64)
    found = plan(program, MACHINES["POD4"].with_tiles(tiles))
    memories = [candidate.prediction.memory for candidate in found.candidates]
    rooms = [memory.has_room for memory in memories]
    assert rooms == sorted(rooms, reverse=True) and {*rooms} == {True, False}
    for memory in memories:
        share = memory.worst.per_tile / memory.worst.tile_capacity
        assert share <= 0.95 if memory.has_room else 0.95 < share <= 1.0
    assert found.best is not None and found.best.prediction.memory.has_room
    rates = [candidate.prediction.cycles.throughput for candidate in found.candidates]
    assert rates[: sum(rooms)] == sorted(rates[: sum(rooms)], reverse=True)
    if is_tight:
        assert found.tight is not None and found.tight.prediction.cycles.throughput == max(rates)
        assert max(rates) > rates[0]
    else:
        assert found.tight is None and max(rates) == rates[0]


@pytest.mark.parametrize("layers", [8, 32])
def test_the_work_of_a_prediction_grows_with_its_operators_alone(
    layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted: what is priced anew, and how often an operator's tensors are looked at."""
    looks = 0
    plain = Operator.read.fget
    assert plain is not None

    def counted(operator: Operator) -> list[Tensor]:
        nonlocal looks
        looks += 1
        return plain(operator)

    program = chain(layers, 64, 256, accumulation=8)
    monkeypatch.setattr(Operator, "read", property(counted))
    pricing = Pricing(PROCESSORS["GC200"])
    predict(program, POD16, pricing)
    assert looks <= 40 * len(program.operators)
    assert len(pricing._known) < 12
