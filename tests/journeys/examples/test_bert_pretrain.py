"""The BERT example as a program: presets, network, training on the CPU, comparison, errors."""

from __future__ import annotations

import json
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

from examples.bert import data, pretrain
from examples.bert.compare import Difference, comparable, print_differences
from examples.bert.layout import move_masked_to_front
from examples.bert.model import Bert, BertConfig, Placement, squad_head, squad_loss
from examples.bert.plot import WINDOW, moving_average, plot_losses
from examples.bert.presets import PRESETS
from examples.bert.samples import make_pass
from examples.bert.session import Feeds, Session, learning_rate_schedule
from examples.bert.text import Article
from examples.bert.weights import initial_weights

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
CONFIG = BertConfig(
    vocabulary_rows=60,
    hidden=16,
    layers=2,
    heads=2,
    sequence_length=24,
    max_predictions=4,
    max_positions=24,
    dropout=0.0,
)
PRESET = replace(PRESETS["smoke"], model=CONFIG, micro_batch=4)


@pytest.fixture
def articles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty short articles in place of the corpora."""
    rng = np.random.default_rng(0)
    words = "the a cat dog tree house runs sees in on and red blue old new .".split()
    made = [
        Article(f"article {n}", tuple(" ".join(rng.choice(words, 9)) + " ." for _ in range(24)))
        for n in range(20)
    ]
    monkeypatch.setattr(data, "read_articles", lambda: made * 10)


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
    for prefix in ("step_20", "final_step_30"):
        assert (tmp_path / f"{prefix}.pdparams").stat().st_size > 0
        assert (tmp_path / f"{prefix}.pdopt").stat().st_size > 0
    assert (tmp_path / "losses.png").read_bytes().startswith(b"\x89PNG")
    printed = capsys.readouterr().out
    assert "entropy of the masked words' frequencies" in printed
    assert "all masked words hidden" in printed
    assert "seq/s" in printed
    assert f"checkpoint {tmp_path / 'final_step_30'}" in printed


@pytest.mark.usefixtures("articles")
def test_a_run_is_repeated_exactly_and_can_start_from_a_checkpoint(tmp_path: Path) -> None:
    def losses(name: str, *arguments: str) -> list[float]:
        assert run(tmp_path / name, "--steps", "6", "--logging-steps", "1", *arguments) == 0
        lines = (tmp_path / name / "log.jsonl").read_text().splitlines()
        return [json.loads(line)["loss/MLM"] for line in lines]

    first = losses("a")
    assert losses("b") == first
    assert losses("c", "--seed", "3") != first
    loaded = losses("d", "--load", str(tmp_path / "a" / "final_step_6"))
    assert loaded[0] != first[0]


@pytest.mark.usefixtures("articles")
def test_an_interruption_names_the_last_checkpoint_and_leaves_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    step = Session.step
    calls = 0

    def interrupted(session: Session, feeds: Feeds) -> Any:
        nonlocal calls
        calls += 1
        if calls == 6:
            raise KeyboardInterrupt
        return step(session, feeds)

    monkeypatch.setattr(Session, "step", interrupted)
    assert run(tmp_path, "--save-steps", "2") == 130
    assert f"interrupted after 5 steps; last checkpoint: {tmp_path / 'step_4'}" in (
        capsys.readouterr().out
    )
    assert (tmp_path / "step_4.pdparams").exists()


@pytest.mark.usefixtures("articles")
def test_a_diverging_training_stops_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--learning-rate", "1e30") == 1
    assert "expected finite losses, got MLM" in capsys.readouterr().out


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
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(paddle, "is_compiled_with_ipu", lambda: True)
    assert run(tmp_path, *arguments) == 2
    assert message in capsys.readouterr().out


def test_an_input_folder_without_data_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, "--input-dir", str(tmp_path)) == 2
    assert "leave out --input-dir" in capsys.readouterr().out


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
    preset = PRESETS["base-phase1"]
    model = preset.model
    assert (model.vocabulary_rows, model.hidden, model.layers, model.heads) == (30400, 768, 12, 12)
    assert (model.sequence_length, model.max_predictions, model.max_positions) == (128, 20, 512)
    assert (preset.micro_batch, preset.batch_size) == (32, 65536)
    assert (preset.learning_rate, preset.warmup, preset.steps) == (0.006, 2000, 7038)
    assert (preset.optimizer, preset.weight_decay, preset.epsilon) == ("lamb", 0.01, 1e-6)
    assert (preset.num_ipus, preset.seed, model.dropout) == (4, 1984, 0.1)


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
    schedule = learning_rate_schedule(replace(PRESET, steps=10, warmup=4, learning_rate=0.8))
    rates = []
    for _ in range(10):
        schedule.step()
        rates.append(schedule.get_lr())
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
    session = Session(replace(PRESET, start=start), "cpu")
    parameters = session.main.global_block().all_parameters()
    # A PIR program counts the learning rate among them.
    shapes = {p.name: list(p.shape) for p in parameters if "learning_rate" not in p.name}
    weights = initial_weights(CONFIG, shapes, PRESET.seed, start)
    mlm, nsp = reference_losses(weights, feeds)
    values = session.step(feeds)
    assert values.mlm_loss == pytest.approx(mlm, rel=2e-6)
    assert values.nsp_loss == pytest.approx(nsp, rel=2e-6)


def test_evaluation_uses_the_trained_weights_and_weighs_by_words(feeds: Feeds) -> None:
    session = Session(replace(PRESET, learning_rate=1e-9), "cpu")
    before = session.step(feeds)
    (values,) = session.evaluate([[feeds, feeds]])
    assert values.mlm_loss == pytest.approx(before.mlm_loss, rel=1e-5)
    assert values.nsp_accuracy == before.nsp_accuracy
    quick = Session(replace(PRESET, learning_rate=0.02, steps=40), "cpu")
    for _ in range(30):
        quick.step(feeds)
    (learnt,) = quick.evaluate([[feeds]])
    assert learnt.mlm_loss < 0.5 * before.mlm_loss


@pytest.mark.parametrize("optimizer", ["lamb", "adamw", "adam"])
def test_every_optimizer_lowers_the_loss(feeds: Feeds, optimizer: Any) -> None:
    preset = replace(PRESET, optimizer=optimizer, learning_rate=0.02, steps=30, warmup=0)
    session = Session(preset, "cpu")
    losses = [session.step(feeds).mlm_loss for _ in range(20)]
    assert losses[-1] < 0.9 * losses[0]


def test_dropout_is_on_in_training_and_off_in_evaluation(feeds: Feeds) -> None:
    preset = replace(PRESET, model=replace(CONFIG, dropout=0.3), learning_rate=1e-12)
    session = Session(preset, "cpu")
    assert len({session.step(feeds).mlm_loss for _ in range(3)}) == 3
    first, second = session.evaluate([[feeds], [feeds]])
    assert first == second


def test_a_checkpoint_of_another_network_is_refused(tmp_path: Path) -> None:
    program, startup = paddle.static.Program(), paddle.static.Program()
    scope = paddle.static.Scope()
    with paddle.static.program_guard(program, startup), paddle.static.scope_guard(scope):
        paddle.create_parameter([2], "float32", name="stranger")
        paddle.static.Executor(paddle.CPUPlace()).run(startup)
        paddle.static.save(program, str(tmp_path / "other"))
    session = Session(PRESET, "cpu")
    with pytest.raises(ValueError, match="checkpoint of this network, found none of its weights"):
        session.load(tmp_path / "other")


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
    preset = comparable(PRESETS["base-phase1"])
    assert (preset.model.dropout, preset.accumulation, preset.num_ipus) == (0.0, 1, 1)


def test_the_plot_smooths_over_a_window_and_needs_losses(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random(3 * WINDOW)
    smooth = moving_average(values.tolist())
    assert smooth[9] == pytest.approx(values[:10].mean())
    assert smooth[-1] == pytest.approx(values[-WINDOW:].mean())
    with pytest.raises(ValueError, match="two series of one length, not empty; got 0 and 0"):
        plot_losses(tmp_path / "x.png", [], [], 5.0)
