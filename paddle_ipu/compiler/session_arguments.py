"""What a session is given of a strategy: session options, patterns, anchors."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from paddle_ipu.options.strategy import (
    StrategyValues,
    check_python_interface,
    record_on,
    record_patterns_on,
)
from paddle_ipu.popart.dataflow import DataFlow
from paddle_ipu.popart.options import SessionOptions
from paddle_ipu.popart.patterns import Patterns
from paddle_ipu.runtime import target_selection


def session_options(
    popart: ModuleType, values: StrategyValues, cache: str | None = None
) -> SessionOptions:
    """PopART's session options of a strategy.

    Args:
        popart: the module of the session, ours or Graphcore's.
        values: the strategy's.
        cache: the folder of compiled programs, None for no cache.
    """
    if not target_selection.is_ours(popart):
        check_python_interface(values)
    options: SessionOptions = popart.SessionOptions()
    # The Scope's weights go to an inference session too, and may change later.
    options.constantWeights = False
    record_on(values, options, lambda kind, member: getattr(getattr(popart, kind), member))
    options.enableEngineCaching = cache is not None
    if cache is not None:
        options.cachePath = cache
    return options


def session_patterns(popart: ModuleType, values: StrategyValues) -> Patterns:
    """PopART's default patterns, changed as the strategy says."""
    patterns: Patterns = popart.Patterns()
    record_patterns_on(values, patterns.enablePattern)
    return patterns


def data_flow(popart: ModuleType, values: StrategyValues, anchors: Mapping[str, str]) -> DataFlow:
    """Every value of every anchor.

    Args:
        popart: the module of the session.
        values: the strategy's.
        anchors: fetch -> tensor.
    """
    flow: DataFlow = popart.DataFlow(
        int(values["batches_per_step"]),
        {anchor: popart.AnchorReturnType("All") for anchor in anchors.values()},
    )
    return flow
