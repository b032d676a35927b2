"""The options that a stage compiles with: those of the published scripts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle

from examples.bert.stages.instances import replicas_of
from examples.bert.stages.settings import Settings

CompileProgress = Callable[[int, int], None]
OF_STAGES = 3
"""``auto_recomputation`` that computes the stages of a pipeline again: for pipelines only."""


def ipu_strategy(
    settings: Settings, random_seed: int, progress: CompileProgress | None, *, squad: bool
) -> Any:
    """An ``IpuStrategy`` for training, or for inference where ``is_training`` is off."""
    replicas = replicas_of(settings, "ipu")
    pipelined = settings.num_ipus > 1
    options: dict[str, Any] = {
        "is_training": settings.is_training,
        "micro_batch_size": settings.micro_batch_size,
        "batches_per_step": settings.batches_per_step,
        "random_seed": random_seed,
        "num_ipus": settings.num_ipus * replicas.own,
        "enable_manual_shard": pipelined,
        "enable_pipelining": pipelined,
        "enable_replicated_graphs": replicas.total > 1,
        "replicated_graph_count": replicas.own,
        "enable_fp16": settings.ipu_enable_fp16,
        "enable_half_partial": settings.ipu_enable_fp16,
        "enable_stochastic_rounding": settings.ipu_enable_fp16 and settings.is_training,
        "enable_outlining": True,
        "outline_threshold": 10.0,
        "subgraph_copying_strategy": 1,
        "enable_prefetch_datastreams": True,
        "default_prefetch_buffering_depth": 3,
        "rearrange_anchors_on_host": False,
        "engine_options": {
            "opt.useAutoloader": "true",
            "target.syncReplicasIndependently": "true",
            "exchange.streamBufferOverlap": "hostRearrangeOnly",
        },
    }
    if settings.enable_engine_caching:  # where it is not set, the environment may have a cache
        options["enable_engine_caching"] = True
        options["cache_path"] = str(Path(settings.output_dir) / "paddle_cache")
    if replicas.instances > 1:
        options |= {
            "enable_distribution": True,
            "enable_distributed_replicated_graphs": True,
            "global_replication_factor": replicas.total,
            "global_replica_offset": replicas.offset,
        }
    if settings.ipu_enable_fp16:
        options["convolution_options"] = {"partialsType": "half"}
    if settings.available_mem_proportion > 0:
        options["available_memory_proportion"] = settings.available_mem_proportion
    if progress is not None:
        options["compilation_progress_logger"] = progress
    if settings.is_training:
        options |= _training_options(settings)
    strategy = paddle.static.IpuStrategy()
    strategy.set_options(options)
    if squad and settings.is_training and settings.attention_probs_dropout_prob > 0:
        strategy.enable_pattern("DisableAttnDropoutBwdPattern")
    return strategy


def _training_options(settings: Settings) -> dict[str, Any]:
    stageless = settings.auto_recomputation == OF_STAGES and settings.num_ipus == 1
    options: dict[str, Any] = {
        "enable_gradient_accumulation": settings.accumulation > 1,
        "accumulation_factor": settings.accumulation,
        "auto_recomputation": 0 if stageless else settings.auto_recomputation,
        "loss_scaling": settings.scale_loss,
        "use_no_bias_optimizer": settings.use_no_bias_optimizer,
        "max_weight_norm": 65504.0,
        "accl1_type": settings.accl1_type,
        "accl2_type": settings.accl2_type,
        "weight_decay_mode": settings.weight_decay_mode,
        "disable_grad_accumulation_tensor_streams": True,
        "schedule_non_weight_update_gradient_consumers_early": True,
    }
    if not settings.optimizer_state_offchip:
        location = {"on_chip": 1, "use_replicated_tensor_sharding": int(settings.num_replica > 1)}
        options["location_optimizer"] = location
    if settings.num_ipus > 1:
        options["accumulate_outer_fragment"] = {3: [0]}
    return options
