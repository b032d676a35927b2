"""Checks of a session's options by themselves, and of what the device makes of them."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from paddle_ipu.errors import popart_exception
from paddle_ipu.instances.instance import this_instance
from paddle_ipu.options.table import GCL_OPTIONS, KAHN_TIE_BREAKERS
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.names import reservedPrefixes
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.placement import virtual_graph_mode

_PHASED = "ExecutionPhases"
_FEWEST_IO_TILES = 32
_DOT_CHECKS = frozenset({"ALL", "FWD0", "FWD1", "BWD0", "PREALIAS", "MAINLOOPS", "FINAL"})


def replication_factor(options: SessionOptions) -> int:
    """Replicas of the graph in this process."""
    return int(options.replicatedGraphCount) if options.enableReplicatedGraphs else 1


def check_options(options: SessionOptions, training: bool, num_ipus: int) -> None:
    """Checks that options and device agree.

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
    _check_pipelining(options)
    if options.executionPhaseSettings.phases > 1 and virtual_graph_mode(options) != _PHASED:
        raise popart_exception(
            "> 1 execution phases requires VirtualGraphMode::ExecutionPhases. virtualGraphMode is "
            f"{virtual_graph_mode(options)}, executionPhaseSettings.phases "
            f"{options.executionPhaseSettings.phases}"
        )
    _check_copies(options)
    _check_schedule(options, training)
    replicas = replication_factor(options)
    if num_ipus % replicas:
        raise popart_exception(
            "For replicated graphs, the number of IPUs must be divisible by the replication "
            f"factor. Got {num_ipus} IPU(s) for {replicas} replicas."
        )
    if virtual_graph_mode(options) == "Off" and num_ipus not in (1, replicas):
        raise popart_exception(
            f"If virtual graphs are disabled, the replicated graph count ({replicas}) needs to be "
            f"equal to the number of IPUs ({num_ipus})"
        )
    if virtual_graph_mode(options) == "Auto" and num_ipus > replicas:
        _check_split_ratios(options.virtualGraphSplitRatios, num_ipus // replicas)
    unknown = sorted(options.gclOptions.keys() - set(GCL_OPTIONS))
    if unknown:
        raise popart_exception(
            f"'{unknown[0]}' is not a valid gcl option. Valid options are "
            f"{', '.join(sorted(GCL_OPTIONS))}"
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
    if total < 1:
        raise popart_exception(
            f"Invalid globalReplicationFactor value: {total}, must be greater or equal than 1. It "
            "is the number of replicas of all processes"
        )
    if offset < 0:
        raise popart_exception(
            f"Invalid globalReplicaOffset value: {offset}, must be greater or equal than 0: "
            "popdist.getReplicaIndexOffset() gives it"
        )
    if local > total:
        raise popart_exception(
            f"Invalid local replication factor: {local}, larger than global replication factor: "
            f"{total}. replicatedGraphCount has those of this process"
        )
    if total % local:
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


def check_local_replicas(options: SessionOptions) -> None:
    """Checks that a process with replicas among those of several has more than one.

    Raises:
        popart_exception: it has one, which `enableReplicatedGraphs` is not for.
    """
    distributed = options.enableDistributedReplicatedGraphs and options.enableReplicatedGraphs
    if distributed and options.replicatedGraphCount == 1:
        raise popart_exception(
            "Local replicated graphs enabled but replication factor is 1. Set "
            "enableReplicatedGraphs to False, as popdist.popart.configureSessionOptions does"
        )


def check_automatic_recomputation(options: SessionOptions) -> None:
    """Checks that the stages of a pipeline are computed again only where there are stages.

    Raises:
        popart_exception: there are none, or they are asked for in explicit recomputation alone.
    """
    if options.autoRecomputation.name != "Pipeline" or options.executionPhaseSettings.phases > 1:
        return
    explicit, implicit = options.explicitPipeliningEnabled(), options.implicitPipeliningEnabled()
    if not explicit and (options.explicitRecomputation or not implicit):
        raise popart_exception(
            "Invalid RecomputationType::Pipeline in autoAnnotate when using implicit pipelining. "
            f"enablePipelining is {options.enablePipelining}, explicitRecomputation "
            f"{options.explicitRecomputation}; set autoRecomputation to Standard, or pipeline"
        )


def check_main_loops(options: SessionOptions, flow: DataFlow) -> None:
    """Checks that a step whose loops are operators returns its anchors in a way they have.

    Raises:
        popart_exception: an anchor comes back every n-th time.
    """
    if not options.enableExplicitMainLoops:
        return
    for anchor in flow.anchors():
        if flow.art(anchor).id().name == "EveryN":
            raise popart_exception(
                f'[MainLoops] AnchorReturnType::EveryN for Tensor "{anchor}" is unsupported '
                "when explicit main loops are enabled. Supported anchor return types are "
                "AnchorReturnTypeId::All and AnchorReturnTypeId::Sum."
            )


def check_io_tiles(options: SessionOptions, tiles: int | None) -> None:
    """Checks that an IPU has the tiles for input and output; without virtual graphs none has.

    Args:
        options: of the session.
        tiles: of an IPU; None where it is not known.

    Raises:
        popart_exception: it has not, or that number cannot be set aside.
    """
    asked = int(options.numIOTiles)
    if virtual_graph_mode(options) == "Off" or asked <= 0:
        return
    if asked < _FEWEST_IO_TILES or asked % 2:
        raise popart_exception(
            f"{asked} is an invalid number of IO tiles. Number of IO tiles must be an even number "
            f"and >= {_FEWEST_IO_TILES}."
        )
    if tiles is not None and asked >= tiles:
        raise popart_exception(
            f"Tiles per IPU {tiles} should exceed number of IO tiles {asked}. The device's option "
            "tilesPerIPU has the former, SessionOptions.numIOTiles the latter"
        )


def check_modify_checking(options: SessionOptions) -> None:
    """Checks that Poplar is not asked to look for changed tensors in replicas.

    Raises:
        popart_exception: it is.
    """
    if options.opxModifyChecking and options.replicatedGraphCount > 1:
        raise popart_exception(
            "Can not do opx modify checking when using replicated graphs. Set "
            "SessionOptions::opxModifyChecking to false."
        )


def check_buffering(
    options: SessionOptions, inputs: Collection[str], anchors: Collection[str]
) -> None:
    """Checks how many micro-batches wait in the streams.

    Args:
        options: of the session.
        inputs: tensors that are streamed to the device.
        anchors: tensors that are streamed from it.

    Raises:
        popart_exception: none in one, or several where the host brings them into order.
    """
    if options.syntheticDataMode.name != "Off":
        return
    rearranged = dict.fromkeys(anchors, bool(options.rearrangeAnchorsOnHost))
    rearranged |= dict.fromkeys(inputs, bool(options.rearrangeStreamsOnHost))
    for name, on_host in sorted(rearranged.items()):
        of_all = 1 if on_host else int(options.defaultBufferingDepth)
        depth = int(options.bufferingDepthMap.get(name, of_all))
        if depth < 1:
            raise popart_exception(
                f"Unable to support a buffering depth of {depth} for tensor {name} (minimum "
                "buffering depth is 1). It is of defaultBufferingDepth or bufferingDepthMap"
            )
        if depth > 1 and on_host:
            raise popart_exception(
                f"Unable to support a buffering depth >1 for tensor {name} because the stream is "
                "set to rearrange on the host (and PopART allows streams that are rearranged on "
                "the host to overlap in memory, making this unsafe). bufferingDepthMap has "
                f"{depth}; take 1, or switch rearrangeStreamsOnHost and rearrangeAnchorsOnHost off"
            )


def check_named_buffers(options: SessionOptions, tensors: Collection[str]) -> None:
    """Checks that ``updatableNamedBuffers`` are tensors.

    Args:
        options: of the session.
        tensors: the main graph's; those that PopART adds have a prefix of its own.

    Raises:
        popart_exception: one is none.
    """
    for name in options.updatableNamedBuffers:
        if name not in tensors and not any(prefix in name for prefix in reservedPrefixes()):
            raise popart_exception(
                "Invalid named buffer in updatableNamedBuffers!\n"
                f"No Ir::Tensor with TensorId '{name}' in Ir::getTensor(..) "
            )


def _check_pipelining(options: SessionOptions) -> None:
    if options.createImplicitPipeliningFwdOnlyProgram:
        _check_forward_only(options)
    if options.explicitPipeliningEnabled() and not options.explicitRecomputation:
        raise popart_exception(
            "[Pipeline::addDynamicStashOps] Explicit pipelining requires explicit recomputation to "
            "be enabled. enableExplicitIR sets explicitRecomputation too"
        )


def _check_copies(options: SessionOptions) -> None:
    if options.aliasZeroCopy and options.implicitPipeliningEnabled():
        raise popart_exception("Alias zero copy is not supported with implicit pipelining.")
    if options.aliasZeroCopy and not options.explicitRecomputation:
        raise popart_exception(
            "Alias zero copy is currently not supported with implicit recomputation. Set "
            "explicitRecomputation, or aliasZeroCopy to False"
        )
    if options.enableExplicitMainLoops and not options.useHostCopyOps:
        raise popart_exception("enableExplicitMainLoops requires useHostCopyOps.")


def _check_schedule(options: SessionOptions, training: bool) -> None:
    if options.kahnTieBreaker.lower() not in KAHN_TIE_BREAKERS:
        raise popart_exception(
            f"Unrecognised KahnTieBreaker, {options.kahnTieBreaker}. Should be one of "
            '"fifo", "greedy", and "random".'
        )
    merges = options.mergeVarUpdate.name in ("AutoTight", "AutoLoose")
    if training and merges and options.mergeVarUpdateMemThreshold < 0:
        raise popart_exception(
            f"Negative memory {options.mergeVarUpdateMemThreshold} threshold detected in "
            "MergeAuto. The option mergeVarUpdateMemThreshold must be positive. "
        )
    merging = options.replicatedCollectivesSettings.prepareScheduleForMergingCollectives
    if merging and options.accumulateOuterFragmentSettings.schedule.name == "Serial":
        raise popart_exception(
            "Incompatible accumulateOuterFragmentSchedule used with session option: "
            "options.replicatedCollectivesSettings.prepareScheduleForMergingCollectives. "
            "Specifically SessionOptions::accumulateOuterFragmentSettings.schedule can not be set "
            "to AccumulateOuterFragmentSchedule::Serial"
        )
    drawn = _DOT_CHECKS.intersection(check.upper() for check in options.dotChecks)
    if drawn and max(0, options.firstDotOp) >= options.finalDotOp:
        raise popart_exception(
            f"Invalid dot range ({options.firstDotOp}, {options.finalDotOp}), as no Ops will be "
            "exported to the .dot file. Set firstDotOp below finalDotOp"
        )


def _check_split_ratios(ratios: Sequence[float], ipus: int) -> None:
    if not ratios:
        return
    if len(ratios) != ipus:
        raise popart_exception(
            "The size of virtualGraphSplitRatios must be equal to num_ipus. It has "
            f"{len(ratios)} for {ipus} IPUs"
        )
    for ratio in ratios:
        if not 0 < ratio < 1:
            raise popart_exception(
                f"virtualGraphSplitRatios[i] must be in the rage (0, 1). Got {ratio:g}"
            )
    # PopART sums in single precision, from the first to the last.
    total = np.float32(0)
    for ratio in ratios:
        total += np.float32(ratio)
    if total != 1:
        raise popart_exception(
            f"Sum of virtualGraphSplitRatios[i] must be equal to 1.0, but found {total:g}."
        )


def _check_forward_only(options: SessionOptions) -> None:
    refused = "Implicit pipelining forward-only program is not supported"
    if not options.enablePipelining:
        raise popart_exception(f"{refused} without implicit pipelining.")
    if options.explicitPipeliningEnabled():
        raise popart_exception(f"{refused} with explicit pipelining.")
    if not options.enableGradientAccumulation:
        raise popart_exception(f"{refused} without gradient accumulation.")
