"""``paddle-ipu plan``: the fastest strategy for a program on a machine that fits its memory."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from typing import Any

from paddle_ipu.cli.numbers import not_negative, positive
from paddle_ipu.cli.predicted import Target, add_predicted_target, predicted_target
from paddle_ipu.compiler.proposals import Proposal, Proposals, proposals
from paddle_ipu.cost_model.memory_check import size
from paddle_ipu.cost_model.plan import MOST, Candidate, Plan, plan
from paddle_ipu.cost_model.report.strategy_text import placement_text, strategy_text

NAME = "plan"
SUMMARY = "propose a strategy that fits an IPU machine and is fast on it"
EXIT_CODES = """\
A script is run until it compiles for the IPU; strategies for its program are predicted, with the
same rows in a weight update. Nothing is compiled. What is shown was lowered as compile does it: put
the strategy into the script, and it compiles.

  for the machine that the strategy names   paddle-ipu plan train.py
  for another, with another batch           paddle-ipu plan --machine pod64 --batch 4096 train.py

exit codes:
  0  there is a strategy that fits
  1  none that was tried does; the closest is shown
  2  wrong arguments, or a missing file
  3  the script failed or compiled nothing, or the model cannot be read
"""
_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_predicted_target(parser)
    add = parser.add_argument
    add(
        "--batch",
        type=not_negative,
        default=0,
        metavar="N",
        help="rows of a weight update; in inference rows at once",
    )
    add(
        "--candidates", type=positive, default=MOST, metavar="N",
        help=f"strategies to try at most (default {MOST})",
    )  # fmt: skip
    add("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the proposal; returns the exit code."""
    target = predicted_target(arguments)
    if isinstance(target, int):
        return target
    begin = time.perf_counter()
    planned, proposed = _planned(target, arguments)
    seconds = time.perf_counter() - begin
    if arguments.json:
        shown = [_as_json(proposal) for proposal in proposed.proposals]
        print(json.dumps({"fitting": shown, "too_large": planned.too_large}, indent=1))
        return 0 if proposed.proposals else 1
    tried = len(planned.candidates) + planned.too_large
    print(
        f"{tried} strategies for {target.machine.name} in {seconds:.1f} s; "
        f"{len(planned.candidates)} fit"
    )
    print(_HEAD if target.program.settings.training else _HEAD_INFERENCE)
    for proposal in proposed.proposals:
        print(_row(proposal.candidate))
    if target.program.rows_are_fixed:
        print(
            f"the feeds' own shapes give micro-batches of {target.program.rows} rows: others are "
            "tried where dimension 0 is -1, as in paddle.static.data('x', [-1, 16])"
        )
    if not proposed.proposals:
        _print_refusal(planned, proposed)
    else:
        print()
        print(strategy_text(proposed.proposals[0].calls))
        where = placement_text(proposed.proposals[0].candidate)
        if where:
            print()
            print("where the stages begin:")
            print(where)
    if proposed.by_hand is not None:
        rate = proposed.by_hand.prediction.cycles.throughput
        print()
        print(_row(proposed.by_hand))
        print(
            f"is an estimate of {rate:,.0f} rows/s for operators placed by hand, with "
            "paddle.static.ipu_shard_guard(index=..., stage=...):"
        )
        print(placement_text(proposed.by_hand))
    return 0 if proposed.proposals else 1


def _planned(target: Target, arguments: argparse.Namespace) -> tuple[Plan, Proposals]:
    for fewer in (False, True):
        planned = plan(
            target.program, target.machine, batch=arguments.batch, most=arguments.candidates,
            fewer=fewer,
        )  # fmt: skip
        with contextlib.redirect_stdout(sys.stderr):
            proposed = proposals(
                target.source,
                planned,
                target.machine,
                most=_SHOWN,
                machine_name=target.machine_name,
            )
        if proposed.proposals or not proposed.refused:
            break
    return planned, proposed


def _print_refusal(planned: Plan, proposed: Proposals) -> None:
    """Prints why there is no proposal."""
    if proposed.by_hand is not None:
        print("no strategy fits whose placement need_avg_shard can make")
    elif proposed.refused:
        print(f"compile would refuse all that fit: {proposed.refused[0]}")
    elif planned.closest is not None:
        print(_row(planned.closest))
        lacking = size(planned.closest.prediction.memory.worst.over)
        print(f"the closest lacks {lacking}: take a machine with more IPUs, or a smaller model")
    else:
        print("no strategy makes this batch on this machine: give another --batch")


_HEAD = (
    "    rows/s  IPUs x replicas  micro-batch  accumulation  batch   recomputation  state     "
    "fullest tile"
)
_HEAD_INFERENCE = "    rows/s  IPUs x replicas  micro-batch  rows at once  latency     fullest tile"


def _row(candidate: Candidate) -> str:
    prediction = candidate.prediction
    settings, rows = prediction.program.settings, prediction.program.rows
    worst = prediction.memory.worst
    place = f"{settings.ipus // settings.replicas} x {settings.replicas}"
    cells = [f"{prediction.cycles.throughput:>10,.0f}", f"{place:<15}", f"{rows:<11}"]
    if settings.training:
        state = "on chip" if settings.state_on_chip else "off chip"
        cells += [f"{settings.accumulation:<12}", f"{candidate.batch:<6}"]
        cells += [f"{settings.recomputation:<13}", state]
    else:
        latency = f"{prediction.cycles.latency * 1e3:.3f} ms"
        cells += [f"{rows * settings.replicas:<12}", f"{latency:<10}"]
    cells += [f"{worst.per_tile / worst.tile_capacity:.0%}"]
    return "  ".join(cells) + ("" if candidate.cuts is not None else "  (placed as written)")


def _as_json(proposal: Proposal) -> dict[str, Any]:
    candidate = proposal.candidate
    prediction = candidate.prediction
    settings = prediction.program.settings
    return {
        "throughput": prediction.cycles.throughput,
        "latency": prediction.cycles.latency,
        "ipus_of_a_replica": settings.ipus // settings.replicas,
        "replicas": settings.replicas,
        "micro_batch_size": prediction.program.rows,
        "accumulation_factor": settings.accumulation,
        "batch": candidate.batch,
        "auto_recomputation": settings.recomputation,
        "state_on_chip": settings.state_on_chip,
        "tile_share": prediction.memory.worst.per_tile / prediction.memory.worst.tile_capacity,
        "strategy": strategy_text(proposal.calls),
        "placement": placement_text(candidate),
    }
