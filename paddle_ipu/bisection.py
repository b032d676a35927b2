"""Finds where two runs of one program part: which values to compare, and the verdict on each.

The copy of a program that is verified has a name on every value, so that the paddle dialect and
Paddle's executor mean the same one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as ir

from paddle_ipu import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import pir
from paddle_ipu.passes.extract_forward import SIDE_EFFECTS, ExtractForward
from paddle_ipu.passes.extract_optimizer import OPTIMIZER_OPS, ExtractOptimizer
from paddle_ipu.passes.pipeline import Compilation
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.verification_report import AGREES, DIVERGES, FOLLOWS, OperatorRow, compare

Array = np.ndarray[Any, Any]

RANDOM_OPS = frozenset(
    {
        "bernoulli", "binomial", "dirichlet", "exponential", "gaussian", "gaussian_inplace",
        "multinomial", "poisson", "randint", "randperm", "rrelu", "standard_gamma",
        "truncated_gaussian_random", "uniform", "uniform_inplace", "gumbel_softmax",
    }
)  # fmt: skip
"""Operators whose result is drawn anew in every run."""

_COMBINE, _SPLIT = "builtin.combine", "builtin.split"
_DROPOUT = frozenset({"dropout", "fused_dropout_add"})


@dataclass(frozen=True, slots=True)
class Forward:
    """The forward part of a program and what training adds to it.

    Attributes:
        nodes: operators in program order.
        results: (position of the node, result) of everything that is read or fetched.
        gradients: raw gradient -> parameter, of the parameters that the forward part reads.
        readers: parameter -> the first node that reads it.
        optimizer: the optimizer, None in inference.
        sources: parameter -> line of the operator that updates it.
    """

    nodes: Sequence[ir.Node]
    results: Sequence[tuple[int, ir.Value]]
    gradients: Mapping[str, str]
    readers: Mapping[str, ir.Node]
    optimizer: PaddleOptimizer | None
    sources: Mapping[str, str]


def name_values(program: Any) -> None:
    """Gives every result that has no name one, as an attribute of its operator."""
    lists: dict[int, str] = {}
    for number, op in enumerate(program.global_block().ops):
        stem = f"{op.name().rpartition('.')[2]}.{number}"
        if op.name() == _SPLIT:
            stem = lists.get(op.operand_source(0).id, stem)
        for index in range(op.num_results()):
            attribute = f"{pir.NAME_PREFIX}{index}"
            if not op.has_attr(attribute):
                op.set_str_attr(attribute, f"{stem}.{index}")
            if _is_list(op.result(index)) and op.name() != _COMBINE:
                lists[op.result(index).id] = op.str_attr(attribute)


def named_values(program: Any) -> Iterator[tuple[str, Any]]:
    """(name in the dialect, value) of a program with names on every value.

    A member of a list that is taken out again comes twice, under one name.
    """
    lists: dict[int, list[str]] = {}
    names: dict[int, str] = {}
    for op in program.global_block().ops:
        attributes = op.attrs()
        for index, result in enumerate(op.results()):
            if not result.initialized():
                continue
            name = str(attributes[f"{pir.NAME_PREFIX}{index}"])
            if op.name() == _COMBINE:
                lists[result.id] = [names.get(v.id, "") for v in op.operands_source()]
                continue
            if _is_list(result):
                continue
            if op.name() == _SPLIT and op.operand_source(0).id in lists:
                name = lists[op.operand_source(0).id][index]
            elif op.name() in ("builtin.parameter", "pd_op.data"):
                name = str(attributes.get("parameter_name") or attributes["name"])
            names[result.id] = name
            yield name, result


def values_of(program: Any) -> dict[str, Any]:
    """Name in the dialect -> value, of a program with names on every value."""
    values: dict[str, Any] = {}
    for name, value in named_values(program):
        values.setdefault(name, value)
    return values


def _is_list(value: Any) -> bool:
    return value.initialized() and value.type().as_vec_type() is not None


def read_forward(
    program: Any,
    learning_rate_name: str | None,
    feeds: Sequence[str],
    fetches: Sequence[str],
    options: Mapping[str, Any],
) -> Forward:
    """The forward part of a program with names on every value."""
    graph = pir.read(program, learning_rate_name)
    sources = {
        str(parameter.name): dialect.source_of(node)
        for node in graph
        if node.op_type in OPTIMIZER_OPS and (parameter := dialect.operand(node, "param"))
    }
    compilation = Compilation(graph, feeds, fetches, options)
    ExtractOptimizer().run(compilation)
    ExtractForward().run(compilation)
    nodes = list(graph)
    readers: dict[str, ir.Node] = {}
    for node in nodes:
        for value in node.inputs:
            if value is not None and value.producer() is None:
                readers.setdefault(str(value.name), node)
    optimizer = compilation.optimizer
    gradients = {} if optimizer is None else optimizer.gradients
    return Forward(
        nodes,
        [
            (number, value)
            for number, node in enumerate(nodes)
            if node.op_type not in dialect.CONSTANT_OPS
            for value in node.outputs
            if value.dtype is not None and (value.uses() or value.is_graph_output())
        ],
        {name: parameter for name, parameter in gradients.items() if parameter in readers},
        readers,
        optimizer,
        sources,
    )


def updated_variables(forward: Forward) -> dict[str, tuple[str, str]]:
    """Variable -> (what it is, line of its update), for all that a training step changes."""
    found: dict[str, tuple[str, str]] = {}
    for update in () if forward.optimizer is None else forward.optimizer.updates:
        if update.parameter not in forward.readers:
            continue
        source = forward.sources[update.parameter]
        found[update.parameter] = (f"weight updated by rule {update.rule}", source)
        for role, name in update.states.items():
            found[name] = (f"{role} of {update.parameter}, updated by rule {update.rule}", source)
    return found


def sources(forward: Forward) -> dict[str, str]:
    """Name of a forward value or of a raw gradient -> where it comes from."""
    found = {
        str(value.name): dialect.source_of(forward.nodes[number])
        for number, value in forward.results
    }
    for gradient, parameter in forward.gradients.items():
        found[gradient] = f"read by {dialect.describe(forward.readers[parameter])}"
    return found


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
            f"CPU kernels draw different ones: {'; '.join(random)}. Pass without_dropout=True to "
            "verify with dropout switched off on both sides, or build the program with "
            "probability 0; feed other random tensors instead of drawing them."
        )


def _is_random(node: ir.Node) -> bool:
    kind = str(node.op_type).removesuffix("_")
    if kind in RANDOM_OPS:
        return True
    if kind not in _DROPOUT or dialect.attribute(node, "is_test", 0):
        return False
    return dialect.scalar_constant(dialect.operand(node, "p")) != 0.0


def switch_dropout_off(program: Any) -> None:
    """Puts the dropouts of a program, and their gradients, into test mode."""
    for op in program.global_block().ops:
        name = op.name().rpartition(".")[2]
        if name.removesuffix("_grad") in _DROPOUT:
            op.set_bool_attr("is_test", True)


def prune(program: Any, wanted: Sequence[Any], training: bool) -> None:
    """Erases what neither `wanted` nor, in training, the optimizer needs."""
    block = program.global_block()
    kept = {value.id for value in wanted}
    for op in reversed(block.ops):
        results = [result for result in op.results() if result.initialized()]
        if any(result.id in kept or not result.use_empty() for result in results):
            continue
        if not _is_root(op, training):
            block.remove_op(op)


def _is_root(op: Any, training: bool) -> bool:
    name = op.name().rpartition(".")[2]
    if name in ("batch_norm_", "sync_batch_norm_"):
        return not op.attrs()["is_test"]
    return name in SIDE_EFFECTS or (training and name in OPTIMIZER_OPS)


def is_overwritten(value: Any) -> bool:
    """True when an operator writes its result over this value."""
    return any(op.name().endswith("_") for op in value.all_used_ops())


def drift_table(
    forward: Forward,
    got: Mapping[str, Sequence[Array]],
    expected: Mapping[str, Sequence[Array]],
    *,
    rtol: float,
    atol: float,
) -> list[OperatorRow]:
    """A row for each result, in program order."""
    differing: set[str] = set()
    rows = []
    for number, value in forward.results:
        node, name = forward.nodes[number], str(value.name)
        source = dialect.source_of(node)
        result = compare(
            name, got=got[name], expected=expected[name], rtol=rtol, atol=atol,
            what=f"result of {node.op_type}", source=source,
        )  # fmt: skip
        verdict = AGREES
        if not result.ok:
            differing.add(name)
            verdict = FOLLOWS if differing.intersection(_read_by(node)) else DIVERGES
        rows.append(OperatorRow(number, str(node.op_type), source, result, verdict))
    return rows


def derivative_rows(
    forward: Forward,
    operands: Mapping[str, tuple[str, str]],
    got: Mapping[str, Sequence[Array]],
    expected: Mapping[str, Sequence[Array]],
    *,
    rtol: float,
    atol: float,
) -> list[OperatorRow]:
    """A row for each differentiable operand of each operator, in the order of backward.

    Args:
        operands: key -> (name of the operator's first result, name of the operand).
        got, expected: key -> the derivative with respect to it.
    """
    numbers = {str(node.name): number for number, node in enumerate(forward.nodes)}
    rows = []
    for key, (result, operand) in operands.items():
        if key not in got:
            continue
        number = numbers[result] if result in numbers else numbers[f"{result}.0"]
        node = forward.nodes[number]
        source = dialect.source_of(node)
        row = compare(
            operand, got=got[key], expected=expected[key], rtol=rtol, atol=atol,
            what=f"derivative of {node.op_type}", source=source,
        )  # fmt: skip
        verdict = AGREES if row.ok else DIVERGES
        rows.append(OperatorRow(number, str(node.op_type), source, row, verdict))
    return sorted(rows, key=lambda row: -row.number)


def _read_by(node: ir.Node) -> Iterator[str]:
    return (str(value.name) for value in node.inputs if value is not None)
