"""The BERT example as a program: presets, network, training on the CPU, comparison, errors."""

from __future__ import annotations

import json
import shutil
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gensim")
pytest.importorskip("tokenizers")
pytest.importorskip("h5py")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")

import paddle
from rich.console import Console

from examples.bert import pretrain
from examples.bert.compare import Difference, comparable, print_differences
from examples.bert.held_out import evaluate
from examples.bert.layout import move_masked_to_front
from examples.bert.model import Bert, Placement, squad_head, squad_loss
from examples.bert.presets import PRESETS
from examples.bert.sample_making import REPORT_FILE
from examples.bert.samples import make_pass
from examples.bert.stages import networks
from examples.bert.stages.device import DeviceProgram, Feeds, schedule
from examples.bert.stages.parameters import write_parameters
from examples.bert.stages.settings import Settings
from examples.bert.weights import initial_weights
from examples.text import Article

pytestmark = pytest.mark.usefixtures("static_mode")

LOG_KEYS = {
    "epoch",
    "global_step",
    "loss/MLM",
    "loss/NSP",
    "accuracy/MLM",
    "accuracy/NSP",
    "latency/read",
    "latency/train",
    "latency/e2e",
    "throughput",
    "learning_rate",
}
SETTINGS = replace(
    PRESETS["smoke"].settings,
    vocab_size=60,
    hidden_size=16,
    num_hidden_layers=2,
    seq_len=24,
    max_predictions_per_seq=4,
    max_position_embeddings=24,
    micro_batch_size=4,
)
CONFIG = networks.config_of(SETTINGS, squad=False)


def program_of(settings: Settings) -> DeviceProgram:
    """Pretraining on Paddle's CPU executor."""
    return DeviceProgram(settings, networks.pretraining, "cpu", settings.max_steps)


def losses_of(values: dict[str, Any]) -> tuple[float, float]:
    """(masked words, next sentence) of a step."""
    return float(np.mean(values["loss/MLM"])), float(np.mean(values["loss/NSP"]))


@pytest.fixture
def articles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty short articles in place of the corpora."""
    rng = np.random.default_rng(0)
    words = "the a cat dog tree house runs sees in on and red blue old new .".split()
    made = [
        Article(f"article {n}", tuple(" ".join(rng.choice(words, 9)) + " ." for _ in range(24)))
        for n in range(20)
    ]
    monkeypatch.setattr(pretrain, "read_articles", lambda: made * 10)


@pytest.fixture
def feeds() -> Feeds:
    """Four samples of a random text."""
    rng = np.random.default_rng(5)
    documents = [[rng.integers(5, 60, 7).tolist() for _ in range(8)] for _ in range(4)]
    arrays = make_pass(documents, CONFIG.sequence_length, CONFIG.max_predictions, 60, seed=1)
    moved = move_masked_to_front(arrays, CONFIG.max_predictions, CONFIG.max_positions - 1)
    return {name: array[:4] for name, array in moved.items()}


def run(output: Path, *arguments: str) -> int:
    return pretrain.main(
        ["--preset", "smoke", "--device", "cpu", "--output", str(output), *arguments]
    )


@pytest.mark.usefixtures("articles")
def test_the_smoke_preset_trains_logs_evaluates_saves_and_plots(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--steps", "30", "--save-steps", "20", "--learning-rate", "0.01") == 0
    records = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [record["global_step"] for record in records] == [10, 20, 30]
    assert all(set(record) == LOG_KEYS for record in records)
    assert records[-1]["loss/MLM"] < records[0]["loss/MLM"]
    assert records[0]["learning_rate"] > records[1]["learning_rate"] > records[2]["learning_rate"]
    for step in ("step_20", "step_30"):
        assert (tmp_path / step / "model.pdparams").stat().st_size > 0
        assert (tmp_path / step / "model.pdopt").stat().st_size > 0
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "entropy of the masked words' frequencies" in printed
    assert "all masked words hidden" in printed
    assert f"parameters {tmp_path / 'final_step_30.pdparams'}, loss plot" in printed


@pytest.mark.usefixtures("articles")
def test_prepared_data_is_made_once_and_again_after_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smoke, console = PRESETS["smoke"], Console(width=1000)
    files = pretrain.prepared_files(tmp_path, smoke, console)
    folder = files.training[0].parent
    assert [path.name for path in files.training] == ["training_0000.hdf5"]
    assert pretrain.prepared_files(tmp_path, smoke, console) == files
    assert f"data: reusing {folder}" in capsys.readouterr().out
    changed = pretrain.prepared_files(tmp_path, replace(smoke, passes=2), console)
    assert len(changed.training) == 2
    # A run that was killed has not written the report, which comes last.
    content = files.training[0].read_bytes()
    files.training[0].write_bytes(b"")
    (folder / REPORT_FILE).unlink()
    assert pretrain.prepared_files(tmp_path, smoke, console) == files
    assert files.training[0].read_bytes() == content


@pytest.mark.usefixtures("articles")
def test_a_run_is_repeated_exactly_and_can_start_from_a_checkpoint(tmp_path: Path) -> None:
    def losses(name: str, *arguments: str) -> list[float]:
        every = ("--steps", "6", "--logging-steps", "1", "--save-steps", "4")
        assert run(tmp_path / name, *every, *arguments) == 0
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [json.loads(line)["loss/MLM"] for line in lines]

    first = losses("a")
    assert losses("b") == first
    assert losses("b") == first  # replaces the first run
    shutil.rmtree(tmp_path / "b" / "step_6")
    assert losses("b", "--resume") == first
    assert losses("c", "--seed", "3") != first
    loaded = losses("d", "--load", str(tmp_path / "a" / "final_step_6"))
    assert loaded[0] != first[0]


@pytest.mark.usefixtures("articles")
def test_an_interruption_names_the_last_checkpoint_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = DeviceProgram.step
    calls = 0

    def interrupted(program: DeviceProgram, feeds: Feeds) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            signal.raise_signal(signal.SIGINT)
        return step(program, feeds)

    monkeypatch.setattr(DeviceProgram, "step", interrupted)
    assert run(tmp_path, "--save-steps", "2") == 130
    assert f"last good checkpoint: {tmp_path / 'step_4'}; --resume goes on from it" in (
        capsys.readouterr().out
    )
    assert (tmp_path / "step_4" / "model.pdparams").exists()


@pytest.mark.usefixtures("articles")
def test_a_diverging_training_stops_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--learning-rate", "1e30") == 1
    assert "expected a finite loss/" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps: expected more than 0, got 0"),
        (["--micro-batch", "-1"], "--micro-batch: expected more than 0, got -1"),
        (["--logging-steps", "0"], "--logging-steps: expected more than 0, got 0"),
        (["--num-ipus", "3"], "--num-ipus: expected at most 2 for 1 encoder layers, beside"),
        (
            ["--device", "ipu", "--num-ipus", "2", "--accumulation", "2"],
            "--accumulation: expected at least the 3 pipeline stages of 2 IPUs, got 2",
        ),
    ],
)
def test_numbers_out_of_range_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit) as stopped:
        run(tmp_path, *arguments)
    assert stopped.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_an_input_folder_without_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--input-dir", str(tmp_path)) == 2
    assert "python -m examples.bert.prepare makes them" in capsys.readouterr().out


def test_without_an_ipu_backend_the_program_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(paddle, "is_compiled_with_ipu", lambda: False)
    assert pretrain.main(["--preset", "smoke", "--output", str(tmp_path)]) == 2
    assert "install paddle_ipu beside it, or use --device cpu" in capsys.readouterr().out


def test_help_tells_presets_files_and_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        pretrain.main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for name in (*PRESETS, "log.jsonl", "losses.png", "exit codes", "--verify"):
        assert name in printed


def test_base_phase1_has_the_published_hyper_parameters() -> None:
    s = PRESETS["base-phase1"].settings
    assert (s.vocab_size, s.hidden_size, s.num_hidden_layers) == (30400, 768, 12)
    assert (s.num_attention_heads, s.seq_len, s.max_predictions_per_seq) == (12, 128, 20)
    assert (s.max_position_embeddings, s.micro_batch_size, s.step_rows) == (512, 32, 65536)
    assert (s.learning_rate, s.warmup_steps, s.max_steps) == (0.006, 2000, 7038)
    assert (s.weight_decay, s.adam_epsilon, s.num_ipus, s.seed) == (0.01, 1e-6, 4, 1984)
    assert (s.hidden_dropout_prob, s.attention_probs_dropout_prob) == (0.1, 0.1)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_fits(preset: str) -> None:
    PRESETS[preset].settings.check()


def test_the_encoder_is_spread_over_the_ipus_as_published() -> None:
    placement = Placement(4)
    assert [placement.encoder_ipu(i, 12) for i in range(12)] == [1] * 4 + [2] * 4 + [3] * 4
    assert [Placement(1).encoder_ipu(i, 12) for i in range(12)] == [0] * 12


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heads": 3}, "a multiple of the 3 heads, got 16"),
        ({"max_predictions": 24}, "max_predictions < sequence_length"),
        ({"dropout": 1.0}, r"a share in \[0, 1\), got 1.0"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(CONFIG, **change)


def test_the_learning_rate_rises_and_falls_linearly() -> None:
    rate = schedule(replace(SETTINGS, warmup_steps=4, learning_rate=0.8), 10)
    rates = []
    for _ in range(10):
        rate.step()
        rates.append(rate.get_lr())
    rise, fall = [0.2, 0.4, 0.6, 0.8], [0.8 * (10 - n) / 6 for n in range(5, 11)]
    assert rates == pytest.approx(rise + fall)


def reference_losses(weights: dict[str, np.ndarray], feeds: Feeds) -> tuple[float, float]:
    """Both losses by NumPy in float64, written from BERT's equations, sample by sample."""
    w = {name: value.astype(np.float64) for name, value in weights.items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        variance = (centred**2).mean(-1, keepdims=True)
        return centred / np.sqrt(variance + 1e-3) * w[f"{name}.scale"] + w[f"{name}.bias"]

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    def gelu(x: np.ndarray) -> np.ndarray:
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))

    def log_softmax(x: np.ndarray) -> np.ndarray:
        shifted = x - x.max(-1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))

    mlm, nsp = [], []
    width = CONFIG.hidden // CONFIG.heads
    for i in range(len(feeds["indices"])):
        words, end = feeds["mask_tokens_mask_idx"][i, 0], feeds["sequence_mask_idx"][i, 0]
        used = [*range(words), *range(CONFIG.max_predictions, end)]
        x = w["embeddings.word.weight"][feeds["indices"][i, used]]
        x = x + w["embeddings.position.weight"][feeds["positions"][i, used]]
        x = norm(x + w["embeddings.segment.weight"][feeds["segments"][i, used]], "embeddings.norm")
        for layer in range(CONFIG.layers):
            name = f"encoder.{layer}"
            q, k, v = (linear(x, f"{name}.attention.{p}") for p in ("query", "key", "value"))
            mixed = []
            for head in range(CONFIG.heads):
                c = slice(head * width, (head + 1) * width)
                scores = q[:, c] @ k[:, c].T / np.sqrt(width)
                mixed.append(np.exp(log_softmax(scores)) @ v[:, c])
            attended = linear(np.concatenate(mixed, 1), f"{name}.attention.output")
            x = norm(x + attended, f"{name}.attention.norm")
            inner = gelu(linear(x, f"{name}.feed_forward.inner"))
            outer = linear(inner, f"{name}.feed_forward.outer")
            x = norm(x + outer, f"{name}.feed_forward.norm")
        masked = norm(gelu(linear(x[:words], "mlm.transform")), "mlm.norm")
        logits = log_softmax(masked @ w["embeddings.word.weight"].T + w["mlm.bias"])
        mlm += (-logits[np.arange(words), feeds["masked_lm_ids"][i, :words]]).tolist()
        pooled = np.tanh(linear(x[words], "nsp.pooler"))
        follows = log_softmax(linear(pooled, "nsp.classifier"))
        nsp.append(-follows[feeds["next_sentence_labels"][i]])
    return float(np.mean(mlm)), float(np.mean(nsp))


@pytest.mark.parametrize("start", ["published", "neighbours"])
def test_the_network_computes_berts_equations(feeds: Feeds, start: Any) -> None:
    program = program_of(replace(SETTINGS, initial_weights=start))
    weights = initial_weights(CONFIG, program.shapes, SETTINGS.seed, start)
    expected = reference_losses(weights, feeds)
    assert losses_of(program.step(feeds)) == pytest.approx(expected, rel=2e-6)


def test_evaluation_uses_the_trained_weights_and_weighs_by_words(feeds: Feeds) -> None:
    program = program_of(replace(SETTINGS, learning_rate=1e-9))
    before = program.step(feeds)
    console = Console(quiet=True)
    (values,) = evaluate(program, [[feeds, feeds]], console)
    assert values["loss/MLM"] == pytest.approx(losses_of(before)[0], rel=1e-5)
    assert values["accuracy/NSP"] == float(np.mean(before["accuracy/NSP"]))
    quick = program_of(replace(SETTINGS, learning_rate=0.02, max_steps=40))
    for _ in range(30):
        quick.step(feeds)
    (learnt,) = evaluate(quick, [[feeds]], console)
    assert learnt["loss/MLM"] < 0.5 * losses_of(before)[0]


def test_evaluation_on_the_ipu_says_that_it_compiles(feeds: Feeds) -> None:
    console = Console(record=True, width=200)
    (expected,) = evaluate(program_of(SETTINGS), [[feeds]], Console(quiet=True))
    program = DeviceProgram(SETTINGS, networks.pretraining, "ipu", SETTINGS.max_steps)
    (values,) = evaluate(program, [[feeds]], console)
    assert values == pytest.approx(expected, rel=1e-5)
    assert "compiling the evaluation program: 100% " in console.export_text()


@pytest.mark.parametrize("optimizer", ["lamb", "adamw", "adam"])
def test_every_optimizer_lowers_the_loss(feeds: Feeds, optimizer: Any) -> None:
    settings = replace(
        SETTINGS, optimizer=optimizer, learning_rate=0.02, max_steps=30, warmup_steps=0
    )
    program = program_of(settings)
    losses = [losses_of(program.step(feeds))[0] for _ in range(20)]
    assert losses[-1] < 0.9 * losses[0]


def test_dropout_is_on_in_training_and_off_in_evaluation(feeds: Feeds) -> None:
    settings = replace(SETTINGS, hidden_dropout_prob=0.3, learning_rate=1e-12)
    program = program_of(settings)
    assert len({losses_of(program.step(feeds)) for _ in range(3)}) == 3
    first, second = evaluate(program, [[feeds], [feeds]], Console(quiet=True))
    assert first == second


@pytest.mark.usefixtures("articles")
def test_a_checkpoint_of_another_network_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = {"stranger": np.zeros(2, np.float32)}
    write_parameters(tmp_path / "other.pdparams", other)
    assert run(tmp_path / "out", "--load", str(tmp_path / "other")) == 2
    assert "the file holds 1: stranger" in capsys.readouterr().out


def test_queries_start_as_the_keys_of_the_neighbouring_positions() -> None:
    config = replace(CONFIG, hidden=128, sequence_length=20)
    shapes = {
        "embeddings.position.weight": [24, 128],
        **{
            f"encoder.{i}.attention.{p}.weight": [128, 128]
            for i in (0, 1)
            for p in ("key", "query")
        },
    }
    weights = initial_weights(config, shapes, 1, "neighbours")
    positions = weights["embeddings.position.weight"]
    for head, offset in ((0, -1), (1, 1)):
        columns = slice(head * 64, head * 64 + 64)
        query = positions @ weights["encoder.1.attention.query.weight"][:, columns]
        key = positions @ weights["encoder.1.attention.key.weight"][:, columns]
        inner = np.arange(1, 23)
        np.testing.assert_allclose(query[inner], key[inner + offset], atol=1e-5)


def test_the_squad_head_gives_a_loss_for_start_and_end() -> None:
    main, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(main, startup), paddle.utils.unique_name.guard():
        encoded = paddle.static.data("encoded", [2 * 24, 16], "float32")
        labels = [paddle.static.data(name, [2], "int32") for name in ("start", "end")]
        bert = Bert(CONFIG)
        start, end = squad_head(bert, encoded)
        loss = squad_loss(bert, start, end, *labels)
    rng = np.random.default_rng(2)
    feed = {
        "encoded": rng.standard_normal((48, 16)).astype(np.float32),
        "start": np.array([3, 20], np.int32),
        "end": np.array([5, 23], np.int32),
    }
    with paddle.static.scope_guard(paddle.static.Scope()):
        executor = paddle.static.Executor(paddle.CPUPlace())
        executor.run(startup)
        got = executor.run(main, feed=feed, fetch_list=[start, end, loss])
    expected = 0.0
    for logits, name in ((got[0], "start"), (got[1], "end")):
        assert logits.shape == (2, 24)
        picked = logits[np.arange(2), feed[name]]
        expected += float(np.mean(np.log(np.exp(logits).sum(1)) - picked))
    assert float(got[2]) == pytest.approx(expected, rel=1e-5)


def test_differences_within_the_tolerance_agree_and_others_do_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    console = Console(width=120)
    close = Difference(1, "MLM", 5.0, 5.0 * (1 + 5e-6))
    far = Difference(2, "NSP", 0.5, 0.5001)
    broken = Difference(3, "NSP", 0.5, float("nan"))
    assert print_differences([close], console)
    assert not print_differences([close, far], console)
    assert not print_differences([broken], console)
    printed = capsys.readouterr().out
    assert "5.0e-06" in printed
    assert "The two devices differ" in printed


def test_a_comparison_has_neither_dropout_nor_accumulation() -> None:
    settings = comparable(PRESETS["base-phase1"].settings)
    assert (settings.hidden_dropout_prob, settings.attention_probs_dropout_prob) == (0.0, 0.0)
    assert (settings.accumulation, settings.num_ipus) == (1, 1)
