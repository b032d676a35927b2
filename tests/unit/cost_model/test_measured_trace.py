"""A trace of measured runs: what works at the same time stands on threads beside each other."""

from __future__ import annotations

from typing import Any

from paddle_ipu.cost_model.report.measured_trace import (
    MeasuredInstruction,
    MeasuredRun,
    MeasuredTrace,
    measured_events,
)


def traced(instructions: list[MeasuredInstruction], *runs: MeasuredRun) -> list[dict[str, Any]]:
    return measured_events(MeasuredTrace("a machine", runs, instructions), 7)


def test_instructions_at_the_same_time_have_threads_of_their_own() -> None:
    times = [(0, 10), (2, 4), (3, 12), (4, 6), (10, 11), (12, 13)]
    events = traced([MeasuredInstruction(*t, "Add (forward)", "elementwise", "add") for t in times])
    shown = {(e["ts"], e["dur"]): e["tid"] for e in events if e["ph"] == "X"}
    assert shown == {
        (0.0, 0.010): 8,
        (0.002, 0.002): 9,
        (0.003, 0.009): 10,
        (0.004, 0.002): 9,
        (0.010, 0.001): 8,
        (0.012, 0.001): 8,
    }
    names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    assert names == {
        7: "runs", 8: "instructions of XLA", 9: "at the same time", 10: "at the same time",
    }  # fmt: skip
    assert {e["pid"] for e in events} == {7}


def test_a_fusion_tells_the_parts_of_its_operators() -> None:
    fused = MeasuredInstruction(
        0, 3, "Gelu (forward)", "elementwise", "fusion.2", "gelu", "train.py:4", "encoder",
        (("Gelu (forward)", 2 / 3), ("Add (forward)", 1 / 3)),
    )  # fmt: skip
    (event,) = (e for e in traced([fused]) if e["ph"] == "X")
    assert event["name"] == "Gelu (forward)" and event["cat"] == "elementwise"
    assert event["args"] == {
        "instruction": "fusion.2",
        "operator": "gelu",
        "source": "train.py:4",
        "layer": "encoder",
        "shares": {"Gelu (forward)": 0.667, "Add (forward)": 0.333},
    }


def test_a_run_tells_what_the_trace_has_not() -> None:
    events = traced([], MeasuredRun(8, 0, 1_500), MeasuredRun(9, 2_000, 2_001, left_out=3))
    runs = [(e["name"], e["ts"], e["dur"], e["args"]) for e in events if e["ph"] == "X"]
    assert runs == [
        ("run 8", 0.0, 1.5, {}),
        ("run 9", 2.0, 0.001, {"instructions_left_out": 3}),
    ]
