"""``paddle-ipu plan``: the fastest strategy for a program on a machine that fits its memory."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
import time
from typing import Any

from paddle_ipu.cli.predicted import Target, add_target, predicted_target
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
  2  wrong arguments
  3  the script failed or compiled nothing, or the model cannot be read
"""
_SHOWN = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of this subcommand."""
    add_target(parser)
    add = parser.add_argument
    add(
        "--batch",
        type=int,
        default=0,
        metavar="N",
        help="rows of a weight update; in inference rows at once",
    )
    add(
        "--candidates", type=int, default=MOST, metavar="N",
        help=f"strategies to try at most (default {MOST})",
    )  # fmt: skip
    add("--json", action="store_true", help="print one JSON object")


def run(arguments: argparse.Namespace) -> int:
    """Prints the proposal; returns the exit code."""
    if arguments.batch < 0 or arguments.candidates < 1:
        print("--batch and --candidates take numbers above 0", file=sys.stderr)
        return 2
    found = predicted_target(arguments)
    if isinstance(found, int):
        return found
    begin = time.perf_counter()
    made, told = _planned(found, arguments)
    seconds = time.perf_counter() - begin
    if arguments.json:
        shown = [_as_json(proposal) for proposal in told.proposals]
        print(json.dumps({"fitting": shown, "too_large": made.too_large}, indent=1))
        return 0 if told.proposals else 1
    tried = len(made.candidates) + made.too_large
    print(
        f"{tried} strategies for {found.machine.name} in {seconds:.1f} s; "
        f"{len(made.candidates)} fit"
    )
    print(_HEAD if found.program.settings.training else _HEAD_INFERENCE)
    for proposal in told.proposals:
        print(_row(proposal.candidate))
    if found.program.rows_are_fixed:
        print(
            f"the feeds' own shapes give micro-batches of {found.program.rows} rows: others are "
            "tried where dimension 0 is -1, as in paddle.static.data('x', [-1, 16])"
        )
    if not told.proposals:
        _tell_why(made, told)
    else:
        print()
        print(strategy_text(told.proposals[0].calls))
        where = placement_text(told.proposals[0].candidate)
        if where:
            print()
            print("where the stages begin:")
            print(where)
    if told.by_hand is not None:
        rate = told.by_hand.prediction.cycles.throughput
        print()
        print(_row(told.by_hand))
        print(
            f"is an estimate of {rate:,.0f} rows/s for operators placed by hand, with "
            "paddle.static.ipu_shard_guard(index=..., stage=...):"
        )
        print(placement_text(told.by_hand))
    return 0 if told.proposals else 1


def _planned(found: Target, arguments: argparse.Namespace) -> tuple[Plan, Proposals]:
    for fewer in (False, True):
        made = plan(
            found.program, found.machine, batch=arguments.batch, most=arguments.candidates,
            fewer=fewer,
        )  # fmt: skip
        with contextlib.redirect_stdout(sys.stderr):
            told = proposals(
                found.source, made, found.machine, most=_SHOWN, machine_name=found.machine_name
            )
        if told.proposals or not told.refused:
            break
    return made, told


def _tell_why(made: Plan, told: Proposals) -> None:
    """Prints why there is no proposal."""
    if told.by_hand is not None:
        print("no strategy fits whose placement need_avg_shard can make")
    elif told.refused:
        print(f"compile would refuse all that fit: {told.refused[0]}")
    elif made.closest is not None:
        print(_row(made.closest))
        lacking = size(made.closest.prediction.memory.worst.over)
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
    settings = prediction.program.settings
    worst = prediction.memory.worst
    place = f"{settings.ipus // settings.replicas} x {settings.replicas}"
    if not settings.training:
        rows = prediction.program.rows
        return (
            f"{prediction.cycles.throughput:>10,.0f}  {place:<15}  {rows:<11}  "
            f"{rows * settings.replicas:<12}  {f'{prediction.cycles.latency * 1e3:.3f} ms':<10}  "
            f"{worst.per_tile / worst.tile_capacity:.0%}"
            + ("" if candidate.cuts is not None else "  (placed as written)")
        )
    return (
        f"{prediction.cycles.throughput:>10,.0f}  {place:<15}  {prediction.program.rows:<11}  "
        f"{settings.accumulation:<12}  {candidate.batch:<6}  {settings.recomputation:<13}  "
        f"{'on chip' if settings.state_on_chip else 'off chip'}  "
        f"{worst.per_tile / worst.tile_capacity:.0%}"
        + ("" if candidate.cuts is not None else "  (placed as written)")
    )


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
