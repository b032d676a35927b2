"""Tensors of training that no model names: gradients, accumulators, loss scales and the like."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import onnx_ir as ir

from paddle_ipu.popart.enums import SGDAccumulatorAndMomentum
from paddle_ipu.popart.names import (
    ACCUMULATED_PREFIX,
    GRADIENT_PREFIX,
    LOSS_SCALING_PREFIX,
    RESTORED_PREFIX,
    STATISTICS,
)
from paddle_ipu.popart.optimizer import SGD, Optimizer
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.program import FINAL_LOSS_SCALE


@dataclass(frozen=True, slots=True)
class Derived:
    """Tensors under one prefix.

    Attributes:
        tensors: those that have one with the prefix.
        why: why others have none, with ``{tensor}`` for the other one.
    """

    tensors: Collection[str]
    why: str


def own_tensors(
    options: SessionOptions,
    optimizer: Optimizer | PaddleOptimizer | None,
    loss: ir.Value | None,
) -> dict[str, ir.Value]:
    """The loss scales and statistics of a session, by id.

    Args:
        options: of the session.
        optimizer: in training.
        loss: in training.
    """
    own = {}
    accumulates = options.enableGradientAccumulation and options.accumulationFactor > 1
    if options.automaticLossScalingSettings.enabled:
        own[FINAL_LOSS_SCALE] = _tensor(FINAL_LOSS_SCALE, (), ir.DataType.FLOAT)
        if accumulates:
            own[STATISTICS] = _tensor(STATISTICS, (2,), ir.DataType.FLOAT)
    is_constant = not isinstance(optimizer, Optimizer) or optimizer.lossScaling().isConst()
    if loss is not None and not is_constant:
        # Its name is by the loss, whatever its own type.
        is_half = loss.dtype is ir.DataType.FLOAT16
        name = LOSS_SCALING_PREFIX + ("FLOAT16" if is_half else "FLOAT")
        adapts = bool(options.automaticLossScalingSettings.enabled)
        is_wide = not is_half or adapts or bool(options.ensureFp32LossScaleTensor)
        own[name] = _tensor(name, (), ir.DataType.FLOAT if is_wide else ir.DataType.FLOAT16)
    return own


def _tensor(name: str, shape: tuple[int, ...], dtype: ir.DataType) -> ir.Value:
    return ir.Value(name=name, shape=ir.Shape(shape), type=ir.TensorType(dtype))


def derived_tensors(
    options: SessionOptions,
    optimizer: Optimizer | PaddleOptimizer | None,
    loss: str | None,
    differentiated: Collection[str],
    weights: Collection[str],
    stages: Mapping[str, int],
    graph: ir.Graph,
) -> dict[str, Derived]:
    """What has a gradient, an accumulator, or is kept for backward: prefix -> tensors.

    Args:
        options: of the session.
        optimizer: in training.
        loss: in training.
        differentiated: tensors that have a gradient.
        weights: the initialised inputs.
        stages: pipeline stage of each node, by its first result; empty without a pipeline.
        graph: the program.
    """
    if loss is None:
        none = Derived((), "there are no gradients in inference")
        return {GRADIENT_PREFIX: none, ACCUMULATED_PREFIX: none, RESTORED_PREFIX: none}
    accumulators = Derived(
        [name for name in weights if name in differentiated and _accumulates(optimizer, name)],
        "'{tensor}' is no trained weight that has an accumulator of its own; with SGD's combined "
        "momentum that is Accl___{tensor}",
    )
    if not options.enableGradientAccumulation or options.accumulationFactor <= 1:
        accumulators = Derived((), "without gradient accumulation there is no accumulator")
    restored = Derived(
        _stashed(graph, stages, loss) & {*differentiated},
        "the pipeline keeps no '{tensor}' for a later stage",
    )
    if not stages:
        restored = Derived((), "without a pipeline nothing is stashed and restored")
    return {
        GRADIENT_PREFIX: Derived(
            differentiated, f"the loss '{loss}' has no gradient with respect to '{{tensor}}'"
        ),
        ACCUMULATED_PREFIX: accumulators,
        RESTORED_PREFIX: restored,
    }


def _accumulates(optimizer: Optimizer | PaddleOptimizer | None, weight: str) -> bool:
    """Whether gradients of a weight are summed in a tensor of their own, not in SGD's velocity."""
    if not isinstance(optimizer, SGD):
        return True
    combined = optimizer.accumulatorAndMomentum is SGDAccumulatorAndMomentum.Combined
    return not (combined and optimizer.hasMomentum(weight))


def _stashed(graph: ir.Graph, stages: Mapping[str, int], loss: str) -> set[str]:
    """What operators of a stage before the loss's read or make; weights are not kept."""
    if loss not in stages:
        return set()
    names: set[str] = set()
    for node in graph:
        first = str(node.outputs[0].name) if node.outputs else ""
        if stages.get(first, stages[loss]) < stages[loss]:
            names.update(str(value.name) for value in (*node.inputs, *node.outputs) if value)
    return names - graph.initializers.keys()
