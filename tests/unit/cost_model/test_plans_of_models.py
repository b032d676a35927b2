"""`paddle-ipu plan --model`: well-known models planned without a script."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import pytest

import paddle_ipu
from paddle_ipu.cli.main import main
from paddle_ipu.compiler.average_sharding import zeros
from paddle_ipu.dialect import dialect
from paddle_ipu.errors import InvalidProgramError, OptionError
from paddle_ipu.frontend import programs
from paddle_ipu.zoo.models import MODELS

FEW = ["plan", "--machine", "pod4", "--candidates", "6", "--sequence", "32"]


def test_a_model_is_planned_by_its_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FEW, "--fp16", "--inference", "--model", "BERT Base"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == (
        "inference of bert-base: encoder, 12 layers of 768, 12 heads, 110,106,428 parameters; a "
        "row is 32 tokens"
    )
    assert "strategies for POD4 in" in lines[1]
    assert "strategy.set_precision_config(enable_fp16=True)" in lines


def test_training_has_the_batch_of_the_authors_unless_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["plan", "--machine", "pod4", "--candidates", "2", "--json", "--fp16", "--rows", "8"]
    words += ["--model", "resnet18"]
    assert main([*words, "--batch", "512"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["batch"] for row in told["fitting"]} == {512}
    strategy = paddle.static.IpuStrategy()
    strategy.set_graph_config(micro_batch_size=8)
    strategy.set_precision_config(enable_fp16=True)
    plan = paddle_ipu.plan(
        model="resnet18", ipu_strategy=strategy, machine="pod4", batch=512, candidates=2
    )
    assert plan.to_dict() == told
    assert main(words) == 0
    (batch,) = {row["batch"] for row in json.loads(capsys.readouterr().out)["fitting"]}
    assert batch == MODELS["resnet18"].batch


def test_the_models_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [*MODELS]
    (line,) = (line for line in lines if line.startswith("llama-7b"))
    assert "6,738 M" in line and "2048 tokens" in line and "arXiv:2302.13971" in line
    assert main(["plan", "--models", "--json"]) == 0
    (first, *_) = json.loads(capsys.readouterr().out)["models"]
    assert (first["name"], first["parameters"]) == ("bert-base", 110_106_428)
    assert first["row"] == {"tokens": 128}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["--model", "gpt2", "x.py"],
            "--model builds its own program: leave x.py out, or --model",
        ),
        (
            ["--model", "gpt2", "--skip-startup"],
            "--skip-startup is for a script: no startup program of --model is run",
        ),
        (["--sequence", "64", "x.py"], "--sequence is for --model: a script or saved model says"),
        (["--inference", "x.py"], "--inference is for --model: a script or saved model says"),
        (
            ["--model", "gpt2", "--sequence", "2000"],
            "--sequence is 2000, but a row of gpt2 has 2 to 1024 tokens",
        ),
        (
            ["--model", "resnet50", "--sequence", "64"],
            "--sequence is 64, but a row of resnet50 is an image of 224 x 224: leave --sequence",
        ),
    ],
)
def test_what_does_not_go_together(
    words: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.py").touch()
    assert main(["plan", *words]) == 2
    assert message in capsys.readouterr().err


def test_an_unknown_model_ends_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["plan", "--model", "lama-7b"])
    error = capsys.readouterr().err
    assert "argument --model: unknown model 'lama-7b': expected one of bert-base, bert-l" in error
    assert error.endswith("Did you mean 'llama-7b'?\n")


def test_an_unknown_machine(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--sequence", "4", "--inference", "--model", "bert-base"]
    assert main(["plan", "--machine", "pod5", *words]) == 3
    assert "bert-base: unknown machine 'pod5': expected one of" in capsys.readouterr().err


def test_in_python_a_model_stands_alone() -> None:
    with pytest.raises(InvalidProgramError, match="plan: model= builds its own program: leave the"):
        paddle_ipu.plan("model", model="gpt2")
    with pytest.raises(InvalidProgramError, match="plan: model= builds its own program: leave the"):
        paddle_ipu.plan(fetch_list=["loss"], model="gpt2")
    with pytest.raises(OptionError, match="plan: sequence is 64, but a program has its own: it go"):
        paddle_ipu.plan("model", sequence=64)
    with pytest.raises(OptionError, match="plan: sequence is -1, expected an integer from 0 on"):
        paddle_ipu.plan(model="gpt2", sequence=-1)
    with pytest.raises(OptionError, match="unknown model 'gpt3'"):
        paddle_ipu.plan(model="gpt3")
    with pytest.raises(InvalidProgramError, match="plan takes a paddle.static.Program or the path"):
        paddle_ipu.plan()


def test_weights_share_the_memory_of_the_largest(static_mode: None) -> None:
    program = paddle.static.Program()
    with paddle.static.program_guard(program, paddle.static.Program()):
        x = paddle.static.data("x", [2, 8], "float32")
        paddle.nn.Linear(16, 4)(paddle.nn.Linear(8, 16)(x))
    graph = programs.read(program)
    weights = {
        str(value.name): value for value in graph.inputs if value.meta[dialect.ROLE] != dialect.FEED
    }
    array_of = zeros(weights, None)
    arrays = [array_of(name) for name in weights]
    assert sorted(array.shape for array in arrays) == [(4,), (8, 16), (16,), (16, 4)]
    for array in arrays:
        assert array.dtype == np.float32 and array.flags.c_contiguous and not array.any()
        assert np.shares_memory(array, arrays[0])
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 1.0


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="has no /proc")
def test_a_model_of_billions_is_planned_in_2_gb(run_python: Callable[..., Any]) -> None:
    """Its weights in half would be 13.4 GB."""
    words = "plan --machine pod64 --fp16 --inference --sequence 512 --model llama-7b"
    done = run_python(
        "from paddle_ipu.cli.main import main\n"
        f"assert main({words.split()}) == 0\n"
        # Not getrusage, whose peak begins with that of the process that forks.
        'print("PEAK", open("/proc/self/status").read().split("VmHWM:")[1].split()[0])\n'
    )
    (peak,) = (line.split()[1] for line in done.stdout.splitlines() if line.startswith("PEAK"))
    assert int(peak) * 1024 < 2e9


@pytest.mark.long
def test_a_refusal_names_what_fills_the_ipu_and_what_helps(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = ["plan", "--machine", "pod4", "--fp16", "--candidates", "40", "--batch", "512"]
    assert main([*words, "--sequence", "64", "--rows", "1", "--model", "gpt2-large"]) == 1
    *_, closest, layers, helps = capsys.readouterr().out.splitlines()
    assert re.fullmatch(
        r"the closest lacks [\d.]+ [GM]B on IPU \d, which holds(,? [a-z ]+ [\d.]+ MB){3}", closest
    )
    assert " weights " in closest and " accumulators " in closest
    assert layers.startswith("its layers: ")
    assert re.search(r" decoder\.\*\.feed_forward\S* [\d.]+ MB", layers)
    assert helps == "take a machine with more IPUs, or a smaller model"
    # Two rows of 1,024 tokens are as few as are tried.
    assert main([*words, "--rows", "8", "--model", "gpt2-medium"]) == 1
    *_, closest, _, helps = capsys.readouterr().out.splitlines()
    assert ", which holds activations " in closest
    assert helps.startswith("take shorter rows")
