"""What long sequences cost: operands that move, rows in pieces, masks, gradients on their way."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

import numpy as np
import pytest

from paddle_ipu.cost_model.constants import CONSTANTS
from paddle_ipu.cost_model.gathered_gradients import gathered_gradients
from paddle_ipu.cost_model.insights import speed_insights
from paddle_ipu.cost_model.liveness import stage_operators
from paddle_ipu.cost_model.machines import MACHINES, PROCESSORS
from paddle_ipu.cost_model.matmul_plan import Product, plan_product
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.program import Operator, Program, Tensor, read_program
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.schema import schema_of

GC200 = PROCESSORS["GC200"]
POD4 = MACHINES["POD4"]
RATE = 4 * CONSTANTS.exchange_efficiency


def attention(sequence: int, *, packed: bool = False, rows: int = 2, heads: int = 4) -> Program:
    """Scores of queries and keys that one product makes, masked, and their softmax."""
    width = 16
    hidden = heads * width
    builder = Builder()
    x = builder.addInputTensor("FLOAT16", [rows, sequence, hidden])
    visible = builder.addInputTensor("FLOAT16", [rows, 1, sequence if packed else 1, sequence])
    onnx = builder.aiOnnx
    split = builder.aiOnnx.constant(np.array([rows, sequence, heads, width], np.int64))
    weight = builder.addInitializedInputTensor(np.zeros((hidden, hidden), "float16"), "w")
    made = onnx.matmul([x, weight])
    queries = onnx.transpose([onnx.reshape([made, split])], [0, 2, 1, 3])
    keys = onnx.transpose([onnx.reshape([made, split])], [0, 2, 3, 1])
    one = builder.aiOnnx.constant(np.array(1000.0, np.float16))
    mask = onnx.mul([onnx.sub([visible, one]), one])
    shares = onnx.softmax([onnx.add([onnx.matmul([queries, keys]), mask])], 3)
    loss = builder.aiGraphcore.l1loss([shares], 0.1)
    flow = DataFlow(1, {loss: AnchorReturnType("All")})
    optimizer = SGD({"defaultLearningRate": (0.1, False)})
    return read_program(builder.model, flow, SessionOptions(), optimizer, loss=loss)


def named(program: Program, op_type: str) -> Operator:
    (found,) = [op for op in program.operators if op.op_type == op_type]
    return found


def test_an_activation_comes_whole_over_the_exchange_and_a_weight_but_for_its_part() -> None:
    moved, kept = (
        plan_product(Product(1, 16, 64, 1472, 2, 2, kept=kept), GC200, 0.6)
        for kept in (False, True)
    )
    assert moved.parts == kept.parts
    _, m, k, n = moved.parts
    part = ceil(64 / k) * ceil(1472 / n) * 2
    # The tiles that read a part of a weight have a share of it each, in the order they read it.
    assert moved.exchange - kept.exchange == pytest.approx(part / m / RATE + part / 8)


def test_heads_are_split_and_keys_transposed_by_the_product_that_reads_them() -> None:
    program = attention(64)
    pricing = Pricing(GC200)
    views = [op for op in program.operators if op.op_type in ("Reshape", "Transpose")]
    assert len(views) == 4
    assert all(pricing.cost_of(op).forward.cycles == 0 for op in views)
    scores = [op for op in program.operators if op.op_type == "MatMul"][1]
    # Both operands are another layout's, however the product is cut: each tile gets at least its
    # share of them over the exchange.
    share = sum(t.bytes for t in scores.read) / 1472
    assert pricing.cost_of(scores).forward.exchange >= 0.99 * share / (2 * RATE)


def test_a_softmax_of_half_by_hand() -> None:
    cost = Pricing(GC200).cost_of(named(attention(64), "Softmax"))
    elements = ceil(2 * 4 * 64 * 64 / 1472)
    vectors, pieces = ceil(elements / 4), ceil(elements / 16)
    overhead = CONSTANTS.vertex_overhead
    # Maximum, subtract, sum and scale beside exp's 4; two of them with a value for each row. Sums
    # are of two compute sets and an exchange each; reciprocals are taken, and cast.
    assert cost.forward.compute == pytest.approx(vectors * 8 * overhead + 9 * 288 + pieces * 2 * 7)
    assert (cost.forward.sync, cost.forward.exchange) == (4 * 190, 0)
    # Multiply, sum, multiply with the row's sum, subtract.
    assert cost.backward.compute == pytest.approx(vectors * 4 * overhead + 5 * 288 + pieces * 7)
    assert (cost.backward.sync, cost.backward.exchange) == (2 * 190, 0)


@pytest.mark.parametrize(
    ("op_type", "outputs", "forward", "backward", "by_rows", "sets", "exchanges"),
    [
        ("GroupNormalization", 3, 6, 14, (2, 5), (7, 15), (5, 8)),
        ("BatchNormalization", 5, 4, 14, (0, 0), (10, 16), (3, 8)),
        ("BatchNormalization", 1, 2, 14, (0, 0), (5, 16), (2, 8)),
    ],
)
def test_the_passes_of_norms_are_those_of_poplibs(
    op_type: str,
    outputs: int,
    forward: int,
    backward: int,
    by_rows: tuple[int, int],
    sets: tuple[int, int],
    exchanges: tuple[int, int],
) -> None:
    x = Tensor("x", (1472, 64), "float16", "activation", 2, 1472 * 64)
    statistics = Tensor("m", (1472,), "float32", "activation", 4, 1472)
    made = (replace(x, name="y"), *[statistics] * (outputs - 1))
    schema = schema_of("ai.graphcore", op_type)
    assert schema is not None
    operator = Operator("y", op_type, schema, (x, statistics, statistics), made, {}, gradient=True)
    cost = Pricing(GC200).cost_of(operator)
    # 16 vectors a tile in 4 pieces of a row.
    vectors = 16 * CONSTANTS.vertex_overhead
    for found, passes, rows, count, waits in zip(
        (cost.forward, cost.backward), (forward, backward), by_rows, sets, exchanges, strict=True
    ):
        assert found.compute == pytest.approx(passes * vectors + count * 288 + 28 * rows)
        assert (found.sync, found.exchange) == (190 * waits, 0)


def test_a_mask_of_packed_rows_costs_memory_and_reading() -> None:
    plain, packed = (attention(512, packed=packed) for packed in (False, True))
    pricing = Pricing(GC200)
    masked = [op for op in plain.operators if op.op_type == "Add"]
    costs = [pricing.cost_of(named(program, "Add")) for program in (plain, packed)]
    assert len(masked) == 1
    tile = 2 * 4 * 512 * 512 * 2 / 1472
    # A row of 512 half for plain rows; for packed ones as many as the tile has scores.
    assert costs[0].forward.exchange == pytest.approx(2 * 512 * 2 / RATE)
    assert costs[1].forward.exchange == pytest.approx(tile / RATE, rel=0.01)
    held = [
        max(step.bytes for step in livenesses(program)[0].forward) for program in (plain, packed)
    ]
    assert held[1] - held[0] == pytest.approx(2 * 2 * 512 * 511, rel=0.01)


def test_gradients_that_reach_no_weight_are_not_computed() -> None:
    program = attention(64)
    pricing = Pricing(GC200)
    # The mask's: neither its own operators nor the sum that reads it have anything to do for it.
    for op_type in ("Sub", "Mul", "Add"):
        assert pricing.cost_of(named(program, op_type)).backward.cycles == 0
    # The input's: of the first product only the weight's gradient is left.
    first = next(op for op in program.operators if op.op_type == "MatMul")
    fed = first.inputs[0]
    assert fed is not None and not fed.has_gradient
    only = pricing.product(Product(1, 64, 128, 64, 2, 4, turned=frozenset({"right"})), first)
    assert pricing.cost_of(first).backward == only
    # No gradient of them is ever held either.
    held = livenesses(program)[0].peak_tensors
    names = {t.name for op in stage_operators(program)[0][:1] for t in op.read}
    assert not {tensor.name for tensor in held} & names


def test_dropout_draws_its_mask_again_in_backward() -> None:
    schema = schema_of("ai.onnx", "Dropout")
    x = Tensor("x", (1472, 64), "float16", "activation", 2, 1472 * 64)
    operator = Operator("y", "Dropout", schema, (x,), (replace(x, name="y"),), {}, gradient=True)
    cost = Pricing(GC200).cost_of(operator)
    assert cost.backward == cost.forward
    # The tiles' seeds are kept, set from one that comes to all, and put back.
    assert cost.forward.compute == pytest.approx(16 * 2 * CONSTANTS.vertex_overhead + 4 * 288)
    assert cost.forward.sync == 190


def test_a_cast_is_cast_back_and_a_product_with_a_constant_is_one_product() -> None:
    x = Tensor("x", (1472, 64), "float16", "activation", 2, 1472 * 64)
    by = Tensor("c", (), "float16", "constant", 2, 1)
    pricing = Pricing(GC200)
    for op_type, inputs in (("Cast", (x,)), ("Mul", (x, by))):
        schema = schema_of("ai.onnx", op_type)
        operator = Operator(
            "y", op_type, schema, inputs, (replace(x, name="y"),), {}, gradient=True
        )
        cost = pricing.cost_of(operator)
        assert cost.backward.compute == cost.forward.compute > 0


def test_a_longer_sequence_of_as_many_words_is_slower() -> None:
    rates = [
        predict(attention(sequence, rows=1024 // sequence), POD4).cycles.throughput * sequence
        for sequence in (64, 128, 256, 512)
    ]
    assert rates == sorted(rates, reverse=True)


def test_lengths_to_pad_are_named_with_what_that_gains_at_most() -> None:
    odd, even = (predict(attention(sequence, rows=16), POD4) for sequence in (197, 208))
    (found,) = [i for i in speed_insights(odd) if i.change.startswith("pad what")]
    # 3,152 rows of 16 x 197 are 197 each.
    assert found.change == (
        "pad what matrix products read to lengths that are multiples of 16, as 208 in place of 197"
    )
    assert (found.option, found.bound) == ("", True)
    # Padded it computes and moves more elsewhere, too.
    padded = even.cycles.throughput
    assert odd.cycles.throughput < padded <= found.throughput
    assert found.gain == pytest.approx(found.throughput / odd.cycles.throughput - 1)
    assert not [i for i in speed_insights(even) if i.change.startswith("pad what")]


def test_gradients_of_products_are_moved_to_what_reads_them_with_its_result() -> None:
    program = attention(64)
    pricing = Pricing(GC200)
    found = gathered_gradients(program, pricing)
    products = [op.outputs[0] for op in program.operators if op.op_type == "MatMul"]
    # The first product's output has two readers, queries and keys: one gradient is moved onto the
    # other and added; the product fetches their sum itself. The softmax passes its gradient on to
    # a sum, which multiplies with nothing, and that to the second product.
    size = products[0].bytes
    summed = pricing.move(size, copied=False) + pricing.map(size // 2, 2, 1.0)
    assert found == {products[0].name: summed}


@pytest.mark.parametrize("bent", [True, False])
def test_a_gradient_of_a_product_comes_to_a_nonlinearity_and_not_to_a_product(bent: bool) -> None:
    builder = Builder()
    x = builder.addInputTensor("FLOAT16", [64, 64])
    first, second = (
        builder.addInitializedInputTensor(np.zeros((64, 64), "float16"), name) for name in "ab"
    )
    made = builder.aiOnnx.matmul([x, first])
    made = builder.aiOnnx.tanh([made]) if bent else made
    loss = builder.aiGraphcore.l1loss([builder.aiOnnx.matmul([made, second])], 0.1)
    flow = DataFlow(1, {loss: AnchorReturnType("All")})
    optimizer = SGD({"defaultLearningRate": (0.1, False)})
    program = read_program(builder.model, flow, SessionOptions(), optimizer, loss=loss)
    pricing = Pricing(GC200)
    moved = {made: pricing.move(64 * 64 * 2.0, copied=False)}
    assert gathered_gradients(program, pricing) == (moved if bent else {})


def test_predictions_count_the_gathered_gradients() -> None:
    program = attention(64)
    machine = replace(POD4, host_bandwidth=1e15)
    pricing = Pricing(machine.processor)
    found = predict(program, machine).cycles
    apart = [pricing.cost_of(operator).backward.cycles for operator in program.operators]
    gathered = sum(cost.cycles for cost in gathered_gradients(program, pricing).values())
    (stage,) = found.stages
    assert stage.backward.cycles == pytest.approx(sum(apart) + gathered)
