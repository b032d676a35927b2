"""Cycles: products by hand, the pipeline's bubble in closed form, and what may only grow."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.cycles import predict_cycles
from paddle_ipu.cost_model.liveness import read_by_gradient
from paddle_ipu.cost_model.machines import MACHINES, PROCESSORS
from paddle_ipu.cost_model.matmul_plan import (
    Plan,
    Product,
    amp_cycles,
    plan_product,
    turned_tensors,
)
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Operator, Program, Tensor
from paddle_ipu.cost_model.report.terminal import summary
from paddle_ipu.popart.op_schema import READS_EVERYTHING
from paddle_ipu.popart.schema import schema_of
from tests.unit.cost_model.programs import chain

GC200 = PROCESSORS["GC200"]
# Hosts that nobody waits for.
POD4, BOW4, POD16 = (
    replace(MACHINES[name], host_bandwidth=1e15) for name in ("POD4", "Bow-Pod4", "POD16")
)


def test_the_amp_units_cycles_by_hand() -> None:
    # 96 rows are 16 a worker; two blocks of 16 x 16 half: 512 bytes at 16 a cycle, 256 / 64 cycles
    # a row; poplibs has 25 of the supervisor and 19 of each worker besides.
    assert amp_cycles(96, 32, 16, 2, GC200) == 288 + 2 * (512 / 16 + 25 + 6 * (19 + 16 * 4))
    # Float: blocks of 8 x 16, 128 / 16 cycles a row; 97 rows keep six workers as busy as 102.
    assert amp_cycles(97, 8, 8, 4, GC200) == 288 + 512 / 16 + 25 + 6 * (19 + 17 * 8)
    # A window: 16 rows of a worker on lines of 7 are three lines.
    windowed = amp_cycles(96, 32, 16, 2, GC200, False, 7)
    assert windowed == 288 + 2 * (512 / 16 + 25 + 6 * (18 + 3 * 16 + 16 * 4))


def test_two_tiles_on_a_bus_receive_the_same_rows_at_once() -> None:
    plan = plan_product(Product(1, 1024, 16, 1024, 2, 2, kept=True), GC200, 0.6)
    _, rows, _, columns = plan.parts
    assert rows % 2 == 0
    left, right = -(-1024 // rows) * 16 * 2, 16 * -(-1024 // columns) * 2
    rate = 4 * CONSTANTS.exchange_efficiency
    # The left operand is loaded into the AMP unit, the right one streams past it; as an activation
    # the left one lies on other tiles.
    lacking = left / rate + right * (1 - 1 / rows) / (2 * rate)
    assert plan.exchange == pytest.approx(lacking + left / 8)


def test_a_product_on_one_tile_receives_nothing() -> None:
    tile = replace(GC200, tiles=1)
    plan = plan_product(Product(1, 96, 32, 16, 2, 2), tile, 0.6)
    assert plan.parts == (1, 1, 1, 1)
    # Two compute sets arrange the operands.
    assert plan.compute == amp_cycles(96, 32, 16, 2, tile, swapped=True) + 2 * 288
    assert (plan.sets, plan.exchanges) == (3, 1)
    # Both operands are put in order at 8 bytes a cycle, and nothing is reduced.
    assert plan.exchange == (96 * 32 + 32 * 16) * 2 / 8
    assert (plan.reduce, plan.temporary) == (0.0, (96 * 32 + 32 * 16 + 96 * 16) * 2)


LEFT, RIGHT, RESULT = "left", "right", "result"


@pytest.mark.parametrize(
    ("m", "k", "n", "of", "turned"),
    [
        # Multiples of 16: rows are loaded as they lie; columns, or a filter's rows, never cheaper.
        (32, 64, 48, {}, {}),
        (32, 64, 48, {"turned": frozenset({RIGHT})}, {RIGHT: 0.4404}),
        # What is summed has to be filled up to a multiple of 16, in pieces of 8, 4 or 2 bytes.
        (32, 60, 48, {}, {LEFT: 0.4404, RIGHT: 0.4404}),
        (32, 58, 48, {}, {LEFT: 3.125, RIGHT: 3.125}),
        (32, 57, 48, {}, {LEFT: 5.1484, RIGHT: 5.1484}),
        (32, 57, 48, {"kept": True}, {LEFT: 5.1484}),
        # Rows that have to be: the result's pieces are of columns of so many rows. Where these are
        # odd, it is cheaper to load columns, for which all three are turned.
        (36, 64, 48, {}, {LEFT: 0.4404, RESULT: 0.4404}),
        (33, 64, 48, {}, {LEFT: 0.4404, RIGHT: 0.4404, RESULT: 0.4404}),
        (33, 64, 45, {}, {LEFT: 0.4404, RESULT: 5.1484}),
        # A convolution loads its filters: the number of rows does not matter, that of filters does.
        (33, 64, 48, {"convolution": True}, {}),
        (33, 64, 36, {"convolution": True}, {RIGHT: 0.4404, RESULT: 0.4404}),
    ],
)
def test_what_lies_the_other_way_round_is_turned_at_poplibs_rates(
    m: int, k: int, n: int, of: dict[str, Any], turned: dict[str, float]
) -> None:
    tile = replace(GC200, tiles=1)
    product = Product(1, m, k, n, 2, 2, **of)
    plan = plan_product(product, tile, 0.6)
    sizes = {LEFT: m * k * 2, RIGHT: k * n * 2, RESULT: m * n * 2}
    # What is turned need not be arranged.
    arranged = [name for name in (LEFT, RIGHT) if name not in turned]
    if product.kept:
        arranged.remove(RIGHT)
    rate = 4 * CONSTANTS.exchange_efficiency
    expected = sum(sizes[name] for name in arranged) / 8
    expected += sum(587 + sizes[name] * (by + 1 / rate) for name, by in turned.items())
    assert plan.exchange == pytest.approx(expected)


@pytest.mark.parametrize(
    ("of", "swapped", "turned"),
    [
        # The gradient of filters is wanted the other way round, as it comes out of loading rows.
        ({"convolution": True, "turned": frozenset({LEFT, RIGHT})}, True, {LEFT, RIGHT}),
        ({"convolution": True, "turned": frozenset({LEFT, RIGHT})}, False, {LEFT, RIGHT, RESULT}),
        ({"convolution": True}, True, {LEFT, RIGHT, RESULT}),
        ({"convolution": True, "combined": 16}, False, {LEFT, RIGHT, RESULT}),
        # Float has blocks of 8: 24 is three of them, and one and a half of half numbers.
        ({"item": 4, "partial": 4, "k": 24}, True, set()),
        ({"k": 24}, True, {LEFT, RIGHT}),
    ],
)
def test_which_tensors_are_turned(of: dict[str, Any], swapped: bool, turned: set[str]) -> None:
    product = Product(**{"groups": 1, "m": 32, "k": 64, "n": 48, "item": 2, "partial": 2} | of)
    assert turned_tensors(product, swapped) == turned


def test_tensors_are_turned_once_by_all_tiles_in_pieces_of_an_images_rows() -> None:
    turned = frozenset({RIGHT})
    product = Product(1, 4096, 4096, 4096, 2, 2, turned=turned, piece=7, convolution=True)
    plan, faster = (plan_product(product, GC200, 0.1, turning=by) for by in (1.0, 0.99))
    assert plan.serial > 1 and plan.parts == faster.parts
    size = 4096 * 4096 * 2 / prod(plan.parts)
    # Rows of 14 bytes have pieces of 2.
    assert plan.exchange - faster.exchange == pytest.approx(0.01 * size * 5.1484)


def test_less_memory_makes_a_product_serial_and_keeps_it_within() -> None:
    product = Product(1, 4096, 1024, 4096, 2, 2)
    wide, narrow = (plan_product(product, GC200, share) for share in (0.6, 0.1))
    assert wide.temporary <= 0.6 * GC200.tile_memory
    assert narrow.temporary <= 0.1 * GC200.tile_memory
    assert narrow.serial > wide.serial and narrow.cycles > wide.cycles


def _with_syncs(plan: Plan) -> float:
    return plan.cycles + GC200.sync_cycles * plan.exchanges


@given(
    m=st.integers(1, 3000), k=st.integers(1, 3000), n=st.integers(1, 3000),
    tiles=st.integers(2, 700),
)  # fmt: skip
# Plans are compared with their syncs: of these two, one with more cycles has an exchange less.
@example(48, 48, 19, 44)
@example(6, 36, 1, 20)
@settings(max_examples=40, deadline=None)
def test_more_tiles_are_never_slower_and_no_plan_beats_the_peak(
    m: int, k: int, n: int, tiles: int
) -> None:
    product = Product(1, m, k, n, 2, 2)
    few, many = (
        plan_product(product, replace(GC200, tiles=count), 1.0) for count in (tiles, 2 * tiles)
    )
    if few.fits and few.serial == many.serial:
        assert _with_syncs(many) <= _with_syncs(few) * (1 + 1e-9)
    assert few.compute >= product.flops / 2 / (tiles * GC200.half_macs)


def test_a_map_of_half_by_hand() -> None:
    pricing = Pricing(GC200)
    # 8 elements a tile are two vectors; tanh takes 4 cycles each.
    cost = pricing.map(8 * 1472, 2, 4.0)
    assert cost.compute == pytest.approx(2 * 4 * CONSTANTS.vertex_overhead + 288)
    moved = pricing.move(1472 * 100.0)
    assert moved.exchange == pytest.approx(100 / (4 * CONSTANTS.exchange_efficiency))
    assert moved.sync == 190


def test_an_operator_without_a_row_is_named_and_priced_by_its_bytes() -> None:
    svd = schema_of("ai.paddle_ipu", "Svd")
    assert svd is not None and svd.cost is None and svd.gradient == READS_EVERYTHING
    x = Tensor("x", (64, 64), "float32", "activation", 4, 4096)
    program = chain(1, training=False)
    odd = Operator("odd", "Svd", svd, (x,), (replace(x, name="y"),), {})
    program = replace(program, operators=(*program.operators, odd))
    prediction = predict(program, POD4)
    found = prediction.cycles
    assert found.unpriced == {"Svd": 1}
    told = "no cost row   Svd (1): priced by the bytes they read and write"
    assert told in summary(prediction).splitlines()
    row = next(row for row in found.operators if row.op_type == "Svd")
    assert not row.priced and row.forward == Pricing(GC200).move(2 * 4096 * 4).cycles


def test_an_operator_without_gradient_keeps_nothing_for_backward() -> None:
    x = Tensor("x", (64, 64), "float32", "activation", 4, 4096)
    drawn = schema_of("ai.paddle_ipu", "Poisson")
    poisson = Operator("y", "Poisson", drawn, (x,), (replace(x, name="y"),), {}, gradient=True)
    svd = schema_of("ai.paddle_ipu", "Svd")
    other = Operator("y", "Svd", svd, (x,), (replace(x, name="y"),), {}, gradient=True)
    assert read_by_gradient(poisson) == []
    assert [tensor.name for tensor in read_by_gradient(other)] == ["x", "y"]


def _even(accumulation: int) -> tuple[Program, float, float]:
    """Two equal stages: the program, a pipeline cycle's length and the step's bubble."""
    program = chain(2, 512, 512, stages=2, accumulation=accumulation)
    found = predict(program, POD4).cycles
    return program, found.steady, found.bubble


def test_a_two_stage_pipelines_length_in_closed_form() -> None:
    program, steady, _ = _even(16)
    found = predict(program, POD4).cycles
    # P = 3 stages: 14 steady cycles; fill and drain are two cycles each, with fewer stages active.
    assert found.phases["steady"] == pytest.approx((16 - 2) * steady)
    first, second = found.stages
    copies = found.copies
    forward = first.forward.cycles
    middle = second.forward.cycles + second.backward.cycles
    backward = first.backward.cycles
    # All IPUs wait for the host's exchange with any of them.
    assert first.stream > 0 and second.stream > 0
    both = first.stream + second.stream + copies
    assert found.phases["fill"] == pytest.approx(
        first.stream + forward + copies + max(forward, middle) + both, rel=1e-9
    )
    assert found.phases["drain"] == pytest.approx(
        max(middle, backward) + second.stream + copies + backward + copies, rel=1e-9
    )
    assert steady == pytest.approx(max(forward + backward, middle) + both)


def test_the_others_wait_for_who_computes_longest_not_for_who_reads_most() -> None:
    program = chain(2, 512, 512, stages=2, accumulation=16)
    found = predict(program, replace(POD4, host_bandwidth=1e9)).cycles
    first, second = found.stages
    # The first reads more than it computes less.
    assert first.cycles > second.cycles
    assert second.cycles - second.stream > first.cycles - first.stream
    assert found.critical == 1
    longest = second.cycles + first.stream + found.copies
    assert found.steady == pytest.approx(longest)


def test_the_bubble_shrinks_with_accumulation() -> None:
    bubbles = [_even(count)[2] for count in (4, 16, 64, 256)]
    assert bubbles == sorted(set(bubbles), reverse=True)


def test_recomputing_costs_another_forward_of_all_but_the_last_stage() -> None:
    plain, again = (
        predict(chain(2, 512, 512, stages=2, accumulation=8, recompute=recompute), POD4).cycles
        for recompute in (False, True)
    )
    assert [stage.recompute.cycles for stage in plain.stages] == [0, 0]
    assert again.stages[0].recompute.cycles == again.stages[0].forward.cycles
    assert again.stages[1].recompute.cycles == 0
    assert again.per_update > plain.per_update


def test_replicas_add_throughput_less_their_collectives() -> None:
    one, four = (
        predict(chain(2, 512, 512, accumulation=8, replicas=replicas), POD16).cycles
        for replicas in (1, 4)
    )
    assert one.update["collectives"] == 0
    assert 2 * one.throughput < four.throughput < 4 * one.throughput
    # A ring: 2 (R - 1) / R of the gradients' bytes, by the links of both directions.
    size = 2 * 512 * 512 * 2
    both = 2 * 32e9 * 0.85
    assert four.update["collectives"] == pytest.approx(2 * 3 / 4 * size / both * 1.33e9)


def test_domains_exchange_what_their_rings_have_scattered() -> None:
    program = chain(2, 512, 512, accumulation=8, replicas=128)
    found = predict(program, MACHINES["POD128"]).cycles.update["collectives"]
    size = 2 * 512 * 512 * 2
    # 64 replicas meet in the middle: twice the bytes in as few steps as there are replicas.
    ring = 2 * size / (2 * 32e9 * 0.85)
    gateways = 2 * 1 / 2 * (size / 64) * 4 / 25e9
    assert found == pytest.approx((ring + gateways) * 1.33e9)


def test_sharded_state_divides_the_rule() -> None:
    program = chain(2, 2048, 2048, accumulation=8, replicas=4)
    whole, shared = (
        predict(program.with_settings(state_sharded=sharded), POD16).cycles.update["rule"]
        for sharded in (False, True)
    )
    assert whole / 4 < shared < whole / 3


def test_a_faster_clock_is_faster() -> None:
    program = chain(2, 512, 512, accumulation=8)
    slow, fast = (predict(program, machine).cycles for machine in (POD4, BOW4))
    assert 1.2 < (slow.seconds - slow.host) / (fast.seconds - fast.host) <= 1.85 / 1.33 + 1e-9
    assert slow.seconds == pytest.approx(slow.host + slow.per_run / 1.33e9)
    assert slow.throughput == pytest.approx(program.samples / slow.seconds)


def test_prediction_is_linear_in_operators() -> None:
    """Equal layers are priced once, and walks are linear: counted, not timed."""
    pricing = Pricing(GC200)
    program = chain(64, accumulation=8)
    predict_cycles(program, POD4, pricing, livenesses(program))
    assert len(pricing._known) < 12
