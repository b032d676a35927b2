"""A step, ready to be traced, made of what a session wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paddle_ipu.popart.names import of_tensor
from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.xla.lowerings.registry import HostKernel
from paddle_ipu.xla.step import parts, recomputation
from paddle_ipu.xla.step.graph import LoweredGraph
from paddle_ipu.xla.step.node_lowering import GraphSettings
from paddle_ipu.xla.step.optimizer_state import OptimizerState
from paddle_ipu.xla.step.segments import Segment
from paddle_ipu.xla.step.stale_weights import stale_reads
from paddle_ipu.xla.step.step_program import StepProgram
from paddle_ipu.xla.step.traced_step import Step


def make_step(
    program: StepProgram,
    kernels: Mapping[str, HostKernel],
    operand_ranges: Mapping[str, Sequence[OperandRange]],
) -> Step:
    """The step of a program, with its graph lowered as far as something needs it.

    Args:
        kernels: first result of an operator that runs on the host -> what runs it there.
        operand_ranges: first result of an operator -> the numbers it takes; others raise.

    Raises:
        LoweringError: operators without a lowering.
        popart_exception: an operator that PopART does not know; or a weight that a pipeline would
            read after its update.
    """
    settings = GraphSettings(
        precision=program.precision,
        replicas=program.replicas,
        instances=program.instances,
        in_64_bits=program.in_64_bits,
        integers_of_paddle=program.integers_of_paddle,
        joined_losses=program.joined_losses,
        kernels=kernels,
        operand_ranges=operand_ranges,
    )
    graph = LoweredGraph(program.graph, settings)
    graph.keep(_needed(program))
    step = Step(program, graph, OptimizerState({}, ()))
    updater = program.updater
    if updater is None or program.loss is None:
        return step
    reached = graph.reaching(program.loss)
    step.trained = tuple(weight for weight in updater.weights if weight in reached)
    shapes = {name: program.given(name)[0] for name in program.weights}
    own = program.own_state
    step.state = OptimizerState(
        updater.state_shapes(shapes) | {name: array.shape for name, array in own.items()},
        updater.alike,
        updater.state_dtypes() | {name: array.dtype.name for name, array in own.items()},
    )
    if program.stages:
        step.stale = stale_reads(graph.nodes, program.loss, reached, step.trained, program.stages)
    return step


def segments_of(step: Step) -> list[Segment]:
    """The parts that backward computes again or XLA compiles by themselves; empty for none."""
    program, graph, needed = step.program, step.graph, _needed(step.program)
    segments: list[Segment] = []
    if step.trained:
        segments = recomputation.plan(
            program.graph, graph.nodes, program.recomputation, needed, graph.runs_on_host
        )
    return parts.of(graph.nodes, segments, needed, graph.runs_on_host)


def _needed(program: StepProgram) -> tuple[str, ...]:
    """The tensors of which the results of a step are made."""
    tensors = [of_tensor(anchor.tensor) for anchor in program.anchors]
    loss = [program.loss] if program.loss else []
    return (*tensors, *loss, *program.writes.values())
