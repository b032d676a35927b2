"""``paddle-ipu check``: findings about scripts, programs and saved models, without compiling."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import paddle
import pytest

from paddle_ipu.cli.main import main
from paddle_ipu.verification.porting import KINDS, PortingReport, check_program
from tests.checkout import ROOT
from tests.tables import remove_translators

pytestmark = pytest.mark.usefixtures("static_mode")

HERE = Path(__file__)
MODELS = ROOT / "tests" / "journeys" / "saved_models" / "fixtures"


def report(build: Callable[[], Any], **arguments: Any) -> PortingReport:
    """The report about the program that `build` makes; what it returns is a loss to minimise."""
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup), paddle.utils.unique_name.guard():
        loss = build()
        if loss is not None:
            paddle.optimizer.SGD(0.1).minimize(loss)
    return check_program(program, **arguments)


def _feed(*shape: int, dtype: str = "float32") -> Any:
    return paddle.static.data("x", list(shape), dtype)


def test_a_clean_program_compiles_and_is_portable() -> None:
    found = report(lambda: paddle.mean(paddle.static.nn.fc(_feed(-1, 4), 3)))
    assert found.findings == []
    assert found.compiles and found.portable and found.training
    assert found.operators >= 3
    assert str(found).endswith("It compiles, and is portable to IPU hardware.")


def test_every_unsupported_operator_is_listed_with_its_lines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove_translators(monkeypatch, "tanh", "sigmoid")

    def build() -> None:
        x = _feed(3, 4)
        paddle.tanh(x) + paddle.tanh(paddle.nn.functional.sigmoid(x))

    found = report(build)
    assert not found.compiles and not found.portable and not found.training
    by_name = {finding.what: finding for finding in found.findings}
    assert sorted(by_name) == ["sigmoid", "tanh"]
    assert {finding.kind for finding in found.findings} == {"unsupported"}
    assert by_name["tanh"].count == 2
    assert all(place.startswith(f"{HERE}:") for place in by_name["tanh"].places)
    assert "tanh (2x)" in str(found) and "It does not compile as it is." in str(found)


def test_an_operator_without_a_translator_says_why() -> None:
    def build() -> None:
        paddle.vision.ops.nms(_feed(4, 4), 0.5)

    found = report(build)
    (finding,) = found.findings
    assert (finding.kind, finding.what) == ("unsupported", "nms")
    assert finding.message.startswith("How many boxes it gives depends on the scores")


def test_refused_uses_are_found_behind_one_another() -> None:
    def build() -> None:
        x, at = _feed(4, 4), paddle.static.data("at", [1], "int32")
        first = paddle.slice(x, [0], [at], [4])
        paddle.slice(first, [1], [at], [4])

    found = report(build)
    assert {(finding.kind, finding.what) for finding in found.findings} == {("refused", "slice")}
    assert all("its length does not follow" in f.message for f in found.findings)
    assert len({place for finding in found.findings for place in finding.places}) == 2


def test_operators_in_blocks_are_found_where_they_are() -> None:
    def program() -> None:
        x = _feed(4, 8)
        paddle.static.nn.cond(
            paddle.mean(x) > 0,
            lambda: paddle.abs(paddle.fft.fft(x)),
            lambda: paddle.masked_select(x, x > 0).sum() + paddle.logcumsumexp(x, 1),
        )

    found = report(program).findings
    assert [(one.kind, one.what) for one in found] == [
        ("unsupported", "fft_r2c"),
        ("refused", "masked_select"),
        ("not portable", "logcumsumexp"),
    ]
    assert all(len(one.places) == 1 and "test_check.py:" in one.places[0] for one in found)


def test_with_cpu_fallback_an_unsupported_operator_stops_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remove_translators(monkeypatch, "tanh", "abs")
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=False, micro_batch_size=2)
    strategy.set_options({"cpu_fallback": True})

    def program() -> None:
        paddle.abs(paddle.fft.fft(paddle.tanh(_feed(2, 4))))

    found = report(program, ipu_strategy=strategy)
    # Complex numbers do not come back from the host.
    assert [(one.kind, one.what) for one in found.findings] == [
        ("unsupported", "fft_r2c"),
        ("not portable", "abs"),
        ("not portable", "tanh"),
    ]
    assert found.findings[1].message == "runs on Paddle's CPU kernel, on the host"


def test_what_keeps_a_program_off_the_hardware() -> None:
    def build() -> None:
        paddle.take_along_axis(_feed(3), paddle.static.data("at", [2], "int32"), 0)

    found = report(build)
    (finding,) = found.findings
    assert (finding.kind, finding.what) == ("not portable", "take_along_axis")
    assert finding.message == "needs ai.paddle_ipu.TakeAlongAxis"
    assert found.compiles and not found.portable
    assert "it is not portable to IPU hardware" in str(found)


def test_dynamic_shapes_are_named_and_the_rest_is_seen() -> None:
    found = report(lambda: paddle.mean(_feed(-1, -1) * 70000.0), half=True)
    assert [finding.kind for finding in found.findings] == ["dynamic shape", "half"]
    assert "feed 'x': has shape [-1, -1]; only the first dimension" in str(found)


def test_a_constant_without_a_line_has_that_of_its_reader() -> None:
    loss = paddle.mean
    (found,) = report(lambda: loss(paddle.static.nn.fc(_feed(2, 3), 2) * 1e6), half=True).findings
    assert found.what in ("full", "scale") and "test_check.py:" in found.places[0]


def test_64_bit_integers() -> None:
    def build() -> None:
        _feed(3, dtype="int64") * 5

    found = report(build)
    kinds = {finding.what: finding for finding in found.findings}
    assert {finding.level for finding in found.findings} == {"note"}
    assert kinds["feed 'x'"].message == "values must fit 32 bits on an IPU."
    assert kinds["scale"].message == "results beyond 2147483647 wrap around on an IPU."
    assert found.compiles


@pytest.mark.parametrize(
    ("number", "message"),
    [(-1e9, "is -1e\\+09, which is infinite in half"), (1e-12, "is 1e-12, which is zero in half")],
)
def test_numbers_that_half_cannot_hold(number: float, message: str) -> None:
    def build() -> None:
        _feed(3) + number

    (finding,) = report(build, half=True).findings
    assert finding.kind == "half"
    assert re.search(message, finding.message)
    assert report(build).findings == []


def test_a_missing_optimizer_does_not_hide_the_rest() -> None:
    def program() -> None:
        x = paddle.static.nn.fc(_feed(3, 4), 4)
        at = paddle.static.data("at", [1], "int32")
        paddle.mean(paddle.slice(x, [0], [at], [3]))

    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(num_ipus=1, is_training=True, micro_batch_size=3)
    found = report(program, ipu_strategy=strategy)
    assert [finding.kind for finding in found.findings] == ["refused", "program"]
    assert "the program has no optimizer" in found.findings[1].message


def test_json_says_what_the_text_says() -> None:
    found = report(lambda: paddle.mean(_feed(-1, -1)), name="mine")
    plain = json.loads(found.to_json())
    assert plain["name"] == "mine" and plain["compiles"] is False
    assert {finding["kind"] for finding in plain["findings"]} <= KINDS.keys()
    assert plain["findings"][0].keys() == {"kind", "what", "message", "places", "count", "level"}


# -- the command --------------------------------------------------------------------------------

SCRIPT = """
    import sys
    import paddle
    paddle.enable_static()
    print("hello from", sys.argv[1:])
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup):
        x = paddle.static.data("x", [-1, 4])
        y = paddle.static.nn.fc(x, 2){more}
    executor = paddle.static.Executor()
    executor.run(startup)
    {use}
    raise SystemExit("never here")
"""
COMPILED = (
    "paddle.static.IpuCompiledProgram(main, ipu_strategy=paddle.static.IpuStrategy())"
    ".compile(['x'], [y])"
)


def script(folder: Path, use: str, more: str = "") -> str:
    path = folder / "train.py"
    path.write_text(textwrap.dedent(SCRIPT).format(use=use, more=more))
    return str(path)


def test_a_script_is_stopped_where_it_compiles(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, f"strategy = None; {COMPILED}")
    assert main(["check", path, "--epochs", "3"]) == 1
    out, err = capsys.readouterr()
    assert "the program given to IpuCompiledProgram: training" in out
    assert "the program has no optimizer" in out
    assert "hello from ['--epochs', '3']" in err and "hello" not in out


def test_a_script_for_the_cpu_is_stopped_at_its_first_fetch(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = script(tmp_path, "executor.run(main, feed={}, fetch_list=[y])")
    assert main(["check", "--json", path]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "the first program run with fetches"
    assert paddle.static.Executor.run.__name__ == "run"


def test_a_script_that_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", script(tmp_path, "raise ValueError('no data')")]) == 3
    said = (
        r"train\.py failed at \S*train\.py:12 before it had a program to check: ValueError: no data"
    )
    assert re.search(said, capsys.readouterr().err)


def test_a_script_without_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "empty.py"
    path.write_text("import paddle\npaddle.enable_static()\n")
    with paddle.static.program_guard(paddle.static.Program()):
        assert main(["check", str(path)]) == 3
    assert "built no static program" in capsys.readouterr().err


def test_the_default_main_program_of_a_script(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "default.py"
    path.write_text("import paddle\npaddle.enable_static()\npaddle.static.data('x', [2]) + 1\n")
    with paddle.static.program_guard(paddle.static.Program()):
        assert main(["check", str(path)]) == 0
    assert "the default main program: inference" in capsys.readouterr().out


def test_saved_models_of_every_kind(capsys: pytest.CaptureFixture[str]) -> None:
    found = sorted(MODELS.glob("*/*.pdmodel")) + sorted(MODELS.glob("*/*.json"))
    assert {path.suffix for path in found} == {".pdmodel", ".json"}
    for path in found:
        code = main(["check", str(path)])
        out, err = capsys.readouterr()
        assert code in (0, 1) and out.startswith(f"{path}: inference"), err


def test_a_model_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["check", str(tmp_path / "model")])
    assert "there is neither" in capsys.readouterr().err


def test_a_model_takes_no_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "model"), "--epochs"]) == 2
    assert "a model takes no arguments" in capsys.readouterr().err


def test_options_may_stand_behind_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    path = str(MODELS / "paddle_3_3/mlp.json")
    assert main(["check", path, "--json", "--half"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == path


def test_nothing_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    from paddle_ipu import popart

    monkeypatch.setattr(popart, "InferenceSession", None)
    monkeypatch.setattr(popart, "TrainingSession", None)
    assert report(lambda: paddle.mean(paddle.static.nn.fc(_feed(2, 4), 3))).compiles
