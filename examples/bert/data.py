"""Prepared pretraining data in a folder: vocabulary and samples, made once, then reused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from examples.bert.files import DataError, write_json
from examples.bert.sample_files import HDF5_SUFFIXES, TFRECORD_SUFFIXES, write_samples
from examples.bert.samples import make_pass, split_articles
from examples.bert.vocabulary import encode_documents, train_vocabulary
from examples.text import read_articles

SETTINGS_FILE = "settings.json"  # written last: its presence says that the folder is complete
HELD_OUT_FILE = "held_out.hdf5"
VOCABULARY_FILE = "vocabulary.json"
LAYOUT_VERSION = 1


@dataclass(frozen=True)
class DataSettings:
    """Everything the prepared files depend on."""

    vocabulary_size: int
    sequence_length: int
    max_predictions: int
    passes: int
    text_share: float
    held_out_share: float
    seed: int
    layout: int = LAYOUT_VERSION


@dataclass(frozen=True)
class PretrainingFiles:
    """The files a pretraining reads; ``held_out`` is None where a given folder has none."""

    training: tuple[Path, ...]
    held_out: Path | None


def prepare(
    settings: DataSettings, folder: Path, report: Callable[[str], None] = lambda _: None
) -> PretrainingFiles:
    """Read the text, train the vocabulary, write the samples into ``folder``, unless done before.

    The held-out articles are neither in the training samples nor in the vocabulary's training text.
    """
    marker = folder / SETTINGS_FILE
    wanted = asdict(settings)
    if marker.is_file() and json.loads(marker.read_text(encoding="utf-8")) == wanted:
        report(f"data: reusing {folder}")
        return find_files(folder)
    marker.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("*.hdf5"):
        stale.unlink()

    articles = read_articles()
    articles = articles[:: max(1, round(1 / settings.text_share))]
    words = sum(len(sentence.split()) for a in articles for sentence in a.sentences)
    training, held_out = split_articles(len(articles), settings.held_out_share, settings.seed)
    report(
        f"data: {len(articles)} articles, {words} words of English; "
        f"{len(held_out)} articles held out"
    )

    sentences = (s for i in training for s in articles[i].sentences)
    tokenizer = train_vocabulary(sentences, settings.vocabulary_size)
    tokenizer.save(str(folder / VOCABULARY_FILE))
    size = tokenizer.get_vocab_size()
    documents = encode_documents(tokenizer, [a.sentences for a in articles])
    report(f"data: {size} word pieces, {sum(len(s) for d in documents for s in d)} tokens")

    shape = (settings.sequence_length, settings.max_predictions, size)
    samples = 0
    for number in range(settings.passes):
        arrays = make_pass(
            [documents[i] for i in training], *shape, seed=settings.seed + 1 + number
        )
        write_samples(folder / f"training_{number:02d}.hdf5", arrays)
        samples += len(arrays["input_ids"])
    arrays = make_pass([documents[i] for i in held_out], *shape, seed=settings.seed)
    write_samples(folder / HELD_OUT_FILE, arrays)
    report(
        f"data: {samples} training samples in {settings.passes} files, "
        f"{len(arrays['input_ids'])} held-out samples, in {folder}"
    )
    write_json(marker, wanted)
    return find_files(folder)


def find_files(path: Path) -> PretrainingFiles:
    """The sample files of a folder, "training" or "held_out" or "test" in their names; or one file.

    Raises:
        DataError: there is no such folder, or no training file in it.
    """
    endings = HDF5_SUFFIXES + TFRECORD_SUFFIXES
    found = [path] if path.is_file() else sorted(path.glob("*"))
    files = [file for file in found if file.suffix in endings]
    training = tuple(file for file in files if "training" in file.name)
    if not training:
        raise DataError(
            f'{path}: expected files with "training" in their names that end in one of '
            f"{', '.join(endings)}, found none; python -m examples.bert.prepare makes them"
        )
    others = [file for file in files if file not in training]
    held_out = [file for file in others if "held_out" in file.name or "test" in file.name]
    return PretrainingFiles(training, held_out[0] if held_out else None)
