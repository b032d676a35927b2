"""What a pass is, what it works on, and how passes are run; their order is in ``pipeline``.

A pass is a class with a ``name`` and ``run(program) -> bool``, True if it changed something. Passes
of a pipeline declare the facts about the graph that they require and ensure, and the order is
checked against them when the pipeline is built. After each pass the graph is checked: producers
come before consumers, and every output has a producer. Passes over the paddle dialect work on a
:class:`Compilation`; those over the graph of an inference program are in ``xla/rewrites``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import onnx_ir as ir

from paddle_ipu.dialect import dialect
from paddle_ipu.errors import PaddleIpuError, PassError, popart_exception
from paddle_ipu.popart.paddle_optimizer import PaddleOptimizer

GraphListener = Callable[[str, ir.Graph, bool], None]
"""Called with (name of a pass, the graph after it, whether it changed something)."""


class HasGraph(Protocol):
    """A program that a pass can work on.

    Attributes:
        graph: the graph that passes rewrite.
    """

    graph: ir.Graph


Program = TypeVar("Program", bound=HasGraph)
Rewritten = TypeVar("Rewritten", bound=HasGraph, contravariant=True)


@dataclass(slots=True)
class Compilation:
    """A program during its compilation for PopART.

    Attributes:
        graph: the dialect graph; passes rewrite it in place.
        feeds: names of the feeds in the order given to ``compile``.
        fetches: names of the fetches in the order given to ``compile``.
        options: the strategy's values by option name.
        optimizer: set by ``extract_optimizer`` in training.
        loss: name of the loss, set by ``extract_optimizer`` in training.
        optional_gradients: fetches of gradients that are left out if the loss has none, set by
            ``ask_for_gradients``.
        writes: overwritten value -> the value it has at the end of a run, set by
            ``extract_forward``; of a parameter or state, its value in the next run.
        rows: of one micro-batch, set by ``bind_micro_batch``.
        rows_are_fixed: no feed has a dynamic first dimension; set with `rows`.
        cuts: for ``need_avg_shard``: (compilation, operators, number of parts) -> index of the
            first operator of each part; None for parts of equal length.
    """

    graph: ir.Graph
    feeds: Sequence[str]
    fetches: Sequence[str]
    options: Mapping[str, Any]
    optimizer: PaddleOptimizer | None = None
    loss: str | None = None
    optional_gradients: frozenset[str] = frozenset()
    writes: dict[str, str] = field(default_factory=dict)
    rows: int = 1
    rows_are_fixed: bool = False
    cuts: Callable[[Compilation, Sequence[ir.Node], int], Sequence[int]] | None = None

    @property
    def patterns(self) -> Mapping[str, bool]:
        """The graph patterns that the strategy enables or disables."""
        patterns: Mapping[str, bool] = getattr(self.options, "patterns", {})
        return patterns

    @property
    def training(self) -> bool:
        """True when weights are updated."""
        return bool(self.options["is_training"])

    def state_writes(self) -> dict[str, str]:
        """Parameter or state -> the value it has in the next run."""
        kept = {
            str(value.name)
            for value in self.graph.inputs
            if value.meta.get(dialect.ROLE) in (dialect.PARAMETER, dialect.STATE)
        }
        return {name: value for name, value in self.writes.items() if name in kept}

    def value(self, name: str) -> ir.Value | None:
        """The value of the main graph called `name`, or None."""
        for value in self.graph.inputs:
            if value.name == name:
                return value
        for node in self.graph:
            for value in node.outputs:
                if value.name == name:
                    return value
        return None


class GraphPass(Protocol[Rewritten]):
    """A rewriting of a graph."""

    @property
    def name(self) -> str:
        """What the pass does, as verb and object."""

    def run(self, program: Rewritten, /) -> bool:
        """Rewrites the program's graph; True if something changed."""


Pass = GraphPass[Compilation]
"""A pass over the paddle dialect."""


class OrderedPass(GraphPass[Rewritten], Protocol[Rewritten]):
    """A pass of a pipeline, with the facts that hold before and after it."""

    @property
    def requires(self) -> Sequence[str]:
        """Facts that earlier passes have to ensure."""

    @property
    def ensures(self) -> Sequence[str]:
        """Facts that hold after it."""


def in_order(*passes: OrderedPass[Rewritten]) -> tuple[OrderedPass[Rewritten], ...]:
    """Checks that each pass has what it requires from those before it, and returns them.

    Raises:
        ValueError: a pass is there twice, or lacks what it requires.
    """
    names, ensured = set[str](), set[str]()
    for step in passes:
        if step.name in names:
            raise ValueError(f"pass {step.name} stands in a pipeline twice")
        if lacking := sorted({*step.requires} - ensured):
            raise ValueError(
                f"pass {step.name} requires {', '.join(lacking)}; no pass before it ensures that"
            )
        names.add(step.name)
        ensured.update(step.ensures)
    return passes


def run_passes(
    passes: Sequence[GraphPass[Program]], program: Program, listen: GraphListener | None = None
) -> list[str]:
    """Runs passes in order and checks the graph after each.

    Args:
        passes: the passes.
        program: what they rewrite.
        listen: called after each pass.

    Returns:
        Names of the passes that changed the graph.

    Raises:
        PassError: a pass failed other than by an error for the user, or left an invalid graph.
    """
    changed: list[str] = []
    done: list[str] = []
    for step in passes:
        try:
            has_changed = step.run(program)
            _check(program.graph)
        except (PaddleIpuError, popart_exception):
            raise
        except Exception as error:
            raise PassError(
                f"pass {step.name} failed after {', '.join(done) or 'no other pass'}: {error!r}. "
                "This is a fault of paddle_ipu; set PADDLE_IPU_DUMP=<folder> to see the graph "
                "that went in."
            ) from error
        done.append(step.name)
        if has_changed:
            changed.append(step.name)
        if listen is not None:
            listen(step.name, program.graph, has_changed)
    return changed


def _check(graph: ir.Graph) -> None:
    """Raises ValueError if a value is read before its producer, or an output has none."""
    known = {id(value) for value in (*graph.inputs, *graph.initializers.values())}
    for node in graph:
        for value in node.inputs:
            if value is not None and id(value) not in known:
                raise ValueError(
                    f"{node.op_type} ({node.name}) reads {value.name} before it is made"
                )
        known.update(id(value) for value in node.outputs)
    for value in graph.outputs:
        if id(value) not in known:
            raise ValueError(f"output {value.name} is no longer made")
