"""The machine that a strategy is for, and how many of its IPUs a program takes."""

from __future__ import annotations

import os

from paddle_ipu.cost_model.choice import Choice, choose_machine
from paddle_ipu.options.strategy import StrategyValues


def ipus_of(values: StrategyValues) -> int:
    """IPUs of all replicas, those of other instances too; ``num_ipus`` is of one instance."""
    ipus = int(values["num_ipus"])
    if not values["enable_distributed_replicated_graphs"]:
        return ipus
    local = int(values["replicated_graph_count"]) if values["enable_replicated_graphs"] else 1
    return max(1, ipus // local) * int(values["global_replication_factor"])


def choice_of(values: StrategyValues) -> Choice:
    """The machine that a strategy or the environment names, else the smallest GC200 system.

    Raises:
        OptionError: an unknown machine, or one with too few IPUs or tiles.
    """
    tiles = int(values["tiles_per_ipu"]) if "tiles_per_ipu" in values.explicit else None
    return choose_machine(str(values["ipu_machine"]), ipus_of(values), tiles, os.environ)


def choice_with_all_tiles(values: StrategyValues) -> Choice:
    """As :func:`choice_of`, but an unnamed machine has all its tiles, whatever the strategy says.

    Raises:
        OptionError: an unknown machine, or one with too few IPUs or tiles.
    """
    choice = choice_of(values)
    return choice if choice.named else choose_machine("", ipus_of(values), None, {})
