"""A plan's strategy as Python to paste, and where its stages begin."""

from __future__ import annotations

from paddle_ipu.cost_model.plan import Candidate

_DEFAULT_PROPORTION = 0.6
_RECOMPUTATION = {
    "NoRecompute": 0,
    "Standard": 1,
    "NormOnly": 2,
    "Pipeline": 3,
    "RecomputeAll": 4,
}


def strategy_text(candidate: Candidate) -> str:
    """An ``IpuStrategy`` with the candidate's options, as Python source."""
    program = candidate.prediction.program
    settings = program.settings
    pipelined = settings.pipelined and len(program.stages) > 1
    half = any(weight.item == 2 for weight in program.weights)
    options: dict[str, object] = {
        "enable_replicated_graphs": settings.replicas > 1,
        "replicated_graph_count": settings.replicas,
        "ipu_machine": candidate.prediction.machine.name,
    }
    if settings.training:
        options["auto_recomputation"] = _RECOMPUTATION[settings.recomputation]
        options["location_optimizer"] = {
            "on_chip": int(settings.state_on_chip),
            "use_replicated_tensor_sharding": int(settings.state_sharded),
        }
    largest = max((op.memory_proportion for op in program.operators), default=_DEFAULT_PROPORTION)
    if largest < _DEFAULT_PROPORTION:
        options["available_memory_proportion"] = largest
        options["convolution_options"] = {"availableMemoryProportion": str(largest)}
    lines = [
        "strategy = paddle.static.IpuStrategy()",
        "strategy.set_graph_config(",
        f"    num_ipus={settings.ipus}, is_training={settings.training}, "
        f"micro_batch_size={program.rows}, enable_manual_shard={pipelined}",
        ")",
        "strategy.set_pipelining_config(",
        f"    enable_pipelining={pipelined}, batches_per_step={settings.batches_per_step}, "
        f"enable_gradient_accumulation={settings.accumulation > 1},",
        f"    accumulation_factor={settings.accumulation},",
        ")",
        f"strategy.set_precision_config(enable_fp16={half})",
        "strategy.set_options({",
        *(f"    {name!r}: {value!r}," for name, value in options.items()),
        "})",
    ]
    return "\n".join(lines)


def placement_text(candidate: Candidate) -> str:
    """Where each stage begins: its IPU, first operator and weights; "" on one IPU."""
    program = candidate.prediction.program
    if len(program.stages) < 2:
        return ""
    lines = ["with paddle.static.ipu_shard_guard(index=IPU, stage=STAGE):"]
    for stage in program.stages:
        operators = [op for op in program.operators if op.stage == stage]
        weights = list(
            dict.fromkeys(t.name for op in operators for t in op.read if t.role == "weight")
        )
        span = f"{weights[0]} ... {weights[-1]}" if weights else "no weights"
        source = next((op.source for op in operators if op.source), "")
        lines.append(
            f"  index={operators[0].ipu}, stage={stage}: {len(operators)} operators from "
            f"{operators[0].op_type} {source}; weights {span}"
        )
    return "\n".join(lines)
