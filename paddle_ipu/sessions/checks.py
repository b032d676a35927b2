"""Checks of a session's program: element types, loss, anchors, variables and optimizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from paddle_ipu.errors import popart_exception
from paddle_ipu.popart.collectives import OPERATOR, REDUCE_SCATTER
from paddle_ipu.popart.enums import CollectiveOperator
from paddle_ipu.popart.names import GRADIENT_PREFIX
from paddle_ipu.popart.optimizer import Optimizer
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.program import (
    is_float,
    needed_tensors,
    size_of,
    variable_writes,
)
from paddle_ipu.popart.schema import debug_name, schema_of_node
from paddle_ipu.popart.shape_inference.constants import constant_of
from paddle_ipu.sessions.anchors import Derived

_WIDE_INTEGERS = frozenset({ir.DataType.INT64, ir.DataType.UINT64})


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
        if value.dtype in _WIDE_INTEGERS and not _is_static(value):
            raise popart_exception(
                f"The data type {value.dtype.name} is not supported in Poplar: tensor "
                f"'{value.name}'. Cast it to a type of 32 bits, or set "
                "enableSupportedDataTypeCasting, which narrows it"
            )


def check_batch_norms(graph: ir.Graph, differentiated: Collection[str]) -> None:
    """Checks that no gradient goes through a BatchNormalization in its inference form.

    Args:
        graph: of a training session of PopART's.
        differentiated: tensors that have a gradient.

    Raises:
        popart_exception: one does.
    """
    for node in graph:
        outputs = [str(value.name) for value in node.outputs]
        if node.op_type != "BatchNormalization" or len(outputs) == 5:
            continue
        if outputs[0] in differentiated:
            raise popart_exception(
                f'BatchNorm Op "{debug_name(node)}" has {len(outputs)} output(s) which means it is '
                "in inference mode, but its gradient Op is being created. To use the BatchNorm Op "
                "in inference mode during training, it has to be detached first."
            )


def check_variables(graph: ir.Graph, wanted: Collection[str]) -> None:
    """Checks that no variable that a training reads holds integers or truth values.

    Args:
        graph: of a training session of PopART's.
        wanted: the loss and the tensors of the anchors.

    Raises:
        popart_exception: one does.
    """
    writes = variable_writes(graph, training=True)
    needed = needed_tensors(graph, {*wanted, *writes.values()})
    for name, value in graph.initializers.items():
        if name in needed and value.uses() and not is_float(value):
            assert value.dtype is not None
            raise popart_exception(
                f"Currently only floating point variable tensors are updatable: '{name}' is "
                f"{value.dtype.name}. Make it a constant, for instance by "
                "GraphTransformer.convertAllFixedPointInitializersToConstants, or an input."
            )


def check_shards(graph: ir.Graph, differentiated: Collection[str]) -> None:
    """Checks that no gradient goes through a reduce-scatter that has none.

    Args:
        differentiated: tensors that have a gradient.

    Raises:
        popart_exception: one reduces what it scatters.
    """
    for node in graph:
        if node.op_type != REDUCE_SCATTER or node.outputs[0].name not in differentiated:
            continue
        written = node.attributes.get(OPERATOR)
        operator = CollectiveOperator(0 if written is None else written.as_int())
        if operator is not CollectiveOperator.Local:
            raise popart_exception(
                "ReplicatedReduceScatterOp: grad op is only implemented when "
                f"CollectiveOperator==CollectiveOperator::Local. {debug_name(node)} is on the path "
                "to the loss; detach what it reads"
            )


def check_loss(loss: str, tensors: Mapping[str, ir.Value]) -> None:
    """Checks that the loss is a scalar of the main graph.

    Args:
        loss: tensor id.
        tensors: the main graph's, by id.

    Raises:
        popart_exception: it is not.
    """
    if loss not in tensors:
        raise popart_exception(f"Could not find loss tensor '{loss}' in main graph tensors")
    if size_of(tensors[loss]) != 1:
        raise popart_exception(f"Loss tensor, '{loss}', must be a scalar tensor")


def check_anchors(
    anchors: Collection[str],
    tensors: Mapping[str, ir.Value],
    derived: Mapping[str, Derived],
) -> None:
    """Checks that anchors are tensors of the main graph, or made of such.

    Args:
        anchors: tensor ids; ``Gradient___<id>`` for a gradient, and so on.
        tensors: the main graph's, by id.
        derived: prefix -> what has a tensor with it.

    Raises:
        popart_exception: one is not.
    """
    for anchor in anchors:
        prefix = next((each for each in derived if anchor.startswith(each)), "")
        tensor = anchor.removeprefix(prefix)
        if anchor in tensors:
            continue
        if tensor not in tensors:
            raise popart_exception(
                f"Anchor tensor `{anchor}' not in Ir Tensors. The tensors are: "
                + ", ".join(sorted(tensors))
            )
        if tensor not in derived[prefix].tensors:
            why = derived[prefix].why.replace("{tensor}", tensor)
            raise popart_exception(f"Anchor tensor `{anchor}' not in Ir Tensors. Note: {why}.")


def check_clips(options: SessionOptions, optimizer: Optimizer | PaddleOptimizer | None) -> None:
    """Checks that the schedule of updates admits the clips of PopART's optimizers.

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
    options: SessionOptions,
    optimizer: Optimizer | PaddleOptimizer | None,
    differentiated: Collection[str],
    tensors: Mapping[str, ir.Value],
) -> None:
    """Checks the requirements of automatic loss scaling, where it is enabled.

    Args:
        options: of the session.
        optimizer: of the training session; None in inference.
        differentiated: tensors that have a gradient.
        tensors: the main graph's.

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
    _check_tracked(options, differentiated, tensors)
    for name in options.automaticLossScalingSettings.toTrackTensors or ():
        dtype = tensors[name].dtype
        if not isinstance(optimizer, PaddleOptimizer) and dtype is not ir.DataType.FLOAT16:
            kind = "UNDEFINED" if dtype is None else dtype.name
            raise popart_exception(
                prefix + f"Unsupported data type {kind} for to-track tensor "
                f"'{GRADIENT_PREFIX}{name}'. Track tensors of FLOAT16"
            )


def _check_tracked(
    options: SessionOptions, differentiated: Collection[str], tensors: Collection[str]
) -> None:
    """popart_exception unless the tensors that are to be tracked have gradients to count."""
    prefix, before = "[AutomaticLossScale transform] ", "[PreAutomaticLossScale] "
    settings = options.automaticLossScalingSettings
    by_name = settings.gradientTensorTrackingMethod.name == "GradientsOfUserSpecifiedTensors"
    named = settings.toTrackTensors
    if named is None:
        if by_name:
            raise popart_exception(
                prefix + "gradientTensorTrackingMethod set to "
                "'GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors' but "
                "'toTrackTensors' has not been set"
            )
        return
    if not named:
        raise popart_exception(
            before + "An empty list was set as the value of 'toTrackTensors'. To disable tensor "
            "tracking, please set 'automaticLossScalingSettings.enabled = False'. To track the "
            "default tensors, please leave 'automaticLossScalingSettings.toTrackTensors' unset."
        )
    unknown = sorted(name for name in named if name not in tensors)
    if unknown:
        raise popart_exception(
            before + "Some of the tensors in the 'automaticLossScalingSettings.toTrackTensors' "
            f"list do not exist in the model. Please look at the error log. They are {unknown}"
        )
    if not by_name:
        raise popart_exception(
            prefix + "toTrackTensors has been set, but gradientTensorTrackingMethod has not been "
            "set to 'GradientTensorTrackingMethod::GradientsOfUserSpecifiedTensors'."
        )
    missing = sorted(name for name in named if name not in differentiated)
    if missing:
        raise popart_exception(
            prefix + f"toTrackTensors names {', '.join(missing)}, of which the loss has no gradient"
        )


def _is_static(value: ir.Value) -> bool:
    """Whether a tensor is a constant that operators read when they are built, like a shape."""
    if not (value.is_initializer() or constant_of(value) is not None):
        return False
    schemas = [(use.idx, schema_of_node(use.node)) for use in value.uses()]
    return bool(schemas) and all(s is not None and i in s.constant_inputs for i, s in schemas)
