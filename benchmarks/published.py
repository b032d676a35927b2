"""Published throughputs beside the IPU Model's predictions, with the error; nothing is run.

    python -m benchmarks.published               the table
    python -m benchmarks.published --plan        chooses anew what published_strategies.json keeps
    python -m benchmarks.published --sensitivity what a fifth more or less of each constant does

Where a source says which strategy it used, that is predicted. Where it says none, the planner's
best for that machine and global batch is, as ``published_strategies.json`` keeps it: it was chosen
before the numbers were compared. Some rows have both, since Graphcore's public examples give a
strategy for the same model and system. The predictor's constants are fitted to the rows, but for
those of an older SDK than :data:`OLDEST_SDK`; what the others alone predict of a row says
``python -m benchmarks.fit``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import paddle

import paddle_ipu
from benchmarks.published_programs import (
    LARGE,
    bert,
    large_phase_1,
    mlperf,
    mlperf_network,
    resnet_in_public,
    resnet_inference,
    resnet_lars,
)
from paddle_ipu.cost_model.constants import CONSTANTS, TABLE, Constants
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.memory import livenesses
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.placement import Cuts
from paddle_ipu.cost_model.plan import plan, resized_plan
from paddle_ipu.cost_model.prediction import Prediction, predict
from paddle_ipu.cost_model.program import Program
from paddle_ipu.cost_model.uncertainty import Interval, rate_interval

STRATEGIES = Path(__file__).with_name("published_strategies.json")


@dataclass(frozen=True)
class Row:
    """A published throughput in items a second.

    Attributes:
        batch: rows of a weight update that the planner must keep; 0 where the strategy is known.
        packed: sequences that a row holds on average, where rows are packs.
        sdk: version of the Poplar SDK, where the source says it.
    """

    name: str
    machine: str
    published: float
    source: str
    build: Callable[[], Program]
    batch: int = 0
    packed: float = 1.0
    note: str = ""
    sdk: tuple[int, ...] = ()

    @property
    def is_comparable(self) -> bool:
        """Whether its SDK compiles as the predicted one does; taken to where no source says."""
        return not self.sdk or self.sdk >= OLDEST_SDK


OLDEST_SDK = (2, 5)
"""Figures of older SDKs are compared, but neither fitted to nor counted.

On the same machine Graphcore published about 40 % less for SDK 2.3 than later. No source says which
operators became faster, so that a factor for an SDK could only be the figures' own ratio.
"""


PACKED = {128: 1.17, 512: 2.0}
"""Sequences that a row of packed Wikipedia has on average, by the row's length.

``packing_factor`` in graphcore/examples, nlp/bert/pytorch/configs_pretraining.yml.
"""

PAGES = "Graphcore's performance pages"
EXAMPLES = "the strategy of Graphcore's public examples"
ROWS = (
    Row(
        "BERT-Base phase 1", "POD16", 11700, "PaddleNLP static_ipu README", bert,
        note="the published strategy",
    ),
    Row(
        "BERT-Base phase 1", "Bow-Pod16", 16391, f"{PAGES}, PopART", bert,
        note="the strategy published for Paddle, which has the same global batch",
    ),
    Row(
        "BERT-Base phase 1", "Bow-Pod4", 4035, "EIDF's documentation, PyTorch, generated data",
        lambda: bert(num_replica=1, grad_acc_factor=2048),
        note=f"{EXAMPLES}, the same but for one replica",
    ),
    Row(
        "BERT-Large phase 1", "Bow-Pod16", 6044, f"{PAGES}, PopART, packed",
        lambda: bert(packed=True, **LARGE, micro_batch_size=8, grad_acc_factor=1712), batch=54784,
        packed=PACKED[128], note="1.17 sequences a row",
    ),
    Row(
        "BERT-Large phase 1", "Bow-Pod16", 6044, f"{PAGES}, PopART, packed", large_phase_1,
        packed=PACKED[128], note=f"1.17 sequences a row; {EXAMPLES}",
    ),
    Row(
        "BERT-Large MLPerf v2.0", "Bow-Pod16", 2251, "MLPerf Training v2.0, Paddle", mlperf,
        packed=PACKED[512], sdk=(2, 5, 1),
        note="the published strategy; the rate has its evaluations in it",
    ),
    Row(
        "BERT-Large MLPerf v2.0", "Bow-Pod16", 2251, "MLPerf Training v2.0, Paddle", mlperf_network,
        batch=1536, packed=PACKED[512], sdk=(2, 5, 1), note="the rate has its evaluations in it",
    ),
    Row(
        "ResNet-50", "Bow-Pod16", 44059, f"{PAGES}, TensorFlow 1", resnet_lars,
        sdk=(3, 0), note=EXAMPLES,
    ),
    Row(
        "ResNet-50", "Bow-Pod16", 37061, f"{PAGES}, PyTorch", resnet_in_public, note=EXAMPLES,
    ),
    Row(
        "ResNet-50 inference", "POD4", 1 / 2.204e-3, "Paddle-Inference-Demo, 2.204 ms a run",
        resnet_inference, note="one image in float; which system is not said",
    ),
)  # fmt: skip


def main() -> int:
    """Prints the table, or chooses strategies."""
    parser = argparse.ArgumentParser(description="published throughputs beside predicted ones")
    parser.add_argument("--plan", action="store_true", help="choose the planner's strategies anew")
    parser.add_argument("--sensitivity", action="store_true", help="vary each fitted constant")
    arguments = parser.parse_args()
    paddle.enable_static()
    paddle_ipu.activate()
    if arguments.plan:
        chosen = {f"{row.name} on {row.machine}": _planned(row) for row in ROWS if row.batch}
        STRATEGIES.write_text(json.dumps(chosen, indent=1) + "\n")
        return 0
    kept = kept_strategies()
    programs = [program_of(row, kept) for row in ROWS]
    if arguments.sensitivity:
        print(_sensitivities(programs))
        return 0
    print(
        f"{'':<24} {'machine':<10} {'published':>9} {'predicted':>9} {'error':>7}  "
        f"{'80 % interval':<17} {'memory':>6}  strategy"
    )
    inside, counted = 0, 0
    for row, program in zip(ROWS, programs, strict=True):
        found = _prediction(row, program)
        interval = rate_interval(found, livenesses(program))
        if row.is_comparable:
            counted += 1
            inside += interval.low * row.packed <= row.published <= interval.high * row.packed
        print(_line(row, found, interval))
    print(f"{inside} of {counted} published rates lie in the interval of their prediction")
    return 0


def _planned(row: Row) -> dict[str, Any]:
    # The networks take any micro-batch; what is built has one.
    program = replace(row.build(), rows_are_fixed=False)
    found = plan(program, machine_named(row.machine), batch=row.batch).best
    if found is None:
        raise SystemExit(f"no strategy fits {row.name} on {row.machine}")
    program = found.prediction.program
    return {
        "rows": program.rows,
        "cuts": None if found.cuts is None else asdict(found.cuts),
        "settings": asdict(program.settings),
        "memory_proportion": max(op.memory_proportion for op in program.operators),
    }


def kept_strategies() -> dict[str, Any]:
    """What the planner chose before the comparison, by name and machine of a row."""
    found: dict[str, Any] = json.loads(STRATEGIES.read_text())
    return found


def program_of(row: Row, strategies: dict[str, Any]) -> Program:
    """A row's program, with the planned strategy where the row has no published one."""
    program = row.build()
    if not row.batch:
        return program
    kept = strategies[f"{row.name} on {row.machine}"]
    cuts = kept["cuts"]
    return resized_plan(
        program,
        rows=kept["rows"],
        cuts=None if cuts is None else Cuts(tuple(cuts["starts"]), tuple(cuts["ipus"])),
        settings=kept["settings"],
        proportion=kept["memory_proportion"],
    )


def _prediction(row: Row, program: Program, constants: Constants = CONSTANTS) -> Prediction:
    machine = machine_named(row.machine)
    return predict(program, machine, Pricing(machine.processor, constants))


def _line(row: Row, found: Prediction, interval: Interval) -> str:
    program = found.program
    low, high = interval.low * row.packed, interval.high * row.packed
    predicted = found.cycles.throughput * row.packed
    settings = program.settings
    worst = found.memory.worst
    share = worst.per_tile / worst.tile_capacity
    return (
        f"{row.name:<24} {row.machine:<10} {row.published:>9,.0f} {predicted:>9,.0f} "
        f"{predicted / row.published - 1:>+7.1%}  "
        f"{f'{low:,.0f} to {high:,.0f}':<17} {share:>6.0%}  "
        f"{settings.ipus // settings.replicas} IPUs x {settings.replicas}, micro-batch "
        f"{program.rows}, accumulation {settings.accumulation}, {settings.recomputation}"
        f"{', planned' if row.batch else ''}; {_use(row)}\n"
        f"{'':<24} {row.source}{_sdk(row)}; {row.note}"
    )


def _use(row: Row) -> str:
    return "fitted" if row.is_comparable else "not counted, an older SDK"


def _sdk(row: Row) -> str:
    return f", SDK {'.'.join(map(str, row.sdk))}" if row.sdk else ""


def _sensitivities(programs: Sequence[Program]) -> str:
    """What a fifth less and a fifth more of each constant changes, row by row."""

    def measured(constants: Constants) -> list[tuple[float, float]]:
        found = [_prediction(*pair, constants) for pair in zip(ROWS, programs, strict=True)]
        return [(f.cycles.throughput, float(f.memory.worst.per_tile)) for f in found]

    base = measured(CONSTANTS)
    lines = [f"{at}  {row.name}, {row.machine}" for at, row in enumerate(ROWS, 1)]
    head = "".join(f"{at:>8}" for at in range(1, len(ROWS) + 1))
    lines += ["", f"{'rows/s, of row':<32}{head}"]
    sizes = ["", f"{'the fullest tile, of row':<32}{head}"]
    for name in TABLE:
        for factor in (0.8, 1.2):
            changed = replace(CONSTANTS, **{name: getattr(CONSTANTS, name) * factor})
            pairs = list(zip(measured(changed), base, strict=True))
            for at, text in enumerate((lines, sizes)):
                changes = [now[at] / before[at] - 1 for now, before in pairs]
                if any(abs(change) >= 0.0005 for change in changes):
                    title = f"{name} x {factor}"
                    text.append(f"{title:<32}" + "".join(f"{change:>+8.1%}" for change in changes))
    return "\n".join([*lines, *sizes])


if __name__ == "__main__":
    sys.exit(main())
