"""The updater of a training session's weights, by its optimizer."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import onnx_ir as ir

from paddle_ipu.errors import NotSupported
from paddle_ipu.popart.optimizer import SGD, Adam, Adaptive, Optimizer
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer
from paddle_ipu.popart.program import device_dtype, is_float
from paddle_ipu.xla.optimizers.optimizer import PaddleUpdater, Updater
from paddle_ipu.xla.optimizers.popart_adam import AdamUpdater
from paddle_ipu.xla.optimizers.popart_adaptive import AdaptiveUpdater
from paddle_ipu.xla.optimizers.popart_optimizer import Reduction
from paddle_ipu.xla.optimizers.popart_sgd import SGDUpdater
from paddle_ipu.xla.step.replica_values import ReplicaValues


def updater_of(
    optimizer: Optimizer | PaddleOptimizer | None,
    graph: ir.Graph,
    writes: Mapping[str, str],
    differentiated: Collection[str],
    options: SessionOptions,
    accumulation_factor: int,
    replicas: int,
    replica_values: Mapping[str, ReplicaValues],
) -> Updater:
    """The updater of an optimizer, for the weights of a graph that no operator writes.

    Args:
        optimizer: PopART's or Paddle's.
        graph: of the training session.
        writes: weights that operators write, which the optimizer leaves alone.
        differentiated: ids of the tensors that the loss has a gradient of.
        options: of the session.
        accumulation_factor: micro-batches of an update.
        replicas: those of all instances.
        replica_values: weights that not all replicas share.

    Raises:
        TypeError: it is not an optimizer.
        NotSupported: an optimizer that cannot update those weights.
    """
    weights = {
        name: device_dtype(value)
        for name, value in graph.initializers.items()
        if is_float(value) and name not in writes
    }
    grouped = {n: each.group_size / replicas for n, each in replica_values.items() if each.dims}
    if isinstance(optimizer, PaddleOptimizer):
        if grouped:
            raise NotSupported(
                f"The weight '{next(iter(grouped))}' has VariableSettings by which groups of "
                "replicas have values of their own, which a PaddleOptimizer does not update. "
                "Train it with popart.SGD, popart.Adam or popart.Adaptive"
            )
        return PaddleUpdater(optimizer, {name: name for name in weights})
    trained = {name: dtype for name, dtype in weights.items() if name in differentiated}
    reduction = Reduction(
        accumulation_factor * replicas,
        options.accumulationAndReplicationReductionType.name == "Mean",
        options.meanAccumulationAndReplicationReductionStrategy.name == "Running",
        replicas if options.enableGradientAccumulation else 1,
        grouped,
    )
    if isinstance(optimizer, SGD):
        return SGDUpdater(optimizer, trained, reduction)
    if isinstance(optimizer, Adam):
        return AdamUpdater(optimizer, trained, reduction)
    if isinstance(optimizer, Adaptive):
        return AdaptiveUpdater(optimizer, trained, reduction)
    raise TypeError(
        "optimizer takes a popart.SGD, popart.Adam or popart.Adaptive, got a "
        f"{type(optimizer).__name__}"
    )
