"""A value away from the default for every option, and strategies with some set."""

from __future__ import annotations

from typing import Any

import pytest

from paddle_ipu.options.strategy import OPTIONS, CoreIpuStrategy, Option

RELU = {"paddle_op": "relu_x", "popart_op": "ReluX", "domain": "custom.ops", "version": 1}

# Values away from the default, for options whose kind alone does not give one.
SAMPLES: dict[str, Any] = {
    "accl1_type": "FLOAT16",
    "accl2_type": "FLOAT16",
    "accl3_type": "FLOAT16",
    "accumulate_outer_fragment": {3: [0]},
    "available_memory_proportion": 0.28,
    "automatic_loss_scaling_settings.bin_edge_location": 0.5,
    "automatic_loss_scaling_settings.threshold_upper_count_proportion": 0.25,
    "custom_codelets": ["codelet.cpp"],
    "custom_op": RELU,
    "dot_checks": ["Fwd0", "Final"],
    "gcl_options": {"maxBytesPerTile": 1000},
    "hardware_instrumentations": [0, 1],
    "kahn_tie_breaker": "fifo",
    "partials_type_matmuls": "half",
    "random_seed": 42,
    "replicated_collectives_settings": {"merge_all_reduce_collectives": True},
    "ipu_machine": "bow-pod16",
    "weight_decay_mode": "decay",
    "optimizer_rule": "popart",
}
SETTABLE = [option for option in OPTIONS.values() if option.name != "custom_ops"]
BY_NAME = pytest.mark.parametrize("option", SETTABLE, ids=lambda option: option.name)


def other_value(option: Option) -> Any:
    """A valid value that is not the option's default."""
    if option.name in SAMPLES:
        return SAMPLES[option.name]
    plain: dict[str, Any] = {
        "bool": not option.default,
        "enum": 0 if option.default else 1,
        "string": "name",
        "dict": {"name": "value", "count": 3},
        "location": {"on_chip": 0, "use_replicated_tensor_sharding": True},
        "callable": print,
    }
    if option.kind in plain:
        return plain[option.kind]
    return option.default + 1


def strategy(**options: Any) -> CoreIpuStrategy:
    made = CoreIpuStrategy()
    made.set_options(options)
    return made
