"""Two reports compared: by layer, by cycles, by memory; in Python and with ``--compare``."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.cost_model.report.as_json import VERSION
from paddle_ipu.cost_model.report.contents import make_report
from paddle_ipu.cost_model.report.differences import differences
from paddle_ipu.cost_model.report.figures import figures_of
from paddle_ipu.cost_model.report.predicted_report import PredictedReport
from paddle_ipu.dialect.node_origin import NodeOrigin
from paddle_ipu.errors import ReportError
from tests.unit.cost_model.programs import chain

EVIL = "</style><script>alert(1)</script>\x1b[31m"


def record(
    layers: dict[str, tuple[float, int, int]], *, name: str = "net.py", **changes: Any
) -> dict[str, Any]:
    """A report with the fields that are compared.

    Args:
        layers: cycles in each direction, always-live and other bytes, by layer.
        name: the program's.
        changes: fields of the report that are not these.
    """
    always = sum(row[1] for row in layers.values())
    passing = sum(row[2] for row in layers.values())
    settings = {"training": True, "ipus": 1, "recomputation": "NoRecompute"}
    ipu = {
        "tile": {"capacity": 1000, "peak": always + passing},
        "categories": {"weights": always, "code": 0, "stash": passing, "temporaries": 0},
        "layers": {layer: row[1] + row[2] for layer, row in layers.items()},
        "always_layers": {layer: row[1] for layer, row in layers.items() if row[1]},
    }
    return {
        "version": 1, "name": name, "machine": {"name": "POD4"}, "constants": {"FACTOR": 1.5},
        "program": {
            "operators": 3, "weights": 10, "rows": 8, "samples": 16, "rule": "SGD",
            "settings": settings,
        },
        "throughput": 100.0, "latency": 0, "cycles": {"update": 5000.0},
        "operators": [
            {"layer": layer, "forward": row[0], "backward": row[0]}
            for layer, row in layers.items()
        ],
        "memory": {"off_chip": 0, "ipus": [ipu]},
        **changes,
    }  # fmt: skip


BEFORE = record(
    {"layers.*.linear1": (100.0, 40, 8), "layers.*.norm": (10.0, 2, 4), "old": (5.0, 0, 1)}
)
AFTER = record(
    {"layers.*.linear1": (150.0, 80, 8), "layers.*.norm": (10.0, 2, 2), "head": (7.0, 6, 0)},
    throughput=125.0, machine={"name": "Bow-Pod16"},
)  # fmt: skip


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Paths of BEFORE, in a folder as ``--directory`` makes it, and of AFTER."""
    (tmp_path / "before").mkdir()
    (tmp_path / "before" / "report.json").write_text(json.dumps(BEFORE))
    (tmp_path / "after.json").write_text(json.dumps(AFTER))
    return [str(tmp_path / "before"), str(tmp_path / "after.json")]


def compared(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What the command prints; it succeeds."""
    assert main(["report", "--compare", *arguments]) == 0
    return capsys.readouterr().out


def refused(capsys: pytest.CaptureFixture[str], code: int, *arguments: str) -> str:
    """The message with which the command ends."""
    assert main(["report", "--compare", *arguments]) == code
    shown = capsys.readouterr()
    assert not shown.out
    return shown.err


def test_changes_are_by_layer_with_the_largest_first(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = json.loads(compared(capsys, *files, "--json", "-"))
    rows = {
        key: [(row["layer"], row["before"], row["after"], row["change"]) for row in part["changes"]]
        for key, part in found["layers"].items()
    }
    assert rows["cycles"] == [
        ("layers.*.linear1", 200, 300, 100), ("head", None, 14, 14), ("old", 10, None, -10),
    ]  # fmt: skip
    assert rows["always"] == [("layers.*.linear1", 40, 80, 40), ("head", None, 6, 6)]
    assert rows["passing"] == [("layers.*.norm", 4, 2, -2), ("old", 1, None, -1)]
    assert [part["unchanged"] for part in found["layers"].values()] == [1, 1, 1]
    assert (found["only_before"], found["only_after"]) == (["old"], ["head"])
    assert found["settings"] == [{"name": "machine", "before": "POD4", "after": "Bow-Pod16"}]
    totals = {row["name"]: (row["before"], row["after"]) for row in found["totals"]}
    assert totals == {
        "throughput": (100, 125), "cycles of a weight update": (5000, 5000),
        "fullest tile": (55, 98), "always live, all IPUs": (42, 88),
        "not always live, at the peaks": (13, 10),
    }  # fmt: skip


def test_the_terminal_shows_what_changed(
    files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [" ".join(line.split()) for line in compared(capsys, *files).splitlines()]
    assert lines[0] == f"before {files[0]}: net.py, training on POD4, fullest tile 5.5% full"
    assert lines[1] == f"after {files[1]}: net.py, training on Bow-Pod16, fullest tile 9.8% full"
    assert {
        "only before: old", "only after: head", "machine POD4 -> Bow-Pod16",
        "100 rows/s 125 rows/s +25 rows/s +25.0% throughput",
        "5,000 5,000 same cycles of a weight update",
        "200 300 +100 +50.0% layers.*.linear1", "14 +14 new head", "10 -10 gone old",
        "4 B 2 B -2 B -50.0% layers.*.norm", "1 layer(s) unchanged",
    } <= set(lines)  # fmt: skip


def test_cycles_of_inference_are_those_of_a_micro_batch() -> None:
    settings = {"training": False, "ipus": 1, "recomputation": "NoRecompute"}
    inference = record({}, program={**BEFORE["program"], "settings": settings})
    names = {
        key: {total.name for total in differences(figures_of(a, "a"), figures_of(b, "b")).totals}
        for key, a, b in (("one", inference, inference), ("other", inference, AFTER))
    }
    assert "cycles of a micro-batch" in names["one"]
    assert "cycles of a weight update" in names["other"]


def test_only_the_largest_changes_stand_on_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, factor in (("a", 1.0), ("b", 2.0)):
        layers = {f"part{at}.x": (factor * at, 0, 1) for at in range(1, 41)}
        (tmp_path / name).write_text(json.dumps(record(layers)))
    text = compared(capsys, str(tmp_path / "a"), str(tmp_path / "b"))
    assert "part40.x" in text and "part26.x" in text and "part25.x" not in text
    assert "25 more changed less" in text and "40 layer(s) unchanged" in text


def test_layers_that_differ_in_a_number_are_one() -> None:
    rows = [{"layer": f"layers.{at}.linear", "forward": 1.0, "backward": 2.0} for at in range(4)]
    found = figures_of(record({}, operators=rows), "a")
    assert {name: layer.cycles for name, layer in found.layers.items()} == {"layers.*.linear": 12}


def test_a_report_is_as_its_own_file_says(tmp_path: Path) -> None:
    program = chain(layers=3)
    named = [
        replace(operator, origin=NodeOrigin(layer=f"part{at // 2}"))
        for at, operator in enumerate(program.operators)
    ]
    layered = replace(program, operators=named)
    report = PredictedReport(make_report(layered, machine_named("pod4"), name="a.py"))
    report.save(tmp_path / "a")
    wider = PredictedReport(make_report(chain(layers=3, width=128), machine_named("pod4")))
    same = report.compare(tmp_path / "a").to_dict()
    assert not any(part["changes"] for part in same["layers"].values()) and not same["settings"]
    assert all(row["change"] == 0 for row in same["totals"])
    layers = {name for ipu in report.prediction.memory.ipus for name in ipu.layers}
    assert all(part["unchanged"] >= len(layers) > 1 for part in same["layers"].values())
    other = report.compare(wider)
    assert other.to_dict()["totals"] != same["totals"]
    assert report.throughput == other.contents.before.throughput
    assert wider.throughput == other.contents.after.throughput
    categories = report.prediction.memory.worst.categories
    assert other.contents.before.always + other.contents.before.passing == sum(categories.values())
    assert "layers by cycles of a micro-batch" in repr(other)
    assert "<td" in other._repr_html_() and "<script" not in other._repr_html_()
    other.save_html(tmp_path / "c.html")
    assert (tmp_path / "c.html").read_text() == other.to_html()


def test_programs_without_a_common_layer_are_compared_and_said_to_be_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        layers = {name: (1.0, 2, 3), "": (1.0, 0, 0)}
        (tmp_path / name).write_text(json.dumps(record(layers, name=f"{name}.py")))
    text = compared(capsys, str(tmp_path / "a"), str(tmp_path / "b"))
    assert "no layer of one is in the other: these are reports of two programs" in text
    assert "a.py -> b.py" in text and "only before: a\n" in text and "only after: b\n" in text


def test_the_page_has_every_layer_and_trusts_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").write_text(json.dumps(BEFORE))
    (tmp_path / "b").write_text(json.dumps(record({EVIL: (1.0, 2, 3)}, name=EVIL)))
    page = tmp_path / "c.html"
    text = compared(capsys, str(tmp_path / "a"), str(tmp_path / "b"), "--html", str(page))
    assert "\x1b" not in text and "\\x1b[31m" in text
    html = page.read_text()
    assert html.count("<script") == 1 and "&lt;/style&gt;&lt;script&gt;" in html
    assert html.count("</style>") == 1 and "default-src 'none'" in html
    for layer in ("layers.*.linear1", "layers.*.norm", "old"):
        assert f"<td>{layer}</td>" in html
    assert compared(capsys, str(tmp_path / "a"), str(tmp_path / "b"), "--html", "-") == html


def test_comparing_imports_neither_paddle_nor_jax(files: list[str]) -> None:
    code = (
        "import sys\n"
        "from paddle_ipu.cli.main import main; code = main(sys.argv[1:])\n"
        "sys.exit(code or ', '.join({'paddle', 'jax'} & set(sys.modules)) or 0)"
    )
    words = [sys.executable, "-c", code, "report", "--compare", *files]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "layers.*.linear1" in done.stdout


BAD = {
    "no JSON": ("{", "is no JSON: "),
    "a list": ("[]", "is no report of paddle-ipu: the whole is [], expected an object."),
    "no version": ("{}", "version is nothing, expected a whole number."),
    "a truth value": ('{"version": true}', "version is True, expected a whole number."),
    "a later one": (
        json.dumps({**BEFORE, "version": VERSION + 1}),
        f"is a report of version {VERSION + 1}, and this paddle_ipu reads versions up to {VERSION}",
    ),
    "no number": (json.dumps({**BEFORE, "throughput": "x"}), "throughput is 'x', expected a numb"),
    "infinite": (json.dumps({**BEFORE, "latency": float("inf")}), "is no JSON: Infinity is no num"),
    "a number that is none": (
        json.dumps({**BEFORE, "program": {"settings": {"loss_scaling": float("nan")}}}),
        "is no JSON: NaN is no number of JSON. Expected",
    ),
    "beyond all floats": (json.dumps({**BEFORE, "latency": 10**400}), "expected a finite number"),
    "no IPUs": (
        json.dumps({**BEFORE, "memory": {"ipus": []}}),
        "memory.ipus is [], expected a list of IPUs",
    ),
    "an IPU that is none": (
        json.dumps({**BEFORE, "memory": {"off_chip": 0, "ipus": [3]}}),
        "memory.ipus[0] is 3, expected an object",
    ),
    "no operators": (json.dumps({**BEFORE, "operators": 1}), "operators is 1, expected a list"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_report_is_told(
    name: str, files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, message = BAD[name]
    bad = tmp_path / "bad.json"
    bad.write_text(text)
    error = refused(capsys, 3, files[0], str(bad))
    assert error.startswith(f"--compare: {bad} ") and message in error
    with pytest.raises(ReportError, match="bad.json"):
        PredictedReport(make_report(chain(), machine_named("pod4"))).compare(bad)


def test_a_folder_without_a_report_and_a_missing_file_are_told(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    error = refused(capsys, 3, files[0], str(tmp_path / "empty"))
    assert f"{tmp_path / 'empty'} has no report.json. Expected the JSON of" in error
    error = refused(capsys, 2, files[0], str(tmp_path / "absent"))
    assert f"--compare {tmp_path / 'absent'}: there is no such file." in error


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        (["--fp16"], "--fp16"),
        (["--skip-startup"], "--skip-startup"),
        (["--trace", "t.json"], "--trace"),
        ([str(Path(__file__))], __file__),
    ],
)
def test_options_about_a_program_are_refused(
    options: list[str], shown: str, files: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, 2, *files, *options)
    assert f"has no use for {shown}: write the program's report with --json FILE first" in error


def test_a_page_that_cannot_be_written_is_told(
    files: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    error = refused(capsys, 2, *files, "--html", str(tmp_path))
    assert error.startswith(f"--html: a report cannot be written to {tmp_path}")


def test_behind_a_script_both_orders_are_shown_with_both_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "t.py"
    script.write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["report", str(script), "--compare", "a", "b", "--epochs"])
    assert ended.value.code == 2
    error = capsys.readouterr().err
    assert f"  paddle-ipu report --compare a b {script} --epochs\n" in error
    assert f"  paddle-ipu report {script} -- --compare a b --epochs\n" in error
