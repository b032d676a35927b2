"""Copies of a user's strategy, for programs that run one micro-batch at a time."""

from __future__ import annotations

import copy

from paddle_ipu.options.strategy import Strategy


def for_one_micro_batch(original: Strategy) -> Strategy:
    """A copy of a strategy without pipeline, loop, accumulation and replicas."""
    strategy = copied(original)
    strategy.set_pipelining_config(enable_pipelining=False, batches_per_step=1)
    values = strategy._ipu_strategy.snapshot()
    ipus = values["num_ipus"] // values["replicated_graph_count"]
    strategy.set_options({"enable_gradient_accumulation": False, "accumulation_factor": 1})
    strategy.set_options({"enable_replicated_graphs": False, "replicated_graph_count": 1})
    if values.member("auto_recomputation") == "Pipeline":
        strategy.set_options({"auto_recomputation": 0})
    strategy.set_options({"num_ipus": ipus, "create_implicit_pipelining_fwd_only_program": False})
    if ipus == 1:
        strategy.set_options({"enable_manual_shard": False})
    return strategy


def copied(original: Strategy) -> Strategy:
    """A copy of a strategy whose runs do not share micro-batches."""
    strategy = copy.copy(original)
    strategy._ipu_strategy = copy.deepcopy(original._ipu_strategy)
    # Runs that share micro-batches need feeds and fetches with rows.
    strategy.set_options({"enable_model_runtime_executor": False})
    return strategy
