"""Checks the placement of operators by PopART's rules, to report it in the program's terms.

With manual sharding every operator has a virtual graph within the IPUs. With pipelining every
operator also has a stage, a stage is on one IPU, stages are numbered without gaps, and a tensor is
not read in an earlier stage than it is written in. Constants are placed with their first reader,
casts that AMP inserted with what they convert.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.dialect.dialect import attribute, describe
from paddle_ipu.errors import InvalidProgramError
from paddle_ipu.passes.pass_base import Compilation
from paddle_ipu.popart.placement import merged_stages

INDEX, STAGE = "ipu_index", "ipu_stage"
_SHOWN = 5


class CheckPlacement:
    """Raises on a placement that PopART would refuse; without manual sharding it does nothing.

    Raises:
        InvalidProgramError: the placement breaks one of the rules.
    """

    name = "check_placement"
    requires = ("operators placed",)
    ensures = ("placement checked",)

    def run(self, compilation: Compilation) -> bool:
        if not compilation.options["enable_manual_shard"]:
            return False
        changed = _place_constants(compilation.graph)
        changed = _place_casts(compilation.graph) or changed
        nodes = [n for n in compilation.graph if n.op_type not in dialect.CONSTANT_OPS]
        _check_indices(nodes, compilation)
        _check_blocks(nodes)
        if compilation.options["enable_pipelining"]:
            changed = _stages_from_indices(compilation.graph) or changed
            _check_stages(nodes, compilation)
        return changed


def _place_constants(graph: ir.Graph) -> bool:
    changed = False
    for node in graph:
        if node.op_type in dialect.CONSTANT_OPS and INDEX not in node.attributes:
            reader = next((use.node for use in node.outputs[0].uses()), None)
            for name in (INDEX, STAGE) if reader is not None else ():
                if reader is not None and name in reader.attributes:
                    node.attributes.add(dialect.make_attribute(name, attribute(reader, name)))
                    changed = True
    return changed


def _place_casts(graph: ir.Graph) -> bool:
    """Places casts that AMP inserted outside of guards with their operand or their reader."""
    changed = False
    for node in graph:
        if node.op_type != "cast" or INDEX in node.attributes or node.inputs[0] is None:
            continue
        maker = node.inputs[0].producer()
        near = [maker, *(use.node for use in node.outputs[0].uses())]
        placed = next((n for n in near if n is not None and INDEX in n.attributes), None)
        for name in (INDEX, STAGE) if placed is not None else ():
            if placed is not None and name in placed.attributes:
                node.attributes.add(dialect.make_attribute(name, attribute(placed, name)))
                changed = True
    return changed


def _listed(nodes: Sequence[ir.Node]) -> str:
    shown = "; ".join(describe(node) for node in nodes[:_SHOWN])
    return shown + (f"; and {len(nodes) - _SHOWN} more" if len(nodes) > _SHOWN else "")


def ipus_of_a_replica(options: Mapping[str, Any]) -> int:
    """The number of IPUs of one replica, by the strategy's options."""
    replicas = options["replicated_graph_count"] if options["enable_replicated_graphs"] else 1
    return int(options["num_ipus"]) // int(replicas)


def _check_indices(nodes: Sequence[ir.Node], compilation: Compilation) -> None:
    num_ipus = ipus_of_a_replica(compilation.options)
    placed = [node for node in nodes if INDEX in node.attributes]
    if not placed:
        raise InvalidProgramError(
            "SessionOptions flag virtualGraphMode is VirtualGraphMode::Manual, but no Ops have "
            "been annotated with virtual graph information. Build the model inside "
            "paddle.static.ipu_shard_guard(index=...), or turn enable_manual_shard off."
        )
    if len(placed) != len(nodes):
        missing = [node for node in nodes if INDEX not in node.attributes]
        raise InvalidProgramError(
            "Either all Ops must have their virtual graph ids set, or none must. "
            f"{len(missing)} operator(s) stand outside of every ipu_shard_guard: {_listed(missing)}"
        )
    outside = [node for node in nodes if not 0 <= int(attribute(node, INDEX)) < num_ipus]
    if outside:
        raise InvalidProgramError(
            f"{describe(outside[0])} has been assigned to an invalid virtual graph "
            f"{attribute(outside[0], INDEX)}. numIPUs = {num_ipus}"
            + (" for each replica" if num_ipus != compilation.options["num_ipus"] else "")
            + ". Raise num_ipus or lower the guard's index."
        )


def _check_blocks(nodes: Sequence[ir.Node]) -> None:
    """A block runs where its operator does."""
    for node in nodes:
        for inner in (inner for block in dialect.blocks(node) for inner in dialect.walk(block)):
            for name in (INDEX, STAGE):
                place = attribute(inner, name, attribute(node, name))
                if place != attribute(node, name):
                    raise InvalidProgramError(
                        f"{describe(inner)} has {name} {place} inside a block of {describe(node)}, "
                        f"which has {attribute(node, name)}. A block runs on one IPU: put the "
                        "ipu_shard_guard around the whole cond or while_loop."
                    )


def _stages_from_indices(graph: ir.Graph) -> bool:
    """Without any stage in the program, each IPU is one, as in PopART."""
    nodes = [node for node in graph if INDEX in node.attributes]
    if any(STAGE in node.attributes for node in nodes):
        return False
    for node in nodes:
        node.attributes.add(dialect.make_attribute(STAGE, attribute(node, INDEX)))
    return bool(nodes)


def _check_stages(nodes: Sequence[ir.Node], compilation: Compilation) -> None:
    missing = [node for node in nodes if STAGE not in node.attributes]
    if missing:
        raise InvalidProgramError(
            "Only some ops have had their pipeline stage set. Ops missing the pipeline stage: "
            + _listed(missing)
        )
    index_of: dict[int, int] = {}
    for node in nodes:
        stage, index = int(attribute(node, STAGE)), int(attribute(node, INDEX))
        if index_of.setdefault(stage, index) != index:
            raise InvalidProgramError(
                f"Ops have the same pipeline stage {stage}, but different virtual graph ids "
                f"{index_of[stage]} and {index} ({describe(node)}). Give each stage one IPU."
            )
    for stage in range(len(index_of)):
        if stage not in index_of:
            raise InvalidProgramError(
                f"The set of pipeline stages for all Ops contains {len(index_of)} stages, but "
                f"stage {stage} is missing. Number the stages 0, 1, 2, ... in ipu_shard_guard."
            )
    for node in nodes:
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if producer is not None and int(attribute(producer, STAGE, 0)) > int(
                attribute(node, STAGE)
            ):
                raise InvalidProgramError(
                    f"Tensor {value.name if value else ''} is consumed in an earlier pipeline "
                    f"stage than it is produced: {describe(producer)} is in stage "
                    f"{attribute(producer, STAGE)}, {describe(node)} in stage "
                    f"{attribute(node, STAGE)}."
                )
    _check_depth([index_of[stage] for stage in range(len(index_of))], compilation)


def _check_depth(ipus: Sequence[int], compilation: Compilation) -> None:
    """Checks that there are enough micro-batches; `ipus` has the IPU of each stage."""
    options = compilation.options
    split = compilation.training and bool(options["create_implicit_pipelining_fwd_only_program"])
    # Stages that follow one another on one IPU are one.
    forward_stages = len(ipus) if split else max(merged_stages(ipus)) + 1
    # Each forward stage but the last has a backward stage of its own.
    backward_stages = forward_stages - (0 if split else 1) if compilation.training else 0
    stages = forward_stages + backward_stages
    accumulating = compilation.training and bool(options["enable_gradient_accumulation"])
    name = "gradient accumulation factor" if accumulating else "batchesPerStep"
    option = "accumulation_factor" if accumulating else "batches_per_step"
    depth = int(options[option])
    if depth < stages:
        raise InvalidProgramError(
            f"For pipelining, depth ({name}) must equal at least the number of pipeline stages "
            f"({stages}), got {depth}: {forward_stages} forward stage(s)"
            + (f" and {backward_stages} backward" if compilation.training else "")
            + f". Set {option} to at least {stages}, or use fewer stages."
        )
