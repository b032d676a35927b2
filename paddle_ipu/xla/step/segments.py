"""A part of a graph's operators that is evaluated as one function of JAX's.

Such a function is evaluated again in backward (`recomputation` says which), or called, so that XLA
compiles it by itself (`parts`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import jax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.xla_metadata import set_xla_metadata

from paddle_ipu.xla.lowerings.node import LoweredNode
from paddle_ipu.xla.lowerings.registry import Array
from paddle_ipu.xla.step.side_values import SideValues

_KEPT = "kept"


@dataclass(frozen=True, slots=True)
class Segment:
    """Operators ``first`` to ``last``, ``last`` excluded, that are evaluated together.

    Attributes:
        recomputed: evaluated again in backward.
        kept: results of them that are kept nevertheless.
        results: what later operators, or others, read of it.
        called: compiled by itself.
    """

    first: int
    last: int
    recomputed: bool
    kept: frozenset[str]
    results: tuple[str, ...]
    called: bool = False

    @property
    def is_function(self) -> bool:
        """Whether it is evaluated apart from the graph around it."""
        return self.recomputed or self.called


Run = Callable[[LoweredNode, Mapping[str, Array]], Mapping[str, Array]]
"""(a node, tensors by name) -> the tensors that the node adds or replaces."""

_Arrays = Mapping[str, jax.Array]
_Results = tuple[dict[str, jax.Array], list[jax.Array], list[jax.Array]]
_Function = Callable[[_Arrays, _Arrays], _Results]
"""(tensors, taps) -> a segment's results, flags and extremes."""


def evaluate(
    segment: Segment,
    nodes: Sequence[LoweredNode],
    env: Mapping[str, Array],
    side: SideValues,
    evaluator: Callable[[SideValues], Run],
) -> dict[str, Array]:
    """The results of a segment that is a function.

    What is traced inside leaves it as a result of the function only: flags and
    extremes too. Constants stay constants.

    Args:
        nodes: its operators.
        env: the tensors in front of it.
        side: goes in and out beside the tensors; the segment's own flags and checks are added.
        evaluator: gives what evaluates one of the operators, for the side values of the segment.
    """
    made = {name for node in nodes for name in node.outputs}
    read = {name for node in nodes for name in node.inputs if name is not None and name not in made}
    arrays = {name: x for name in read if isinstance(x := env[name], jax.Array)}
    constants = {name: env[name] for name in read if name not in arrays}
    fixed: dict[str, Array] = {}
    own = side.of_segment({})

    def once(arrays: _Arrays, taps: _Arrays) -> _Results:
        nonlocal own
        own = side.of_segment(taps)
        run = evaluator(own)
        inside: dict[str, Array] = {**constants, **arrays}
        for node in nodes:
            for name, array in run(node, inside).items():
                if name in segment.kept and isinstance(array, jax.Array):
                    array = checkpoint_name(array, _KEPT)  # type: ignore[no-untyped-call]
                inside[name] = array
        results = {name: inside[name] for name in segment.results if name in inside}
        traced = {n: array for n, array in results.items() if isinstance(array, jax.Array)}
        fixed.update((n, array) for n, array in results.items() if n not in traced)
        return traced, own.flags, own.extremes

    function: _Function = once
    if segment.recomputed:
        policy = jax.checkpoint_policies.save_only_these_names(_KEPT)
        function = jax.checkpoint(once, policy=policy)
    if segment.called:
        function = _called(function)
    taps = {name: tap for name, tap in side.taps.items() if name in made}
    traced, flags, extremes = function(arrays, taps)
    side.add(own, flags, extremes)
    return {**fixed, **traced}


def _called(function: _Function) -> _Function:
    """The function, whose calls XLA leaves as they are; what it calls itself is inlined."""

    def inside(arrays: _Arrays, taps: _Arrays) -> _Results:
        with set_xla_metadata(inlineable="true"):  # type: ignore[no-untyped-call]
            return function(arrays, taps)

    def call(arrays: _Arrays, taps: _Arrays) -> _Results:
        with set_xla_metadata(inlineable="false"):  # type: ignore[no-untyped-call]
            results: _Results = jax.jit(inside)(arrays, taps)
        return results

    return call
