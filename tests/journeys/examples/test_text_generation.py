"""The text generation example: its decoder, its choice of tokens, both devices, bad arguments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("gensim")
pytest.importorskip("matplotlib")
pytest.importorskip("rich")
pytest.importorskip("tokenizers")

import paddle

from examples.text import Article
from examples.text_generation import data, generate
from examples.text_generation.model import Decoder, DecoderConfig, rotary_tables, rotate
from examples.text_generation.session import Sampling, Session, Training, choose

pytestmark = pytest.mark.usefixtures("static_mode")

CONFIG = DecoderConfig(
    vocabulary=40, hidden=16, layers=2, heads=4, kv_heads=2, feed_forward=24, context=8
)
TRAINING = Training(rows=3, steps=4, steps_per_run=2, learning_rate=1e-2, seed=4)


@pytest.fixture
def articles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty short articles in place of the corpora."""
    rng = np.random.default_rng(0)
    words = "the a cat dog tree house runs sees in on and red blue government .".split()
    made = [
        Article(f"article {n}", tuple(" ".join(rng.choice(words, 9)) for _ in range(24)))
        for n in range(20)
    ]
    monkeypatch.setattr(data, "read_articles", lambda: made * 10)


def _ran(build: Any) -> list[Any]:
    """The values that ``build`` makes, by Paddle's CPU executor."""
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup):
        values = build()
    executor = paddle.static.Executor(paddle.CPUPlace())
    return executor.run(program, fetch_list=list(values))


def test_the_cache_gives_what_the_whole_sequence_gives() -> None:
    """Step by step with cached keys and values, the logits are those of the training program."""
    session = Session(CONFIG, TRAINING, "cpu")
    tokens = np.random.default_rng(1).integers(0, CONFIG.vocabulary, (3, CONFIG.context))
    program, startup = paddle.static.Program(), paddle.static.Program()
    with paddle.static.program_guard(program, startup), paddle.utils.unique_name.guard():
        logits = Decoder(CONFIG)(paddle.static.data("tokens", tokens.shape, "int64"))
    with paddle.static.scope_guard(session.scope):
        (expected,) = session.executor.run(program, feed={"tokens": tokens}, fetch_list=[logits])

    generator = session.generator(Sampling(3, 4, 1.0, 5), lambda done, total: None)
    draws = np.full((CONFIG.context, 3), -1, np.float32)
    for _ in range(2):  # what the first text left in the cache is not seen by the second
        steps = [logits for _, logits in generator.run(tokens, draws)]
        got = np.concatenate(steps).transpose(1, 0, 2)
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-6)


def test_a_token_does_not_see_what_follows() -> None:
    session = Session(CONFIG, TRAINING, "cpu")
    generator = session.generator(Sampling(1, 4, 1.0, 5), lambda done, total: None)
    draws = np.full((4, 1), -1, np.float32)
    one, other = (
        np.concatenate([logits for _, logits in generator.run([prompt], draws)])
        for prompt in ([1, 2, 3, 4], [1, 2, 9, 4])
    )
    np.testing.assert_array_equal(one[:2], other[:2])
    assert np.abs(one[3] - other[3]).max() > 1e-6


def test_rotation_is_that_of_complex_numbers() -> None:
    x = np.random.default_rng(2).standard_normal((CONFIG.context, 3, CONFIG.head), np.float32)

    def build() -> Any:
        return [rotate(paddle.assign(x), *rotary_tables(CONFIG))]

    (got,) = _ran(build)
    half = CONFIG.head // 2
    rates = 10000.0 ** (-np.arange(half) / half)
    turned = x[..., :half] + 1j * x[..., half:]
    turned = turned * np.exp(1j * np.arange(CONFIG.context)[:, None, None] * rates)
    np.testing.assert_allclose(got, np.concatenate([turned.real, turned.imag], -1), atol=1e-5)


def test_draws_follow_the_distribution_of_the_likeliest_tokens() -> None:
    logits = np.array([0.0, 2.0, 1.0, -1.0, 1.5], np.float32)
    count = 2000
    draws = (np.arange(count, dtype=np.float32) + 0.5) / count
    draws = np.append(draws, np.float32(-1))
    sampling = Sampling(rows=count + 1, steps_per_run=1, temperature=0.5, top_k=3)

    def build() -> Any:
        repeated = np.tile(logits, (count + 1, 1))
        return [choose(paddle.assign(repeated), paddle.assign(draws), sampling)]

    (chosen,) = _ran(build)
    weights = np.exp(logits / 0.5) * np.array([0, 1, 1, 0, 1])
    shares = np.bincount(chosen[:-1], minlength=5) / count
    np.testing.assert_allclose(shares, weights / weights.sum(), atol=1e-3)
    assert chosen[-1] == 1  # a draw below 0 takes the likeliest


@pytest.mark.thorough  # `make examples` runs it too
@pytest.mark.usefixtures("articles")
def test_smoke_writes_the_same_on_both_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = ["--smoke", "--output", str(tmp_path)]
    assert generate.main([*output, "--prompt", "the cat", "--tokens", "9"]) == 0
    out = capsys.readouterr().out
    assert "running on the IPU" in out
    assert "held-out articles: loss " in out
    assert out.count("100% Compilation Finished") == 3
    assert out.index("greedy: the cat") < out.index("sample 2: the cat")
    assert "tokens/s, " in out
    assert "IPU and CPU agree: " in out
    assert (tmp_path / "losses.png").read_bytes()[:4] == b"\x89PNG"

    # Saved weights write the same texts again, on Paddle's CPU executor too.
    load = ["--load", str(tmp_path / "decoder"), "--device", "cpu"]
    assert generate.main([*output, *load, "--prompt", "the cat", "--tokens", "9"]) == 0
    again = capsys.readouterr().out
    for kind in ("greedy: ", "sample 1: ", "sample 2: "):
        line = next(line for line in out.splitlines() if line.startswith(kind))
        assert line in again.splitlines()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--tokens", "0"], "--tokens: expected 1 or more, got 0"),
        (["--tokens-per-run", "7"], "--tokens-per-run: expected a divisor of the cache's 128"),
        (["--temperature", "0"], "--temperature: expected more than 0, got 0.0"),
        (["--top-k", "1025"], "--top-k: expected at most the 1024 tokens of the vocabulary"),
        (["--steps", "15"], "--steps: expected a multiple of 10, the updates of a run, got 15"),
        (["--learning-rate", "-1"], "--learning-rate: expected more than 0, got -1.0"),
        (["--load", "nowhere"], "--load: there is no file nowhere.pdparams"),
        (["--smoke", "--tokens", "40"], "--prompt and --tokens: the prompt has "),
        (["--smoke", "--prompt", ""], "the prompt has 0 tokens and the cache 32"),
    ],
)
@pytest.mark.usefixtures("articles")
def test_bad_arguments(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main([*arguments, "--output", str(tmp_path)]) == 2
    assert message in capsys.readouterr().out


@pytest.mark.usefixtures("articles")
def test_a_diverging_training_ends_with_its_step(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    diverging = ["--smoke", "--device", "cpu", "--learning-rate", "1e38"]
    assert generate.main([*diverging, "--output", str(tmp_path)]) == 1
    assert "expected a finite loss, got nan; lower --learning-rate" in capsys.readouterr().out


def test_batches_are_cut_from_the_text() -> None:
    text = np.arange(100)
    batch = next(data.training_batches(text, 4, 6, 0))
    assert batch.shape == (4, 7)
    assert (np.diff(batch, axis=1) == 1).all()
    sets = data.evaluation_batches(text, 2, 7)
    assert len(sets) == 7  # 99 // 14
    labels = np.concatenate([part[:, 1:] for part in sets])
    np.testing.assert_array_equal(labels.reshape(-1), np.arange(1, 99))
