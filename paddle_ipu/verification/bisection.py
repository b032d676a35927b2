"""The forward part of a program, and the table of its operators with a verdict on each."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.carry_writes import CarryWrites
from paddle_ipu.passes.cut_gradients import differentiated
from paddle_ipu.passes.extract_forward import GRADIENT_PREFIX, ExtractForward
from paddle_ipu.passes.extract_optimizer import ExtractOptimizer
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support.update_operators import OPTIMIZER_OPS, updated
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.verification.comparison import Comparison, compare
from paddle_ipu.verification.contents import AGREES, DIVERGES, FOLLOWS, ROUNDS, OperatorRow
from paddle_ipu.verification.program_copy import DROPOUT, ProgramCopy

Array = np.ndarray[Any, Any]

RANDOM_OPS = frozenset(
    {
        "bernoulli", "binomial", "class_center_sample", "dirichlet", "dropout_nd", "exponential",
        "gaussian", "gaussian_inplace", "gaussian_random", "gaussian_random_batch_size_like",
        "gumbel_softmax", "multinomial", "poisson", "randint", "random", "random_crop", "randperm",
        "rrelu", "sampling_id", "shuffle_batch", "standard_gamma", "top_p_sampling",
        "truncated_gaussian_random", "uniform", "uniform_inplace", "uniform_random",
        "uniform_random_batch_size_like", "uniform_random_inplace",
    }
)  # fmt: skip
"""Operators that draw random numbers in every run, by their names in the dialect."""


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward part of a program and what training adds to it.

    Attributes:
        nodes: operators in program order.
        results: (position of the node, result) of everything that is read or fetched and that
            Paddle's program has too.
        gradients: raw gradient -> parameter, of the parameters that the forward part reads.
        readers: parameter -> the first node that reads it.
        optimizer: the optimizer, None in inference.
        sources: parameter -> line of the operator that updates it.
        writes: parameter or state -> the operator that gives it its value in the next run.
        backward: result -> the fetch of its gradient, of those that backward goes through.
        loss: the loss, None in inference.
    """

    nodes: Sequence[ir.Node]
    results: Sequence[tuple[int, ir.Value]]
    gradients: Mapping[str, str]
    readers: Mapping[str, ir.Node]
    optimizer: PaddleOptimizer | None
    sources: Mapping[str, str]
    writes: Mapping[str, ir.Node]
    backward: Mapping[str, str]
    loss: str | None


def read_forward(
    graph: ir.Graph,
    copy: ProgramCopy,
    feeds: Sequence[str],
    fetches: Sequence[str],
    options: Mapping[str, Any],
) -> Forward:
    """The forward part of a program.

    Args:
        graph: the dialect graph of `copy`; passes rewrite it.
        copy: the program.
        feeds: names.
        fetches: names.
        options: the strategy's values.
    """
    sources = {
        str(parameter.name): dialect.source_of(node)
        for node in graph
        if node.op_type in OPTIMIZER_OPS
        for parameter in updated(node)
    }
    compilation = Compilation(graph, feeds, fetches, options)
    ExtractOptimizer().run(compilation)
    CarryWrites().run(compilation)
    ExtractForward().run(compilation)
    nodes = list(graph)
    readers: dict[str, ir.Node] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value.producer() is None:
                readers.setdefault(str(value.name), node)
    writes = {}
    for name, written in compilation.state_writes().items():
        value = compilation.value(written)
        producer = None if value is None else value.producer()
        assert producer is not None
        writes[name] = producer
    optimizer = compilation.optimizer
    gradients = {} if optimizer is None else optimizer.gradients
    results = [
        (number, value)
        for number, node in enumerate(nodes)
        if node.op_type not in dialect.CONSTANT_OPS
        for value in node.outputs
        if value.dtype is not None
        and (value.uses() or value.is_graph_output())
        and copy.value(str(value.name)) is not None
    ]
    known = {str(value.name) for _, value in results}
    return Forward(
        nodes,
        results,
        {name: parameter for name, parameter in gradients.items() if parameter in readers},
        readers,
        optimizer,
        sources,
        writes,
        {n: GRADIENT_PREFIX + n for n in differentiated(compilation) if n in known},
        compilation.loss,
    )


def updated_variables(forward: Forward) -> dict[str, tuple[str, str]]:
    """Variable -> (what it is, line of its update), for all that a step changes."""
    kinds = written_variables(forward)
    for update in () if forward.optimizer is None else forward.optimizer.updates:
        if update.parameter not in forward.readers:
            continue
        source = forward.sources[update.parameter]
        kinds[update.parameter] = (f"weight updated by rule {update.rule}", source)
        for role, name in update.states.items():
            kinds[name] = (f"{role} of {update.parameter}, updated by rule {update.rule}", source)
    return kinds


def written_variables(forward: Forward) -> dict[str, tuple[str, str]]:
    """Variable -> (what it is, line of the write), for all that forward writes."""
    return {
        name: (f"variable written by {node.op_type}", dialect.source_of(node))
        for name, node in forward.writes.items()
    }


def sources(forward: Forward) -> dict[str, str]:
    """Name of a forward value or of a raw gradient -> where it comes from."""
    places = {
        str(value.name): dialect.source_of(forward.nodes[number])
        for number, value in forward.results
    }
    for gradient, parameter in forward.gradients.items():
        places[gradient] = f"read by {dialect.describe(forward.readers[parameter])}"
    return places


def backward_order(forward: Forward) -> list[str]:
    """Raw gradients by their parameter's first reader, the last one first."""
    position = {id(node): number for number, node in enumerate(forward.nodes)}
    readers = {name: forward.readers[parameter] for name, parameter in forward.gradients.items()}
    return sorted(readers, key=lambda name: -position[id(readers[name])])


def check_deterministic(forward: Forward) -> None:
    """Refuses a program that draws random numbers.

    Raises:
        NotSupported: it names every such operator with the user's line.
    """
    random = [dialect.describe(node) for node in forward.nodes if _is_random(node)]
    if random:
        raise NotSupported(
            "verify cannot compare a program that draws random numbers, since the IPU and Paddle's "
            f"CPU kernels draw different ones: {'; '.join(random)}. Pass without_dropout=True, "
            "or --without-dropout to `paddle-ipu verify`, to verify with dropout switched off on "
            "both sides, or build the program with probability 0; feed other random tensors "
            "instead of drawing them."
        )


def _is_random(node: ir.Node) -> bool:
    kind = str(node.op_type).removesuffix("_")
    if kind in RANDOM_OPS:
        return True
    if kind not in DROPOUT or dialect.attribute(node, "is_test", 0):
        return False
    return dialect.scalar_constant(dialect.operand(node, "p")) != 0.0


def drift_table(
    forward: Forward,
    got: Mapping[str, Sequence[Array]],
    expected: Mapping[str, Sequence[Array]],
    *,
    rtol: float,
    atol: float,
    max_drift: float | None = None,
    alone: Mapping[str, Comparison],
) -> list[OperatorRow]:
    """A row for each result, in program order.

    Args:
        forward: of the program.
        got, expected: result -> an array for every micro-batch.
        rtol, atol, max_drift: as for ``compare``.
        alone: result -> the IPU's beside Paddle's for the same operands, which separates a wrong
            operator from one whose operands have errors. Without it an operator is wrong where it
            differs though all its operands agree.
    """
    drifts: dict[str, float] = {}
    differing: set[str] = set()
    compared = {str(value.name) for _, value in forward.results}
    rows = []
    for number, value in forward.results:
        node, name = forward.nodes[number], str(value.name)
        source = dialect.source_of(node)
        result = compare(
            name, got=got[name], expected=expected[name], rtol=rtol, atol=atol,
            what=f"result of {node.op_type}", source=source, max_drift=max_drift,
        )  # fmt: skip
        verdict, read = AGREES, set(read_by(node, compared))
        by_itself = alone.get(name)
        if not result.ok:
            reads_differing = bool(differing.intersection(read))
            if by_itself is None:
                verdict = FOLLOWS if reads_differing else DIVERGES
            elif by_itself.ok:
                verdict = FOLLOWS if reads_differing else ROUNDS
            else:
                verdict = DIVERGES
            if verdict != ROUNDS:
                differing.add(name)
        largest = max((drifts.get(operand, 0.0) for operand in read), default=0.0)
        gain = result.drift / largest if 0 < largest < np.inf else 0.0
        drifts[name] = result.drift
        rows.append(
            OperatorRow(
                number,
                str(node.op_type),
                source,
                result,
                verdict,
                gain=gain,
                alone=by_itself,
                layer=dialect.layer_of(node),
            )  # fmt: skip
        )
    return rows


def read_by(node: ir.Node, compared: Container[str]) -> Iterator[str]:
    """Names of the compared values a node reads, be it through values that are not compared."""
    for value in node.inputs:
        if value is None:
            continue
        producer = value.producer()
        if producer is None or value.name in compared:
            yield str(value.name)
        else:
            yield from read_by(producer, compared)


def derivative_rows(
    forward: Forward,
    parts: Forward,
    got: Mapping[str, Sequence[Array]],
    expected: Mapping[str, Sequence[Array]],
    *,
    rtol: float,
    atol: float,
    nudged: Sequence[Mapping[str, Sequence[Array]]],
) -> list[OperatorRow]:
    """A row for each differentiable operand of each operator, in the order of backward.

    Args:
        forward: of the program.
        parts: of the same program with a parameter in place of each such operand.
        got, expected: parameter -> the derivative with respect to it.
        nudged: what Paddle gives as `expected` for nudged inputs.
    """
    numbers = {str(node.name): number for number, node in enumerate(forward.nodes)}
    rows = []
    for parameter, arrays in got.items():
        operator, operand = _operand(parts.readers[parameter], parameter, numbers)
        place = [value.name for value in operator.inputs if value is not None].index(operand)
        number = numbers[str(operator.name)]
        node = forward.nodes[number]
        source = dialect.source_of(node)
        row = compare(
            _operand_name(operator, operand), got=arrays, expected=expected[parameter],
            rtol=rtol, atol=atol, what=f"derivative of {node.op_type}", source=source,
            nudged=[run[parameter] for run in nudged],
        )  # fmt: skip
        verdict = (ROUNDS if row.rounding else AGREES) if row.ok else DIVERGES
        of_operand = OperatorRow(
            number, str(node.op_type), source, row, verdict, layer=dialect.layer_of(node)
        )
        rows.append((place, of_operand))
    return [row for _, row in sorted(rows, key=lambda entry: (-entry[1].number, entry[0]))]


def _operand(reader: ir.Node, parameter: str, numbers: Mapping[str, int]) -> tuple[ir.Node, str]:
    """(the operator of the program that an operand is for, the operand there).

    Operators that the dialect adds before one, such as a reshape, are named after the operand and
    are not in the program.
    """
    queue = [(reader, parameter)]
    for node, name in queue:
        if str(node.name) in numbers:
            return node, name
        queue.extend((use.node, str(value.name)) for value in node.outputs for use in value.uses())
    raise AssertionError(f"{parameter} is read by nothing of the program")


def _operand_name(node: ir.Node, value: str) -> str:
    """What a node calls an operand, with its place where the operand is a list."""
    named = [(name, operand) for name, operand in dialect.operands(node) if operand is not None]
    name = next(name for name, operand in named if operand.name == value)
    alike = [str(operand.name) for other, operand in named if other == name]
    return name if len(alike) == 1 else f"{name}[{alike.index(value)}]"
