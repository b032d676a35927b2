"""A plan's strategy as calls of ``IpuStrategy``, as Python to paste, and where its stages begin."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from paddle_ipu.cost_model.plan import Candidate
from paddle_ipu.options.strategy import StrategyValues
from paddle_ipu.options.table import ALIASES, OPTIONS
from paddle_ipu.popart.enums import RecomputationType

_DEFAULT_PROPORTION = 0.6
_PLANNED = frozenset(
    {
        "accumulation_factor",
        "auto_recomputation",
        "available_memory_proportion",
        "batches_per_step",
        "create_implicit_pipelining_fwd_only_program",
        "enable_fp16",
        "enable_gradient_accumulation",
        "enable_pipelining",
        "enable_replicated_graphs",
        "ipu_machine",
        "is_training",
        "location_optimizer",
        "micro_batch_size",
        "need_avg_shard",
        "num_ipus",
        "replicated_graph_count",
        "virtual_graph_mode",
    }
)
"""Options that a plan decides, whatever the strategy had."""
_OF_ONE_PROCESS = frozenset(
    {
        "enable_distributed_replicated_graphs",
        "enable_distribution",
        "global_replica_offset",
        "global_replication_factor",
    }
)
"""Options that say which part of a job a process is; a plan has all replicas in one."""
_OF_ITS_OWN = ("custom_op", "custom_ops", *ALIASES)
"""Options that other calls and options stand for."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a method of ``paddle.static.IpuStrategy``, one line for each entry of `lines`."""

    method: str
    arguments: Mapping[str, Any]
    lines: Sequence[Sequence[str]] = ()

    def on(self, strategy: Any) -> None:
        """Makes it."""
        arguments = copy.deepcopy(dict(self.arguments))
        if self.method == "set_options":
            strategy.set_options(arguments)
        else:
            getattr(strategy, self.method)(**arguments)

    def __str__(self) -> str:
        if self.method == "set_options":
            rows = [f"    {name!r}: {value!r}," for name, value in self.arguments.items()]
            return "\n".join(["strategy.set_options({", *rows, "})"])
        written = {name: f"{name}={value!r}" for name, value in self.arguments.items()}
        if not self.lines:
            return f"strategy.{self.method}({', '.join(written.values())})"
        rows = [f"    {', '.join(written[name] for name in line)}," for line in self.lines]
        return "\n".join([f"strategy.{self.method}(", *rows, ")"])


def strategy_calls(
    candidate: Candidate, values: StrategyValues, fresh: StrategyValues, machine: str
) -> list[Call]:
    """What makes a new ``IpuStrategy`` a candidate's.

    Where the candidate has a placement of its own, ``need_avg_shard`` makes one like it.

    Args:
        values: the user's strategy, whose other options stay; functions cannot be written down.
        fresh: what a new ``IpuStrategy`` has.
        machine: what ``ipu_machine`` takes.
    """
    program = candidate.prediction.program
    settings = program.settings
    pipelined = settings.pipelined and len(program.stages) > 1
    accumulating = settings.accumulation > 1
    options = _kept(values, fresh)
    options["enable_replicated_graphs"] = settings.replicas > 1
    options["replicated_graph_count"] = settings.replicas
    options["ipu_machine"] = machine
    if pipelined and candidate.cuts is not None:
        options["need_avg_shard"] = True
    if settings.training:
        options["auto_recomputation"] = int(RecomputationType[settings.recomputation])
        options["location_optimizer"] = {
            **_thawed(values["location_optimizer"]),
            "on_chip": int(settings.state_on_chip),
            "use_replicated_tensor_sharding": int(settings.state_sharded),
        }
    if pipelined and accumulating and values["create_implicit_pipelining_fwd_only_program"]:
        options["create_implicit_pipelining_fwd_only_program"] = True
    largest = max((op.memory_proportion for op in program.operators), default=_DEFAULT_PROPORTION)
    if largest < _DEFAULT_PROPORTION:
        options["available_memory_proportion"] = largest
        options["convolution_options"] = {
            **options.get("convolution_options", {}),
            "availableMemoryProportion": str(largest),
        }
    return [
        Call(
            "set_graph_config",
            {
                "num_ipus": settings.ipus,
                "is_training": settings.training,
                "micro_batch_size": program.rows,
                "enable_manual_shard": pipelined,
            },
            (("num_ipus", "is_training", "micro_batch_size", "enable_manual_shard"),),
        ),
        Call(
            "set_pipelining_config",
            {
                "enable_pipelining": pipelined,
                "batches_per_step": settings.batches_per_step,
                "enable_gradient_accumulation": accumulating,
                "accumulation_factor": settings.accumulation,
            },
            (
                ("enable_pipelining", "batches_per_step", "enable_gradient_accumulation"),
                ("accumulation_factor",),
            ),
        ),
        Call("set_precision_config", {"enable_fp16": bool(values["enable_fp16"])}),
        Call("set_options", options),
        *_custom_calls(values),
    ]


def _custom_calls(values: StrategyValues) -> list[Call]:
    calls = [
        Call(
            "add_custom_op",
            {
                "paddle_op": operator.paddle_op,
                "popart_op": operator.popart_op,
                "domain": operator.domain,
                "version": operator.version,
            },
        )
        for operator in values.custom_ops.values()
    ]
    for name, enabled in values.patterns.items():
        calls.append(Call("enable_pattern" if enabled else "disable_pattern", {"pattern": name}))
    return calls


def _kept(values: StrategyValues, fresh: StrategyValues) -> dict[str, Any]:
    """The options that the user set and a plan leaves as they are."""
    decided = {*_PLANNED, *_OF_ONE_PROCESS, *_OF_ITS_OWN}
    return {
        name: _thawed(values[name])
        for name, option in OPTIONS.items()
        if name in values.explicit
        and name not in decided
        and option.kind != "callable"
        and values[name] != fresh[name]
    }


def _thawed(value: Any) -> Any:
    """A value of a strategy as it is given to one."""
    if isinstance(value, (dict, MappingProxyType)):
        return {key: _thawed(entry) for key, entry in value.items()}
    return [_thawed(entry) for entry in value] if isinstance(value, tuple) else value


def strategy_text(calls: Sequence[Call]) -> str:
    """An ``IpuStrategy`` made by `calls`, as Python source."""
    return "\n".join(["strategy = paddle.static.IpuStrategy()", *map(str, calls)])


def placement_text(candidate: Candidate) -> str:
    """Where each stage begins: its IPU, first operator and weights; "" on one IPU."""
    program = candidate.prediction.program
    if len(program.stages) < 2:
        return ""
    lines = []
    for stage in program.stages:
        operators = [op for op in program.operators if op.stage == stage]
        weights = list(
            dict.fromkeys(t.name for op in operators for t in op.read if t.role == "weight")
        )
        span = f"{weights[0]} ... {weights[-1]}" if weights else "no weights"
        where = next((op.origin.where for op in operators if op.origin.where), "")
        lines.append(
            f"index={operators[0].ipu}, stage={stage}: {len(operators)} operators from "
            f"{operators[0].op_type} {where}; weights {span}"
        )
    return "\n".join(lines)
