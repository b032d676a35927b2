"""The ERNIE example: saved, loaded, run on both devices; sentences, bad arguments."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gensim")
pytest.importorskip("rich")
pytest.importorskip("tokenizers")

from rich.console import Console

from examples.ernie import data, infer
from examples.text import Article

pytestmark = pytest.mark.usefixtures("static_mode")


@pytest.fixture(autouse=True)
def articles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty short articles of each kind in place of the corpora, with words of their own."""
    rng = np.random.default_rng(0)

    def article(title: str, words: list[str]) -> Article:
        return Article(title, tuple(" ".join(rng.choice(words, 12)) for _ in range(24)))

    news = "minister reporters monday talks police today market shares".split()
    prose = "river century species island theorem emperor dialect mineral".split()
    made = [article(f"news item {n}", news) for n in range(20)]
    made += [article(f"article {n}", prose) for n in range(20)]
    monkeypatch.setattr(data, "read_articles", lambda: made)


@pytest.mark.thorough  # `make examples` runs it too
def test_smoke_compares_the_loaded_model_on_both_devices(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert infer.main(["--smoke", "--output", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert "running the loaded model on IPU" in out
    assert "IPU and CPU agree: logits within 1e-05 of their norm" in out
    assert f": {infer.TEXTS[0]}" in out
    assert (tmp_path / "ernie.pdiparams").is_file()

    # Any number of texts: the last batch is filled up, and the filling changes no result.
    prefix, console = tmp_path / "ernie", Console(quiet=True)
    ids = np.random.default_rng(1).integers(1, 60, (7, 24))
    ids[2, 10:] = 0
    samples = {"input_ids": ids, "token_type_ids": ids * 0, "task_type_ids": ids * 0}
    expected = infer.Service(prefix, 7, "cpu", console).run(samples)
    got = infer.Service(prefix, 4, "ipu", console).run(samples)
    assert got.shape == (7, 2)
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)

    # A device that answers otherwise is noticed.
    labels = np.zeros(7, np.int64)
    infer.AGREE[False], before = 1e-12, infer.AGREE[False]
    try:
        assert not infer.compare(prefix, samples, labels, [4], Console(), fp16=False)
    finally:
        infer.AGREE[False] = before
    assert "IPU and CPU DIFFER: logits within 1e-12 of their norm were expected" in (
        capsys.readouterr().out
    )


def test_sentences_are_of_both_kinds_in_equal_parts() -> None:
    sentences = data.read_sentences(100, seed=3)
    assert np.bincount(sentences.labels).tolist() == [100, 100]
    for text, label in zip(sentences.texts, sentences.labels, strict=True):
        assert any(word in text for word in ("minister", "talks", "today", "shares")) <= label
    tokenizer = data.train_tokenizer(sentences.texts, 200, 6)
    feed = data.encoded(tokenizer, ["river", "island theorem emperor dialect mineral century"])
    assert feed["input_ids"].shape == (2, 6)
    assert (feed["input_ids"][0] == 0).sum() == 3  # [CLS] river [SEP] and what fills up
    assert (feed["input_ids"][1] != 0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "7"], "--steps: expected a multiple of 5, the updates of a run, got 7"),
        (["--batch-sizes", "4", "0"], "--batch-sizes: expected 1 or more, got 0"),
    ],
)
def test_bad_arguments(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert infer.main(arguments) == 2
    assert message in capsys.readouterr().out
