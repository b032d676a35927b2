"""``paddle-ipu verify``: which runs of a script it verifies, what it prints, how it exits."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from paddle_ipu.cli.main import main
from tests.journeys.saved_models import models

SCRIPT = """
import sys
import numpy as np
import paddle

paddle.enable_static()
paddle.seed(1)
rate, runs, compiled = float(sys.argv[1]), int(sys.argv[2]), "cpu" not in sys.argv
main, startup = paddle.static.Program(), paddle.static.Program()
with paddle.static.program_guard(main, startup):
    x = paddle.static.data("x", [-1, 4], "float32")
    loss = paddle.square(paddle.square(paddle.nn.Linear(4, 1)(x))).mean()
    paddle.optimizer.SGD(rate).minimize(loss)
exe = paddle.static.Executor(paddle.CPUPlace())
exe.run(startup)
program = main
if compiled:
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=2)
    if "scaled" in sys.argv:
        strategy.set_options({"enable_fp16": True, "automatic_loss_scaling_settings.enabled": True})
    program = paddle.static.IpuCompiledProgram(main, ipu_strategy=strategy).compile(["x"], [loss])
for step in range(runs):
    rows = np.full((2, 4), 400.0 if step == 6 and "scaled" in sys.argv else 1 + step / 8, "float32")
    (value,) = exe.run(program, feed={"x": rows}, fetch_list=[loss])
    print("loss", float(value))
print("the script goes on")
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    return str(path)


def test_a_script_is_followed_to_its_first_nan(
    script: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main(["verify", "--until-nan", "--html", str(page), script, "2.0", "30"]) == 1
    printed = capsys.readouterr()
    assert "of the script, from the weights before run" in printed.out
    assert "First infinity: square at " in printed.out
    assert printed.err.count("loss ") < 30 and "the script goes on" not in printed.err
    assert "Steps, on the IPU" in page.read_text(encoding="utf-8")


def test_automatic_loss_scaling_is_followed_to_where_it_was(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", "--until-nan", script, "1e-4", "30", "scaled"]) == 1
    printed = capsys.readouterr()
    assert "runs 4 to 7 of the script, from the weights before run 4" in printed.out
    assert "First infinity: square at " in printed.out and "It overflows half" in printed.out
    # Six runs with small gradients have doubled it six times.
    assert re.search(r"^ +64 .* now$", printed.out, re.MULTILINE)
    assert printed.err.count("loss ") == 6


def test_runs_in_the_middle_have_their_own_weights_and_feeds(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wanted = ["verify", "--after", "2", "--steps", "2", "--json"]
    assert main([*wanted, script, "0.01", "30", "cpu"]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["ok"] and report["finite"] and report["against"] == "cpu"
    assert report["notes"] == ["runs 3 to 4 of the script, from the weights before run 3"]
    lines = [line for line in printed.err.splitlines() if line.startswith("loss ")]
    losses = [float(line.split()[1]) for line in lines]
    # The fourth run is the last one wanted: the script ends in it.
    assert len(losses) == 3 and len(report["history"]) == 2
    assert report["history"][0]["loss"] == pytest.approx(losses[2], rel=1e-5)


def test_a_script_without_a_program_and_one_that_fails(
    tmp_path: Path, script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "other.py"
    path.write_text("x = 1")
    assert main(["verify", str(path)]) == 3
    assert "dynamic-graph model is verified once paddle.jit.save saved" in capsys.readouterr().err
    path.write_text("raise KeyError('no such data')")
    assert main(["verify", str(path)]) == 3
    assert "failed before the runs to verify: KeyError: 'no such data'" in capsys.readouterr().err
    assert main(["verify", "--after", "5", script, "0.01", "1", "cpu"]) == 3
    assert "made 1 run(s) with fetches, none of them after the first 5" in capsys.readouterr().err


SUMS = """
import numpy as np
import paddle

paddle.enable_static()
main = paddle.static.Program()
with paddle.static.program_guard(main):
    x = paddle.static.data("x", [-1, 50000], "float32")
    sums = LAST(paddle.cumsum(x, -1))
feed = {"x": np.random.default_rng(0).standard_normal((8, 50000), np.float32)}
paddle.static.Executor(paddle.CPUPlace()).run(main, feed=feed, fetch_list=[sums])
"""


def test_the_first_line_and_the_exit_code_are_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "sums.py"
    for last, code, verdict in (
        (
            "",
            0,
            "agrees, but for ROUNDING, with Paddle's CPU kernels after 1 step(s), rtol=1e-05, ",
        ),
        ("paddle.log", 1, "NOT FINITE: 1 of 1 fetches hold NaN or infinity; beside that it "),
    ):
        path.write_text(SUMS.replace("LAST", last))
        assert main(["verify", str(path)]) == code
        assert capsys.readouterr().out.startswith(f"verify: {verdict}")


def test_agreement_takes_three_lines_and_all_of_them_on_request(
    script: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [script, "0.01", "30"]
    assert main(["verify", "--without-dropout", *words]) == 0
    verdict, compared, note = capsys.readouterr().out.splitlines()
    assert verdict.startswith("verify: agrees with Paddle's CPU kernels after 1 step(s)")
    counts = (
        r"compared: 1 fetches, 2 gradients, 2 weights and states; the largest drift is \S+, in "
        r"(mean|gradient|linear)\S*.*, whose largest value is \d\S+$"
    )
    assert re.match(counts, compared)
    assert note == "note: runs 1 to 1 of the script, from the weights before run 1"
    assert main(["verify", "--all", *words]) == 0
    tables = capsys.readouterr().out
    assert tables.startswith(verdict) and "\nweights and states:\n" in tables
    assert " of large " in tables and "\noperators, in program order:\n" in tables


def test_a_fetch_may_stand_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sums.py"
    path.write_text(SUMS.replace("LAST", "").replace("fetch_list=[sums]", "fetch_list=sums"))
    assert main(["verify", str(path)]) == 0
    assert capsys.readouterr().out.startswith("verify: agrees, but for ROUNDING, with ")


def test_wrong_arguments(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", "--feed", script, script]) == 2
    assert main(["verify", "--until-nan", str(models.prefix("paddle_2_6/mlp"))]) == 2
    for option, value in (("--steps", "0"), ("--after", "-1"), ("--against", "fp8")):
        with pytest.raises(SystemExit, match="2"):
            main(["verify", option, value, script])
    assert "got '0', expected a whole number from 1 on" in capsys.readouterr().err


def test_a_model_is_fed_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "paddle_2_6/attention"
    feed, _ = models.recorded(name)
    arrays: dict[str, Any] = dict(feed)
    np.savez(tmp_path / "feed.npz", **arrays)
    target = str(models.prefix(name))
    assert main(["verify", "--feed", str(tmp_path / "feed.npz"), target]) == 0
    assert capsys.readouterr().out.startswith("verify: agrees with Paddle's CPU kernels")
    assert main(["verify", target]) == 3
    names = ", ".join(map(repr, feed))
    told = f"feeds {names} are missing" if len(feed) > 1 else f"feed {names} is missing"
    told += f": the model is fed {names}. Write an array for each with numpy.savez('feed.npz', **{{"
    assert told in capsys.readouterr().err
