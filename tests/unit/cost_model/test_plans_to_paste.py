"""What `paddle-ipu plan` prints is pasted into its script, compiled and run, by its own batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.runtime.ipu_program import IpuProgram
from tests.unit.cost_model.planned_programs import SCRIPTS, STRATEGY

_FAST = ("fixed batch", "pipelined", "half")


def planned(name: str, folder: Path, *arguments: str) -> int:
    path = folder / "train.py"
    path.write_text(SCRIPTS[name])
    return main(["plan", *arguments, str(path)])


def pasted(text: str) -> str:
    """The strategy in what was printed."""
    return text[text.index("strategy = paddle") :].split("\n\n")[0]


def compiled(name: str, strategy: str) -> dict[str, Any]:
    """The script's names, with `strategy` in the place of its own."""
    found: dict[str, Any] = {}
    exec(SCRIPTS[name].replace(STRATEGY, strategy), found)
    return found


def feed_of(program: IpuProgram) -> dict[str, Any]:
    random = np.random.default_rng(0)
    feed = {}
    for name, known in program.feeds.items():
        shape = (program.micro_batches * known.shape[0], *known.shape[1:])
        numbers = random.standard_normal(shape) if known.declared == "float32" else np.ones(shape)
        feed[name] = numbers.astype(known.declared)
    return feed


# Paddle says it of every batch norm that is trained.
@pytest.mark.filterwarnings("ignore:When training, we now always track")
@pytest.mark.parametrize(
    "name", [n if n in _FAST else pytest.param(n, marks=pytest.mark.long) for n in SCRIPTS]
)
def test_what_is_printed_compiles_and_runs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned(name, tmp_path) == 0
    found = compiled(name, pasted(capsys.readouterr().out))
    program = found["compiled"]
    executor = paddle.static.Executor(paddle.CPUPlace())
    (result,) = executor.run(program, feed=feed_of(program), fetch_list=[found["fetch"]])
    assert np.isfinite(result).all()


@pytest.mark.parametrize("name", ["mlp", "pipelined"])
def test_every_strategy_of_the_table_compiles(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is compiled by XLA: what is refused is refused before."""
    assert planned(name, tmp_path, "--json") == 0
    fitting = json.loads(capsys.readouterr().out)["fitting"]
    assert len(fitting) == 8
    assert {row["ipus_of_a_replica"] for row in fitting} == {1, 2}
    for row in fitting:
        compiled(name, f"{row['strategy']}\nstrategy.set_options({{'compile_engine': False}})")


def test_a_plan_keeps_the_other_options(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert planned("half", tmp_path) == 0
    found: dict[str, Any] = {"paddle": paddle}
    exec(pasted(capsys.readouterr().out), found)
    strategy = found["strategy"]
    assert strategy.get_option("loss_scaling") == 128.0
    assert strategy.get_option("enable_half_partial") and strategy.enable_fp16
    assert strategy.get_option("convolution_options") == {"partialsType": "half"}


def test_a_plan_has_the_batch_of_the_feeds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert planned("fixed batch", tmp_path) == 0
    text = capsys.readouterr().out
    assert "micro_batch_size=8," in text
    assert "the feeds' own shapes give micro-batches of 8 rows: others are tried where dim" in text
    assert planned("fixed batch", tmp_path, "--json", "--batch", "64") == 0
    fitting = json.loads(capsys.readouterr().out)["fitting"]
    assert {row["micro_batch_size"] for row in fitting} == {8}
    assert {row["batch"] for row in fitting} == {64}


def test_rows_that_the_program_refuses_are_not_proposed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A reshape to 4 rows: other micro-batches do not compile, nor do four replicas of one row."""
    assert planned("fixed inside", tmp_path, "--json") == 0
    fitting = json.loads(capsys.readouterr().out)["fitting"]
    assert {(row["micro_batch_size"], row["replicas"]) for row in fitting} == {(4, 1)}
    assert planned("fixed inside", tmp_path, "--batch", "6") == 1
    text = capsys.readouterr().out
    assert "compile would refuse all that fit: reshape at " in text and "train.py:9: cannot" in text


def test_a_machine_of_a_file_keeps_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "small.json"
    file.write_text('{"base": "POD4", "processor": {"tiles": 100}}')
    assert planned("mlp", tmp_path, "--machine", f"ipu:{file}") == 0
    assert f"'ipu_machine': 'ipu:{file}'" in capsys.readouterr().out


# -- reports --------------------------------------------------------------------------------------


def reported(name: str, folder: Path, strategy: str = "") -> dict[str, Any]:
    path = folder / "train.py"
    path.write_text(SCRIPTS[name].replace(STRATEGY, strategy))
    assert main(["report", "--json", str(folder / "report.json"), str(path)]) == 0
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    return found


@pytest.mark.parametrize("rows", [1, 8])
def test_a_report_counts_the_rows_of_the_feeds(
    rows: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    strategy = f"strategy.set_options({{'micro_batch_size': {rows}}})"
    report = reported("fixed batch", tmp_path, strategy)
    assert report["program"]["rows"] == 8
    (found,) = [row for row in report["insights"] if "micro-batch" in row["change"]]
    assert found["option"] == "", "compile would refuse it"
    assert found["change"] == "twice the micro-batch, of feeds declared with dimension 0 -1"


@pytest.mark.parametrize("command", ["report", "plan"])
def test_a_micro_batch_that_the_feeds_contradict(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "train.py"
    path.write_text(
        SCRIPTS["fixed batch"].replace(STRATEGY, "strategy.set_graph_config(micro_batch_size=4)")
    )
    assert main([command, str(path)]) == 3
    assert (
        "micro_batch_size is 4, but feed 'x' has the shape [8, 16], feed 'y' has the shape [8, 1]: "
        "the option sets the rows of feeds whose dimension 0 is -1, and there are none. Make "
        "dimension 0 -1, for instance paddle.static.data('x', [-1, 16]), or leave micro_batch_size "
        "out."
    ) in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "plan"])
def test_rows_that_a_model_contradicts(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paddle.enable_static()
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup):
        x = paddle.static.data("x", [8, 16])
        y = paddle.nn.Linear(16, 4)(x)
    executor = paddle.static.Executor(paddle.CPUPlace())
    executor.run(startup)
    prefix = str(tmp_path / "model")
    paddle.static.save_inference_model(prefix, [x], [y], executor, program=program)
    assert main([command, "--rows", "4", prefix]) == 3
    told = capsys.readouterr().err
    assert "--rows is 4, but feed 'x' has the shape [8, 16]" in told
    assert "paddle.static.data('x', [-1, 16]) and save the model again, or leave --rows out" in told
    assert main([command, prefix]) == 0
    text = capsys.readouterr().out
    assert "for 8 rows" in text if command == "report" else "micro_batch_size=8," in text
