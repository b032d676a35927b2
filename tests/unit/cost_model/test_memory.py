"""Memory: a chain's liveness by hand, stashes, what options save, and the refusal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paddle_ipu.cost_model.advice import advise
from paddle_ipu.cost_model.choice import Choice
from paddle_ipu.cost_model.liveness import (
    Held,
    Roots,
    StageLiveness,
    read_by_gradient,
    stage_liveness,
)
from paddle_ipu.cost_model.machines import MACHINES, Machine
from paddle_ipu.cost_model.memory import MemoryReport, livenesses, predict_memory, stash_depth
from paddle_ipu.cost_model.memory_check import check_memory, size
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.program import Program, read_program
from paddle_ipu.cost_model.scaling import with_rows
from paddle_ipu.errors import OutOfMemoryException, popart_exception
from paddle_ipu.popart.builder import Builder
from paddle_ipu.popart.dataflow import AnchorReturnType, DataFlow
from paddle_ipu.popart.optimizer import SGD
from paddle_ipu.popart.options import SessionOptions
from tests.unit.cost_model.programs import chain

POD4 = MACHINES["POD4"]


def memory(program: Program, machine: Machine = POD4) -> MemoryReport:
    return predict_memory(program, machine, Pricing(machine.processor), livenesses(program))


def small(tiles: int) -> Machine:
    """A machine that little fills."""
    return POD4.with_tiles(tiles)


def test_the_liveness_of_a_chain_by_hand() -> None:
    program = chain(3, rows=8, width=64, training=False)
    found = stage_liveness(
        program.operators, Roots(program.operators), training=False, recompute="NoRecompute"
    )
    tensor = 8 * 64 * 2
    # matmul makes one; tanh writes over it; the next matmul has its input and its output.
    alive = [step.bytes for step in found.forward if not step.label.startswith("L1")]
    assert alive == [tensor, tensor, 2 * tensor, tensor, 2 * tensor, tensor]


def test_liveness_copies_no_lists_of_tensors_on_its_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without recomputation every step of forward has more alive than the one before."""
    asked = []
    marked = Held.marked
    monkeypatch.setattr(Held, "marked", lambda self: asked.append(self) or marked(self))
    program = chain(32)
    (ipu,) = memory(program).ipus
    assert len(asked) <= 4
    tensor = 8 * 64 * 2
    assert {h.bytes for h in ipu.holdings if h.category == "activations"} == {tensor}
    assert ipu.categories["activations"] >= 32 * tensor


def test_gradients_read_what_they_need() -> None:
    program = chain(1)
    matmul, tanh, loss = program.operators
    assert [t.name for t in read_by_gradient(matmul)] == [matmul.inputs[0].name]  # type: ignore[union-attr]
    assert [t.name for t in read_by_gradient(tanh)] == [tanh.outputs[0].name]
    assert [t.name for t in read_by_gradient(loss)] == [tanh.outputs[0].name]


def test_a_pipelines_stash_by_hand() -> None:
    program = chain(4, rows=8, width=64, stages=2, accumulation=8)
    tensor = 8 * 64 * 2
    first, second = memory(program).ipus
    # Stage 0 of two has 2 (1 - 0) + 1 micro-batches on their way: its input and both tanhs.
    assert stash_depth(program, 0) == 3 and stash_depth(program, 1) == 1
    assert first.categories["stash"] == 3 * 3 * tensor
    assert second.categories["stash"] == 0
    again = memory(chain(4, rows=8, width=64, stages=2, accumulation=8, recompute=True)).ipus[0]
    assert again.categories["stash"] == 3 * tensor


def test_the_last_stage_computes_again_what_lies_before_its_last_checkpoint() -> None:
    def last_stage(*checkpoints: int) -> StageLiveness:
        program = chain(10, stages=2, accumulation=8, recompute=True)
        marked = tuple(
            replace(op, checkpoint=number in checkpoints)
            for number, op in enumerate(program.operators)
        )
        return livenesses(replace(program, operators=marked))[1]

    tensor, weight = 8 * 64 * 2, 64 * 64 * 2
    # Operators 10 to 19 are its products and tanhs, and 20 is the loss.
    whole = last_stage()
    assert not whole.again and not whole.stash
    # Five tanhs and the input, two gradients, and that of a weight.
    assert max(step.bytes for step in whole.backward) == weight + 7 * tensor
    found = last_stage(13, 17)
    assert [op.op_type for op in found.again] == ["MatMul", "Tanh"] * 4
    # What it reads of the first stage, and both checkpoints.
    assert [t.bytes for t in found.stash] == [tensor] * 3
    assert len(found.forward) == 11 and len(found.backward) == 8 + 11
    assert [step.phase for step in found.backward[:3]] == ["backward"] * 3
    assert max(step.bytes for step in found.backward) == weight + 3 * tensor
    # Nothing follows the last checkpoint but the loss.
    assert len(last_stage(19).again) == 10


def test_weights_and_accumulators_by_hand() -> None:
    (found,) = memory(chain(2, width=64, accumulation=4)).ipus
    assert found.categories["weights"] == 2 * 64 * 64 * 2
    assert found.categories["accumulators"] == 2 * 64 * 64 * 2
    (without,) = memory(chain(2, width=64)).ipus
    assert without.categories["accumulators"] == 0


def test_without_a_pipeline_every_ipu_holds_its_own() -> None:
    first, second = memory(chain(4, width=64, stages=2, pipelined=False)).ipus
    tensor, weight = 8 * 64 * 2, 64 * 64 * 2
    for ipu in (first, second):
        assert ipu.categories["weights"] == 2 * weight and ipu.categories["stash"] == 0
    # Backward of the second: what it read of the first, both tanhs, and their last gradient.
    assert second.categories["activations"] >= 4 * tensor
    assert {h.name for h in first.holdings if h.category == "weights"} == {"w0", "w1"}


def test_state_off_the_chip_and_sharded_saves_what_it_says() -> None:
    program = chain(4, width=128, accumulation=4, replicas=4)
    state = {t.name: 8 * t.elements for t in program.weights}
    program = replace(program, state=state)
    all_of_it = sum(state.values())

    def on_chip(**settings: bool) -> int:
        return memory(program.with_settings(**settings)).ipus[0].categories["optimizer state"]

    assert on_chip(state_on_chip=True) == all_of_it
    assert on_chip(state_on_chip=True, state_sharded=True) == all_of_it // 4
    assert memory(program.with_settings(state_on_chip=False)).off_chip == all_of_it


@pytest.mark.parametrize("rows", [1, 4096])
def test_the_buffer_of_state_off_the_chip_and_activations_share_memory(rows: int) -> None:
    program = chain(4, rows, width=128, accumulation=4)
    program = replace(program, state={t.name: 8 * t.elements for t in program.weights})
    (found,) = memory(program.with_settings(state_on_chip=False)).ipus
    buffer, code = 8 * 128 * 128, found.categories["code"]
    assert found.steps[-1].phase == "update"
    assert found.steps[-1].bytes == found.always + found.categories["stash"] + buffer
    assert found.peak == sum(found.categories.values()) == max(step.bytes for step in found.steps)
    # Many rows need more than the buffer, few need less.
    in_update = rows == 1
    assert (found.peak_step == len(found.steps) - 1) is in_update
    assert found.categories["optimizer state"] == (buffer if in_update else 0)
    assert (found.categories["activations"] == 0) is in_update
    assert {h.category for h in found.holdings} >= {"weights", "accumulators"}
    assert any(h.category == "activations" for h in found.holdings) is not in_update
    # Without accumulation, weights are updated among the operators of backward.
    (at_once,) = memory(program.with_settings(state_on_chip=False, accumulation=1)).ipus
    assert at_once.categories["optimizer state"] == buffer
    assert at_once.always >= buffer + code
    assert {step.phase for step in at_once.steps} == {"forward", "backward"}


@given(rows=st.integers(1, 64), more=st.integers(2, 8), stages=st.sampled_from([1, 2, 4]))
@settings(max_examples=15, deadline=None)
def test_what_may_only_grow(rows: int, more: int, stages: int) -> None:
    def activations(program: Program) -> list[int]:
        found = memory(program).ipus
        return [ipu.categories["activations"] + ipu.categories["stash"] for ipu in found]

    base = chain(4, rows, stages=stages, accumulation=8)
    accumulating = chain(4, rows, stages=stages, accumulation=8 * more)
    assert activations(accumulating) == activations(base)
    larger = activations(chain(4, rows * more, stages=stages, accumulation=8))
    assert all(a >= b for a, b in zip(larger, activations(base), strict=True))
    scaled = with_rows(base, rows * more)
    assert activations(scaled) == larger
    again = activations(chain(4, rows, stages=stages, accumulation=8, recompute=True))
    assert sum(again) <= sum(activations(base)) + 4 * rows * 64 * 2


def _large(**settings: object) -> Program:
    return chain(8, 4096, 512, accumulation=8, dtype="float32").with_settings(**settings)


def test_what_a_named_machine_cannot_hold_is_refused_before_it_runs() -> None:
    program, machine = _large(), small(120)
    with pytest.raises(OutOfMemoryException) as caught:
        check_memory(program, Choice(machine, named=True))
    assert isinstance(caught.value, popart_exception)
    text = str(caught.value)
    worst = memory(program, machine).worst
    assert text.startswith("Out of memory: Cannot fit all variable data onto one or more tiles.")
    assert f"IPU 0 of POD4 needs {size(worst.per_tile)}" in text
    assert f"{size(worst.over)} over on its 120 tiles" in text
    assert "activations: Tanh:0" in text
    assert "{'auto_recomputation': 1}: compute activations again in backward" in text
    assert "{'micro_batch_size': 2048}: halve the micro-batch" in text
    assert "'debug.allowOutOfMemory': 'true'" in text


def test_what_nobody_named_a_machine_for_goes_on_with_one_line() -> None:
    program = _large()
    line = check_memory(program, Choice(small(120), named=False))
    assert line.startswith("on a GC200 with 120 tiles this program would lack ")
    assert "\n" not in line
    assert check_memory(program, Choice(small(120), named=True), allow=True) == line
    assert check_memory(program, Choice(POD4, named=True)) == ""


def test_advice_saves_what_it_says() -> None:
    machine, program = small(120), _large()
    report = memory(program, machine)
    found = {advice.option: advice for advice in advise(program, machine, report)}
    after = memory(_large(recomputation="Standard"), machine)
    saved = (report.worst.per_tile - after.worst.per_tile) * machine.processor.tiles
    assert found["'auto_recomputation': 1"].saves == saved
    assert "'enable_fp16': True" in found
    fitting = [advice for advice in found.values() if advice.fits]
    assert all(advice.saves >= report.worst.over for advice in fitting)


def test_a_program_that_cannot_shrink_is_told_to_spread() -> None:
    program = chain(2, 1, 2048, training=False, dtype="float16")
    lower = tuple(replace(op, memory_proportion=0.1) for op in program.operators)
    with pytest.raises(OutOfMemoryException, match="nothing of it; place layers on more IPUs"):
        check_memory(replace(program, operators=lower), Choice(small(8), named=True))


# -- loops ----------------------------------------------------------------------------------------


def _loop(turns: int, *, training: bool = True, known: bool = True) -> Program:
    """`turns` times x = tanh(x @ w), [8, 64] in half; the trip count is a constant or fed."""
    builder = Builder()
    x = builder.addInputTensor("FLOAT16", [8, 64])
    weight = builder.addInitializedInputTensor(np.zeros((64, 64), np.float16), "w")
    start = builder.aiOnnx.matmul([x, weight])
    most = builder.aiOnnx.constant(np.asarray(turns, np.int64))
    going = builder.aiOnnx.constant(np.asarray(True))
    if not known:
        most = builder.addInputTensor("INT64", [])
    body = builder.createSubgraphBuilder()
    body.addInputTensor("INT64", [])
    body.addInputTensor("BOOL", [])
    carried = body.addInputTensor("FLOAT16", [8, 64])
    body.addOutputTensor(body.aiOnnx.constant(np.asarray(True)))
    body.addOutputTensor(body.aiOnnx.tanh([body.aiOnnx.matmul([carried, weight])]))
    (x,) = builder.aiOnnx.loop([most, going, start], 1, body)
    loss = builder.aiGraphcore.l1loss([x], 0.1)
    return read_program(
        builder.model,
        DataFlow(1, {loss: AnchorReturnType("All")}),
        SessionOptions(),
        SGD({"defaultLearningRate": (0.1, False)}) if training else None,
        loss=loss if training else None,
    )


def test_backward_keeps_what_each_turn_of_a_loop_leaves() -> None:
    tensor = 8 * 64 * 2
    inside = [op for op in _loop(5).operators if op.times == 5 and op.op_type != "Constant"]
    assert [(op.op_type, op.gradient) for op in inside] == [("MatMul", True), ("Tanh", True)]
    few, many = (max(ipu.steps, key=lambda s: s.bytes).bytes for turns in (5, 25)
                 for ipu in memory(_loop(turns)).ipus)  # fmt: skip
    # A turn's product is given tanh of the turn before, which tanh's gradient reads, too.
    assert many - few == 20 * tensor
    (ipu,) = memory(_loop(25)).ipus
    assert max(h.bytes for h in ipu.holdings if h.category == "activations") == 25 * tensor


def test_without_backward_a_turn_goes_over_the_one_before() -> None:
    few, many = (memory(_loop(turns, training=False)).ipus[0].peak for turns in (5, 25))
    assert few == many


def test_turns_that_nobody_knows_count_once() -> None:
    once, unknown = memory(_loop(1)).ipus[0], memory(_loop(9, known=False)).ipus[0]
    assert unknown.categories["activations"] == once.categories["activations"]


def test_a_pipeline_stashes_all_turns_of_a_loop() -> None:
    program = _loop(25).with_settings(pipelined=True, ipus=2, accumulation=8)
    last = len(program.operators) - 1
    operators = [replace(op, ipu=int(n == last), stage=int(n == last))
                 for n, op in enumerate(program.operators)]  # fmt: skip
    first, _ = memory(replace(program, operators=tuple(operators))).ipus
    # Three micro-batches: the input, and tanh of each turn.
    assert first.categories["stash"] == 3 * (1 + 25) * 8 * 64 * 2
