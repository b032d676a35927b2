"""Finds what forward writes to the variables that a program keeps, and redirects later reads.

    batch_norm_(x, mean, variance)           mean_out is mean's value in the next run y =
    increment_(count);  z = count * 2    z reads y

A PIR program has one value for each version of a variable, but in-place operators write to the
memory of an operand: later readers of the operand read what was written. ProgramDesc programs name
the variable of each value; their reader has resolved versions already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import NotSupported
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.passes.support import roles
from paddle_ipu.passes.support.update_operators import is_update, updated

_STATISTICS = {"mean": 1, "variance": 2}

IN_PLACE: Mapping[str, Mapping[str, int]] = {
    "array_pop": {"array": 0},
    "array_write_": {"array": 0},
    "assign_out_": {"output": 0},
    "assign_value_": {"output": 0},
    "average_accumulates_": {
        "in_sum_1": 0, "in_sum_2": 1, "in_sum_3": 2, "in_num_accumulates": 3,
        "in_old_num_accumulates": 4, "in_num_updates": 5,
    },
    "batch_norm_": _STATISTICS,
    "fake_quantize_dequantize_moving_average_abs_max_": {"in_state": 2, "in_accum": 3},
    "fake_quantize_moving_average_abs_max_": {"in_state": 2, "in_accum": 3},
    "fake_quantize_range_abs_max_": {"in_scale": 1},
    "increment_": {"x": 0},
    "moving_average_abs_max_scale_": {"in_state": 2, "in_accum": 3},
    "set_value_": {"x": 0},
    "set_value_with_tensor_": {"x": 0},
    "sync_batch_norm_": _STATISTICS,
}  # fmt: skip
"""In-place operators of PIR -> overwritten operand -> index of the result."""

_LOSS_SCALING = frozenset({"check_finite_and_unscale_", "update_loss_scaling_"})


@dataclass(frozen=True, slots=True)
class Writes:
    """What forward overwrites.

    Attributes:
        states: parameter or state -> its value in the next run.
        newest: any overwritten value of a PIR program, states included -> the last value.
    """

    states: Mapping[str, ir.Value]
    newest: Mapping[str, ir.Value]


def find(compilation: Compilation) -> Writes:
    """What forward writes to parameters and states, and to other values of a PIR program.

    Readers after an in-place operator are redirected to its result. The optimizer's own writes are
    left to ``extract_optimizer``.

    Raises:
        NotSupported: a write to a parameter that the optimizer updates too, or one of an operator
            beside the optimizer's updates.
    """
    graph = compilation.graph
    kept = {
        str(value.name): value
        for value in graph.inputs
        if value.meta.get(dialect.ROLE) in (dialect.PARAMETER, dialect.STATE)
    }
    if any(roles.role_of(node) is not None for node in graph):
        final = newest = _by_variable(graph, kept, training=compilation.training)
    else:
        newest = _by_operand(graph)
        final = {name: value for name, value in newest.items() if name in kept}
    trained = {
        str(parameter.meta.get(dialect.VARIABLE, parameter.name))
        for node in graph
        if compilation.training and is_update(node)
        for parameter in updated(node)
    }
    for name in final:
        if name in trained:
            raise NotSupported(
                f"{_place(final[name])} writes {name!r}, which the optimizer updates too. Only one "
                "of them can: stop the gradient of the parameter, or write to another variable."
            )
    return Writes(final, newest)


def _place(value: ir.Value) -> str:
    producer = value.producer()
    assert producer is not None
    return dialect.describe(producer)


def _by_operand(graph: ir.Graph) -> dict[str, ir.Value]:
    """The writes of a PIR program: overwritten value -> its last value."""
    origin: dict[int, ir.Value] = {}
    newest: dict[int, ir.Value] = {}
    versions: dict[str, list[ir.Value]] = {}
    for node in graph:
        if is_update(node) or str(node.op_type).endswith(("_grad", "_grad_")):
            continue
        for index, value in enumerate(node.inputs):
            if value is None:
                continue
            later = newest.get(id(origin.get(id(value), value)))
            if later is not None and later is not value:
                node.replace_input_with(index, later)
        for value, result in overwritten(node):
            root = origin.get(id(value), value)
            versions.setdefault(str(root.name), [root]).append(result)
            origin[id(result)] = root
            newest[id(root)] = result
    return {str(value.name): known[-1] for known in versions.values() for value in known[:-1]}


def overwritten(node: ir.Node) -> Iterator[tuple[ir.Value, ir.Value]]:
    """(operand, the result that overwrites it), for each operand that a node overwrites."""
    if str(node.op_type) in ("batch_norm_", "sync_batch_norm_") and uses_running_statistics(node):
        return
    for name, position in IN_PLACE.get(str(node.op_type), {}).items():
        operand = dialect.operand(node, name)
        if operand is not None and position < len(node.outputs):
            yield operand, node.outputs[position]
    for index, position in node.meta.get(dialect.OVERWRITES, {}).items():
        operand = node.inputs[index]
        assert operand is not None
        yield operand, node.outputs[position]


def uses_running_statistics(node: ir.Node) -> bool:
    """Whether a batch normalisation reads its running statistics and does not update them."""
    is_test = bool(dialect.attribute(node, "is_test", 0))
    batch_in_test = bool(dialect.attribute(node, "trainable_statistics", 0))
    return (is_test and not batch_in_test) or bool(dialect.attribute(node, "use_global_stats", 0))


def _by_variable(
    graph: ir.Graph, kept: Mapping[str, ir.Value], *, training: bool
) -> dict[str, ir.Value]:
    """The writes of a ProgramDesc program."""
    writes: dict[str, ir.Value] = {}
    # Adamax updates the power of its beta by a separate operator.
    own = {
        value.meta.get(dialect.VARIABLE)
        for node in graph
        if is_update(node)
        for value in node.inputs
        if value is not None
    }
    for node in graph:
        role = roles.role_of(node) or roles.FORWARD
        if is_update(node) or role & roles.BACKWARD or node.op_type in _LOSS_SCALING:
            continue
        for value in node.outputs:
            name = str(value.meta.get(dialect.VARIABLE))
            if name not in kept:
                continue
            if role & roles.OPTIMIZE:
                if not training or name in own:
                    continue
                raise NotSupported(
                    f"{dialect.describe(node)} writes {name!r} beside the optimizer's updates, "
                    "which is not supported: keep averages of weights in Python, or in a program "
                    "for the CPU."
                )
            writes[name] = value
    return writes
