"""Paddle programs predicted: the report and plan commands, and the check within compile."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu import popart
from paddle_ipu.cli.main import main
from paddle_ipu.compiler.predicted_program import predicted_program
from paddle_ipu.cost_model.machines import machine_named
from paddle_ipu.errors import OptionError, OutOfMemoryException
from tests.journeys.saved_models import models

MODEL = str(models.prefix("paddle_2_6/mlp"))
WIDTH = 64
SCRIPT = f"""
import sys
import paddle
paddle.enable_static()
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [8, {WIDTH}], "float32")
    y = paddle.nn.Linear({WIDTH}, {WIDTH})(x)
    loss = paddle.mean(paddle.tanh(y))
    paddle.optimizer.Adam(0.01).minimize(loss)
paddle.static.Executor(paddle.CPUPlace()).run(startup)
strategy = paddle.static.IpuStrategy()
strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=8)
strategy.set_pipelining_config(enable_gradient_accumulation=True, accumulation_factor=4)
strategy.set_options({{"ipu_machine": sys.argv[1]}})
paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [loss])
raise SystemExit("it was compiled")
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


@pytest.fixture
def tiny(tmp_path: Path) -> str:
    """A machine that holds next to nothing."""
    path = tmp_path / "tiny.json"
    path.write_text('{"base": "POD4", "processor": {"tile_memory": 1024, "tiles": 4}}')
    return f"ipu:{path}"


def test_a_report_says_whether_it_fits_and_how_fast_it_is(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "report.json"
    assert main(["report", "--skip-startup", "--json", str(out), script, "pod4"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("training on POD4: 1 IPU(s) of 1472 tiles at 1.33 GHz, 1 replica(s); ")
    assert "predicted, not measured" in text and "rows/s; a run of 32 rows takes" in text
    assert f"{script}:8" in text, "the user's lines stand beside tensors and operators"
    report = json.loads(out.read_text())
    assert report["version"] == 1 and report["predicted"] is True
    assert report["memory"]["fits"] and report["advice"] == []
    (ipu,) = report["memory"]["ipus"]
    weights = (WIDTH * WIDTH + WIDTH) * 4
    assert ipu["categories"]["weights"] == ipu["categories"]["accumulators"] == weights
    assert report["memory"]["off_chip"] == 2 * weights, "Adam's moments, off the chip by default"
    matmul = next(row for row in report["operators"] if row["op_type"] == "MatMul")
    # The input is fed: backward has the weight's product only.
    assert matmul["flops"] == 2 * 2 * 8 * WIDTH * WIDTH
    assert max(step[2] for step in ipu["curve"]) == ipu["peak"]


def test_a_report_of_what_does_not_fit_says_what_would_help(
    script: str, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--skip-startup", script, tiny]) == 1
    text = capsys.readouterr().out
    assert "lacks" in text and "what would save memory on that IPU" in text
    assert "{'enable_fp16': True}: compute in half" in text


def test_requests_to_a_training_are_refused(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["report", "--skip-startup", "--requests-per-second", "5", script, "pod4"]
    assert main(asked) == 2
    assert "report: requests_per_second is of a program that answers" in capsys.readouterr().err


def test_a_plan_proposes_a_strategy_to_paste(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["plan", "--skip-startup", "--machine", "bow-2000", "--candidates", "12"]
    assert main([*arguments, script, "pod4"]) == 0
    text = capsys.readouterr().out
    assert text.startswith("3 strategies for Bow-2000 in ")
    source = text[text.index("strategy = paddle") :].split("\n\n")[0]
    found: dict[str, Any] = {"paddle": paddle}
    exec(source, found)
    strategy = found["strategy"]
    assert strategy.get_option("ipu_machine") == "Bow-2000"
    batch = 1
    for name in ("micro_batch_size", "accumulation_factor", "replicated_graph_count"):
        batch *= strategy.get_option(name)
    assert batch == 32


def test_a_plan_that_nothing_fits_says_so(
    script: str, tiny: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--skip-startup", "--candidates", "6", script, tiny]) == 1
    assert "the closest lacks" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["plan", "--json"], ["report", "--json", "-"]])
def test_the_machines_as_json(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*words, "--machines"]) == 0
    machines = {each["name"]: each for each in json.loads(capsys.readouterr().out)["machines"]}
    pod = machines["POD16"]
    assert (pod["ipus"], pod["processor"], pod["clock_hz"]) == (16, "GC200", 1.33e9)
    assert main(["report", "--machines", "--json", "machines.json"]) == 2
    assert "give --json -" in capsys.readouterr().err


def test_a_script_that_lacks_weights_is_told_to_leave_skip_startup_out(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path, told = Path(script), "--skip-startup left out 1 run(s) without fetches"
    weights = str(path.with_name("weights"))
    path.write_text(
        SCRIPT.replace("strategy =", "paddle.static.save(main, sys.argv[2])\nstrategy =", 1)
    )
    # Weights of other tests may have the same names.
    with paddle.static.scope_guard(paddle.static.Scope()):
        assert main(["report", "--skip-startup", script, "pod4", weights]) == 3
    error = capsys.readouterr().err
    assert told in error and "leave the flag out" in error
    assert main(["report", script, "pod4", weights]) == 0
    path.write_text("raise KeyError('no such data')")
    assert main(["report", "--skip-startup", script]) == 3
    assert "--skip-startup" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["report"], 2, "name a script or a saved model; --help tells more"),
        (["report", MODEL, "5"], 2, "a model takes no arguments, got ['5']"),
        (["report", "--fp16", "x.py"], 2, "--fp16 is for a model: a script's strategy says this"),
        (
            ["plan", "--rows", "4", "x.py"],
            2,
            "--rows is for a model: a script's strategy says this",
        ),
        (
            ["report", "--skip-startup", MODEL],
            2,
            "--skip-startup is for a script: a model has no",
        ),
    ],
)
def test_wrong_arguments(
    arguments: list[str],
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.py").touch()
    assert main(arguments) == code
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--rows", "0", "model"], "--rows: got '0', expected a whole number from 1 on"),
        (["report", "--measure", "0", "x.py"], "--measure: got '0', expected a whole number from"),
        (["plan", "--batch", "0", "x.py"], "--batch: got '0', expected a whole number from 1 on"),
        (["plan", "--candidates", "0", "x.py"], "--candidates: got '0', expected a whole number"),
    ],
)
def test_numbers_out_of_range(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


def test_scripts_that_fail_compile_nothing_or_name_no_machine(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["report", "--skip-startup", script, "pod5"]) == 3
    assert "unknown machine 'pod5'" in capsys.readouterr().err
    assert main(["report", script]) == 3
    assert "train.py failed at" in capsys.readouterr().err
    empty = tmp_path / "empty.py"
    empty.write_text("x = 1\n")
    assert main(["report", str(empty)]) == 3
    told = capsys.readouterr().err
    assert "compiled no program with IpuCompiledProgram, and a prediction needs its" in told
    assert "Compile one: paddle.static.IpuCompiledProgram(program, ipu_strategy=strategy)." in told


DYNAMIC = """
import numpy as np, paddle
from paddle import nn

class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 4)

    def forward(self, rows):
        return self.linear(rows).mean()

net = paddle.jit.to_static(Net())
optimizer = paddle.optimizer.Adam(parameters=net.parameters())
rows = paddle.to_tensor(np.ones((16, 8), np.float32))
net(rows).backward()  # on the CPU, in dynamic mode
optimizer.step()
paddle.set_device("ipu")
strategy = paddle.static.IpuStrategy()
strategy.set_optimizer(optimizer)
net(rows)
"""


def test_a_script_of_dynamic_mode_stays_in_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "dynamic.py"
    path.write_text(DYNAMIC)
    assert main(["report", "--machine", "pod4", str(path)]) == 0
    assert "training on POD4: 1 IPU(s)" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--json", "--html", "--trace", "--directory"])
def test_a_report_that_cannot_be_written(
    option: str, script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    path = tmp_path / "file" / "report"
    assert main(["report", "--skip-startup", option, str(path), script, "pod4"]) == 2
    message = capsys.readouterr().err
    assert f"{option}: a report cannot be written to {path}" in message
    assert "Name a folder that this process may write to" in message


def test_a_report_in_every_form(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["--directory", str(tmp_path / "all"), "--html", "-", script, "pod4"]
    assert main(["report", "--skip-startup", *arguments]) == 0
    assert capsys.readouterr().out == (tmp_path / "all" / "report.html").read_text()
    found = json.loads((tmp_path / "all" / "report.json").read_text())
    assert found["name"] == "train.py" and found["insights"]
    trace = json.loads((tmp_path / "all" / "trace.json").read_text())
    assert any(f"{script}:8" == e["args"].get("source") for e in trace["traceEvents"])
    assert main(["report", "--json", "-", "--trace", "-", script, "pod4"]) == 2
    assert "--json and --trace: only one of them can go to stdout" in capsys.readouterr().err


def test_machines_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", "--machines"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "Bow-Pod64    64 x Bow    1472 tiles at 1.85 GHz, 941 MB each" in lines


def _built() -> tuple[Any, Any, Any]:
    """A program that compiles: main, startup and its result."""
    main_program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main_program, startup):
        x = paddle.static.data("x", [8, WIDTH], "float32")
        y = paddle.tanh(paddle.nn.Linear(WIDTH, WIDTH)(x))
    return main_program, startup, y


def _compile(options: dict[str, Any]) -> None:
    main_program, startup, y = _built()
    paddle.static.Executor(paddle.CPUPlace()).run(startup)
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=8)
    strategy.set_options(options)
    paddle.static.IpuCompiledProgram(main_program, ipu_strategy=strategy).compile(["x"], [y])


def test_compile_refuses_what_the_named_machine_cannot_hold(static_mode: None, tiny: str) -> None:
    with pytest.raises(OutOfMemoryException, match="Out of memory: Cannot fit all variable data"):
        _compile({"ipu_machine": tiny})
    with pytest.raises(OptionError, match=r"unknown machine 'pod3'.* Did you mean 'POD32'"):
        _compile({"ipu_machine": "pod3"})


def test_compile_goes_on_where_it_is_allowed_to(
    static_mode: None, tiny: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        _compile({"ipu_machine": tiny, "engine_options": {"debug.allowOutOfMemory": "true"}})
    assert "this program would lack" in caplog.text


def test_the_environment_names_a_machine_too(
    static_mode: None, tiny: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", json.dumps({"machine": tiny}))
    with pytest.raises(OutOfMemoryException):
        _compile({})


def test_weights_need_no_values_to_be_predicted(static_mode: None) -> None:
    main_program, _startup, y = _built()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=8)
    program = predicted_program(main_program, strategy, ["x"], [y])
    assert sorted(t.dims for t in program.weights) == [(WIDTH,), (WIDTH, WIDTH)]
    assert program.rows == 8 and not program.settings.training


def test_replicas_of_other_instances_have_ipus_too(static_mode: None) -> None:
    main_program, _startup, y = _built()
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=2, is_training=False, micro_batch_size=8)
    strategy.set_options(
        {
            "enable_distribution": True,
            "enable_replicated_graphs": True,
            "replicated_graph_count": 2,
            "enable_distributed_replicated_graphs": True,
            "global_replication_factor": 8,
        }
    )
    settings = predicted_program(main_program, strategy, ["x"], [y]).settings
    assert (settings.replicas, settings.ipus) == (8, 8)


def _session(width: int, engine_options: dict[str, str] | None = None) -> popart.InferenceSession:
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [8, width])
    weight = builder.addInitializedInputTensor(np.zeros((width, width), np.float32), "w")
    y = builder.aiOnnx.tanh([builder.aiOnnx.matmul([x, weight])])
    options = popart.SessionOptions()
    options.engineOptions = engine_options or {}
    return popart.InferenceSession(
        fnModel=builder.getModelProto(),
        dataFlow=popart.DataFlow(1, {y: popart.AnchorReturnType("All")}),
        deviceInfo=popart.DeviceManager().createIpuModelDevice({"numIPUs": 1}),
        userOptions=options,
    )


def test_a_session_of_popart_is_refused_by_the_machine_of_the_environment(
    tiny: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", json.dumps({"machine": tiny}))
    with pytest.raises(popart.OutOfMemoryException, match="Out of memory: Cannot fit all") as found:
        _session(
            64, {"autoReport.all": "true", "autoReport.directory": str(tmp_path)}
        ).prepareDevice()
    assert found.value.getSummaryReport().startswith("inference on ")
    assert (Path(found.value.getProfilePath()) / "report.json").exists()
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        _session(64, {"debug.allowOutOfMemory": "true"}).prepareDevice()
    assert "this program would lack" in caplog.text
    monkeypatch.setenv("POPLAR_TARGET_OPTIONS", json.dumps({"machine": "pod3"}))
    with pytest.raises(OptionError, match="unknown machine 'pod3'"):
        _session(64).prepareDevice()


def test_a_session_without_a_named_machine_runs_and_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("POPLAR_TARGET_OPTIONS", raising=False)
    session = _session(512)
    # As a program of a gigabyte has it, without making one.
    monkeypatch.setattr(
        "paddle_ipu.cost_model.choice.smallest_of", lambda ipus: machine_named("pod4").with_tiles(1)
    )
    with caplog.at_level(logging.WARNING, "paddle_ipu"):
        session.prepareDevice()
    assert "on a GC200 with 1 tiles this program would lack" in caplog.text


def test_a_script_that_is_no_python(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "train.py"
    path.write_text("import sys\nprint(\n")
    assert main(["report", str(path)]) == 3
    assert (
        f"failed at {path}:2 before it compiled a program: SyntaxError" in capsys.readouterr().err
    )
