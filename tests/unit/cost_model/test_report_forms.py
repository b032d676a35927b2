"""The forms of a report: timeline, trace, page, folder; and what would make a program faster."""

from __future__ import annotations

import json
import os
import re
from dataclasses import replace
from pathlib import Path

import pytest

from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.prediction import predict
from paddle_ipu.cost_model.report.as_json import NODE_COLUMNS, report_as_json
from paddle_ipu.cost_model.report.contents import Report, make_report
from paddle_ipu.cost_model.report.directory import (
    FORMS,
    page_of,
    text_of,
    trace_of,
    write_directory,
)
from paddle_ipu.cost_model.report.timeline import STEADY_SHOWN, Timeline
from paddle_ipu.dialect.node_origin import NodeOrigin
from paddle_ipu.errors import ReportError
from tests.unit.cost_model.programs import chain

MACHINE = machine_named("bow-pod16")
EVIL = "</script><img src=x onerror=alert(1)>\u2028'\""


def pipeline(**changes: int | bool) -> Report:
    settings = {"layers": 8, "stages": 4, "accumulation": 32, "recompute": True} | changes
    return make_report(chain(**settings), MACHINE, name="pipeline.py")  # type: ignore[arg-type]


PROGRAMS = {
    "pipeline": {},
    "little accumulation": {"accumulation": 3},
    "no accumulation": {"accumulation": 1},
    "replicas": {"replicas": 4},
    "inference": {"training": False, "recompute": False, "accumulation": 1},
    "sharded": {"pipelined": False, "recompute": False},
    "one IPU": {"stages": 1, "recompute": False},
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_timeline_is_as_long_as_the_prediction_says(name: str) -> None:
    report = pipeline(**PROGRAMS[name])
    cycles, timeline = report.prediction.cycles, report.timeline
    phases: dict[str, float] = {}
    for block in timeline.blocks:
        phases[block.phase] = phases.get(block.phase, 0.0) + block.cycles
    for phase, length in phases.items():
        assert length == pytest.approx(cycles.phases[phase])
    assert timeline.cycles == pytest.approx(cycles.per_update)
    for before, after in zip(timeline.blocks, timeline.blocks[1:], strict=False):
        assert before.start + before.cycles == pytest.approx(after.start)


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_ipu_does_one_thing_at_a_time_within_its_block(name: str) -> None:
    timeline = pipeline(**PROGRAMS[name]).timeline
    free: dict[int, float] = {}
    for block in timeline.blocks:
        for work in sorted(block.works, key=lambda w: w.start):
            assert work.start >= free.get(work.ipu, 0.0) - 1e-6
            free[work.ipu] = work.start + work.cycles
            assert free[work.ipu] <= block.start + block.cycles + 1e-6


def shown(timeline: Timeline) -> list[tuple[int, int, str]]:
    return [(w.micro_batch, w.stage, w.kind) for block in timeline.blocks for w in block.works]


def test_every_micro_batch_goes_through_every_stage_and_back() -> None:
    timeline = pipeline(accumulation=9).timeline
    expected = {
        (m, s, kind) for m in range(9) for s in range(4) for kind in ("forward", "backward")
    }
    assert len(shown(timeline)) == len(expected) and set(shown(timeline)) == expected
    assert not [block for block in timeline.blocks if block.repeats > 1]


def test_equal_pipeline_cycles_are_folded() -> None:
    folded = [block for block in pipeline(accumulation=100).timeline.blocks if block.repeats > 1]
    # 4 stages and back are 7 pipeline cycles: 6 of fill, and 100 - 6 in which all are active.
    assert [block.repeats for block in folded] == [100 - 6 - STEADY_SHOWN]


def test_a_trace_has_the_times_of_the_timeline() -> None:
    report = pipeline()
    trace = json.loads(trace_of(report))
    assert trace["otherData"]["predicted"] is True
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    unit = 1e6 / MACHINE.processor.clock
    end = max(e["ts"] + e["dur"] for e in events)
    assert end == pytest.approx(report.timeline.cycles * unit, abs=1e-3)
    free: dict[tuple[int, int], int] = {}
    for event in sorted(events, key=lambda e: (e["ts"], e["dur"])):
        start, length = round(event["ts"] * 1e3), round(event["dur"] * 1e3)
        thread = (event["pid"], event["tid"])
        assert start >= free.get(thread, 0), "events of a thread overlap"
        free[thread] = start + length
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {f"IPU {ipu} (predicted)" for ipu in range(4)}
    # Operators lie within what their IPU does meanwhile, and fill it.
    works = [e for e in events if e["tid"] == 1 and e["cat"] in ("forward", "backward")]
    operators = [e for e in events if e["tid"] == 2]
    assert {e["cat"] for e in operators} == {"forward", "backward", "recompute", "stream"}
    parents: dict[int, float] = {}
    for event in operators:
        inside = [
            i
            for i, work in enumerate(works)
            if work["pid"] == event["pid"]
            and work["ts"] - 1e-4 <= event["ts"]
            and event["ts"] + event["dur"] <= work["ts"] + work["dur"] + 1e-4
        ]
        assert len(inside) == 1
        parents[inside[0]] = parents.get(inside[0], 0.0) + event["dur"]
    assert len(parents) == 8, "four stages, both directions"
    for at, total in parents.items():
        assert total == pytest.approx(works[at]["dur"], abs=1e-3)
    counters = [e for e in trace["traceEvents"] if e["ph"] == "C"]
    assert {e["pid"] for e in counters} == {1, 2, 3, 4}


def test_operators_add_up_to_their_stages() -> None:
    found = report_as_json(pipeline())
    rows = [dict(zip(NODE_COLUMNS, row, strict=True)) for row in found["nodes"]["rows"]]
    assert len(rows) == found["program"]["operators"]
    for stage in found["pipeline"]["stages"]:
        for part in ("forward", "backward", "recompute"):
            total = sum(row[part] for row in rows if row["stage"] == stage["stage"])
            assert total == pytest.approx(stage[part]["cycles"], abs=1.0)
    assert "measured" not in found, "nothing was measured"


def test_insights_hold_when_they_are_followed() -> None:
    report = pipeline()
    before = report.prediction.cycles.throughput
    by_option = {insight.option: insight for insight in report.insights}
    keep = by_option["'auto_recomputation': 0"]
    after = predict(chain(8, stages=4, accumulation=32), MACHINE).cycles.throughput
    assert keep.throughput == pytest.approx(after) and keep.fits and keep.memory >= 0
    assert keep.gain == pytest.approx(after / before - 1)
    more = by_option["'accumulation_factor': 64"]
    assert more.throughput == pytest.approx(pipeline(accumulation=64).prediction.cycles.throughput)
    shared = by_option["'batches_per_step': 2"]
    twice = predict(pipeline().prediction.program.with_settings(batches_per_step=2), MACHINE)
    assert shared.throughput == pytest.approx(twice.cycles.throughput)
    gains = [insight.gain for insight in report.insights]
    assert gains == sorted(gains, reverse=True) and min(gains) >= 0.01


def test_insights_of_inference_tell_the_latency() -> None:
    program = chain(training=False)
    (more,) = [i for i in make_report(program, MACHINE).insights if "micro_batch" in i.option]
    after = predict(chain(training=False, rows=16), MACHINE).cycles
    assert more.latency == pytest.approx(after.latency) and more.latency > 0
    assert f"latency {1e3 * more.latency:.3g} ms" in text_of(make_report(program, MACHINE))


def test_an_uneven_pipeline_is_told_what_it_could_gain_at_most() -> None:
    even = chain(layers=32, stages=4, accumulation=64).with_settings(io_tiles=32)
    uneven = replace(
        even,
        operators=tuple(
            replace(op, ipu=max(0, op.ipu - 1), stage=max(0, op.stage - 1)) for op in even.operators
        ),
    )
    (found,) = [i for i in make_report(uneven, MACHINE).insights if i.bound]
    assert "move layers away from IPU 0" in found.change and found.option == ""
    assert not [i for i in make_report(even, MACHINE).insights if i.bound]


def evil_report() -> Report:
    program = chain(layers=2)
    operators = tuple(
        replace(op, name=EVIL + op.name, origin=NodeOrigin(EVIL, EVIL, EVIL))
        for op in program.operators
    )
    return make_report(replace(program, operators=operators), MACHINE, name=EVIL)


def test_names_of_a_program_are_data() -> None:
    text = page_of(evil_report())
    assert "<img" not in text and "</script><" not in text
    assert len(re.findall("</script>", text)) == 2, "the report and the script that draws it"
    data = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert data is not None
    found = json.loads(data[1])
    assert found["name"] == EVIL and found["nodes"]["rows"][0][2] == EVIL


def test_no_terminal_obeys_a_name() -> None:
    program = chain(layers=2)
    operators = tuple(
        replace(op, origin=NodeOrigin(*3 * ("\x1b[31mred\x9b2J\r",))) for op in program.operators
    )
    text = text_of(make_report(replace(program, operators=operators), MACHINE))
    assert "\\x1b[31mred\\x9b2J\\x0d" in text
    assert all(c.isprintable() or c == "\n" for c in text)


def test_a_page_needs_nothing_but_itself() -> None:
    text = page_of(pipeline())
    assert not re.findall(r"""(?:src|href)\s*=\s*["'](?!#|data:)""", text)
    assert not re.findall(r"@import|url\((?!#)|fetch\(|XMLHttpRequest|import\(", text)
    hosts = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert hosts <= {"http://www.w3.org/2000/svg"}, "the name of SVG's elements, no address"
    assert "default-src 'none'" in text
    assert "predicted, not measured" in text and "training on Bow-Pod16" in text


def test_measured_times_stand_apart() -> None:
    measured = {"machine": "here", "steps": 3, "seconds_per_run": 0.5, "families": []}
    report = make_report(chain(), MACHINE, measured=measured)
    assert report_as_json(report)["measured"] == measured
    assert 'id="measured"' in page_of(report) and "measured here" in page_of(report)
    assert 'id="measured"' not in page_of(pipeline())


def test_a_folder_has_every_form(tmp_path: Path) -> None:
    folder = write_directory(pipeline(), tmp_path / "new" / "folder")
    assert sorted(os.listdir(folder)) == sorted(FORMS)
    assert json.loads((folder / "report.json").read_text())["name"] == "pipeline.py"
    assert (folder / "summary.txt").read_text().startswith("training on Bow-Pod16")
    write_directory(pipeline(accumulation=8), folder)
    assert json.loads((folder / "report.json").read_text())["timeline"]["micro_batches"] == 8


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportError, match="cannot be written to .*file: File exists. Name a fold"):
        write_directory(pipeline(), tmp_path / "file")
    (tmp_path / "report.html").mkdir()
    with pytest.raises(ReportError, match=r"report\.html: Is a directory"):
        write_directory(pipeline(), tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "report.html"], "nothing is left behind"


@pytest.mark.parametrize("training", [True, False])
def test_a_program_of_next_to_nothing_has_every_form(training: bool) -> None:
    report = make_report(chain(layers=0, training=training), MACHINE)
    for form in FORMS.values():
        assert form(report)
    empty = replace(report.prediction.program, operators=())
    assert "IPU 0" in FORMS["summary.txt"](make_report(empty, MACHINE))
    assert json.loads(trace_of(make_report(empty, MACHINE)))["traceEvents"] == []
