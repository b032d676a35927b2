"""``paddle_ipu.report`` and ``plan``: the commands' numbers as objects, tables, charts."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.cli.main import main
from paddle_ipu.cost_model.report.predicted_report import PredictedReport
from paddle_ipu.dygraph import registration
from paddle_ipu.errors import InvalidProgramError, ModelFileError, OptionError, ReportError
from paddle_ipu.notebook.html_table import html_table
from tests.journeys.saved_models import models

MODEL = str(models.prefix("paddle_2_6/mlp"))


class _Table(HTMLParser):
    """The cells of tables, and the elements that there are.

    Attributes:
        rows: texts of the cells, of each row; a caption is a row of one.
        elements: names.
    """

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.elements: set[str] = set()
        self._inside = False
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.add(tag)
        if tag in ("tr", "caption"):
            self.rows.append([])
        self._inside = tag in ("td", "th", "caption")
        if self._inside:
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        self._inside = False

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.rows[-1][-1] += data


@pytest.fixture
def trained(static_mode: None) -> tuple[Any, ...]:
    """(program, feeds, fetches, strategy) of a training; nothing of it was run."""
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        x = paddle.static.data("x", [-1, 64], "float32")
        loss = paddle.mean(paddle.tanh(paddle.nn.Linear(64, 64)(x)))
        paddle.optimizer.Adam(0.01).minimize(loss)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=True, micro_batch_size=8)
    strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=4)
    return program, ["x"], [loss], strategy


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A machine that holds next to nothing."""
    path = tmp_path / "tiny.json"
    path.write_text('{"base": "POD4", "processor": {"tile_memory": 1024, "tiles": 4}}')
    return f"ipu:{path}"


@pytest.fixture
def drawn() -> Iterator[Any]:
    """Matplotlib's pyplot without a window; figures are closed."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    yield pyplot
    pyplot.close("all")


def _report(trained: tuple[Any, ...], **options: Any) -> PredictedReport:
    program, feeds, fetches, strategy = trained
    return paddle_ipu.report(program, feeds, fetches, ipu_strategy=strategy, **options)


def test_a_report_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--machine", "pod4", "--json", "-", MODEL]) == 0
    printed = capsys.readouterr().out
    report = paddle_ipu.report(MODEL, machine="pod4", name=Path(MODEL).name)
    assert report.to_dict() == json.loads(printed)
    assert report.to_json() == printed
    assert main(["report", "--machine", "pod4", MODEL]) == 0
    assert f"{report}\n" == capsys.readouterr().out


def test_a_plan_is_the_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--machine", "pod4", "--json", MODEL]) == 0
    printed = capsys.readouterr().out
    plan = paddle_ipu.plan(MODEL, machine="pod4")
    assert plan.to_dict() == json.loads(printed)
    assert plan.proposals
    assert main(["plan", "--machine", "pod4", MODEL]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == str(plan).splitlines()[1:]


def test_a_saved_model_has_the_options_of_a_strategy(static_mode: None) -> None:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False, micro_batch_size=16)
    report = paddle_ipu.report(f"{MODEL}.pdmodel", ipu_strategy=strategy)
    assert report.prediction.program.rows == 16
    assert report.throughput == pytest.approx(16 / report.latency)


def test_a_report_says_whether_it_fits(trained: tuple[Any, ...], tiny: str) -> None:
    assert _report(trained, machine="pod4").fits
    too_large = _report(trained, machine=tiny)
    assert not too_large.fits
    assert "lacks" in repr(too_large)


def test_a_prompt_shows_the_most_important(trained: tuple[Any, ...]) -> None:
    report = _report(trained, machine="pod4")
    shown = repr(report).splitlines()
    assert set(shown) <= set(str(report).splitlines())
    assert len(shown) < 20
    assert f"throughput    {report.throughput:,.0f} rows/s" in repr(report)
    assert any("MatMul" in line for line in shown)


def test_a_notebook_shows_tables_without_scripts(trained: tuple[Any, ...]) -> None:
    report = _report(trained, machine="pod4")
    table = _Table(report._repr_html_())
    assert table.elements == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert "MatMul" in {cell for row in table.rows for cell in row}
    program, feeds, fetches, strategy = trained
    plan = paddle_ipu.plan(program, feeds, fetches, ipu_strategy=strategy, machine="pod4")
    table = _Table(plan._repr_html_())
    assert table.elements == {"table", "caption", "thead", "tbody", "tr", "th", "td"}
    assert [row[0] for row in table.rows[2:]] == [f"{p.throughput:,.0f}" for p in plan.proposals]


def test_cells_of_a_table_are_text() -> None:
    texts = ['<script>alert("1")</script>', "a & b", "'</td>", "<img src=x onerror=y>"]
    html = html_table(texts[:2], [texts[2:]], "<b>\nbold")
    table = _Table(html)
    assert table.rows == [["<b>\nbold"], texts[:2], texts[2:]]
    assert table.elements == {"table", "caption", "thead", "tbody", "tr", "th", "td"}


def test_a_plan_s_strategy_compiles(trained: tuple[Any, ...]) -> None:
    program, feeds, fetches, strategy = trained
    plan = paddle_ipu.plan(program, feeds, fetches, ipu_strategy=strategy, machine="pod4", batch=64)
    best = plan.best
    assert best is not None
    assert best.candidate.batch == 64
    assert best.throughput == max(proposal.throughput for proposal in plan.proposals)
    assert f"{best.throughput:,.0f} rows/s" in repr(best)
    names = {"paddle": paddle}
    exec(str(best), names)
    assert repr(names["strategy"]) == repr(best.strategy())
    again = paddle_ipu.report(program, feeds, fetches, ipu_strategy=best.strategy())
    assert again.throughput == best.throughput
    assert again.contents.prediction.machine.name == "POD4"


def test_a_plan_says_how_close_the_next_strategies_come(trained: tuple[Any, ...]) -> None:
    program, feeds, fetches, strategy = trained
    plan = paddle_ipu.plan(program, feeds, fetches, ipu_strategy=strategy, machine="pod4", batch=64)
    assert len({str(proposal) for proposal in plan.proposals}) == len(plan.proposals) > 3
    assert plan.best is not None and len(plan.close) == 3
    lines = str(plan).splitlines()
    start = lines.index("the next ones' rates as shares of the first's, with 80 % intervals:")
    for row, (close, proposal) in enumerate(zip(plan.close, plan.proposals[1:], strict=False)):
        assert close.ratio == pytest.approx(proposal.throughput / plan.best.throughput)
        assert close.low <= close.ratio <= close.high
        line = lines[start + 1 + row]
        assert line.startswith(f"  row {row + 2}: {close.ratio:.1%} ({close.low:.1%} to ")
        assert line.endswith("; too close to call") == (close.low < 1 < close.high)
    assert lines[start + 4] == f"predictions were checked {plan.to_dict()['checked']}"
    told = plan.to_dict()["close"]
    assert [each["ratio"] for each in told] == [close.ratio for close in plan.close]


def test_a_plan_that_nothing_fits_says_so(trained: tuple[Any, ...], tiny: str) -> None:
    program, feeds, fetches, strategy = trained
    plan = paddle_ipu.plan(program, feeds, fetches, ipu_strategy=strategy, machine=tiny)
    assert plan.best is None
    assert plan.to_dict()["fitting"] == []
    for shown in (repr(plan), str(plan), plan._repr_html_()):
        assert "the closest lacks" in shown


@pytest.mark.parametrize(("tiles", "is_told"), [(30, True), (300, False)])
def test_a_faster_plan_that_fills_memory_is_told(tmp_path: Path, tiles: int, is_told: bool) -> None:
    path = tmp_path / "machine.json"
    path.write_text(json.dumps({"base": "POD4", "processor": {"tiles": tiles}}))
    paddle.enable_static()
    try:
        program = paddle.static.Program()
        with paddle.static.program_guard(program, paddle.static.Program()):
            hidden = paddle.static.data("x", [-1, 512], "float32")
            for _ in range(8):
                hidden = paddle.tanh(paddle.nn.Linear(512, 512)(hidden))
            loss = hidden.mean()
            paddle.optimizer.SGD(1e-3).minimize(loss)
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=True, micro_batch_size=64)
        strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=64)
        plan = paddle_ipu.plan(program, ["x"], [loss], ipu_strategy=strategy, machine=f"ipu:{path}")
    finally:
        paddle.disable_static()
    tight, best = plan.tried.tight, plan.best
    line = re.search(r"is ([\d.]+)% faster, with less than 5% of a tile to spare", str(plan))
    assert best is not None and best.candidate.prediction.memory.has_room
    assert (line is not None) == (tight is not None) == is_told
    if line is not None and tight is not None:
        faster = tight.prediction.cycles.throughput / best.throughput - 1
        assert float(line[1]) == pytest.approx(100 * faster, abs=0.051) and faster > 0


def test_dynamic_mode_stays_as_it_is() -> None:
    assert paddle.in_dynamic_mode()
    plan = paddle_ipu.plan(MODEL, machine="pod4", candidates=4)
    assert paddle_ipu.report(MODEL).fits
    assert plan.best is not None
    plan.best.strategy()
    assert paddle.in_dynamic_mode()
    assert registration.current() is None


def test_files_are_the_commands(trained: tuple[Any, ...], tmp_path: Path) -> None:
    report = _report(trained)
    report.save(tmp_path / "all")
    report.save_html(tmp_path / "page.html")
    report.save_trace(tmp_path / "trace.json")
    folder = tmp_path / "all"
    assert (tmp_path / "page.html").read_text() == (folder / "report.html").read_text()
    assert (tmp_path / "trace.json").read_text() == (folder / "trace.json").read_text()
    assert (folder / "report.json").read_text() == report.to_json()
    with pytest.raises(ReportError, match="a report cannot be written to"):
        report.save_html(tmp_path)


def test_a_chart_of_operators_has_their_cycles(trained: tuple[Any, ...], drawn: Any) -> None:
    report = _report(trained)
    axes = report.plot()
    widths = sorted(bar.get_width() for bar in axes.patches)
    rows = report.to_dict()["operators"]
    assert widths == pytest.approx(sorted(row["forward"] + row["backward"] for row in rows))
    axes.figure.canvas.draw()


def test_a_chart_of_memory_is_as_high_as_the_fullest_tile(
    trained: tuple[Any, ...], tiny: str, drawn: Any
) -> None:
    axes = drawn.figure().add_subplot()
    report = _report(trained, machine=tiny)
    assert report.plot("memory", axes) is axes
    (ipu,) = report.prediction.memory.ipus
    assert sum(bar.get_height() for bar in axes.patches) * 1e3 == pytest.approx(ipu.per_tile, 1e-3)
    assert "does not fit" in axes.get_title()
    axes.figure.canvas.draw()


def test_a_chart_of_a_plan_has_its_proposals(drawn: Any) -> None:
    plan = paddle_ipu.plan(MODEL, machine="pod4")
    axes = plan.plot()
    assert [bar.get_width() for bar in axes.patches][::-1] == [p.throughput for p in plan.proposals]
    axes.figure.canvas.draw()


def test_a_chart_that_there_is_not(trained: tuple[Any, ...], drawn: Any) -> None:
    chart: Any = "memori"
    with pytest.raises(ReportError, match="'operators' and 'memory', got 'memori'.*'memory'"):
        _report(trained).plot(chart)


def test_without_matplotlib_a_chart_says_how_to_get_it(
    trained: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ReportError, match=r"pip install 'paddle_ipu\[plots\]' brings it"):
        _report(trained).plot()


def test_charts_cost_nothing_before_they_are_drawn(run_python: Callable[..., Any]) -> None:
    done = run_python(
        "import sys, paddle_ipu\n"
        "assert 'paddle_ipu.compiler' not in sys.modules\n"
        f"paddle_ipu.report({MODEL!r})\n"
        "print('matplotlib' in sys.modules)"
    )
    assert done.stdout.split()[-1] == "False"


@pytest.mark.parametrize("function", [paddle_ipu.report, paddle_ipu.plan])
def test_wrong_arguments(function: Callable[..., Any], trained: tuple[Any, ...]) -> None:
    program, feeds, fetches, _ = trained
    name = function.__name__
    with pytest.raises(InvalidProgramError, match=f"{name} takes a paddle.static.Program or"):
        function(3)
    with pytest.raises(InvalidProgramError, match=f"{name} of a program needs feed_list and"):
        function(program, feeds)
    with pytest.raises(InvalidProgramError, match=f"{name}: ipu_strategy must be a"):
        function(program, feeds, fetches, ipu_strategy="training")
    with pytest.raises(OptionError, match="unknown machine 'podd4'"):
        function(program, feeds, fetches, machine="podd4")
    with pytest.raises(ModelFileError, match="there is neither"):
        function("nowhere")


def test_requests_are_answered_by_inference(
    trained: tuple[Any, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    report = paddle_ipu.report(MODEL, requests_per_second=100)
    assert report.serving is not None and report.serving.requests == 100
    assert [*report.serving.percentiles] == [0.5, 0.9, 0.99]
    of_numpy = paddle_ipu.report(MODEL, requests_per_second=np.float32(100))
    assert str(of_numpy) == str(report)
    assert main(["report", "--requests-per-second", "100", MODEL]) == 0
    assert capsys.readouterr().out == f"{paddle_ipu.report(MODEL, requests_per_second=100)}\n"
    with pytest.raises(OptionError, match="answers requests, but this one trains: report a saved"):
        _report(trained, requests_per_second=100)
    for wrong in (0, -1.0, float("nan"), float("inf"), True):
        said = f"requests_per_second is {wrong}, expected requests a second, above 0"
        with pytest.raises(OptionError, match=said):
            paddle_ipu.report(MODEL, requests_per_second=wrong)
    with pytest.raises(SystemExit):
        main(["report", "--requests-per-second", "0", MODEL])
    assert "got '0', expected a number above 0" in capsys.readouterr().err


@pytest.mark.parametrize(("option", "got"), [("batch", -1), ("candidates", 0), ("batch", 1.5)])
def test_numbers_out_of_range(option: str, got: Any) -> None:
    arguments: dict[str, Any] = {option: got}
    with pytest.raises(OptionError, match=f"plan: {option} is {got}, expected an integer from"):
        paddle_ipu.plan(MODEL, **arguments)
