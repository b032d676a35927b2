"""What one compiled step is made of: the graph, its inputs and weights, loops and anchors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir

from paddle_ipu.xla.lowerings.registry import HostArray
from paddle_ipu.xla.optimizers.optimizer import Updater
from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.rewrites.weight_layouts import WeightLayouts
from paddle_ipu.xla.step.automatic_loss_scaling import AutomaticLossScaling
from paddle_ipu.xla.step.recomputation import Recomputation
from paddle_ipu.xla.step.replica_values import ReplicaValues, Values


@dataclass(frozen=True, slots=True)
class Anchor:
    """What is kept of a tensor over a run.

    Attributes:
        tensor: tensor id; ``Gradient___<id>`` for a gradient, ``Accum___<id>`` for that of a weight
            summed over a batch so far, ``Restored___<id>`` for what backward reads of a tensor.
        kind: ``all``, ``final``, ``sum`` or ``everyn``.
        period: N of ``everyn``.
    """

    tensor: str
    kind: str = "all"
    period: int = 1


@dataclass(frozen=True, slots=True)
class StepProgram:
    """What to compile.

    Attributes:
        graph: the PopART graph.
        inputs: input tensor id -> (micro-batch shape, dtype).
        weights: ids of the initialised inputs -> (shape, dtype).
        writes: weight -> the tensor that is its value in the next micro-batch, of those that the
            graph itself writes.
        anchors: what a run returns.
        own: tensors that are not the graph's, loss scales and statistics of gradients -> dtype.
        batches_per_step: iterations of the outer loop.
        accumulation_factor: micro-batches before an update.
        replicas: copies of the graph that each take a micro-batch of their own at the same time.
            They share the weights, but for `replica_values`, and each has its own of those that the
            graph writes.
        replica_values: weights of which groups of replicas have values of their own, or the host
            reads the values of every replica.
        instances: processes that each run that many replicas of the same program.
        broadcast: inputs of which all replicas take the same micro-batch.
        mean: gradients are averaged over micro-batches and replicas, not summed.
        running_mean: the average is kept running instead of divided at the end.
        loss: id of the loss, in training.
        updater: the optimizer, in training.
        stages: first result of a node -> pipeline stage, where each stage updates its weights
            while younger micro-batches are under way; ``stale_weights.py`` says what that means.
        check_floats: find the first operator whose result is not finite.
        precision: how half is rounded and summed.
        automatic_loss_scaling: adapts the loss scale while training.
        recomputation: what backward computes again instead of keeping it.
        layouts: how weights are on the device, where that is not as in the model.
        in_64_bits: tensors of the graph and its subgraphs that are integers of 64 bits.
        integers_of_paddle: as in Paddle's CPU kernels, casts to integers are those of C, and a
            label that is no class is refused.
        joined_losses: results of losses that PopART differentiates together with the softmax before
            them.
    """

    graph: ir.Graph
    inputs: Mapping[str, tuple[tuple[int, ...], str]]
    weights: Mapping[str, tuple[tuple[int, ...], str]]
    anchors: Sequence[Anchor]
    own: Mapping[str, str] = field(default_factory=dict)
    writes: Mapping[str, str] = field(default_factory=dict)
    batches_per_step: int = 1
    accumulation_factor: int = 1
    replicas: int = 1
    replica_values: Mapping[str, ReplicaValues] = field(default_factory=dict)
    instances: int = 1
    broadcast: frozenset[str] = frozenset()
    mean: bool = False
    running_mean: bool = False
    loss: str | None = None
    updater: Updater | None = None
    stages: Mapping[str, int] = field(default_factory=dict)
    check_floats: bool = False
    precision: Precision = Precision()
    automatic_loss_scaling: AutomaticLossScaling | None = None
    recomputation: Recomputation = field(default_factory=Recomputation)
    layouts: WeightLayouts = WeightLayouts()
    in_64_bits: frozenset[str] = frozenset()
    integers_of_paddle: bool = False
    joined_losses: frozenset[str] = frozenset()

    @property
    def own_state(self) -> Mapping[str, HostArray]:
        """State before the first batch that is the step's, not the optimizer's."""
        rule = self.automatic_loss_scaling
        return {} if rule is None else dict(rule.initial_state)

    @property
    def all_replicas(self) -> int:
        """Replicas of all processes."""
        return self.replicas * self.instances

    @property
    def batch_dims(self) -> tuple[int, ...]:
        """(batches, micro-batches), without ones."""
        dims = (self.batches_per_step, self.accumulation_factor)
        return tuple(dim for dim in dims if dim > 1)

    @property
    def replica_dims(self) -> tuple[int, ...]:
        """(replicas,), nothing for one."""
        return (self.replicas,) if self.replicas > 1 else ()

    @property
    def loop_dims(self) -> tuple[int, ...]:
        """(batches, micro-batches, replicas), without ones."""
        return self.batch_dims + self.replica_dims

    def feed_dims(self, name: str) -> tuple[int, ...]:
        """Leading dimensions of an array that is fed: (batches, micro-batches, replicas)."""
        return self.batch_dims if name in self.broadcast else self.loop_dims

    @property
    def grouped(self) -> Mapping[str, ReplicaValues]:
        """Weights of which the step has one entry for each group of replicas."""
        values = self.replica_values.items()
        return {n: each for n, each in values if each.dims and n not in self.writes}

    def given(self, name: str) -> tuple[tuple[int, ...], str]:
        """Shape and dtype of a weight as the host gives it, where groups have their own."""
        shape, dtype = self.weights[name]
        values = self.replica_values.get(name)
        return (shape if values is None else (*values.dims, *shape)), dtype

    def on_device(self, name: str) -> tuple[int, ...]:
        """Shape of a weight on the device, where replicas have their own of those written."""
        shape = self.layouts.shape(name, self.weights[name][0])
        if name in self.writes:
            return (*self.replica_dims, *shape)
        return (*self.grouped[name].dims, *shape) if name in self.grouped else shape

    def spread(self, name: str, array: HostArray) -> HostArray:
        """A weight as the device has it, given what the host gives."""
        values = self.replica_values.get(name)
        if values is not None and values.dims and name in self.writes:
            array = array[list(values.groups)]
        return np.broadcast_to(array, self.on_device(name))

    def read(self, name: str, array: Values) -> Values:
        """What the host reads of a weight, given what the device has."""
        is_written = name in self.writes and self.replicas > 1
        values = self.replica_values.get(name)
        if values is not None:
            return values.read(array, is_written)
        return array[0] if is_written else array

    def micro_batch(self, number: int) -> str:
        """Words for one of a run's micro-batches, counted with the replicas as the last axis."""
        micro_batch, replica = divmod(number, self.replicas)
        return f"micro-batch {micro_batch}" + (
            f" of replica {replica}" if self.replicas > 1 else ""
        )
