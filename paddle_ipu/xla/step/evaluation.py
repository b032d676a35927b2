"""A PopART graph evaluated with JAX: each node by its lowering, in order, with wrappers around.

This runs while JAX traces, once for a compilation; nothing of it is left in the compiled step.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import jax

from paddle_ipu.xla.lowerings import residuals
from paddle_ipu.xla.lowerings.image_layouts import ImageLayouts
from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.range_checks import Checks
from paddle_ipu.xla.lowerings.registry import Array
from paddle_ipu.xla.precision import stochastic
from paddle_ipu.xla.precision.half import Narrow
from paddle_ipu.xla.step import fusion_limits, joint_gradients, segments
from paddle_ipu.xla.step.automatic_loss_scaling import GradientWatch
from paddle_ipu.xla.step.lowering_errors import named_in_errors
from paddle_ipu.xla.step.node_lowering import (
    Evaluate,
    GraphSettings,
    NodeLowering,
    Wrapper,
    composed,
)
from paddle_ipu.xla.step.operand_origins import OperandOrigins
from paddle_ipu.xla.step.segments import Segment
from paddle_ipu.xla.step.side_values import SideValues
from paddle_ipu.xla.step.simple_wrappers import (
    range_checked,
    reported,
    rounded,
    summed_in_order,
    tapped,
    with_constants,
    within_32_bits,
)
from paddle_ipu.xla.step.stale_weights import StaleReads, WeightVersions
from paddle_ipu.xla.step.widths import Widths

Environment = dict[str, Array]


class Graph(Protocol):
    """What an evaluation reads of a ``LoweredGraph``."""

    nodes: list[LoweredNode]
    settings: GraphSettings
    widths: Widths
    narrow: Narrow
    fusion_ends: frozenset[str]
    progress: Callable[[int], None] | None

    def random_key(self, key: jax.Array, node: LoweredNode) -> jax.Array:
        """A node's own random key."""


@dataclass(frozen=True, slots=True)
class Differentiation:
    """What backward asks of an evaluation.

    Attributes:
        trained: the weights that are updated with their gradients.
        segments: the graph in parts, some of which are functions; then only the results of those
            parts are returned.
        stale: earlier values of the weights, which some operators read in their place.
        watch: counts the gradients.
    """

    trained: Collection[str] = ()
    segments: Sequence[Segment] = ()
    stale: WeightVersions | None = None
    watch: GradientWatch | None = None


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of a graph: a micro-batch's, or a subgraph's.

    Attributes:
        graph: the graph.
        training: as in a training session.
        key: random key of this micro-batch.
        side: goes in and out beside the tensors.
        backward: what backward asks of it.
        sums: results of sums with constants, so far.
    """

    graph: Graph
    training: bool
    key: jax.Array
    side: SideValues
    backward: Differentiation
    sums: set[str] = field(default_factory=set)

    def run(self, values: Mapping[str, Array]) -> Environment:
        """Every value of the graph, from its inputs and weights; half types are float32."""
        nodes = self.graph.nodes
        key = self.key if self.graph.settings.precision.stochastic_rounding else None
        with stochastic.drawing_from(key):
            env = self._sources(values)
            origins = OperandOrigins(hidden=self.side.taps.keys())
            evaluator = self._evaluator(values)
            run = evaluator(origins, self.side)
            whole = Segment(0, len(nodes), False, frozenset(), ())
            for segment in self.backward.segments or (whole,):
                part = nodes[segment.first : segment.last]
                if segment.is_function:
                    inner = functools.partial(evaluator, origins.copy())
                    env.update(segments.evaluate(segment, part, env, self.side, inner))
                else:
                    for node in part:
                        env.update(run(node, env))
        return env

    def _sources(self, values: Mapping[str, Array]) -> Environment:
        """The graph's inputs and weights as its operators read them."""
        taps, watch = self.side.taps, self.backward.watch
        env = {name: self.graph.narrow.source(name, array) for name, array in values.items()}
        env = {name: x + taps[name] if name in taps else x for name, x in env.items()}
        return env if watch is None else {n: watch.tensor(n, x) for n, x in env.items()}

    def _evaluator(
        self, values: Mapping[str, Array]
    ) -> Callable[[OperandOrigins, SideValues], segments.Run]:
        """Gives what evaluates a node, for the graph or a segment of it."""
        large = residuals.large_weights({name: values[name] for name in self.backward.trained})
        readers = joint_gradients.readers(self.graph.nodes, large)
        numbers = itertools.count(1)

        def evaluator(origins: OperandOrigins, side: SideValues) -> segments.Run:
            lower = functools.partial(self._lowering, origins, self._rebindable(large))
            wrappers = self._wrappers(side, origins.images, readers, numbers)
            if self.backward.stale is not None:
                reads = StaleReads(self.backward.stale, self.graph.narrow, origins, lower(None))
                wrappers.append(reads.replaced)
            evaluate = composed(wrappers, lower(side.checks))

            def run(node: LoweredNode, env: Mapping[str, Array]) -> Mapping[str, Array]:
                operands = [None if name is None else env[name] for name in node.inputs]
                results = evaluate(node, operands)
                return {**origins.pop_rebound(), **dict(zip(node.outputs, results, strict=False))}

            return run

        return evaluator

    def _wrappers(
        self,
        side: SideValues,
        images: ImageLayouts,
        readers: Collection[str],
        numbers: Iterator[int],
    ) -> list[Wrapper]:
        """What is around each node, the outermost first."""
        graph, watch, ends = self.graph, self.backward.watch, self.graph.fusion_ends
        if graph.settings.precision.stochastic_rounding:
            # Bits are drawn by an element's place, which a layout that happens to be there moves.
            images = ImageLayouts()
        wrappers: list[Wrapper | None] = [
            functools.partial(tapped, side.taps) if side.taps else None,
            functools.partial(fusion_limits.kept_apart, ends) if ends else None,
            graph.progress and functools.partial(reported, graph.progress, numbers),
            None if side.finite is None else side.finite.observed,
            None if watch is None else watch.of_results,
            functools.partial(rounded, graph.narrow, images),
            None if watch is None else watch.of_operands,
            functools.partial(joint_gradients.joined, readers) if readers else None,
            functools.partial(with_constants, self.training),
            graph.widths.converted,
        ]
        return [wrapper for wrapper in wrappers if wrapper is not None]

    def _lowering(
        self, origins: OperandOrigins, rebindable: Collection[str], checks: Checks | None
    ) -> Evaluate:
        """Evaluates a node with operands as its lowering takes them."""
        graph = self.graph
        in_order = functools.partial(summed_in_order, self.sums)
        wrappers: list[Wrapper] = [within_32_bits, in_order, graph.widths.traced]
        if checks is not None:
            ranges = graph.settings.operand_ranges
            wrappers.append(functools.partial(range_checked, ranges, checks))
        lowering = NodeLowering(
            graph.settings, graph.narrow.dtypes, self.training,
            functools.partial(graph.random_key, self.key), origins, checks, rebindable,
        )  # fmt: skip
        return composed([*wrappers, named_in_errors], lowering)

    def _rebindable(self, weights: Collection[str]) -> Collection[str]:
        """Those of some weights whose array a lowering may replace for later readers."""
        backward, replicas = self.backward, self.graph.settings.replicas
        if backward.watch is not None or backward.stale is not None or replicas > 1:
            return ()
        return set(weights) - self.graph.narrow.dtypes.keys()
