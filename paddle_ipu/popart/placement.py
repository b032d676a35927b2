"""Where operators stand, by PopART's rules: virtual graphs, and pipeline stages in order."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.annotations import PIPELINE_STAGE, VIRTUAL_GRAPH
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.enums import ExchangeStrategy
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.schema import debug_name


def virtual_graph_mode(options: SessionOptions) -> str:
    """The name of the mode, ``Off``, ``Manual`` or another."""
    return str(options.virtualGraphMode.name)


def check_placement(
    graph: ir.Graph, options: SessionOptions, flow: DataFlow, training: bool, ipus: int
) -> dict[str, int]:
    """Checks which operators have virtual graphs and pipeline stages, and the stages' order.

    Args:
        graph: the program.
        options: of the session.
        flow: how many batches a run takes, and what comes back.
        training: as in a training session.
        ipus: IPUs of one replica.

    Returns:
        First result of a node -> pipeline stage, with stages that follow one another on one IPU as
        one; empty without pipelining.

    Raises:
        popart_exception: a placement that PopART refuses.
    """
    placed = _placed(graph)
    if virtual_graph_mode(options) == "Manual":
        _check_all_placed(placed)
    if virtual_graph_mode(options) == "Auto" and len(placed) < ipus:
        raise popart_exception(
            f"[AutoVirtualGraph] Couldn't find enough splits for {ipus} IPUs. Only found "
            f"{max(len(placed) - 1, 0)}. The program has {len(placed)} operators to place, and "
            "each IPU needs one; take a device with fewer IPUs"
        )
    if not options.enablePipelining:
        return {}
    automatic = virtual_graph_mode(options) == "Auto"
    counted = automatic or ipus == 1
    used = ipus if counted else len({_number(node, VIRTUAL_GRAPH) for node in placed})
    if virtual_graph_mode(options) == "Off" or used <= 1:
        raise popart_exception(
            f"Pipelining requires more than 1 IPU (currently {used}) and the 'virtualGraphMode' "
            "session option to not be VirtualGraphMode::Off (currently VirtualGraphMode::"
            f"{virtual_graph_mode(options)})."
        )
    every = [a for a in flow.anchors() if flow.art(a).id().name == "EveryN"]
    if every:
        raise popart_exception(
            f"AnchorReturnType::EVERYN is not valid for pipelined models: anchor '{every[0]}'"
        )
    # The last forward stage has a backward stage of its own only where it also runs by itself.
    split = training and bool(options.createImplicitPipeliningFwdOnlyProgram)
    stages = _equal_parts(placed, ipus) if automatic else _stages(placed, merged=not split)
    _check_order(graph, stages)
    forward = max(stages.values()) + 1
    backward = forward - (0 if split else 1) if training else 0
    _check_depth(forward + backward, options, flow)
    return stages


def check_variables_on_one_graph(graph: ir.Graph, options: SessionOptions, training: bool) -> None:
    """Checks that no variable of a pipeline is read on several virtual graphs.

    Args:
        graph: the program.
        options: of the session.
        training: as in a training session; in inference weights may be constants, which are copied.

    Raises:
        popart_exception: one is.
    """
    is_manual = virtual_graph_mode(options) == "Manual"
    if not options.enablePipelining or not is_manual or (options.constantWeights and not training):
        return
    for name, value in graph.initializers.items():
        found = [_number(use.node, VIRTUAL_GRAPH) for use in value.uses()]
        used = sorted({index for index in found if index is not None})
        if len(used) > 1:
            raise popart_exception(
                f"Can not copy variable tensor {name} between virtual graphs when pipelining. All "
                "pipeline stages using this tensor should be on the same graph. It is read on "
                f"virtual graphs {', '.join(map(str, used))}"
            )


def check_exchange(model: ir.Model, options: SessionOptions, flow: DataFlow) -> None:
    """Checks that the options allow how inputs and anchors overlap with the computation.

    Raises:
        popart_exception: they do not.
    """
    key = "__exchange_strategy/"
    strategies = [flow.art(anchor).exchangeStrategy() for anchor in flow.anchors()]
    strategies += [
        ExchangeStrategy(int(number))
        for name, number in model.metadata_props.items()
        if name.startswith(key)
    ]
    if ExchangeStrategy.OverlapStep in strategies:
        raise popart_exception(
            "ExchangeStrategy::OverlapStep is not yet supported. Take OverlapInnerLoop or "
            "OverlapLoops"
        )
    overlaps = {ExchangeStrategy.OverlapInnerLoop, ExchangeStrategy.OverlapLoops}
    is_set = options.useHostCopyOps and options.enableExplicitMainLoops
    if overlaps.intersection(strategies) and (not is_set or virtual_graph_mode(options) == "Off"):
        raise popart_exception(
            "ExchangeStrategy::OverlapInnerLoop, ExchangeStrategy::OverlapLoops require "
            "SessionOptions::useHostCopyOps, SessionOptions::enableExplicitMainLoops, "
            "VirtualGraphMode::(Manual, Auto, ExecutionPhases) to be enabled."
        )


def check_virtual_graphs(graph: ir.Graph, options: SessionOptions, ipus: int) -> None:
    """Checks that the device has the virtual graphs, which PopART does as it prepares the device.

    Args:
        ipus: IPUs of one replica.

    Raises:
        popart_exception: an operator's virtual graph is none of them.
    """
    if virtual_graph_mode(options) != "Manual":
        return
    for node in graph:
        index = _number(node, VIRTUAL_GRAPH)
        if index is not None and not 0 <= index < ipus:
            raise popart_exception(
                f"{debug_name(node)} has been assigned to an invalid virtual graph {index}. "
                f"numIPUs = {ipus}."
            )


def _number(node: ir.Node, name: str) -> int | None:
    attribute = node.attributes.get(name)
    return None if attribute is None else int(attribute.as_int())


def _key(node: ir.Node) -> str:
    return str(node.outputs[0].name) if node.outputs else ""


def _placed(graph: ir.Graph) -> list[ir.Node]:
    """The nodes that need a place: all but those that depend on nothing that is fed or kept."""
    constant: set[ir.Value] = set()
    nodes = []
    for node in graph:
        if all(value is None or value in constant for value in node.inputs):
            constant.update(node.outputs)
        if _number(node, VIRTUAL_GRAPH) is not None or not constant.issuperset(node.outputs):
            nodes.append(node)
    return nodes


def _check_all_placed(nodes: list[ir.Node]) -> None:
    missing = [node for node in nodes if _number(node, VIRTUAL_GRAPH) is None]
    if len(missing) == len(nodes):
        raise popart_exception(
            "SessionOptions flag virtualGraphMode is VirtualGraphMode::Manual, but no Ops have "
            "been annotated with virtual graph information. This is an inconsistent combination. "
        )
    if missing:
        counts: dict[int, int] = {}
        for node in nodes:
            index = _number(node, VIRTUAL_GRAPH)
            key = -1 if index is None else index
            counts[key] = counts.get(key, 0) + 1
        listed = "".join(f"  {index} : {counts[index]}\n" for index in sorted(counts))
        raise popart_exception(
            "Either all Ops must have their virtual graph ids set, or none must. Op count per "
            f"virtual graph id\n{listed}Ops with no virtual graph id :  \n"
            + "".join(f"  {debug_name(node)}\n" for node in missing)
        )


def _equal_parts(nodes: list[ir.Node], ipus: int) -> dict[str, int]:
    """A stage on each IPU, all of as many nodes; where PopART cuts depends on its own costs."""
    return {_key(node): number * ipus // len(nodes) for number, node in enumerate(nodes)}


def _stages(nodes: list[ir.Node], merged: bool) -> dict[str, int]:
    missing = [node for node in nodes if _number(node, PIPELINE_STAGE) is None]
    if missing and len(missing) < len(nodes):
        raise popart_exception(
            "Only some ops have had their pipeline stage set. Ops missing the pipeline stage:"
            + "".join(f"\n  {debug_name(node)}" for node in missing)
        )
    stages: dict[str, int] = {}
    inside: dict[int, list[ir.Node]] = {}
    for node in nodes:
        stage = _number(node, VIRTUAL_GRAPH if missing else PIPELINE_STAGE) or 0
        if stage < 0:
            raise popart_exception(
                f"Op has bad pipeline stage {stage}: {debug_name(node)}, expected 0 or more"
            )
        stages[_key(node)] = stage
        inside.setdefault(stage, []).append(node)
    index_of: dict[int, int] = {}
    for stage, of_stage in sorted(inside.items()):
        used = {_number(node, VIRTUAL_GRAPH) or 0 for node in of_stage}
        if len(used) > 1:
            raise popart_exception(
                f"Ops [{', '.join(map(debug_name, of_stage))}] have the same pipeline stage "
                f"{stage}, but different virtual graph ids {sorted(used)}. All ops with the same "
                "pipeline stage must also have the same virtual graph id"
            )
        index_of[stage] = used.pop()
    for stage in range(len(index_of)):
        if stage not in index_of:
            raise popart_exception(
                f"The set of pipeline stages for all Ops contains {len(index_of)} stages, but "
                f"stage {stage} is missing"
            )
    if not merged:
        return stages
    joined = merged_stages([index_of[stage] for stage in range(len(index_of))])
    return {name: joined[stage] for name, stage in stages.items()}


def merged_stages(ipus: Sequence[int]) -> list[int]:
    """The number that each stage gets when those that follow one another on one IPU are joined.

    Args:
        ipus: the IPU of each stage.
    """
    numbers = [0]
    for before, after in zip(ipus, ipus[1:], strict=False):
        numbers.append(numbers[-1] + (before != after))
    return numbers


def _check_order(graph: ir.Graph, stages: dict[str, int]) -> None:
    for node in graph:
        for value in node.inputs:
            producer = None if value is None else value.producer()
            if producer is None or value is None:
                continue
            made, read = stages.get(_key(producer)), stages.get(_key(node))
            if made is not None and read is not None and made > read:
                raise popart_exception(
                    f"Tensor {value.name} is consumed in an earlier pipeline stage than it is "
                    "produced"
                )


def _check_depth(stages: int, options: SessionOptions, flow: DataFlow) -> None:
    accumulating = options.enableGradientAccumulation
    depth = options.accumulationFactor if accumulating else flow.batchesPerStep()
    if depth < stages:
        name = "gradient accumulation factor" if accumulating else "batchesPerStep"
        raise popart_exception(
            f"For pipelining, depth ({name}) must equal at least the number of pipeline stages "
            f"({stages})"
        )
