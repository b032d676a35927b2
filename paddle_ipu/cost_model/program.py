"""A PopART program as the predictor reads it: operators, tensors and the options that matter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any

import onnx_ir as ir

from paddle_ipu.dialect.node_origin import NodeOrigin
from paddle_ipu.popart.annotations import (
    AVAILABLE_MEMORY,
    MATMUL_FACTOR,
    PARTIALS_TYPE,
    PIPELINE_STAGE,
    RECOMPUTE,
    VIRTUAL_GRAPH,
)
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.enums import RecomputeType
from paddle_ipu.popart.op_schema import (
    READS_EVERYTHING,
    READS_NOTHING,
    GradientReads,
    OpCost,
    OpSchema,
)
from paddle_ipu.popart.optimizer import SGD, Adam, Adaptive, Optimizer
from paddle_ipu.popart.options import SessionOptions, TensorLocationSettings
from paddle_ipu.popart.paddle_optimizer import MASTER, RULES, PaddleOptimizer
from paddle_ipu.popart.program import (
    dependents,
    device_dtype,
    dims_of,
    is_float,
    tensors_with_gradient,
    variable_writes,
)
from paddle_ipu.popart.schema import schema_of_node
from paddle_ipu.popart.shape_inference.constants import constant_of

Role = str
"""``weight``, ``input``, ``constant`` or ``activation``."""

_BYTES = {"float32": 4, "float16": 2, "bfloat16": 2, "bool": 1, "int8": 1, "uint8": 1}
_BYTES |= {"int16": 2, "uint16": 2, "int32": 4, "uint32": 4}
_DEFAULT_PROPORTION = 0.6
_MOST_ITERATIONS = 1_000_000


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor on the device.

    Attributes:
        item: bytes of an element there.
        iterations: how often a run of the graph makes it; more than once in loops, of which
            backward needs what each iteration has left.
        trained: it is a trained weight or depends on one, and the loss depends on it: backward
            computes its gradient. PopART prunes the gradients of all others.
    """

    name: str
    dims: tuple[int, ...]
    dtype: str
    role: Role
    item: int
    elements: int
    iterations: int = 1
    trained: bool = True

    @property
    def bytes(self) -> int:
        """Bytes of all elements."""
        return self.elements * self.item

    @property
    def has_gradient(self) -> bool:
        """Whether backward computes a gradient of it."""
        return self.trained and self.role in ("weight", "activation") and self.item > 1


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator of the forward graph.

    Attributes:
        schema: its row, None of an operator that the table does not have.
        times: how often a run of the graph runs it; more than once in loops.
        gradient: backward has a gradient of it.
        checkpoint: its outputs are kept where the rest is computed again.
        memory_proportion: share of a tile's memory for a matrix product's or convolution's plan.
        serial: parts that a matrix product is computed in, one after another.
        half_partials: partial sums are in half.
        origin: what it was translated from.
    """

    name: str
    op_type: str
    schema: OpSchema | None
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Any]
    ipu: int = 0
    stage: int = 0
    times: int = 1
    gradient: bool = False
    checkpoint: bool = False
    memory_proportion: float = _DEFAULT_PROPORTION
    serial: int = 1
    half_partials: bool = False
    origin: NodeOrigin = NodeOrigin()

    @property
    def read(self) -> list[Tensor]:
        """The inputs that are there."""
        return [tensor for tensor in self.inputs if tensor is not None]

    @property
    def cost(self) -> OpCost | None:
        """How it is priced; None where only by the bytes that it reads and writes."""
        return None if self.schema is None else self.schema.cost

    @property
    def gradient_reads(self) -> GradientReads:
        """What its gradient reads: everything where the table does not have the operator."""
        if self.schema is None:
            return READS_EVERYTHING
        return self.schema.gradient or READS_NOTHING

    @property
    def is_view(self) -> bool:
        """Whether its output is its first input's memory."""
        return self.cost is not None and self.cost.kind == "view"


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of a program that decide about memory and time.

    Attributes:
        recomputation: name of PopART's RecomputationType.
        state_on_chip: optimizer state lives in tile memory, not in streaming memory.
        state_sharded: optimizer state is split between the replicas.
        buffering: buffers of an input stream.
        state_min_elements: from how many elements on a state is split.
        merged_sums: the replicas' sums of one element type are one sum.
        merged_scatters: so are those of which a replica keeps a part.
    """

    training: bool = False
    ipus: int = 1
    replicas: int = 1
    accumulation: int = 1
    batches_per_step: int = 1
    pipelined: bool = False
    recomputation: str = "NoRecompute"
    state_on_chip: bool = True
    state_sharded: bool = False
    weights_on_chip: bool = True
    weights_sharded: bool = False
    accumulators_on_chip: bool = True
    accumulators_sharded: bool = False
    activations_on_chip: bool = True
    outlining: bool = True
    buffering: int = 1
    state_min_elements: int = 8192
    io_tiles: int = 0
    merged_sums: bool = False
    merged_scatters: bool = False


@dataclass(frozen=True)
class Program:
    """A PopART program to be predicted.

    Attributes:
        operators: in program order.
        state: bytes of optimizer state of each trained weight.
        rows: rows of one micro-batch.
        rows_are_fixed: by the shapes of the feeds, whatever the option says.
        anchors: what a run returns.
        rule: of the weight update, as Paddle calls it.
        norm_clips: groups of gradients that are clipped by their norm together.
    """

    operators: tuple[Operator, ...]
    weights: tuple[Tensor, ...]
    inputs: tuple[Tensor, ...]
    state: Mapping[str, int]
    settings: Settings
    rows: int = 1
    anchors: tuple[str, ...] = ()
    rows_are_fixed: bool = False
    rule: str = ""
    norm_clips: int = 0
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def stages(self) -> list[int]:
        """Pipeline stages in order; where nothing is pipelined, the IPUs."""
        if not self.settings.pipelined:
            return sorted({operator.ipu for operator in self.operators}) or [0]
        return sorted({operator.stage for operator in self.operators})

    @property
    def samples(self) -> int:
        """Rows of one run, all replicas together."""
        settings = self.settings
        return self.rows * settings.accumulation * settings.replicas * settings.batches_per_step

    def with_settings(self, **changes: Any) -> Program:
        """The same program with other settings."""
        return replace(self, settings=replace(self.settings, **changes))


def read_program(
    model: ir.Model,
    flow: DataFlow,
    options: SessionOptions,
    optimizer: Optimizer | PaddleOptimizer | None = None,
    *,
    loss: str | None = None,
    ipus: int = 1,
    rows: int | None = None,
    origin_of: Callable[[ir.Node], NodeOrigin] = lambda node: NodeOrigin(),
) -> Program:
    """What the predictor needs of a PopART program; its tensors must have types.

    Args:
        optimizer: a training program's.
        loss: the tensor that is trained; None for inference.
        ipus: of the device, all replicas together.
        rows: of one micro-batch; the first dimension of the first input by default.
        origin_of: what a node was translated from.
    """
    graph = model.graph
    differentiated = tensors_with_gradient(graph, loss) if loss is not None else set()
    kept = differentiated - variable_writes(graph, training=loss is not None).keys()
    learned = {n for n, value in graph.initializers.items() if n in kept and is_float(value)}
    reader = _Reader(differentiated & dependents(graph, learned), options, origin_of)
    for value in graph.inputs:
        reader.add(value, "weight" if value.name in graph.initializers else "input")
    for value in graph.initializers.values():
        reader.add(value, "weight")
    reader.read(graph)
    weights = [t for t in reader.tensors.values() if t.role == "weight"]
    inputs = [t for t in reader.tensors.values() if t.role == "input"]
    trained = [t for t in weights if t.name in learned]
    state, rule = _state(optimizer, trained)
    if rows is None:
        rows = next((t.dims[0] for t in inputs if t.dims), 1)
    pipelined = bool(options.enablePipelining)
    return Program(
        operators=_placed(reader.operators, options),
        weights=tuple(weights),
        inputs=tuple(inputs),
        state=state,
        settings=_settings(options, flow, loss is not None, ipus, pipelined),
        rows=rows,
        anchors=tuple(flow.anchors()),
        rule=rule,
        norm_clips=_norm_clips(optimizer),
    )


def _settings(
    options: SessionOptions, flow: DataFlow, training: bool, ipus: int, pipelined: bool
) -> Settings:
    state = options.optimizerStateTensorLocationSettings
    weight = options.weightTensorLocationSettings
    accumulator = options.accumulatorTensorLocationSettings
    activation = options.activationTensorLocationSettings
    collectives = options.replicatedCollectivesSettings

    def on_chip(settings: TensorLocationSettings) -> bool:
        return str(settings.location.storage.name) != "OffChip"

    def sharded(settings: TensorLocationSettings) -> bool:
        return str(settings.location.replicatedTensorSharding.name) == "On"

    return Settings(
        training=training,
        ipus=ipus,
        replicas=int(options.getGlobalReplicationFactor()),
        accumulation=int(options.accumulationFactor) if options.enableGradientAccumulation else 1,
        batches_per_step=int(flow.batchesPerStep()),
        pipelined=pipelined,
        recomputation=str(options.autoRecomputation.name),
        state_on_chip=on_chip(state),
        state_sharded=sharded(state),
        weights_on_chip=on_chip(weight),
        weights_sharded=sharded(weight),
        accumulators_on_chip=on_chip(accumulator),
        accumulators_sharded=sharded(accumulator),
        activations_on_chip=on_chip(activation),
        outlining=bool(options.enableOutlining),
        buffering=max(1, int(options.defaultBufferingDepth)),
        state_min_elements=int(state.minElementsForReplicatedTensorSharding),
        io_tiles=int(options.numIOTiles),
        merged_sums=bool(collectives.mergeAllReduceCollectives),
        merged_scatters=bool(
            collectives.mergeReduceScatterCollectives and collectives.mergeAllGatherCollectives
        ),
    )


def _state(
    optimizer: Optimizer | PaddleOptimizer | None, trained: Sequence[Tensor]
) -> tuple[dict[str, int], str]:
    """Bytes of optimizer state by trained weight, and the update rule's name."""
    if isinstance(optimizer, PaddleOptimizer):
        return _paddle_state(optimizer, {t.name: t for t in trained})
    if isinstance(optimizer, Adam):
        kinds = (optimizer.accl1_type, optimizer.accl2_type)
        size = sum(2 if kind.name == "FLOAT16" else 4 for kind in kinds)
        return {t.name: size * t.elements for t in trained}, "adam"
    if isinstance(optimizer, Adaptive):
        return {t.name: 2 * 4 * t.elements for t in trained}, "adaptive"
    if isinstance(optimizer, SGD):
        return {t.name: t.bytes * optimizer.hasMomentum(t.name) for t in trained}, "sgd"
    return {}, ""


def _norm_clips(optimizer: Optimizer | PaddleOptimizer | None) -> int:
    """Groups of gradients that the optimizer clips by their norm together."""
    if isinstance(optimizer, PaddleOptimizer):
        used = {update.clip for update in optimizer.updates}
        return sum(
            clip.kind == "global_norm" for n, clip in enumerate(optimizer.clips) if n in used
        )
    return 0 if optimizer is None else len(optimizer.clip_norm_settings)


def _paddle_state(
    optimizer: PaddleOptimizer, trained: Mapping[str, Tensor]
) -> tuple[dict[str, int], str]:
    sizes: dict[str, int] = {}
    rule = ""
    for update in optimizer.updates:
        tensor = trained.get(update.parameter)
        if tensor is None:
            continue
        rule, row = update.rule, RULES[update.rule]
        size = 0
        for state in update.states:
            if state == MASTER:
                size += 4 * tensor.elements
            elif state in row.states and state not in row.ones:
                kind = optimizer.state_type(update.rule, state)
                size += _BYTES.get(kind, 4) * tensor.elements
        sizes[tensor.name] = size
    return sizes, rule


class _Reader:
    """Reads nodes into operators; those of subgraphs stand before the node that runs them."""

    def __init__(
        self,
        differentiated: set[str],
        options: SessionOptions,
        origin_of: Callable[[ir.Node], NodeOrigin],
    ) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.operators: list[Operator] = []
        self._differentiated = differentiated
        self._origin_of = origin_of
        self._half = str(options.partialsTypeMatMuls).lower() == "half"
        convolution = options.convolutionOptions
        self._convolutions = _proportion(convolution)
        self._products = _proportion(options.matmulOptions)
        self._half_convolutions = str(convolution.get("partialsType", "")).lower() == "half"

    def add(self, value: ir.Value, role: Role, times: int = 1) -> None:
        """Adds a tensor that is not there yet."""
        self.tensors.setdefault(str(value.name), self._tensor(value, role, times))

    def _tensor(self, value: ir.Value, role: Role, times: int) -> Tensor:
        return _tensor(value, role, times, str(value.name) in self._differentiated)

    def read(self, graph: ir.Graph, times: int = 1) -> None:
        """Adds a graph's operators."""
        for value in graph.inputs:
            self.add(value, "activation", times)
        for node in graph:
            flows = any(str(v.name) in self._differentiated for v in node.outputs)
            for attribute in node.attributes.values():
                if attribute.type == ir.AttributeType.GRAPH:
                    block = attribute.as_graph()
                    # The next iteration, or the operator, differentiates what an iteration gives.
                    for value in block.outputs if flows else ():
                        if is_float(value):
                            self._differentiated |= tensors_with_gradient(block, str(value.name))
                    if node.op_type == "Loop":
                        self._carry(block, times * _trips(node))
                    self.read(block, times * _trips(node))
            self.operators.append(self._operator(node, times, flows))

    def _carry(self, body: ir.Graph, times: int) -> None:
        """Inputs of an iteration are the memory of what the one before gave, but for the first."""
        for given, made in zip(body.inputs[2:], body.outputs[1:], strict=False):
            if made.producer() is not None and made.producer() in body:
                self.tensors[str(given.name)] = self._tensor(made, "activation", times)

    def _operator(self, node: ir.Node, times: int, gradient: bool) -> Operator:
        role = "constant" if node.op_type == "Constant" else "activation"
        outputs = [self._tensor(value, role, times) for value in node.outputs]
        # An operator with blocks gives what they give.
        given = [
            value
            for attribute in node.attributes.values()
            if attribute.type == ir.AttributeType.GRAPH
            for value in attribute.as_graph().outputs
        ]
        for tensor in outputs:
            self.tensors[tensor.name] = tensor
        plain = {
            name: attribute.value
            for name, attribute in node.attributes.items()
            if attribute.type not in (ir.AttributeType.GRAPH, ir.AttributeType.TENSOR)
        }
        partials = str(plain.get(PARTIALS_TYPE, "")).upper()
        is_convolution = node.op_type in ("Conv", "ConvTranspose", "MultiConv")
        proportion = self._convolutions if is_convolution else self._products
        by_option = self._half_convolutions if is_convolution else self._half
        recompute = plain.get(RECOMPUTE)
        return Operator(
            name=outputs[0].name if outputs else str(node.name),
            op_type=node.op_type,
            schema=schema_of_node(node),
            inputs=tuple(
                None if v is None else self.tensors[str(v.name)] for v in (*node.inputs, *given)
            ),
            outputs=tuple(outputs),
            attributes=plain,
            ipu=int(plain.get(VIRTUAL_GRAPH, -1)),
            stage=int(plain.get(PIPELINE_STAGE, -1)),
            times=times,
            gradient=gradient and role != "constant",
            checkpoint=recompute is not None and int(recompute) == int(RecomputeType.Checkpoint),
            memory_proportion=float(plain.get(AVAILABLE_MEMORY, proportion)),
            serial=max(1, int(plain.get(MATMUL_FACTOR, 1))),
            half_partials=partials == "HALF" if partials else by_option,
            origin=self._origin_of(node),
        )


def _proportion(poplar: Mapping[str, Any]) -> float:
    """The share of a tile's memory that Poplar's options of an operator give it."""
    return float(poplar.get("availableMemoryProportion", _DEFAULT_PROPORTION))


def _trips(node: ir.Node) -> int:
    """How often a node runs its blocks, where that is known; else once."""
    if node.op_type == "Scan":
        scanned = node.inputs[-1] if node.inputs else None
        dims = () if scanned is None or scanned.shape is None else dims_of(scanned)
        return max(1, dims[0]) if dims else 1
    if node.op_type != "Loop" or not node.inputs or node.inputs[0] is None:
        return 1
    known = constant_of(node.inputs[0])
    iterations = 1 if known is None else int(known.reshape(-1)[0])
    # A loop that ends by its condition is given a bound that no loop reaches.
    return iterations if 1 <= iterations <= _MOST_ITERATIONS else 1


def _tensor(value: ir.Value, role: Role, iterations: int, trained: bool) -> Tensor:
    if value.shape is None or value.dtype is None:
        return Tensor(str(value.name), (), "float32", role, 4, 0, trained=trained)
    dims = dims_of(value)
    dtype = device_dtype(value)
    item = _BYTES.get(dtype, 4)
    return Tensor(str(value.name), dims, dtype, role, item, prod(dims), iterations, trained)


def _placed(operators: Iterable[Operator], options: SessionOptions) -> tuple[Operator, ...]:
    """The operators with an IPU and a stage each: constants and the unmarked have their reader's.

    Stages are numbered from 0 on without gaps; without marks an IPU is a stage.
    """
    rewritten = list(operators)
    sharded = str(options.virtualGraphMode.name) != "Off"
    if not sharded:
        return tuple(replace(operator, ipu=0, stage=0) for operator in rewritten)
    reader: dict[str, tuple[int, int]] = {}
    placed: list[Operator] = []
    for operator in reversed(rewritten):
        ipu, stage = operator.ipu, operator.stage
        if ipu < 0:
            places = [reader[t.name] for t in operator.outputs if t.name in reader]
            ipu, stage = min(places, default=(0, 0))
        elif stage < 0:
            stage = ipu
        for tensor in operator.read:
            reader[tensor.name] = (ipu, stage)
        placed.append(replace(operator, ipu=ipu, stage=stage))
    placed.reverse()
    return tuple(placed)
