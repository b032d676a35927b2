"""What a session asks of its options, its device and the placement of its operators."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.instances.instance import this_instance
from paddle_ipu.popart.annotations import RECOMPUTE
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.enums import RecomputationType, RecomputeType
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.schema import schema_of_node
from paddle_ipu.popart.shape_inference.constants import constant_of

_WIDE_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.UINT64})

INDEX, STAGE = "__ipu_number", "__pipeline_stage"


def replication_factor(options: SessionOptions) -> int:
    """Replicas of the graph in this process."""
    return int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1


def check_options(options: SessionOptions, training: bool, num_ipus: int) -> None:
    """Checks what options and device say about each other.

    Raises:
        popart_exception: they contradict each other.
    """
    if options.accumulationFactor > 1 and not options.enableGradientAccumulation:
        raise popart_exception(
            "enableGradientAccumulation is false, but accumulationFactor > 1. Either enable "
            "gradient accumulation, or set the accumulation factor to 1."
        )
    if options.enableGradientAccumulation and not training:
        raise popart_exception("Gradient Accumulation only available when training.")
    if options.replicatedGraphCount > 1 and not options.enableReplicatedGraphs:
        raise popart_exception(
            "enableReplicatedGraphs is false, but replicatedGraphCount > 1. Either enable "
            "replicated graphs, or set the replicated graph count to 1."
        )
    if options.createImplicitPipeliningFwdOnlyProgram:
        _check_forward_only(options)
    replicas = replication_factor(options)
    if num_ipus % replicas:
        raise popart_exception(
            "For replicated graphs, the number of IPUs must be divisible by the replication "
            f"factor. Got {num_ipus} IPU(s) for {replicas} replicas."
        )
    if _mode(options) == "Off" and num_ipus not in (1, replicas):
        raise popart_exception(
            f"If virtual graphs are disabled, the replicated graph count ({replicas}) needs to be "
            f"equal to the number of IPUs ({num_ipus})"
        )


def instances_of(options: SessionOptions) -> int:
    """How many processes share the replicas.

    Raises:
        popart_exception: the options of distributed replicas contradict one another, or what
            ``poprun`` says of this process.
    """
    if not options.enableDistributedReplicatedGraphs:
        return 1
    total, offset = int(options.globalReplicationFactor), int(options.globalReplicaOffset)
    local = replication_factor(options)
    if total < 1 or total % local:
        raise popart_exception(
            f"Invalid globalReplicationFactor value: {total}, it must be a multiple of the "
            f"replicatedGraphCount of each process ({local})"
        )
    if offset > total:
        raise popart_exception(
            f"Global replica offset: {offset}, is larger than global replication factor: {total}"
        )
    instance = this_instance()
    if total == local:
        expected = 0
    else:
        expected = instance.index * local
        if instance.count * local != total:
            raise popart_exception(
                f"Invalid globalReplicationFactor value: {total}, as {instance.count} instance(s) "
                f"of {local} replica(s) have {instance.count * local}. Start the program with "
                f"poprun --num-instances={total // local} --num-replicas={total}"
            )
    if offset != expected:
        raise popart_exception(
            f"Global replica offset: {offset}, is not that of instance {instance.index}, whose "
            f"first replica is number {expected}: popdist.getReplicaIndexOffset() gives it"
        )
    return total // local


def check_recomputation(graph: ir.Graph, options: SessionOptions) -> None:
    """Checks that operators are marked as recomputed only where nothing else says what is.

    Raises:
        popart_exception: they are marked, and an option or the pipeline chooses, too.
    """
    marked = [
        str(node.name)
        for node in graph
        if RECOMPUTE in node.attributes
        and node.attributes[RECOMPUTE].value == int(RecomputeType.Recompute)
    ]
    if not marked:
        return
    if options.enablePipelining:
        raise popart_exception(
            "When pipelining is enabled, user annotation for recomputation is not allowed. Leave "
            f"out recomputeOutput, as on {marked[0]}, and set autoRecomputation to Pipeline"
        )
    if options.autoRecomputation != RecomputationType.NoRecompute:
        raise popart_exception(
            "A mixture of auto and manual recomputation is not supported. autoRecomputation is "
            f"{options.autoRecomputation.name}, and {marked[0]} is marked as recomputed"
        )


def check_types(graph: ir.Graph, options: SessionOptions) -> None:
    """Checks that the device has every tensor's element type.

    Raises:
        popart_exception: integers of 64 bits, and the options do not narrow them.
    """
    if options.enableSupportedDataTypeCasting:
        return
    values = [*graph.inputs, *graph.initializers.values()]
    values += [value for node in graph for value in node.outputs]
    for value in values:
        if value.dtype in _WIDE_INTEGERS and not _only_said(value):
            raise popart_exception(
                f"The data type {value.dtype.name} is not supported in Poplar: tensor "
                f"'{value.name}'. Cast it to a type of 32 bits, or set "
                "enableSupportedDataTypeCasting, which narrows it"
            )


def check_clips(options: SessionOptions, optimizer: Any) -> None:
    """Checks that the clips of PopART's optimizers have a place in the schedule.

    Raises:
        popart_exception: a pipeline's updates, each by itself, cannot wait for a norm of all.
    """
    serial = options.accumulateOuterFragmentSettings.schedule.name == "Serial"
    if options.enablePipelining and serial and getattr(optimizer, "clip_norm_settings", None):
        raise popart_exception(
            "Incompatible accumulateOuterFragmentSchedule used with gradient clipping, "
            "SessionOptions::accumulateOuterFragmentSettings.schedule can not be set to "
            "AccumulateOuterFragmentSchedule::Serial. A strategy sets another by "
            "{'accumulate_outer_fragment': {0: []}}"
        )


def check_loss_scaling(
    options: SessionOptions, optimizer: Any, differentiated: Collection[str]
) -> None:
    """Checks what automatic loss scaling asks of a session in which it is enabled.

    Args:
        options: of the session.
        optimizer: of the training session; None in inference.
        differentiated: tensors that have a gradient.

    Raises:
        popart_exception: it cannot be done in this session.
    """
    prefix = "[AutomaticLossScale transform] "
    if optimizer is None:
        raise popart_exception(prefix + "Only compatible when doing training")
    if not isinstance(optimizer, PaddleOptimizer):
        if optimizer.lossScaling().isConst():
            raise popart_exception(prefix + "The optimizer must have non-const loss scaling")
        if getattr(optimizer, "scaled_optimizer_state", False):
            raise popart_exception(
                prefix + "Not compatible with an optimizer whose state is scaled by the loss "
                "scaling (scaled_optimizer_state)"
            )
    if options.enablePipelining and not options.enableGradientAccumulation:
        raise popart_exception(
            prefix + "Automatic loss scaling is not currently supported when the "
            "'enablePipelining' SessionOption is set to 'true', but the "
            "'enableGradientAccumulation' SessionOption is set to 'false'"
        )
    named = options.automaticLossScalingSettings.toTrackTensors or ()
    missing = sorted(name for name in named if name not in differentiated)
    if missing:
        raise popart_exception(
            prefix + f"toTrackTensors names {', '.join(missing)}, of which the loss has no gradient"
        )


def _only_said(value: ir.Value) -> bool:
    """Whether a tensor is a constant that operators take when they are built, like a shape."""
    if not (value.is_initializer() or constant_of(value) is not None):
        return False
    schemas = [(use.idx, schema_of_node(use.node)) for use in value.uses()]
    return bool(schemas) and all(s is not None and i in s.constant_inputs for i, s in schemas)


def _check_forward_only(options: SessionOptions) -> None:
    refused = "Implicit pipelining forward-only program is not supported"
    if not options.enablePipelining:
        raise popart_exception(f"{refused} without implicit pipelining.")
    if options.explicitPipeliningEnabled():
        raise popart_exception(f"{refused} with explicit pipelining.")
    if not options.enableGradientAccumulation:
        raise popart_exception(f"{refused} without gradient accumulation.")


def _mode(options: SessionOptions) -> str:
    return str(options.virtualGraphMode.name)


def check_placement(
    graph: ir.Graph, options: SessionOptions, flow: DataFlow, training: bool, ipus: int
) -> dict[str, int]:
    """Checks virtual graphs and pipeline stages.

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
    if _mode(options) == "Manual":
        _check_indices(placed, ipus)
    if not options.enablePipelining:
        return {}
    automatic = _mode(options) == "Auto"
    used = ipus if automatic else len({_number(node, INDEX) for node in placed})
    if _mode(options) == "Off" or used <= 1:
        raise popart_exception(
            f"Pipelining requires more than 1 IPU (currently {used}) and the 'virtualGraphMode' "
            "session option to not be VirtualGraphMode::Off (currently VirtualGraphMode::"
            f"{_mode(options)})."
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


def _number(node: ir.Node, name: str) -> int | None:
    found = node.attributes.get(name)
    return None if found is None else int(found.as_int())


def _key(node: ir.Node) -> str:
    return str(node.outputs[0].name) if node.outputs else ""


def _placed(graph: ir.Graph) -> list[ir.Node]:
    """The nodes that need a place: all but those that depend on nothing that is fed or kept."""
    constant: set[ir.Value] = set()
    nodes = []
    for node in graph:
        if all(value is None or value in constant for value in node.inputs):
            constant.update(node.outputs)
        if _number(node, INDEX) is not None or not constant.issuperset(node.outputs):
            nodes.append(node)
    return nodes


def _check_indices(nodes: list[ir.Node], ipus: int) -> None:
    missing = [node for node in nodes if _number(node, INDEX) is None]
    if len(missing) == len(nodes):
        raise popart_exception(
            "SessionOptions flag virtualGraphMode is VirtualGraphMode::Manual, but no Ops have "
            "been annotated with virtual graph information. This is an inconsistent combination. "
        )
    if missing:
        counts: dict[int, int] = {}
        for node in nodes:
            index = _number(node, INDEX)
            key = -1 if index is None else index
            counts[key] = counts.get(key, 0) + 1
        listed = "".join(f"  {index} : {counts[index]}\n" for index in sorted(counts))
        raise popart_exception(
            "Either all Ops must have their virtual graph ids set, or none must. Op count per "
            f"virtual graph id\n{listed}Ops with no virtual graph id :  \n"
            + "".join(f"  {node.op_type} ({node.name})\n" for node in missing)
        )
    for node in nodes:
        index = _number(node, INDEX)
        if index is not None and not 0 <= index < ipus:
            raise popart_exception(
                f"{node.op_type} ({node.name}) has been assigned to an invalid virtual graph "
                f"{index}. numIPUs = {ipus}."
            )


def _equal_parts(nodes: list[ir.Node], ipus: int) -> dict[str, int]:
    """A stage on each IPU, all of as many nodes; where PopART cuts depends on its own costs."""
    return {_key(node): number * ipus // len(nodes) for number, node in enumerate(nodes)}


def _stages(nodes: list[ir.Node], merged: bool) -> dict[str, int]:
    missing = [node for node in nodes if _number(node, STAGE) is None]
    if missing and len(missing) < len(nodes):
        raise popart_exception(
            "Only some ops have had their pipeline stage set. Ops missing the pipeline stage:"
            + "".join(f"\n  {node.op_type} ({node.name})" for node in missing)
        )
    stages: dict[str, int] = {}
    index_of: dict[int, int] = {}
    for node in nodes:
        index = _number(node, INDEX) or 0
        stage = _number(node, STAGE)
        stage = index if stage is None else stage
        stages[_key(node)] = stage
        if index_of.setdefault(stage, index) != index:
            raise popart_exception(
                f"Ops have the same pipeline stage {stage}, but different virtual graph ids "
                f"{index_of[stage]} and {index}. All Ops with the same pipeline stage must also "
                "have the same virtual graph id"
            )
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
