"""Measured runs: what their time went to, by family of operators and by the user's line."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import paddle
import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import BackendUnavailableError, MeasurementError, ReportError
from paddle_ipu.popart.schema import all_schemas
from paddle_ipu.runtime.measured import FAMILIES, HOST, Measurement, family_of, nodes_at
from paddle_ipu.xla.lowerings.scope_names import NOWHERE, Origin, of_node, origin_of
from paddle_ipu.xla.step import step_trace
from paddle_ipu.xla.step.hlo_origins import Share, origins
from paddle_ipu.xla.step.step_trace import Interval, Recording, shared_out
from tests.journeys.saved_models import models

MODEL = str(models.prefix("paddle_2_6/mlp"))
WIDTH = 1024
ROWS_FED = 1024


@dataclass
class Measured:
    """A program that was run and measured."""

    compiled: Any
    executor: Any
    fetch: Any
    feed: dict[str, Any]
    measurement: Measurement
    product_line: int


def network() -> tuple[Any, int]:
    """A loss of one large product and small operators; (the loss, the product's line)."""
    x = paddle.static.data("x", [ROWS_FED, WIDTH], "float32")
    weight = paddle.create_parameter([WIDTH, WIDTH], "float32")
    product, line = paddle.matmul(x, weight), inspect.currentframe().f_lineno  # type: ignore[union-attr]
    row = paddle.nn.functional.softmax(paddle.tanh(product[0]))
    rows = paddle.static.nn.while_loop(
        lambda i, y: i < 3, lambda i, y: [i + 1, paddle.exp(y)], [paddle.full([1], 0, "int64"), row]
    )[1]
    return paddle.mean(product) + paddle.mean(rows.detach()), line


@pytest.fixture(scope="module")
def trained() -> Iterator[Measured]:
    paddle.enable_static()
    program, startup = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope()
    with paddle.static.scope_guard(scope):
        with paddle.static.program_guard(program, startup):
            loss, line = network()
            paddle.optimizer.SGD(1e-4).minimize(loss)
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        strategy = paddle.static.IpuStrategy()
        strategy.set_graph_config(is_training=True, micro_batch_size=ROWS_FED)
        strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=2)
        compiled = paddle.static.IpuCompiledProgram(program, scope, strategy).compile(["x"], [loss])
        feed = {"x": np.random.default_rng(0).random((2 * ROWS_FED, WIDTH), np.float32)}
        executor.run(compiled, feed=feed, fetch_list=[loss])
        with compiled.measure() as found:
            for _ in range(2):
                executor.run(compiled, feed=feed, fetch_list=[loss])
        yield Measured(compiled, executor, loss, feed, found, line)
    paddle.disable_static()


def test_the_families_sum_to_the_time_of_a_run(trained: Measured) -> None:
    found = trained.measurement
    assert found.steps == 2 and len(found.seconds) == 2
    assert found.seconds_per_run == pytest.approx(sum(found.seconds) / 2)
    assert sum(family.seconds for family in found.families) == pytest.approx(found.seconds_per_run)
    assert sum(family.share for family in found.families) == pytest.approx(1.0)
    assert {family.family for family in found.families} <= set(FAMILIES)
    shares = [family.share for family in found.families]
    assert shares == sorted(shares, reverse=True)


def test_the_time_of_a_large_product_is_its_own(trained: Measured) -> None:
    # What else the machine does only adds.
    least: dict[str, float] = {}
    for _ in range(4):
        with trained.compiled.measure() as found:
            trained.executor.run(trained.compiled, feed=trained.feed, fetch_list=[trained.fetch])
        for family in found.families:
            seconds = min(family.seconds, least.get(family.family, family.seconds))
            least[family.family] = seconds
    product = least.pop("matmul")
    assert {"weight update", "gradient accumulation", "elementwise", HOST} <= least.keys()
    # 13 GFLOP in products, beside passes over a few million elements.
    assert product > max(least.values())
    line = next(line for line in trained.measurement.lines if line.popart == "MatMul")
    assert (line.operator, line.family) == ("matmul", "matmul")
    assert line.source == f"{__file__}:{trained.product_line}"
    assert line.forward > 0 and line.backward > 0
    assert line.seconds == line.forward + line.backward


def test_operators_within_a_loop_have_their_own_line(trained: Measured) -> None:
    inner = [line for line in trained.measurement.lines if line.popart == "Exp"]
    assert [line.operator for line in inner] == ["exp"]
    assert inner[0].source.startswith(f"{__file__}:")


def test_a_measurement_as_json_and_text(trained: Measured) -> None:
    found = trained.measurement
    told = json.loads(json.dumps(found.as_json()))
    assert told["steps"] == 2 and told["machine"] == found.machine != ""
    assert told["families"][0].keys() == {"family", "seconds", "share"}
    assert any(line["source"].startswith(__file__) for line in told["lines"])
    assert 0 <= told["not_attributed"] < told["seconds_per_run"]
    assert str(found).startswith(f"measured, not predicted: 2 run(s) on {found.machine}\n")
    assert f"{__file__}:{trained.product_line}" in str(found)


def test_a_measured_trace_has_the_runs_and_the_operators_in_them(
    trained: Measured, tmp_path: Path
) -> None:
    found = trained.measurement
    found.save_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["otherData"]["measured"] == found.machine
    names = {e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
    assert names == {"this machine (measured)"}
    events = [event for event in trace["traceEvents"] if event["ph"] == "X"]
    runs = [event for event in events if event["cat"] == "run"]
    assert [run["name"] for run in runs] == ["run 1", "run 2"] and runs[0]["ts"] == 0
    assert [run["dur"] / 1e6 for run in runs] == pytest.approx(found.seconds, abs=1e-8)
    assert_threads_do_not_overlap(events)
    for event in events:
        assert sum(within(event, run) for run in runs) == 1
    assert {event["cat"] for event in events} <= {"run", *FAMILIES}
    products = [event for event in events if event["cat"] == "matmul"]
    assert {event["name"] for event in products} == {"MatMul (forward)", "MatMul (backward)"}
    for event in products:
        assert event["args"]["operator"] == "matmul"
        assert event["args"]["source"] == f"{__file__}:{trained.product_line}"
    update = next(event for event in events if event["cat"] == "weight update")
    assert update["name"] == "weight update" and update["args"]["instruction"]


def assert_threads_do_not_overlap(events: list[dict[str, Any]]) -> None:
    """Perfetto drops an event that overlaps another of its thread."""
    free: dict[tuple[int, int], int] = {}
    for event in sorted(events, key=lambda e: (e["ts"], e["dur"])):
        thread, start = (event["pid"], event["tid"]), round(event["ts"] * 1e3)
        assert start >= free.get(thread, 0)
        free[thread] = start + round(event["dur"] * 1e3)


def within(event: dict[str, Any], run: dict[str, Any]) -> bool:
    """Whether it lies in a run, as far as numbers of that size are exact."""
    end = event["ts"] + event["dur"]
    return bool(run["ts"] - 1e-4 <= event["ts"] and end <= run["ts"] + run["dur"] + 1e-4)


def test_a_measured_trace_that_cannot_be_written(trained: Measured, tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="a report cannot be written to .*no/trace.json"):
        trained.measurement.save_trace(tmp_path / "no" / "trace.json")


def test_measuring_one_thing_at_a_time(trained: Measured) -> None:
    measure = trained.compiled.measure
    with pytest.raises(MeasurementError, match="no run was measured: call Executor.run"), measure():
        twice = pytest.raises(MeasurementError, match="while JAX's profiler is on: .* at a time")
        with twice, measure():
            pass
    # Runs go on unmeasured, and may be measured again.
    run = {"feed": trained.feed, "fetch_list": [trained.fetch]}
    trained.executor.run(trained.compiled, **run)
    with trained.compiled.measure() as again:
        trained.executor.run(trained.compiled, **run)
    assert again.steps == 1


def test_a_program_without_an_engine_cannot_be_measured() -> None:
    paddle.enable_static()
    program = paddle.static.Program()
    with paddle.static.program_guard(program):
        y = paddle.tanh(paddle.static.data("x", [2], "float32"))
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(is_training=False)
    strategy.set_options({"compile_engine": False})
    built = paddle.static.IpuCompiledProgram(program, ipu_strategy=strategy).compile(["x"], [y])
    with pytest.raises(BackendUnavailableError, match="compile_engine is off"), built.measure():
        pass
    paddle.disable_static()


# -- by hand --------------------------------------------------------------------------------------


def test_moments_of_several_instructions_are_shared_equally() -> None:
    intervals = [
        Interval("a", "m", 0.0, 10.0), Interval("b", "m", 4.0, 8.0), Interval("a", "m", 4.0, 6.0),
        Interval("c", "m", 14.0, 30.0), Interval("none", "m", 5.0, 5.0),
    ]  # fmt: skip
    times, idle = shared_out(intervals, 0.0, 20.0)
    # 0-4 a; 4-6 a, b, a; 6-8 a, b; 8-10 a; 10-14 nothing; 14-20 c.
    assert times == pytest.approx(
        {("m", "a"): 4 + 2 * 2 / 3 + 1 + 2, ("m", "b"): 2 / 3 + 1, ("m", "c"): 6.0}
    )
    assert idle == pytest.approx(4.0)


def test_each_run_has_what_worked_in_it() -> None:
    shares = {"m": {"a": (Share("operator", NOWHERE, 1.0),)}}
    worked = [(45.0, 48.0), (8.0, 22.0), (1.0, 5.0), (60.0, 61.0)]
    intervals = [Interval("a", "m", *times) for times in worked]
    intervals.append(Interval("a", "of another program", 30.0, 32.0))
    found = Recording()
    found.add([(0.0, 10.0), (20.0, 30.0), (40.0, 50.0), (70.0, 80.0)], intervals, shares)
    assert found.seconds == pytest.approx([1e-8] * 4)
    # 1-5 and 8-10; 20-22; 45-48; nothing.
    assert found.parts == pytest.approx({("operator", NOWHERE): 11e-9})
    assert (found.idle, found.host) == pytest.approx((3e-9, 26e-9))


def test_instructions_are_kept_within_their_run() -> None:
    own = (Share("operator", NOWHERE, 1.0),)
    shares = {"m": {"a": own, "loop": (Share("container", NOWHERE, 1.0),)}}
    intervals = [
        Interval("a", "m", 28.0, 33.0), Interval("a", "m", 22.0, 24.0),
        Interval("loop", "m", 21.0, 29.0), Interval("not in the text", "m", 25.0, 26.0),
        Interval("a", "of another program", 22.0, 23.0),
    ]  # fmt: skip
    found = Recording()
    found.add([(0.0, 10.0), (20.0, 30.0)], intervals, shares)
    first, second = found.kept
    assert (first.number, first.start, first.end, first.work) == (1, 0.0, 10.0, [])
    assert (second.number, second.left_out) == (2, 0)
    assert second.work == [
        (Interval("a", "m", 22.0, 24.0), own),
        (Interval("not in the text", "m", 25.0, 26.0), own),
        (Interval("a", "m", 28.0, 30.0), own),
    ]


def test_only_some_instructions_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step_trace, "_KEPT", 3)
    shares = {"m": {"a": (Share("operator", NOWHERE, 1.0),)}}

    def kept(*works: int) -> list[tuple[int, int, int]]:
        """(number, instructions kept, left out) of runs with so many instructions each."""
        found = Recording()
        runs = [(100.0 * run, 100.0 * run + 50) for run in range(len(works))]
        intervals = [
            Interval("a", "m", 100.0 * run + at, 100.0 * run + at + 1)
            for run, work in enumerate(works)
            for at in range(work)
        ]
        found.add(runs, intervals, shares)
        return [(run.number, len(run.work), run.left_out) for run in found.kept]

    assert kept(1, 1, 1) == [(1, 1, 0), (2, 1, 0), (3, 1, 0)]
    assert kept(2, 2, 1) == [(2, 2, 0), (3, 1, 0)]
    assert kept(1, 5) == [(2, 3, 2)]


def test_a_fusion_is_its_products_or_shared_out_by_elements() -> None:
    text = """HloModule jit_step, is_scheduled=true

%product (p.1: f32[4,4], p.2: f32[4,4]) -> f32[4,4] {
  %p.1 = f32[4,4]{1,0} parameter(0)
  %p.2 = f32[4,4]{1,0} parameter(1)
  %dot.1 = f32[4,4]{1,0} dot(%p.1, %p.2), metadata={op_name="jit(s)/jvp(popart.MatMul.1)/dot"}
  ROOT %add.1 = f32[4,4]{1,0} add(%dot.1, %p.2), metadata={op_name="jit(s)/jvp(popart.Add.2)/add"}
}

%loop (p.3: f32[4,4]) -> f32[4] {
  %p.3 = f32[4,4]{1,0} parameter(0)
  %b.3 = f32[4,4]{1,0} broadcast(%p.3), metadata={op_name="jit(s)/while"}
  %exp.3 = f32[4]{0} exponential(%b.3), metadata={op_name="jit(s)/jvp(popart.Exp.3)/exp"}
  ROOT %r.3 = f32[4]{0} reduce(%p.3), metadata={op_name="jit(s)/transpose(jvp(popart.Mul.4))/r"}
}

ENTRY %main (x: f32[4,4]) -> f32[4] {
  %x = f32[4,4]{1,0} parameter(0)
  %copy.1 = f32[4,4]{0,1} copy(%x), metadata={op_name="jit(s)/jvp(popart.MatMul.1)/dot"}
  %f.1 = f32[4,4]{1,0} fusion(%copy.1, %x), kind=kOutput, calls=%product
  %all.1 = f32[4,4]{1,0} all-reduce(%f.1), metadata={op_name="jit(s)/psum"}
  %window.1 = f32[4,4]{1,0} reduce-window(%bare.1), window={size=2}
  %bare.1 = f32[4,4]{1,0} bitcast(%x)
  %ends.1 = f32[4]{0} reduce(%window.1), metadata={op_name="jit(s)/jvp(popart.ReduceSum.9)/r"}
  %after.1 = f32[4]{0} negate(%ends.1)
  %while.1 = (f32[4,4]{1,0}, s32[]) while(%all.1), condition=%c, body=%b
  %sgd.1 = f32[4,4]{1,0} add(%x, %f.1), metadata={op_name="jit(s)/popart_update/add"}
  ROOT %f.2 = f32[4]{0} fusion(%f.1), kind=kLoop, calls=%loop
}
"""
    module, found = origins(text)
    assert module == "jit_step"
    product = Origin((("MatMul", 1),), "forward")
    parts = {
        name: [(s.kind, s.origin, s.part) for s in found[name]]
        for name in ("copy.1", "f.1", "all.1", "window.1", "after.1", "while.1", "sgd.1", "f.2")
    }
    assert parts == {
        "copy.1": [("copy", product, 1.0)],
        "f.1": [("operator", product, 1.0)],
        "all.1": [("collective", NOWHERE, 1.0)],
        "window.1": [("operator", Origin((("ReduceSum", 9),), "forward"), 1.0)],
        "after.1": [("operator", Origin((("ReduceSum", 9),), "forward"), 1.0)],
        "while.1": [("container", NOWHERE, 1.0)],
        "sgd.1": [("operator", Origin((), "update"), 1.0)],
        "f.2": [
            ("operator", Origin((("Exp", 3),), "forward"), 4 / 20),
            ("operator", Origin((("Mul", 4),), "backward"), 16 / 20),
        ],
    }


def test_what_is_called_is_named_with_its_call() -> None:
    """JAX begins names anew in a function that XLA calls; whether it is backward, the call says."""
    text = """HloModule jit_s

%sum (p.1: f32[4]) -> f32[4] {
  %p.1 = f32[4]{0} parameter(0)
  ROOT %add.1 = f32[4]{0} add(%p.1, %p.1), metadata={op_name="popart.Add.2/add"}
}

%part (p.2: f32[4]) -> f32[4] {
  %p.2 = f32[4]{0} parameter(0)
  %f.1 = f32[4]{0} fusion(%p.2), kind=kLoop, calls=%sum
  ROOT %m.1 = f32[4]{0} multiply(%f.1, %p.2), metadata={op_name="popart.Mul.3/mul"}
}

ENTRY %main (x: f32[4]) -> f32[4] {
  %x = f32[4]{0} parameter(0)
  ROOT %call.1 = f32[4]{0} call(%x), to_apply=%part, metadata={op_name="jit(s)/transpose(jvp())"}
}
"""
    _, found = origins(text)
    assert found["f.1"] == (Share("operator", Origin((("Add", 2),), "backward"), 1.0),)
    assert found["m.1"] == (Share("operator", Origin((("Mul", 3),), "backward"), 1.0),)


def test_names_tell_operator_and_phase() -> None:
    loop, inner = of_node(ir.node("Loop", []), 7), of_node(ir.node("My-Op", []), 0)
    name = f"jit(f)/transpose(jvp({loop}))/while/body/{inner}/mul"
    assert origin_of(name) == Origin((("Loop", 7), ("My_Op", 0)), "backward")
    assert origin_of("jit(f)/checkpoint/rematted_computation/popart.Tanh.3/tanh") == Origin(
        (("Tanh", 3),), "backward"
    )
    layer = ir.node("MatMul", [])
    layer.meta[dialect.LAYER] = "popart.1.q-proj"
    assert of_node(layer, 5) == "popart_1.q_proj/popart.MatMul.5"
    assert origin_of(f"jit(f)/jvp({of_node(layer, 5)})/dot") == Origin((("MatMul", 5),), "forward")
    assert origin_of("jit(f)/popart_accumulation/add") == Origin((), "accumulation")
    assert origin_of("jit(f)/reduce_sum") is None


def test_xla_names_instructions_by_layer() -> None:
    paddle.enable_static()
    try:
        program, startup = paddle.static.Program(), paddle.static.Program()
        scope = paddle.static.Scope()
        with paddle.static.scope_guard(scope), paddle.static.program_guard(program, startup):
            x = paddle.static.data("x", [2, 3], "float32")
            inner = paddle.nn.Sequential(("fc", paddle.nn.Linear(3, 3)), ("act", paddle.nn.Tanh()))
            loss = paddle.nn.Sequential(("inner", inner))(x).mean()
            paddle.optimizer.SGD(0.1).minimize(loss)
            paddle.static.Executor().run(startup)
            strategy = paddle.static.IpuStrategy()
            strategy.set_graph_config(is_training=True)
            compiled = paddle.static.IpuCompiledProgram(program, scope, strategy).compile(
                ["x"], [loss]
            )
    finally:
        paddle.disable_static()
    executable = compiled.backend.session._executable
    text = executable._lowered_for("cpu", executable._step).as_text(debug_info=True)
    assert "/jvp(inner.fc)/popart.MatMul.0/dot_general" in text
    assert "/transpose(jvp(inner.fc))/popart.MatMul.0/" in text
    assert "/jvp(inner.act)/popart.Tanh.2/tanh" in text


def test_a_name_of_another_program_leads_nowhere(trained: Measured) -> None:
    graph = trained.compiled.backend.session.graph
    numbers = {node.op_type: index for index, node in enumerate(graph)}
    product = numbers["MatMul"]
    assert [node.op_type for node in nodes_at(graph, [("MatMul", product)])] == ["MatMul"]
    assert nodes_at(graph, [("Tanh", product)]) == []
    assert nodes_at(graph, [("MatMul", len(graph))]) == []


def test_every_operator_has_a_family() -> None:
    assert {family_of(row.op_type) for row in all_schemas()} <= set(FAMILIES)
    assert family_of("Erfinv") == "other operators"
    assert family_of("Conv") == "convolution"
    assert family_of("ReplicatedAllReduce") == "collectives"
    assert family_of("Svd") == "other operators"


# -- the command line -----------------------------------------------------------------------------

SCRIPT = """
import sys
import numpy, paddle
paddle.enable_static()
main = paddle.static.Program()
with paddle.static.program_guard(main):
    y = paddle.tanh(paddle.static.data("x", [8], "float32"))
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(is_training=False)
program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [y])
executor = paddle.static.Executor(paddle.CPUPlace())
for _ in range(int(sys.argv[1])):
    executor.run(program, feed={"x": numpy.zeros(8, "float32")}, fetch_list=[y])
sys.exit(sys.argv[2] if len(sys.argv) > 2 else 0)
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "run.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.mark.parametrize("runs", [3, 9])
def test_a_report_has_measured_times_beside_predicted_ones(
    script: str, runs: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert main(["report", "--measure", "4", "--json", str(out), script, str(runs)]) == 0
    text = capsys.readouterr().out
    measured = min(runs - 1, 4)
    assert text.startswith("inference on POD4") and "predicted, not measured" in text
    assert f"\n\nmeasured, not predicted: {measured} run(s) on " in text
    report = json.loads(out.read_text())
    assert report["predicted"] is True and report["measured"]["steps"] == measured
    assert f"{script}:7" in [line["source"] for line in report["measured"]["lines"]]


def test_a_trace_has_measured_runs_behind_the_predicted_one(script: str, tmp_path: Path) -> None:
    assert main(["report", "--measure", "2", "--directory", str(tmp_path), script, "3"]) == 0
    trace = json.loads((tmp_path / "trace.json").read_text())
    names = {
        e["args"]["name"]: e["pid"] for e in trace["traceEvents"] if e["name"] == "process_name"
    }
    assert names == {"IPU 0 (predicted)": 1, "this machine (measured)": 2}
    assert trace["otherData"]["predicted"] is True and trace["otherData"]["measured"]
    runs = [e["name"] for e in trace["traceEvents"] if e.get("cat") == "run"]
    assert runs == ["run 1", "run 2"]
    both = [e for e in trace["traceEvents"] if e["name"] == "Tanh (forward)"]
    assert {e["pid"] for e in both} == {1, 2}
    assert {e["args"]["source"] for e in both} == {f"{script}:7"}


def test_reports_without_it_hold_no_measured_times(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "trace.json"
    assert main(["report", "--json", "-", "--trace", str(out), script, "1"]) == 0
    assert "measured" not in json.loads(capsys.readouterr().out)
    assert "measured" not in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--measure", "2", MODEL], 2, f"--measure: {MODEL} is a model, which has no data"),
        (
            ["--measure", "2", "--skip-startup", "SCRIPT"],
            2,
            "needs the weights that --skip-startup",
        ),
        (
            ["--measure", "2", "SCRIPT", "1"],
            3,
            "ran its program 1 time(s), and the first run is not",
        ),
        (["--measure", "9", "SCRIPT", "3", "stop"], 3, "while it was measured: SystemExit: stop"),
    ],
)
def test_what_cannot_be_measured(
    script: str, arguments: list[str], code: int, message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [script if argument == "SCRIPT" else argument for argument in arguments]
    assert main(["report", *given]) == code
    assert message in capsys.readouterr().err
