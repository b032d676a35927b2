"""What a session's program is, in texts, to say how it differs from that of a saved executable."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import onnx_ir as ir

from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.xla.step import surroundings
from paddle_ipu.xla.step.step_program import StepProgram

Description = Mapping[str, Mapping[str, str]]
"""Part -> name -> what it is."""

_ELSEWHERE = ("cachePath", "enableEngineCaching")
"""Options that say where executables are kept."""
_MOST = 3
"""Differences that are told of each part."""


def describe(
    graph: ir.Graph,
    program: StepProgram,
    flow: DataFlow,
    options: SessionOptions,
    optimizer: Optimizer | PaddleOptimizer | None,
) -> Description:
    """The parts of a session's program."""
    where = dict(surroundings.surroundings())
    where["source of paddle_ipu"] = surroundings.source_digest()
    values = {
        field.name: repr(getattr(options, field.name))
        for field in dataclasses.fields(options)
        if field.name not in _ELSEWHERE
    }
    return {
        "surroundings": {name: str(value) for name, value in where.items()},
        "session": {
            "loss": str(program.loss),
            "batchesPerStep": str(program.batches_per_step),
            "replicas": str(program.all_replicas),
        },
        "option": values,
        "optimizer": _optimizer(optimizer),
        "input": {name: str(kind) for name, kind in program.inputs.items()},
        "weight": {name: _weight(program, name) for name in program.weights},
        "anchor": {name: repr(flow.art(name)) for name in flow.anchors()},
        "operator": {
            str(node.outputs[0].name if node.outputs else node.name): _operator(node)
            for node in graph
        },
    }


def differences(saved: object, own: Description) -> list[str]:
    """How a saved description differs from a session's own, in a sentence each.

    Args:
        saved: what JSON gave for the description of another session.
        own: of this one.
    """
    found = []
    for part, rows in own.items():
        others = saved.get(part) if isinstance(saved, Mapping) else None
        if not isinstance(others, Mapping):
            return ["its description is none of this version"]
        names = [name for name in {**rows, **others} if rows.get(name) != others.get(name)]
        told = [f"{part} {n} is {_short(others.get(n))}, not {_short(rows.get(n))}" for n in names]
        found += told[:_MOST]
        if len(told) > _MOST:
            found.append(f"{len(told) - _MOST} more differences of kind '{part}'")
    return found


def _short(text: object) -> str:
    words = "not there" if text is None else str(text)
    return words if len(words) <= 200 else words[:200] + "..."


def _weight(program: StepProgram, name: str) -> str:
    values = program.replica_values.get(name)
    shared = "" if values is None else f", by replica of the groups {values.groups}"
    return f"{program.given(name)}{shared}"


def _operator(node: ir.Node) -> str:
    reads = ", ".join("" if value is None else str(value.name) for value in node.inputs)
    attributes = ", ".join(
        f"{name}={attribute.value}"
        for name, attribute in sorted(node.attributes.items())
        if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.TENSOR)
    )
    return f"{node.domain or 'ai.onnx'}.{node.op_type}({reads}) {{{attributes}}}"


def _optimizer(optimizer: Optimizer | PaddleOptimizer | None) -> dict[str, str]:
    """Its kind and modes, and values that are constant."""
    if not isinstance(optimizer, Optimizer):
        return {} if optimizer is None else {"kind": type(optimizer).__name__}
    rows = {"kind": type(optimizer).__name__}
    rows |= {what: str(mode) for what, mode in optimizer.modes().items()}
    for name, values in optimizer.maps.items():
        default = values.getDefault()
        rows[name] = str(default.val()) if default.isConst() else "not constant"
    return rows
