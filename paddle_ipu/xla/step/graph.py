"""Evaluates a PopART graph with JAX: each node by its lowering, in order.

This runs while JAX traces, once for a compilation; nothing of it is left in the compiled step.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import LoweringError, popart_exception
from paddle_ipu.popart import integer_widths
from paddle_ipu.popart.operand_ranges import OperandRange
from paddle_ipu.popart.schema import schema_of
from paddle_ipu.popart.wide_integers import check_fits
from paddle_ipu.xla import lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.xla.lowerings import node_values, residuals, scope_names
from paddle_ipu.xla.lowerings.index_ranges import BlockRanges, Watch
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import (
    BlockContext,
    Lookup,
    LoweringContext,
    find_lowering,
    has_effect,
    is_random,
)
from paddle_ipu.xla.precision import stochastic
from paddle_ipu.xla.precision.half import Narrow
from paddle_ipu.xla.precision.settings import Precision
from paddle_ipu.xla.step import recomputation
from paddle_ipu.xla.step.automatic_loss_scaling import GradientWatch
from paddle_ipu.xla.step.lowering_errors import told_where
from paddle_ipu.xla.step.recomputation import Segment
from paddle_ipu.xla.step.stale_weights import WeightVersions, evaluated_with
from paddle_ipu.xla.step.widths import Widths

OWN_LOWERINGS = "paddle_ipu.xla.lowerings."
"""How the modules of paddle_ipu's lowerings begin; others are a user's."""

_VIEWS = frozenset({"Cast", "Identity", "Reshape", "Transpose"})
"""Operators whose result is a weight where their input is one."""

Environment = dict[str, Any]
Listener = Callable[[LoweredNode, Sequence[Any]], jax.Array | None]


@dataclass(frozen=True, slots=True)
class GraphSettings:
    """What holds for a graph and its subgraphs.

    Attributes:
        precision: what the session's options say about rounding and sums.
        replicas: of this process.
        instances: processes that run the program together.
        in_64_bits: tensors that are integers of 64 bits.
        integers_of_paddle: casts to integers are those of C.
        kernels: first result of an operator that runs on the host -> what runs it there.
        operand_ranges: first result of an operator -> which numbers the program has it take.
    """

    precision: Precision = field(default_factory=Precision)
    replicas: int = 1
    instances: int = 1
    in_64_bits: frozenset[str] = frozenset()
    integers_of_paddle: bool = False
    kernels: Mapping[str, Any] = field(default_factory=dict)
    operand_ranges: Mapping[str, Sequence[OperandRange]] = field(default_factory=dict)


class LoweredBlock:
    """A subgraph of an operator; it reads tensors of the graph around it by their ids.

    Attributes:
        graph: its nodes.
        inputs: ids of its own inputs.
        outputs: ids of what it gives.
        captured: ids of the tensors around it that it reads.
    """

    def __init__(self, graph: ir.Graph, settings: GraphSettings, missing: dict[str, str]) -> None:
        self.graph = LoweredGraph(graph, settings, missing)
        self.inputs = tuple(str(value.name) for value in graph.inputs)
        self.outputs = tuple(str(value.name) for value in graph.outputs)
        self._stored = {
            str(name): value.const_value.numpy()
            for name, value in graph.initializers.items()
            if value.const_value is not None and name not in self.inputs
        }
        made = {*self.inputs, *self._stored}
        made.update(name for node in self.graph.nodes for name in node.outputs)
        self.graph.keep(self.outputs)
        read = [name for node in self.graph.nodes for name in node.inputs if name is not None]
        found = dict.fromkeys([*read, *self.outputs])
        self.captured = tuple(name for name in found if name not in made)

    def run(
        self,
        around: Mapping[str, Any],
        training: bool,
        arguments: Sequence[Any],
        key: jax.Array,
        ranges: Watch | None,
    ) -> list[Any]:
        """What the subgraph gives for `arguments`, its inputs in order.

        Args:
            around: captured id -> array.
            training: as in a training session.
            key: the random key of this evaluation.
            ranges: watches the indices that its operators take.
        """
        widths = self.graph.widths
        given = map(widths.of_tensor, self.inputs, arguments)
        values = {**self._stored, **around, **dict(zip(self.inputs, given, strict=True))}
        env = self.graph.evaluate(values, training=training, key=key, ranges=ranges)
        return [widths.of_tensor(name, env[name]) for name in self.outputs]

    def origin(self, output: int) -> Any:
        """What an output is without evaluating: an input's id, a constant, else None."""
        name: str | None = self.outputs[output]
        makers = {made: node for node in self.graph.nodes for made in node.outputs}
        while name in makers and makers[name].op_type == "Identity":
            name = makers[name].inputs[0]
        if name in self.inputs:
            return name
        if name in makers and makers[name].op_type == "Constant":
            return np.asarray(makers[name].attributes["value"])
        return self._stored.get(str(name))


class LoweredGraph:
    """The nodes of a PopART graph, each with its lowering.

    Args:
        graph: a PopART graph whose tensors are typed.
        settings: what holds for its subgraphs, too.
        missing: collects the operators without a lowering; of the graph around a subgraph.

    Attributes:
        settings: those.
        widths: of its tensors of integers.
        told: called with each operator's number behind its evaluation; not the subgraphs'.

    Raises:
        LoweringError: operators without a lowering; the message lists all of them.
        popart_exception: PopART knows none of them either; the message lists all of them.
    """

    def __init__(
        self,
        graph: ir.Graph,
        settings: GraphSettings | None = None,
        missing: dict[str, str] | None = None,
    ) -> None:
        self.nodes: list[LoweredNode] = []
        self.settings = settings = settings or GraphSettings()
        self.widths = Widths(graph, settings.in_64_bits)
        self._drew = False
        self.told: Callable[[int], None] | None = None
        is_block = missing is not None
        missing = {} if missing is None else missing
        random = 0
        for index, node in enumerate(graph):
            domain = node.domain or "ai.onnx"
            rule = find_lowering(domain, node.op_type)
            if rule is None:
                first = next((str(value.name) for value in node.outputs), "")
                missing[f"{domain}.{node.op_type}"] = str(node.name) or first
                continue
            blocks = {
                name: LoweredBlock(found.as_graph(), settings, missing)
                for name, found in node.attributes.items()
                if found.type == ir.AttributeType.GRAPH
            }
            captured = tuple(
                dict.fromkeys(name for block in blocks.values() for name in block.captured)
            )
            own = tuple(None if v is None else str(v.name) for v in node.inputs)
            self.nodes.append(
                LoweredNode(
                    name=str(node.name),
                    domain=domain,
                    op_type=node.op_type,
                    rule=rule,
                    inputs=own + captured,
                    outputs=tuple(str(v.name) for v in node.outputs),
                    attributes=node_values.attributes(node),
                    random_index=random if is_random(domain, node.op_type) else None,
                    blocks=blocks,
                    captured=captured,
                    constants=node_values.constants(node),
                    bounds=node_values.bounds(node),
                    partials=node_values.partials(node),
                    scope=node.meta.get(scope_names.KEY)
                    or scope_names.of_node(node.op_type, index),
                    indices=integer_widths.index_inputs(node),
                    in_64_bits=self.widths.computes_in_64_bits(node, (*own, *captured)),
                )
            )
            random += is_random(domain, node.op_type)
        if missing and not is_block:
            if all(schema_of(*_domain_and_type(op)) is None for op in missing):
                classes = ", ".join(f"{op}:1" for op in sorted(missing))
                raise popart_exception(
                    f"No class for {classes}. PopART has no such operator; "
                    "paddle_ipu.register_custom_op says what a custom one means on the IPU Model"
                )
            raise LoweringError(
                "no lowering for "
                + ", ".join(f"{op} (node {name})" for op, name in sorted(missing.items()))
                + ". The IPU Model cannot run these PopART operators yet."
            )
        self.narrow = Narrow(graph)
        self.narrow.count_readers(node.inputs for node in self.nodes)

    def keep(self, needed: Sequence[str]) -> None:
        """Drops the nodes that `needed` values do not depend on, but for those with effects."""
        wanted = set(needed)
        kept = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs) or _acts(node):
                wanted.update(name for name in node.inputs if name is not None)
                kept.append(node)
        self.nodes = kept[::-1]
        self.narrow.count_readers(node.inputs for node in self.nodes)

    def depending_on(self, sources: Collection[str]) -> set[str]:
        """Every value that depends on `sources`, themselves included."""
        found = set(sources)
        for node in self.nodes:
            if not found.isdisjoint(name for name in node.inputs if name is not None):
                found.update(node.outputs)
        return found

    def runs_on_host(self, node: LoweredNode) -> bool:
        """Whether an operator, or one of its subgraphs, does something on the host."""
        inner = [found for block in node.blocks.values() for found in block.graph.nodes]
        is_kernel = not self.settings.kernels.keys().isdisjoint(node.outputs)
        return is_kernel or _acts(node) or any(map(self.runs_on_host, inner))

    @property
    def is_on_device(self) -> bool:
        """Whether no operator calls the host, as those of users may."""
        return not self.calls_host and self._has_own_operators

    @property
    def calls_host(self) -> bool:
        """Whether one of the project's operators does something on the host."""
        return any(map(self.runs_on_host, self.nodes))

    @property
    def _has_own_operators(self) -> bool:
        inner = [block.graph for node in self.nodes for block in node.blocks.values()]
        own = all(node.rule.__module__.startswith(OWN_LOWERINGS) for node in self.nodes)
        return own and all(graph._has_own_operators for graph in inner)

    def reaching(self, target: str) -> set[str]:
        """Every value that `target` depends on, itself included."""
        wanted = {target}
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(name for name in node.inputs if name is not None)
        return wanted

    def evaluate(
        self,
        values: Mapping[str, Any],
        *,
        training: bool,
        key: jax.Array,
        taps: Mapping[str, jax.Array] | None = None,
        listen: Listener | None = None,
        heard: list[tuple[LoweredNode, jax.Array]] | None = None,
        ranges: Watch | None = None,
        stale: WeightVersions | None = None,
        watch: GradientWatch | None = None,
        segments: Sequence[Segment] = (),
        trained: Collection[str] = (),
    ) -> Environment:
        """Every value of the graph, given inputs and weights; those of half types in float32.

        Args:
            values: tensor id -> array, for all graph inputs and weights.
            training: as in a training session.
            key: random key of this micro-batch.
            taps: tensor id -> zeros added to that input, weight or result, to differentiate with
                respect to it.
            listen: called with each node and its outputs; what it returns goes to `heard`.
            ranges: collects the indices that operators take, where they are to be watched.
            stale: earlier values of the weights, which some operators read in their place.
            watch: counts the gradients.
            segments: what backward computes again; then only their results are returned.
            trained: the weights that are updated with their gradients.
        """
        large = set[str]()
        if residuals.on_cpu():
            large = {name for name in trained if values[name].nbytes >= residuals.LARGE}
        with stochastic.drawing_from(key if self.settings.precision.stochastic_rounding else None):
            return self._evaluate(
                values, training, key, taps or {}, listen, heard, ranges, stale, watch, segments,
                large,
            )  # fmt: skip

    def _evaluate(
        self,
        values: Mapping[str, Any],
        training: bool,
        key: jax.Array,
        taps: Mapping[str, jax.Array],
        listen: Listener | None,
        heard: list[tuple[LoweredNode, jax.Array]] | None,
        ranges: Watch | None,
        stale: WeightVersions | None,
        watch: GradientWatch | None,
        segments: Sequence[Segment],
        large: set[str],
    ) -> Environment:
        narrow = self.narrow
        told, number = self.told, itertools.count(1)
        tied = self._reading(large)
        handing = set[str]()
        if watch is None and stale is None and self.settings.replicas == 1:
            handing = large - narrow.dtypes.keys()
        env: Environment = {
            name: array + taps[name] if name in taps else array
            for name, array in ((n, narrow.source(n, array)) for n, array in values.items())
        }
        if watch is not None:
            env = {name: watch.tensor(name, array) for name, array in env.items()}
        # What Reshapes, Transposes of matrices and Softmaxes were given, by their results; and how
        # backward may make results again.
        given: tuple[Environment, ...] = ({}, {}, {}, {})
        handed_on: Environment = {}

        lookups: dict[int, Lookup] = {}

        def apply(node: LoweredNode, inputs: Sequence[Any], ranges: Watch | None) -> Sequence[Any]:
            sources, turned, logits, rematerializations = given
            watched = self.settings.operand_ranges.get(node.outputs[0], ()) if node.outputs else ()
            context = LoweringContext(
                domain=node.domain,
                op_type=node.op_type,
                name=node.name,
                training=training,
                rng_key=self._key_of(key, node),
                num_outputs=len(node.outputs),
                dtypes=[narrow.dtypes.get(name) if name else None for name in node.inputs],
                sources=[sources.get(name) if name else None for name in node.inputs],
                turned=[turned.get(name) if name else None for name in node.inputs],
                logits=[logits.get(name) if name else None for name in node.inputs],
                lookups=lookups,
                hands_on=node.inputs[0] in handing if node.inputs else False,
                rematerializations=[
                    rematerializations.get(name) if name else None for name in node.inputs
                ],
                kernel=self.settings.kernels.get(node.outputs[0]) if node.outputs else None,
                is_watched=bool(watched),
                blocks=_entered(node, inputs, training),
                ranges=ranges,
                input_ids=node.inputs,
                precision=self.settings.precision,
                partials=node.partials,
                replicas=self.settings.replicas,
                instances=self.settings.instances,
                in_64_bits=node.in_64_bits,
                integers_of_paddle=self.settings.integers_of_paddle,
            )
            own = inputs[: len(inputs) - len(node.captured)]
            # Constants are computed with NumPy; like the device it says nothing of overflows.
            quiet = np.errstate(all="ignore")
            with jax.named_scope(node.scope), self.widths.allowed_for(node), quiet:
                for taken in watched:
                    context.watch(taken, own[taken.operand])
                with told_where(node, own):
                    made = node.rule(context, own, node.attributes)
                results: Sequence[Any] = made if isinstance(made, (tuple, list)) else (made,)
                results = self.widths.of_results(node, results)
            if not node.in_64_bits:
                _check_constants(node, own, results)
            handed_on.update((str(node.inputs[i]), a) for i, a in context.handed_on.items())
            for index, remake in context.rematerialized.items():
                if node.outputs[index] not in narrow.dtypes:
                    rematerializations[node.outputs[index]] = remake
            return results

        def run(
            node: LoweredNode, env: Environment, taps: Mapping[str, Any],
            heard: list[tuple[LoweredNode, jax.Array]] | None, ranges: Watch | None,
        ) -> Mapping[str, Any]:  # fmt: skip
            inputs = [
                None if name is None else narrow.operand(name, env[name]) for name in node.inputs
            ]
            if watch is not None:
                inputs = [
                    item if name is None else watch.operand(node.op_type, name, item)
                    for name, item in zip(node.inputs, inputs, strict=True)
                ]
            if not tied.isdisjoint(node.outputs):
                inputs = _with_gradients_together(inputs)
            for index, constant in node.constants.items():
                if not training or constant.dtype.kind in "iu":
                    inputs[index] = constant
            inputs = self.widths.of_operands(node, inputs)
            old = {} if stale is None else stale.read(node)
            if old:
                results, inputs = evaluated_with(old, node, inputs, narrow, apply, ranges)
            else:
                results = apply(node, inputs, ranges)
            results = [
                narrow.result(node.op_type, name, result)
                for name, result in zip(node.outputs, results, strict=False)
            ]
            if watch is not None:
                results = [
                    watch.tensor(name, result)
                    for name, result in zip(node.outputs, results, strict=False)
                ]
            flag = None if listen is None else listen(node, results)
            if flag is not None and heard is not None:
                heard.append((node, flag))
            if told is not None:
                told(next(number))
            sources, turned, logits, rematerializations = given
            named: Environment = dict(handed_on)
            handed_on.clear()
            for name, result in zip(node.outputs, results, strict=False):
                if name in taps:
                    named[name] = result + taps[name]
                    rematerializations.pop(name, None)
                    continue
                named[name] = result
                if node.op_type == "Reshape":
                    sources[name] = inputs[0]
                    if node.inputs[0] in rematerializations:
                        rematerializations[name] = rematerializations[node.inputs[0]]
                elif _turns_a_matrix(node):
                    turned[name] = inputs[0]
                elif _sums_rows_to_one(node, result):
                    logits[name] = inputs[0]
            return named

        for segment in segments or (Segment(0, len(self.nodes), False, frozenset(), ()),):
            nodes = self.nodes[segment.first : segment.last]
            if not segment.recomputed:
                for node in nodes:
                    env.update(run(node, env, taps, heard, ranges))
                continue
            before = given
            given = tuple(map(dict, before))
            # Only the step has segments, and no block.
            assert not isinstance(ranges, BlockRanges)
            env.update(recomputation.evaluate(segment, nodes, env, taps, run, heard, ranges))
            # What the segment made is not to be seen outside.
            given = before
        return env

    def _reading(self, weights: Collection[str]) -> set[str]:
        """First results of the operators that read one of the weights."""
        weights = set(weights)
        found: set[str] = set()
        for node in self.nodes:
            if weights.isdisjoint(name for name in node.inputs if name is not None):
                continue
            (weights if node.op_type in _VIEWS else found).update(node.outputs[:1])
        return found

    @property
    def in_lockstep(self) -> bool:
        """Whether replicas exchange values, by operators of the graph or of its subgraphs."""
        if any(node.op_type == "ReplicatedAllReduce" for node in self.nodes):
            return True
        inner = [block.graph for node in self.nodes for block in node.blocks.values()]
        return any(graph.in_lockstep for graph in inner)

    @property
    def draws(self) -> bool:
        """Whether what was evaluated took a random key, its subgraphs included.

        Roundings may take it too, in the graph and in what the step makes of its results.
        """
        inner = [block.graph for node in self.nodes for block in node.blocks.values()]
        drew = self._drew or any(graph.draws for graph in inner)
        return drew or self.settings.precision.stochastic_rounding

    def _key_of(self, key: jax.Array, node: LoweredNode) -> Callable[[], jax.Array]:
        def own() -> jax.Array:
            if node.random_index is None:
                raise LoweringError(
                    f"{node.domain}.{node.op_type} ({node.name}) draws random numbers; register "
                    "its lowering with random=True."
                )
            # An operator with subgraphs takes one for them, whether they draw or not.
            self._drew = self._drew or not node.blocks
            return jax.random.fold_in(key, node.random_index)

        return own


def _domain_and_type(operator: str) -> tuple[str, str]:
    domain, _, op_type = operator.rpartition(".")
    return domain, op_type


def _acts(node: LoweredNode) -> bool:
    """Whether a node does something on the host, or its subgraphs do."""
    inner = [found for block in node.blocks.values() for found in block.graph.nodes]
    return has_effect(node.domain, node.op_type) or any(map(_acts, inner))


def _entered(
    node: LoweredNode, inputs: Sequence[Any], training: bool
) -> Mapping[str, BlockContext]:
    """The blocks of a node with the arrays that they read around them."""
    if not node.blocks:
        return {}
    around = dict(zip(node.captured, inputs[len(inputs) - len(node.captured) :], strict=True))
    return {
        name: BlockContext(
            functools.partial(block.run, around, training),
            block.origin,
            block.inputs,
            [name in block.graph.widths.in_64_bits for name in block.inputs],
            [name in block.graph.widths.in_64_bits for name in block.outputs],
        )
        for name, block in node.blocks.items()
    }


def _with_gradients_together(inputs: Sequence[Any]) -> list[Any]:
    floats = [isinstance(item, jax.Array) and node_values.is_float(item) for item in inputs]
    joined = iter(residuals.together(tuple(itertools.compress(inputs, floats))))
    return [next(joined) if is_one else x for x, is_one in zip(inputs, floats, strict=True)]


def _turns_a_matrix(node: LoweredNode) -> bool:
    return node.op_type == "Transpose" and list(node.attributes.get("perm", ())) == [1, 0]


def _sums_rows_to_one(node: LoweredNode, result: Any) -> bool:
    """Whether a node is a Softmax over the last axis alone."""
    return node.op_type == "Softmax" and node.attributes.get("axis", 1) in (-1, result.ndim - 1)


def _check_constants(node: LoweredNode, inputs: Sequence[Any], results: Sequence[Any]) -> None:
    """popart_exception where a result on the device comes from a constant beyond 32 bits."""
    if all(isinstance(result, np.ndarray) for result in results):
        return
    for index, (name, item) in enumerate(zip(node.inputs, inputs, strict=False)):
        if isinstance(item, np.ndarray) and index not in node.bounds:
            check_fits(item, str(name), f"{node.domain}.{node.op_type} ({node.outputs[0]}): ")
