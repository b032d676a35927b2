"""The BERT example's data: prose, sentences, vocabulary, samples, files and batches."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("gensim")
pytest.importorskip("tokenizers")
pytest.importorskip("h5py")
pytest.importorskip("rich")

from rich.console import Console

from examples import text
from examples.bert.files import DataError
from examples.bert.held_out import unigram_reference
from examples.bert.layout import (
    FEEDS,
    fixed_batches,
    hide_every_masked_word,
    move_masked_to_front,
)
from examples.bert.loader import PretrainingLoader
from examples.bert.sample_files import describe_samples, find_files, read_samples, write_samples
from examples.bert.sample_making import Corpus, SampleBar, SampleSettings, make_corpus
from examples.bert.samples import KEYS, Arrays, make_pass, split_articles
from examples.bert.vocabulary import (
    CLS,
    FIRST_WORD,
    MASK,
    PAD,
    SEP,
    SPECIAL_TOKENS,
    UNKNOWN,
    encode_documents,
    load_vocabulary,
    train_vocabulary,
)
from examples.text import Article, clean_paragraphs, split_sentences

LENGTH, PREDICTIONS, WORDS = 32, 5, 300


@pytest.fixture
def documents() -> list[list[list[int]]]:
    """Documents whose words say where they come from: document n uses ids of its own decade."""
    rng = np.random.default_rng(7)
    return [
        [
            rng.integers(10 + 20 * n, 30 + 20 * n, rng.integers(3, 15)).tolist()
            for _ in range(rng.integers(5, 30))
        ]
        for n in range(12)
    ]


@pytest.fixture
def one_pass(documents: list[list[list[int]]]) -> Arrays:
    return make_pass(documents, LENGTH, PREDICTIONS, WORDS, seed=3)


def restored(arrays: Arrays) -> np.ndarray:
    """The ids with the masked words put back."""
    ids = arrays["input_ids"].copy()
    row, slot = np.nonzero(arrays["masked_lm_ids"])
    ids[row, arrays["masked_lm_positions"][row, slot]] = arrays["masked_lm_ids"][row, slot]
    return ids


def test_markup_that_is_left_is_removed_and_lists_and_headings_are_dropped() -> None:
    prose = (
        "'''Anarchism''' is a ''political'' philosophy ( , ) that advocates<br/> self-governed "
        "societies &nbsp; based on voluntary institutions ."
    )
    page = f"==History==\n{prose}\n* short item\n| a table row that is rather long{' x' * 40}.\n"
    assert clean_paragraphs(page) == [
        "Anarchism is a political philosophy that advocates self-governed societies based on "
        "voluntary institutions."
    ]


def test_sentences_end_at_stops_but_not_at_abbreviations() -> None:
    paragraph = 'Dr. Smith met J. S. Mill in the U.S. Army. "It rained." He left at 5.30! Why? No.'
    assert split_sentences(paragraph) == [
        "Dr. Smith met J. S. Mill in the U.S. Army.",
        '"It rained."',
        "He left at 5.30!",
        "Why?",
        "No.",
    ]


def test_the_corpora_hold_a_few_hundred_articles_of_clean_prose() -> None:
    articles = text._read_news(text.corpus_folder() / text.NEWS_FILE)
    assert len(articles) > 200
    sentences = [s for a in articles for s in a.sentences]
    assert 10 < np.mean([len(s.split()) for s in sentences]) < 40
    assert not any("\n" in s or "  " in s for s in sentences)


def test_a_wikipedia_article_has_no_markup_left() -> None:
    articles = text._read_wikipedia(text.corpus_folder() / text.WIKIPEDIA_DUMPS[1])
    assert articles
    joined = " ".join(s for a in articles for s in a.sentences)
    for mark in ("[[", "]]", "{{", "}}", "''", "<ref", "&nbsp;", "|"):
        assert mark not in joined


def test_without_gensim_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gensim", None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install '\.\[bert\]'"):
        text.corpus_folder()


def test_a_gensim_without_its_corpora_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text, "NEWS_FILE", "absent.cor")
    with pytest.raises(FileNotFoundError, match=r"absent\.cor is missing from .*reinstall gensim"):
        text.corpus_folder()


def test_the_same_text_gives_the_same_vocabulary_with_the_special_tokens_first() -> None:
    sentences = [
        f"the {w} of the {w}ing house was {w}ed" for w in ("paint", "walk", "print", "jump")
    ]
    first, second = (train_vocabulary(sentences * 3, 90) for _ in range(2))
    assert first.get_vocab() == second.get_vocab()
    assert [first.id_to_token(i) for i in range(FIRST_WORD)] == list(SPECIAL_TOKENS)
    ids = encode_documents(first, [[sentences[0], ""]])
    assert len(ids[0]) == 1
    assert first.decode(ids[0][0]) == sentences[0]


def test_a_vocabulary_needs_room_for_words() -> None:
    with pytest.raises(ValueError, match="more than the 5 special tokens, got 5"):
        train_vocabulary(["a b"], 5)


def test_articles_are_split_whole() -> None:
    training, held_out = split_articles(50, 0.1, seed=1)
    assert sorted(training + held_out) == list(range(50))
    assert len(held_out) == 5
    assert split_articles(50, 0.1, seed=1) == (training, held_out)
    with pytest.raises(ValueError, match="at least 4 to split, got 3"):
        split_articles(3, 0.1, seed=1)


def test_samples_are_pairs_between_cls_and_sep(one_pass: Arrays) -> None:
    ids, mask, segments = restored(one_pass), one_pass["input_mask"], one_pass["segment_ids"]
    assert ids.shape == mask.shape == segments.shape == (len(ids), LENGTH)
    assert all(array.dtype == np.int32 for array in one_pass.values())
    for row, used, segment in zip(ids, mask, segments, strict=True):
        length = int(used.sum())
        assert used[:length].all()
        assert (row[length:] == PAD).all()
        (separators,) = np.nonzero(row == SEP)
        assert row[0] == CLS
        assert len(separators) == 2
        assert 1 < separators[0] < separators[1] - 1
        assert separators[1] == length - 1
        expected = np.zeros(LENGTH)
        expected[separators[0] + 1 : length] = 1
        np.testing.assert_array_equal(segment, expected)


def test_the_label_says_whether_the_second_segment_is_from_another_document(
    one_pass: Arrays,
) -> None:
    ids = restored(one_pass)
    decade = (ids - 10) // 20
    is_word = ids >= 10
    for row in range(len(ids)):
        first = decade[row][is_word[row] & (one_pass["segment_ids"][row] == 0)]
        second = decade[row][is_word[row] & (one_pass["segment_ids"][row] == 1)]
        assert len(set(first)) == len(set(second)) == 1
        assert (first[0] != second[0]) == one_pass["next_sentence_labels"][row]
    assert 0.4 < one_pass["next_sentence_labels"].mean() < 0.75


def test_one_pass_covers_nearly_all_words_of_the_text(documents: list[list[list[int]]]) -> None:
    arrays = make_pass(documents, 128, 20, WORDS, seed=1)
    ids, segments = restored(arrays), arrays["segment_ids"]
    own = (segments == 0) | (arrays["next_sentence_labels"] == 0)[:, None]
    total = sum(len(s) for d in documents for s in d)
    assert (own & (ids >= 10)).sum() > 0.8 * total


def test_fifteen_percent_are_masked_in_the_published_shares(
    documents: list[list[list[int]]],
) -> None:
    passes = [make_pass(documents, LENGTH, PREDICTIONS, WORDS, seed=s) for s in range(30)]
    shown, true = [], []
    for arrays in passes:
        labels = arrays["masked_lm_ids"]
        count = (labels != 0).sum(axis=1)
        length = arrays["input_mask"].sum(axis=1)
        np.testing.assert_array_equal(
            count, np.clip(np.rint(length * 0.15), 1, PREDICTIONS).astype(int)
        )
        row, slot = np.nonzero(labels)
        shown.append(arrays["input_ids"][row, arrays["masked_lm_positions"][row, slot]])
        true.append(labels[row, slot])
    seen, word = np.concatenate(shown), np.concatenate(true)
    assert (word >= 10).all()
    assert (seen == MASK).mean() == pytest.approx(0.8, abs=0.02)
    assert (seen == word).mean() == pytest.approx(0.1, abs=0.02)


def test_masked_positions_are_in_reading_order_and_distinct(one_pass: Arrays) -> None:
    for positions, labels in zip(
        one_pass["masked_lm_positions"], one_pass["masked_lm_ids"], strict=True
    ):
        used = positions[labels != 0]
        assert (np.diff(used) > 0).all()
        assert (labels[: len(used)] != 0).all()


def test_a_pass_depends_on_its_seed_alone(documents: list[list[list[int]]]) -> None:
    first, again, other = (make_pass(documents, LENGTH, PREDICTIONS, WORDS, s) for s in (1, 1, 2))
    for key in KEYS:
        np.testing.assert_array_equal(first[key], again[key])
    assert (
        first["input_ids"].shape != other["input_ids"].shape
        or (first["input_ids"] != other["input_ids"]).any()
    )


def test_a_pass_refuses_too_little_text_and_too_short_sequences() -> None:
    with pytest.raises(ValueError, match="at least 2, to draw foreign segments from, got 1"):
        make_pass([[[10, 11]]], LENGTH, PREDICTIONS, WORDS, 0)
    with pytest.raises(ValueError, match="at least 16 tokens, got 8"):
        make_pass([[[10]], [[11]]], 8, 1, WORDS, 0)


def test_files_keep_what_was_written(tmp_path: Path, one_pass: Arrays) -> None:
    path = tmp_path / "training_00.hdf5"
    write_samples(path, one_pass)
    for key, array in read_samples(path).items():
        np.testing.assert_array_equal(array, one_pass[key])
    assert describe_samples(path).samples == len(one_pass["input_ids"])
    assert [p.name for p in tmp_path.iterdir()] == ["training_00.hdf5"]


def test_a_file_of_another_layout_is_refused(tmp_path: Path) -> None:
    import h5py

    with h5py.File(tmp_path / "x.hdf5", "w") as file:
        file["input_ids"] = np.zeros((1, 4))
    with pytest.raises(ValueError, match=r"missing: input_mask, segment_ids"):
        read_samples(tmp_path / "x.hdf5")


def test_masked_words_move_to_the_front_and_nothing_else_changes(one_pass: Arrays) -> None:
    feeds = move_masked_to_front(one_pass, PREDICTIONS, last_position=511)
    assert tuple(feeds) == FEEDS
    for row in range(len(one_pass["input_ids"])):
        ids = one_pass["input_ids"][row]
        labels = one_pass["masked_lm_ids"][row]
        masked = one_pass["masked_lm_positions"][row][labels != 0].tolist()
        others = [i for i in range(one_pass["input_mask"][row].sum()) if i not in masked]
        others = others[: LENGTH - PREDICTIONS]
        order = masked + [-1] * (PREDICTIONS - len(masked)) + others
        order += [-1] * (LENGTH - len(order))
        assert feeds["indices"][row].tolist() == [ids[i] if i >= 0 else 0 for i in order]
        assert feeds["positions"][row].tolist() == [i if i >= 0 else 511 for i in order]
        expected = [one_pass["segment_ids"][row][i] if i >= 0 else 0 for i in order]
        assert feeds["segments"][row].tolist() == expected
        assert feeds["mask_tokens_mask_idx"][row].tolist() == [len(masked)]
        assert feeds["sequence_mask_idx"][row].tolist() == [PREDICTIONS + len(others)]
        assert feeds["indices"][row, PREDICTIONS] == CLS
    np.testing.assert_array_equal(feeds["masked_lm_ids"], one_pass["masked_lm_ids"])


def test_samples_with_another_number_of_predictions_are_refused(one_pass: Arrays) -> None:
    with pytest.raises(ValueError, match="expected 20 slots a sample, got 5"):
        move_masked_to_front(one_pass, 20, 511)


def test_hiding_puts_mask_in_every_slot_to_predict(one_pass: Arrays) -> None:
    feeds = move_masked_to_front(one_pass, PREDICTIONS, 511)
    hidden = hide_every_masked_word(feeds)
    to_predict = feeds["masked_lm_ids"] != 0
    assert (hidden["indices"][:, :PREDICTIONS][to_predict] == MASK).all()
    assert (hidden["indices"][:, :PREDICTIONS][~to_predict] == PAD).all()
    np.testing.assert_array_equal(
        hidden["indices"][:, PREDICTIONS:], feeds["indices"][:, PREDICTIONS:]
    )


@pytest.fixture
def files(tmp_path: Path, documents: list[list[list[int]]]) -> list[Path]:
    paths = [tmp_path / f"training_{i}.hdf5" for i in range(2)]
    for seed, path in enumerate(paths):
        write_samples(path, make_pass(documents, LENGTH, PREDICTIONS, WORDS, seed))
    return [*paths, tmp_path / "held_out.hdf5"]


def test_batches_visit_every_sample_once_a_round_and_repeat_by_seed(files: list[Path]) -> None:
    def rows(seed: int, count: int) -> Iterator[tuple[int, ...]]:
        for batch in islice(PretrainingLoader(files, PREDICTIONS, 511, 7, seed, workers=0), count):
            assert all(len(batch[name]) == 7 for name in FEEDS)
            yield from map(tuple, batch["indices"].tolist())

    loaded = PretrainingLoader(files, PREDICTIONS, 511, 7, 0, workers=0)
    round_length = loaded.samples // 7
    seen = list(rows(1, round_length))
    everything = [
        tuple(row)
        for path in files[:2]
        for row in move_masked_to_front(read_samples(path), PREDICTIONS, 511)["indices"].tolist()
    ]
    assert len(everything) == loaded.samples
    assert len(set(seen)) >= len(set(everything)) - 7
    assert set(seen) <= set(everything)
    assert seen == list(rows(1, round_length))
    assert seen != list(rows(2, round_length))


def test_a_loader_needs_a_training_file(files: list[Path]) -> None:
    with pytest.raises(ValueError, match='at least one with "training" in its name, got none'):
        PretrainingLoader(files[2:], PREDICTIONS, 511, 7, 0, workers=0)


def test_fixed_batches_keep_the_order(one_pass: Arrays) -> None:
    feeds = move_masked_to_front(one_pass, PREDICTIONS, 511)
    batches = fixed_batches(feeds, 10)
    assert len(batches) == len(feeds["indices"]) // 10
    joined = np.concatenate([b["indices"] for b in batches])
    np.testing.assert_array_equal(joined, feeds["indices"][: len(joined)])


def test_the_unigram_reference_is_the_entropy_of_the_labels() -> None:
    labels = np.array([[5, 5, 6, 0], [6, 5, 5, 0]], np.int32)  # 4 of word 5, 2 of word 6
    reference = unigram_reference([labels], np.array([[6, 7, 0]], np.int32), 8)
    assert reference.entropy == pytest.approx(-(2 / 3) * np.log(2 / 3) - (1 / 3) * np.log(1 / 3))
    assert reference.held_out == pytest.approx(-(np.log(3 / 14) + np.log(1 / 14)) / 2)


def make_views(articles: list[Article], views: int, folder: Path) -> str:
    """A file for each view of all training articles, as ``make bert`` makes them."""
    settings = SampleSettings(LENGTH, PREDICTIONS, 0.15, views, None, 0.2, "hdf5", seed=5)
    corpus = Corpus(lambda: articles, None, 120)
    with SampleBar(Console()) as bar:
        return make_corpus(corpus, settings, folder, 1, bar)


def test_each_view_of_the_whole_text_is_a_file(tmp_path: Path) -> None:
    articles = [
        Article(f"a{n}", tuple(f"item {n} number {i} is red or blue here ." for i in range(12)))
        for n in range(10)
    ]
    report = make_views(articles, 2, tmp_path)
    files = find_files(tmp_path)
    assert [p.name for p in files.training] == ["training_0000.hdf5", "training_0001.hdf5"]
    assert files.held_out == tmp_path / "held_out.hdf5"
    views = [restored(read_samples(path)) for path in files.training]
    assert set(views[0].ravel().tolist()) == set(views[1].ravel().tolist())
    assert views[0].shape != views[1].shape or (views[0] != views[1]).any()
    tokenizer = load_vocabulary(tmp_path / "vocab.txt").tokenizer
    encoded = encode_documents(tokenizer, [article.sentences for article in articles])
    tokens = sum(len(sentence) for document in encoded for sentence in document)
    assert report.startswith(f"10 articles, {tokens} tokens of ")


def test_held_out_articles_are_in_neither_the_samples_nor_the_vocabulary(tmp_path: Path) -> None:
    # Each article has a letter of its own: what the vocabulary has never seen becomes UNK.
    articles = [Article(a, (" ".join(a * 8),) * 12) for a in "abcdefghijklmnopqrst"]
    make_views(articles, 1, tmp_path)
    files = find_files(tmp_path)
    assert files.held_out is not None
    training, held_out = (restored(read_samples(p)) for p in (files.training[0], files.held_out))
    assert UNKNOWN not in training
    assert set(held_out.ravel().tolist()) == {PAD, CLS, SEP, UNKNOWN}


def test_a_folder_without_training_files_is_refused(tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "absent"):
        with pytest.raises(DataError, match='files with "training" in their names .* found none'):
            find_files(folder)
