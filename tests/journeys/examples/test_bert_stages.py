"""The stages of the BERT journey: resuming, interruption, bad input, both devices."""

from __future__ import annotations

import json
import pickle
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("tokenizers")
pytest.importorskip("h5py")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

import paddle

from examples.bert import prepare, run_pretrain, run_squad
from examples.bert import pretrain as smoke_pretrain
from examples.bert.folder_lock import only_run_in
from examples.bert.model import Hints
from examples.bert.stages import networks
from examples.bert.stages.device import DeviceProgram
from examples.bert.stages.parameters import read_parameters, write_parameters
from examples.bert.stages.presets import PRESETS
from examples.bert.stages.settings import Settings
from tests.journeys.examples.stage_data import (
    SIZES,
    write_samples_folder,
    write_squad,
    write_vocabulary,
)

pytestmark = pytest.mark.usefixtures("static_mode")

PRETRAINING_KEYS = set(
    "epoch global_step loss/MLM loss/NSP accuracy/MLM accuracy/NSP latency/read latency/train "
    "latency/e2e throughput learning_rate".split()
)
SQUAD_KEYS = set(
    "epoch global_step loss accuracy train_cost total_cost throughput learning_rate".split()
)
DROPOUT = "--hidden_dropout_prob 0.1 --attention_probs_dropout_prob 0.1".split()
NO_DROPOUT = "--hidden_dropout_prob 0 --attention_probs_dropout_prob 0".split()


@pytest.fixture
def samples(tmp_path: Path) -> Path:
    return write_samples_folder(tmp_path / "samples")


@pytest.fixture
def squad(tmp_path: Path) -> list[str]:
    """Arguments that name a SQuAD file and its vocabulary."""
    vocabulary = write_vocabulary(tmp_path / "vocab.txt")
    file = write_squad(tmp_path / "squad.json")
    return ["--input_files", str(file), "--vocab_file", str(vocabulary)]


def pretrain(samples: Path, output: Path, *arguments: str, device: str = "cpu") -> int:
    return run_pretrain.main(
        ["--preset", "smoke-phase1", "--device", device, *SIZES]
        + ["--input_files", str(samples), "--output_dir", str(output)]
        + ["--max_steps", "6", "--save_steps", "3", "--num_ipus", "1", "--grad_acc_factor", "3"]
        + list(arguments)
    )


def fine_tune(squad: list[str], output: Path, *arguments: str, device: str = "cpu") -> int:
    return run_squad.main(
        ["--preset", "smoke-squad", "--device", device, *SIZES, *squad]
        + ["--output_dir", str(output), "--grad_acc_factor", "3", "--num_ipus", "1"]
        + ["--max_steps", "4", *arguments]
    )


def logged(output: Path, key: str) -> list[float]:
    lines = (output / "log.jsonl").read_text().splitlines()
    return [json.loads(line)[key] for line in lines]


def steps(output: Path) -> list[str]:
    return sorted(path.name for path in output.iterdir() if path.is_dir())


@pytest.mark.parametrize("device", ["cpu", pytest.param("ipu", marks=pytest.mark.thorough)])
def test_a_resumed_run_goes_on_to_the_same_losses(
    tmp_path: Path, samples: Path, device: str, capsys: pytest.CaptureFixture[str]
) -> None:
    straight, resumed = tmp_path / "straight", tmp_path / "resumed"
    assert pretrain(samples, straight, *DROPOUT, device=device) == 0
    assert steps(straight) == ["step_3", "step_6"]
    # What a run that was killed in step 5 leaves, while it wrote another checkpoint.
    resumed.mkdir()
    shutil.copytree(straight / "step_3", resumed / "step_3")
    (resumed / ".step_5.part").mkdir()
    log = (straight / "log.jsonl").read_text().splitlines(keepends=True)
    (resumed / "log.jsonl").write_text("".join(log[:4]) + log[4][:20])
    assert pretrain(samples, resumed, *DROPOUT, "--resume", device=device) == 0
    assert logged(resumed, "global_step") == [1, 2, 3, 4, 5, 6]
    for key in ("loss/MLM", "loss/NSP", "learning_rate"):
        assert logged(resumed, key) == logged(straight, key), key
    one, other = (read_parameters(p / "final_step_6.pdparams") for p in (straight, resumed))
    assert all(np.array_equal(one[name], other[name]) for name in one)
    assert steps(resumed) == ["step_3", "step_6"]
    assert "resuming after step 3" in capsys.readouterr().out
    record = json.loads(log[0])
    assert set(record) == PRETRAINING_KEYS
    assert record["throughput"] == pytest.approx(6 / record["latency/e2e"])
    assert (straight / "losses.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.thorough
def test_both_devices_fine_tune_to_the_same_answers(tmp_path: Path, squad: list[str]) -> None:
    outputs = {device: tmp_path / device for device in ("cpu", "ipu")}
    for device, output in outputs.items():
        more = ["--questions", "12", *NO_DROPOUT]
        assert fine_tune(squad, output, *more, device=device) == 0
    cpu, ipu = outputs.values()
    assert logged(ipu, "loss") == pytest.approx(logged(cpu, "loss"), rel=1e-5)
    assert set(json.loads((cpu / "log.jsonl").read_text().splitlines()[0])) == SQUAD_KEYS
    for name in ("squad_prediction.json", "squad_scores.json"):
        assert json.loads((ipu / name).read_text()) == json.loads((cpu / name).read_text())


def test_validation_takes_what_fine_tuning_saved(
    tmp_path: Path, squad: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    tuned = tmp_path / "tuned"
    more = ["--save_path", str(tuned), "--resume", "--epochs", "3", "--max_steps", "-1"]
    more += ["--weight_decay", "0"]
    assert fine_tune(squad, tmp_path / "run", *more, "--learning_rate", "0.01") == 0
    assert logged(tmp_path / "run", "epoch")[-1] == 3
    assert "nothing to resume" in capsys.readouterr().out
    arguments = ["--preset", "smoke-validation", "--device", "cpu", *SIZES, *squad]
    arguments += ["--output_dir", str(tmp_path / "validation")]
    loading = ["--enable_load_params", "True", "--load_params_path"]
    assert run_squad.main([*arguments, *loading, f"{tuned}.pdparams"]) == 0
    assert "EM " in capsys.readouterr().out
    scores = json.loads((tmp_path / "validation" / "squad_scores.json").read_text())
    assert scores["total"] == 12
    answers = json.loads((tmp_path / "validation" / "squad_prediction.json").read_text())
    assert set(answers) == {f"q{n}" for n in range(12)}
    assert run_squad.main(arguments) == 2
    assert "expected a fine-tuned checkpoint" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_names_its_last_checkpoint(
    tmp_path: Path,
    samples: Path,
    number: signal.Signals,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    step = DeviceProgram.step
    done: list[int] = []

    def interrupted(self: DeviceProgram, feeds: Any) -> Any:
        done.append(1)
        if len(done) == 5:
            signal.raise_signal(number)
        return step(self, feeds)

    monkeypatch.setattr(DeviceProgram, "step", interrupted)
    before = signal.getsignal(number)
    assert pretrain(samples, tmp_path / "out") == 128 + number
    said = capsys.readouterr().out
    assert f"interrupted by {number.name}" in said
    assert f"last good checkpoint: {tmp_path / 'out' / 'step_3'}" in said
    assert signal.getsignal(number) == (before or signal.SIG_DFL)
    monkeypatch.undo()
    assert pretrain(samples, tmp_path / "out", "--resume") == 0


def test_a_full_disk_leaves_the_last_good_checkpoint(
    tmp_path: Path,
    samples: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    write = DeviceProgram.write_state

    def full(self: DeviceProgram, folder: Path) -> Any:
        if "step_6" in folder.name:
            (folder / "model.pdparams").write_bytes(b"half")
            raise OSError(28, "No space left on device")
        return write(self, folder)

    monkeypatch.setattr(DeviceProgram, "write_state", full)
    output = tmp_path / "out"
    assert pretrain(samples, output) == 1
    said = capsys.readouterr().out
    assert f"cannot write the checkpoint: No space left on device: '{output / 'step_6'}'" in said
    assert f"last good checkpoint: {output / 'step_3'}" in said
    assert sorted(p.name for p in output.iterdir()) == ["log.jsonl", "step_3"]


def test_a_second_run_in_the_same_folder_is_refused(
    tmp_path: Path, samples: Path, squad: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    with only_run_in(output, "--output_dir"):
        (output / "log.jsonl").write_text("of the first run")
        for arguments in (["--overwrite"], ["--resume"]):
            assert pretrain(samples, output, *arguments) == 2
            assert fine_tune(squad, output, *arguments) == 2
            said = capsys.readouterr().out
            assert said.count(f"--output_dir {output}: another run is at work in it") == 2
        assert prepare.main(["--output", str(output), "--overwrite"]) == 2
        assert smoke_pretrain.main(["--preset", "smoke", "--output", str(output)]) == 2
        assert capsys.readouterr().out.count(f"--output {output}: another run is at work") == 2
        assert (output / "log.jsonl").read_text() == "of the first run"


def test_damaged_checkpoints_are_passed_over_and_other_runs_refused(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = tmp_path / "out"
    assert pretrain(samples, output) == 0
    assert pretrain(samples, output) == 2
    assert "holds checkpoints of an earlier run, the newest step_6" in capsys.readouterr().out
    assert pretrain(samples, output, "--resume", "--learning_rate", "0.1") == 2
    assert "had --learning_rate 0.006, this one has 0.1" in capsys.readouterr().out
    assert pretrain(samples, output, "--resume", "--max_steps", "7") == 2
    assert "had steps in all 6, this one has 7" in capsys.readouterr().out
    with (output / "step_6" / "model.pdparams").open("r+b") as file:
        file.seek(200)
        file.write(b"damage")
    losses = logged(output, "loss/MLM")
    assert pretrain(samples, output, "--resume") == 0
    said = capsys.readouterr().out
    assert "damaged, passed over" in said and "step_6/model.pdparams" in said
    assert "resuming after step 3" in said
    assert logged(output, "loss/MLM") == losses
    for step in ("step_3", "step_6"):
        (output / step / "checkpoint.json").write_text("{")
    assert pretrain(samples, output, "--resume") == 2
    assert "all 2 are damaged" in capsys.readouterr().out
    assert pretrain(samples, output, "--overwrite", "--max_steps", "1") == 0
    assert steps(output) == ["step_1"]


def test_a_start_that_does_not_fit_names_what_is_wrong(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "start.pdparams"
    loading = ["--enable_load_params", "True", "--load_params_path", str(tmp_path / "start")]

    def refused() -> str:
        assert pretrain(samples, tmp_path / "out", *loading) == 2
        return capsys.readouterr().out

    assert f"{file}: expected a checkpoint's parameters, but there is no such file" in refused()
    file.write_bytes(b"\x80\x04no pickle")
    assert "the file is damaged or of another kind (11 bytes)" in refused()
    file.write_bytes(pickle.dumps({"x": subprocess.Popen}))
    assert "it refers to subprocess.Popen, which is no array" in refused()
    settings = Settings(
        **PRESETS["smoke-phase1"]
        | {
            "hidden_size": 32,
            "vocab_size": 40,
            "max_position_embeddings": 32,
            "num_hidden_layers": 1,
        }
    )
    program = DeviceProgram(settings, networks.pretraining, "cpu")
    write_parameters(file, program.parameters())
    said = refused()
    found = re.search(r"parameter '(\S+)': expected the shape \[(.+)\] of.*, got \[(.+)\];", said)
    assert found is not None
    assert found[1] in program.shapes
    assert found[2].replace("16", "32") == found[3]
    write_parameters(file, {"other": np.zeros(3, np.float32)})
    count = len(program.shapes)
    assert f"the {count} parameters of this network, {count} are missing: " in refused()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--batch_size", "7"], "--batch_size: expected 6 = 2 a micro-batch x 3 accumulated"),
        (["--micro_batch_size", "0"], "--micro_batch_size: expected more than 0, got 0"),
        (["--max_steps", "0"], "--max_steps: expected more than 0, or -1, got 0"),
        (["--num_workers", "-1"], "--num_workers: expected 0 or more, got -1"),
        (["--serialize_factor", "7"], "--serialize_factor: expected a divisor of --vocab_size 40"),
        (["--ipu_enable_fp16", "perhaps"], "expected True or False, got 'perhaps'"),
        (["--task", "SQUAD"], "--task: this script is for PRETRAINING"),
    ],
)
def test_wrong_arguments_are_refused(
    tmp_path: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exit_code:
        pretrain(tmp_path, tmp_path / "out", *arguments)
    assert exit_code.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--num_ipus", "5"], "--num_ipus: expected at most 2 for 1 encoder layers"),
        (["--seq_len", "16"], "expected samples of --seq_len 16 tokens, got 32"),
        (["--input_files", ""], "--input_files: expected a folder of hdf5 or tfrecord files"),
        (["--enable_load_params", "True"], "expected --load_params_path with the file"),
        (["--enable_load_params", "--tf_checkpoint", "x"], "expected one of them, got both"),
        (["--visualdl", "True"], "expected VisualDL, which is not installed"),
        (["--wandb", "True"], "expected Weights & Biases, which is not installed"),
    ],
)
def test_input_that_does_not_fit_is_refused(
    tmp_path: Path,
    samples: Path,
    arguments: list[str],
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("visualdl", "wandb"):
        monkeypatch.setitem(sys.modules, name, None)
    device = "ipu" if "--num_ipus" in arguments else "cpu"
    assert pretrain(samples, tmp_path / "out", *arguments, device=device) == 2
    assert message in capsys.readouterr().out


def test_every_run_goes_to_visualdl_and_wandb_where_asked(
    tmp_path: Path, samples: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    got: list[tuple[str, int, float]] = []
    runs: list[tuple[int, dict[str, float]]] = []
    closed: list[str] = []

    class LogWriter:
        def __init__(self, logdir: str) -> None:
            assert logdir == str(tmp_path / "out" / "visualdl")

        def add_scalar(self, tag: str, step: int, value: float) -> None:
            got.append((tag, step, value))

        def close(self) -> None:
            closed.append("visualdl")

    class Run:
        def log(self, record: dict[str, float], step: int) -> None:
            runs.append((step, record))

        def finish(self) -> None:
            closed.append("wandb")

    def init(project: str, dir: str) -> Run:
        assert project == "paddle-base-bert"
        return Run()

    monkeypatch.setitem(sys.modules, "visualdl", SimpleNamespace(LogWriter=LogWriter))
    monkeypatch.setitem(sys.modules, "wandb", SimpleNamespace(init=init))
    more = ["--visualdl", "--wandb", "True", "--max_steps", "2", "--logging_steps", "2"]
    assert pretrain(samples, tmp_path / "out", *more) == 0
    assert [step for step, _ in runs] == [1, 2]
    assert {tag for tag, step, _ in got if step == 1} == PRETRAINING_KEYS
    (line,) = (tmp_path / "out" / "log.jsonl").read_text().splitlines()
    assert json.loads(line) == runs[1][1]
    assert closed == ["visualdl", "wandb"]


def test_training_that_diverges_says_so(
    tmp_path: Path, samples: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert pretrain(samples, tmp_path / "out", "--learning_rate", "1e30") == 1
    said = capsys.readouterr().out
    assert "expected a finite loss/" in said and "got nan; lower --learning_rate" in said
    assert "no checkpoint was written yet" in said


def test_the_published_presets_feed_the_published_rows() -> None:
    rows = {
        "pod4-phase1": 65536,
        "pod16-phase1": 65536,
        "pod4-phase2": 16384,
        "pod16-phase2": 16384,
        "pod4-squad": 1024,
        "pod16-squad": 512,
        "pod4-validation": 16,
        "pod16-validation": 32,
    }
    for name, expected in rows.items():
        settings = Settings(**PRESETS[name])
        settings.check()
        assert settings.step_rows == expected, name
    assert Settings(**PRESETS["pod4-squad"]).update_rows == 256


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--vocab_file", ""], "--vocab_file: expected a file, got none"),
        (["--input_files", "none.json"], "none.json: expected a SQuAD file (JSON), but there is"),
        (["--vocab_size", "20"], "expected at most 20 pieces, the rows of the network's embedding"),
        (["--micro_batch_size", "90"], "expected at least one run of 540 windows, got 12"),
        (
            ["--is_training", "False", "--num_ipus", "2", "--batches_per_step", "1"],
            "--batches_per_step: expected at least the 2 pipeline stages of --num_ipus, got 1",
        ),
    ],
)
def test_squad_input_that_does_not_fit_is_refused(
    tmp_path: Path,
    squad: list[str],
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert fine_tune(squad, tmp_path / "out", *arguments, device="ipu") == 2
    assert message in capsys.readouterr().out


def test_pretraining_has_five_stages_on_four_ipus_and_hints_at_its_products() -> None:
    settings = Settings(**PRESETS["smoke-phase1"])
    kept: list[Any] = []

    def checkpoint(x: Any) -> Any:
        kept.append(x)
        return x

    main = paddle.static.Program()
    with paddle.static.program_guard(main, paddle.static.Program()):
        networks.pretraining(
            replace(settings, num_hidden_layers=6), True, 2, Hints(0.28, 5, checkpoint)
        )
    operators = [op for op in main.global_block().ops if op.has_attr("ipu_stage")]
    places = {(op.attr("ipu_index"), op.attr("ipu_stage")) for op in operators}
    assert places == {(0, 0), (1, 1), (2, 2), (3, 3), (0, 4)}
    products = [op for op in main.global_block().ops if op.has_attr("__available_memory")]
    # Each layer has query, key, value, output, two of the attention and two of the feed-forward.
    assert len(products) == 6 * 8 + 4
    assert all(op.attr("__available_memory") == pytest.approx(0.28) for op in products)
    (serialised,) = (op for op in products if op.has_attr("serialize_factor"))
    assert (serialised.attr("serialize_factor"), serialised.attr("ipu_stage")) == (5, 4)
    assert len(kept) == 3  # of two layers on an IPU, the first
