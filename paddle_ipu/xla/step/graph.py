"""The graph of a PopART program as a step evaluates it: nodes with their lowerings."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import jax
import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import LoweringError, popart_exception
from paddle_ipu.popart import integer_widths
from paddle_ipu.popart.collectives import COLLECTIVES
from paddle_ipu.xla import lowerings  # noqa: F401 - registers the lowerings
from paddle_ipu.xla.lowerings import node_values, scope_names
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.range_checks import Checks
from paddle_ipu.xla.lowerings.registry import (
    Array,
    HostArray,
    Lowering,
    Operand,
    find_lowering,
    has_effect,
    is_random,
)
from paddle_ipu.xla.precision.half import Narrow
from paddle_ipu.xla.step import fusion_limits
from paddle_ipu.xla.step.evaluation import Differentiation, Environment, Evaluation
from paddle_ipu.xla.step.node_lowering import GraphSettings
from paddle_ipu.xla.step.side_values import SideValues
from paddle_ipu.xla.step.widths import Widths

OWN_LOWERINGS = "paddle_ipu.xla.lowerings."
"""How the modules of paddle_ipu's lowerings begin; others are a user's."""

Missing = dict[tuple[str, str], str]
"""(domain, type) of an operator without a lowering -> the name of a node."""


class LoweredBlock:
    """A subgraph of an operator; it reads tensors of the graph around it by their ids.

    Args:
        graph: its PopART graph.
        settings: of the graph around it.
        missing: collects the operators without a lowering.

    Attributes:
        graph: its nodes.
        inputs: ids of its own inputs.
        outputs: ids of its outputs.
        captured: ids of the tensors around it that it reads.
    """

    def __init__(self, graph: ir.Graph, settings: GraphSettings, missing: Missing) -> None:
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
        names = dict.fromkeys([*read, *self.outputs])
        self.captured = tuple(name for name in names if name not in made)

    def run(
        self,
        around: Mapping[str, Array],
        training: bool,
        arguments: Sequence[Operand],
        key: jax.Array,
        ranges: Checks | None,
    ) -> list[Array]:
        """Its outputs for `arguments`, its inputs in order.

        Args:
            around: captured id -> array.
            training: as in a training session.
            key: the random key of this evaluation.
            ranges: collects the range checks of its operators.
        """
        widths = self.graph.widths
        own = map(widths.of_tensor, self.inputs, arguments)
        values = {**self._stored, **around, **dict(zip(self.inputs, own, strict=True))}
        env = self.graph.evaluate(
            values, training=training, key=key, side=SideValues(checks=ranges)
        )
        return [widths.of_tensor(name, env[name]) for name in self.outputs]

    def origin(self, output: int) -> str | HostArray | None:
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
        nodes: in order.
        settings: those.
        widths: of its tensors of integers.
        narrow: which of its tensors are half.
        fusion_ends: results behind a barrier, by `fusion_limits`.
        progress: called with each operator's number behind its evaluation; not the subgraphs'.

    Raises:
        LoweringError: operators without a lowering; the message lists all of them.
        popart_exception: PopART knows none of them either; the message lists all of them.
    """

    def __init__(
        self,
        graph: ir.Graph,
        settings: GraphSettings | None = None,
        missing: Missing | None = None,
    ) -> None:
        self.nodes: list[LoweredNode] = []
        self.settings = settings or GraphSettings()
        self.widths = Widths(graph, self.settings.in_64_bits)
        self._drew = False
        self.progress: Callable[[int], None] | None = None
        is_block = missing is not None
        missing = {} if missing is None else missing
        random = 0
        for index, node in enumerate(graph):
            domain = node.domain or "ai.onnx"
            rule = find_lowering(domain, node.op_type)
            if rule is None:
                first = next((str(value.name) for value in node.outputs), "")
                missing[domain, node.op_type] = str(node.name) or first
                continue
            draws = is_random(domain, node.op_type)
            self.nodes.append(self._lowered(node, index, rule, random if draws else None, missing))
            random += draws
        if missing and not is_block:
            raise _no_lowering(missing)
        self.narrow = Narrow(graph)
        self.narrow.count_readers(node.inputs for node in self.nodes)
        self.fusion_ends = fusion_limits.ends(self.nodes)

    def _lowered(
        self,
        node: ir.Node,
        index: int,
        rule: Lowering,
        random_index: int | None,
        missing: Missing,
    ) -> LoweredNode:
        """A node of the graph with its lowering; `index` is its place there."""
        blocks = {
            name: LoweredBlock(attribute.as_graph(), self.settings, missing)
            for name, attribute in node.attributes.items()
            if attribute.type == ir.AttributeType.GRAPH
        }
        captured = tuple(
            dict.fromkeys(name for block in blocks.values() for name in block.captured)
        )
        own = tuple(None if v is None else str(v.name) for v in node.inputs)
        return LoweredNode(
            name=str(node.name),
            domain=node.domain or "ai.onnx",
            op_type=node.op_type,
            rule=rule,
            inputs=own + captured,
            outputs=tuple(str(v.name) for v in node.outputs),
            attributes=node_values.attributes(node),
            random_index=node.meta.get(node_values.RANDOM_INDEX, random_index),
            blocks=blocks,
            captured=captured,
            constants=node_values.constants(node),
            bounds=node_values.bounds(node),
            partials=node_values.partials(node),
            scope=node.meta.get(scope_names.KEY) or scope_names.of_node(node, index),
            indices=integer_widths.index_inputs(node),
            in_64_bits=self.widths.computes_in_64_bits(node, (*own, *captured)),
        )

    # -- what it is made of ----------------------------------------------------------------------

    def keep(self, needed: Sequence[str]) -> None:
        """Drops the nodes that `needed` values do not depend on, but for those with effects."""
        wanted = set(needed)
        kept = []
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs) or _has_effect(node):
                wanted.update(name for name in node.inputs if name is not None)
                kept.append(node)
        self.nodes = kept[::-1]
        self.narrow.count_readers(node.inputs for node in self.nodes)
        self.fusion_ends = fusion_limits.ends(self.nodes)

    def depending_on(self, sources: Collection[str]) -> set[str]:
        """`sources` and every value that depends on one of them."""
        dependents = set(sources)
        for node in self.nodes:
            if not dependents.isdisjoint(node.inputs):
                dependents.update(node.outputs)
        return dependents

    def reaching(self, target: str) -> set[str]:
        """Every value that `target` depends on, itself included."""
        wanted = {target}
        for node in reversed(self.nodes):
            if wanted.intersection(node.outputs):
                wanted.update(name for name in node.inputs if name is not None)
        return wanted

    def runs_on_host(self, node: LoweredNode) -> bool:
        """Whether an operator, or one of its subgraphs, does something on the host."""
        is_kernel = not self.settings.kernels.keys().isdisjoint(node.outputs)
        return is_kernel or _has_effect(node) or any(map(self.runs_on_host, _inner_nodes(node)))

    @property
    def is_on_device(self) -> bool:
        """Whether no operator calls the host, as those of users may."""
        return not self.calls_host and all(map(_is_own, self.nodes))

    @property
    def calls_host(self) -> bool:
        """Whether one of the project's operators does something on the host."""
        return any(map(self.runs_on_host, self.nodes))

    @property
    def in_lockstep(self) -> bool:
        """Whether replicas exchange values, by operators of the graph or of its subgraphs."""
        if any(node.op_type in COLLECTIVES for node in self.nodes):
            return True
        return any(graph.in_lockstep for graph in self._inner)

    @property
    def has_barriers(self) -> bool:
        """Whether results go through barriers, that XLA has to heed."""
        return bool(self.fusion_ends) or any(graph.has_barriers for graph in self._inner)

    @property
    def draws(self) -> bool:
        """Whether what was evaluated took a random key, its subgraphs included.

        Roundings may take it too, in the graph and in what the step makes of its results.
        """
        drew = self._drew or any(graph.draws for graph in self._inner)
        return drew or self.settings.precision.stochastic_rounding

    @property
    def _inner(self) -> Iterator[LoweredGraph]:
        for node in self.nodes:
            for block in node.blocks.values():
                yield block.graph

    # -- evaluation ------------------------------------------------------------------------------

    def evaluate(
        self,
        values: Mapping[str, Array],
        *,
        training: bool,
        key: jax.Array,
        side: SideValues | None = None,
        backward: Differentiation | None = None,
    ) -> Environment:
        """Every value of the graph, given inputs and weights; those of half types in float32.

        Args:
            values: tensor id -> array, for all graph inputs and weights.
            training: as in a training session.
            key: random key of this micro-batch.
            side: goes in and out beside the tensors.
            backward: what backward asks of the evaluation.
        """
        side, backward = side or SideValues(), backward or Differentiation()
        return Evaluation(self, training, key, side, backward).run(values)

    def random_key(self, key: jax.Array, node: LoweredNode) -> jax.Array:
        """A node's own random key, given that of the micro-batch.

        Raises:
            LoweringError: its lowering was not registered as random.
        """
        if node.random_index is None:
            raise LoweringError(
                f"{node.domain}.{node.op_type} ({node.name}) draws random numbers; register "
                "its lowering with random=True."
            )
        # An operator with subgraphs takes one for them, whether they draw or not.
        self._drew = self._drew or not node.blocks
        return jax.random.fold_in(key, node.random_index)


def _no_lowering(missing: Missing) -> popart_exception:
    """The error of operators without a lowering, none of which the table of operators has."""
    names = ", ".join(f"{domain}.{op_type}:1" for domain, op_type in sorted(missing))
    return popart_exception(
        f"No class for {names}. PopART has no such operator; paddle_ipu.register_custom_op says "
        "what a custom one means on the IPU Model"
    )


def _inner_nodes(node: LoweredNode) -> list[LoweredNode]:
    return [inner for block in node.blocks.values() for inner in block.graph.nodes]


def _has_effect(node: LoweredNode) -> bool:
    """Whether a node does something on the host, or its subgraphs do."""
    return has_effect(node.domain, node.op_type) or any(map(_has_effect, _inner_nodes(node)))


def _is_own(node: LoweredNode) -> bool:
    """Whether the lowerings of a node and of its subgraphs are paddle_ipu's."""
    is_own = node.rule.__module__.startswith(OWN_LOWERINGS)
    return is_own and all(map(_is_own, _inner_nodes(node)))
