"""From articles to a folder of vocabulary and sample files, by several processes."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.bert.files import DataError, cannot_write, write_json, writing
from examples.bert.sample_files import write_samples
from examples.bert.samples import Document, make_pass, split_articles
from examples.bert.vocabulary import (
    Vocabulary,
    encode_documents,
    load_vocabulary,
    save_vocabulary,
    train_vocabulary,
)
from examples.display import say
from examples.text import Article

REPORT_FILE = "prepared.json"
HELD_OUT = "held_out"

# What follows the seed where random numbers are drawn, so that no two uses share a stream. A seed
# that ends in 0 is the same as one without it: files and views are numbered from 1 there.
_DISTRIBUTION, _SAMPLES, _SHUFFLING = 1, 2, 3
_LINES_AT_ONCE = 100

_Seed = int | tuple[int, ...]


@dataclass(frozen=True)
class SampleSettings:
    """What the samples depend on, beside text and vocabulary.

    Attributes:
        duplicates: views of each article, with pairs and masks of their own.
        files: training files, each with all views of its share of the articles; None for one file
            a view, with all articles.
    """

    sequence_length: int
    max_predictions: int
    masked_share: float
    duplicates: int
    files: int | None
    held_out_share: float
    format: Literal["hdf5", "tfrecord"]
    seed: int

    def __post_init__(self) -> None:
        for flag, value in (
            ("--max-predictions-per-seq", self.max_predictions),
            ("--duplicates", self.duplicates),
            ("--files", self.files),
        ):
            if value is not None and value < 1:
                raise ValueError(f"{flag}: expected at least 1, got {value}")
        if self.sequence_length < 16:
            raise ValueError(
                f"--sequence-length: expected at least 16 tokens, got {self.sequence_length}"
            )
        if self.max_predictions > self.sequence_length - 3:
            raise ValueError(
                f"--max-predictions-per-seq: expected at most {self.sequence_length - 3}, the "
                f"words of {self.sequence_length} tokens, got {self.max_predictions}"
            )
        if not 0 < self.masked_share < 1:
            raise ValueError(f"--masked-lm-prob: expected between 0 and 1, got {self.masked_share}")
        if not 0 <= self.held_out_share < 1:
            raise ValueError(
                f"--held-out-share: expected from 0 to below 1, got {self.held_out_share}"
            )
        if self.seed < 0:
            raise ValueError(f"--seed: expected at least 0, got {self.seed}")


@dataclass(frozen=True)
class Corpus:
    """Articles, read anew at each call, and the vocabulary: a file, or the size of one to train."""

    read: Callable[[], Iterable[Article]]
    vocabulary: Path | None
    vocabulary_size: int


@dataclass(frozen=True)
class MadeFile:
    """What one file of samples of a ``text`` holds.

    ``unknown`` of the text's ``tokens`` are not in the vocabulary.
    """

    name: str
    text: str
    samples: int
    tokens: int
    unknown: int


class SampleBar(Progress):
    """A bar of the text that was read and one of the files that were made."""

    def __init__(self, console: Console) -> None:
        columns = (
            TextColumn("{task.description:<10}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        super().__init__(*columns, console=console)

    def stage(self, name: str, total: int | None) -> None:
        """A new bar, for what comes now; the one before is full."""
        for task in self.tasks:
            self.update(task.id, total=task.completed)
        self._current = self.add_task(name, total=total)

    def done(self) -> None:
        """One more of the current stage is done."""
        self.advance(self._current)

    def made(self, file: MadeFile) -> None:
        """A file was made."""
        self.done()
        if not self.console.is_terminal:
            say(self.console, f"{file.name}: {file.samples} samples")


@dataclass(frozen=True)
class _Task:
    """One file to make, a view of its articles for each of ``seeds``.

    ``shuffling`` is the seed of the order of all views' samples, None for one view after the other.
    """

    articles: Path
    vocabulary: Path
    output: Path
    seeds: tuple[_Seed, ...]
    shuffling: _Seed | None
    settings: SampleSettings


def make_corpus(
    corpus: Corpus,
    settings: SampleSettings,
    folder: Path,
    processes: int,
    bar: SampleBar,
    overwrite: bool = False,
) -> str:
    """Make all files in ``folder``; a summary for people.

    Everything is made in a hidden folder within it and moved when whole.

    Raises:
        DataError: there is too little text, the vocabulary cannot be used, or ``folder`` has data
            already and ``overwrite`` is not set.
        OSError: the disk is full or cannot be written.
    """
    if processes < 1:
        raise ValueError(f"--processes: expected at least 1, got {processes}")
    present = _prepared_files(folder)
    if present and not overwrite:
        raise DataError(
            f"{folder}: has prepared data already ({present[0].name}); "
            "choose another --output, or replace it with --overwrite"
        )
    if corpus.vocabulary is not None:
        load_vocabulary(corpus.vocabulary)  # before the long work
    with _temporary_folder(folder) as temporary:
        texts, articles = _distribute_articles(corpus, settings, temporary, bar)
        vocabulary = _vocabulary(corpus, texts, temporary, bar)
        tasks = _tasks(texts, vocabulary, settings)
        bar.stage("samples", len(tasks))
        made = _make_all(tasks, processes, bar)
        for old in _prepared_files(folder):
            old.unlink()
        for path in (vocabulary, *(task.output for task in tasks)):
            path.replace(folder / path.name)
    size = load_vocabulary(folder / vocabulary.name).size
    write_json(
        folder / REPORT_FILE,
        {
            "settings": asdict(settings),
            "vocabulary": vocabulary.name,
            "vocabulary_size": size,
            "articles": articles,
            "samples": {file.name: file.samples for file in made},
        },
    )
    return _summary(folder, articles, size, made)


def make_file(task: _Task) -> MadeFile:
    """Make one file of samples of the articles assigned to it."""
    vocabulary, documents = _encoded(task.vocabulary, task.articles)
    settings = task.settings
    passes = [
        make_pass(
            documents,
            settings.sequence_length,
            settings.max_predictions,
            vocabulary.size,
            seed,
            vocabulary.special,
            settings.masked_share,
        )
        for seed in task.seeds
    ]
    arrays = {key: np.concatenate([one[key] for one in passes]) for key in passes[0]}
    samples = len(arrays["input_ids"])
    if task.shuffling is not None:
        order = np.random.default_rng(task.shuffling).permutation(samples)
        arrays = {key: array[order] for key, array in arrays.items()}
    write_samples(task.output, arrays)
    tokens = [t for document in documents for sentence in document for t in sentence]
    unknown = tokens.count(vocabulary.special.unknown)
    return MadeFile(task.output.name, task.articles.name, samples, len(tokens), unknown)


@lru_cache(maxsize=1)
def _encoded(vocabulary: Path, articles: Path) -> tuple[Vocabulary, list[Document]]:
    """The vocabulary and the articles' tokens; kept for the next file of the same articles."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # the processes share the cores already
    loaded = load_vocabulary(vocabulary)
    with articles.open(encoding="utf-8") as stream:
        documents = encode_documents(loaded.tokenizer, (json.loads(line) for line in stream))
    return loaded, [document for document in documents if document]


def _tasks(texts: Sequence[Path], vocabulary: Path, settings: SampleSettings) -> list[_Task]:
    """The files to make: one of each text, or one of each view of the training text."""

    def task(text: Path, name: str, seeds: Iterable[_Seed], shuffling: _Seed | None) -> _Task:
        output = text.with_name(f"{name}.{settings.format}")
        return _Task(text, vocabulary, output, tuple(seeds), shuffling, settings)

    seed = settings.seed
    tasks = []
    for number, text in enumerate(texts, start=1):
        views = range(1 if text.stem == HELD_OUT else settings.duplicates)
        if settings.files is not None:
            seeds = ((seed, _SAMPLES, number, 1 + view) for view in views)
            tasks.append(task(text, text.stem, seeds, (seed, _SHUFFLING, number)))
        elif text.stem == HELD_OUT:
            tasks.append(task(text, text.stem, [seed], None))
        else:
            tasks += [task(text, _training(view), [seed + 1 + view], None) for view in views]
    return tasks


def _training(number: int) -> str:
    """The name of a training file, without its ending."""
    return f"training_{number:04d}"


def _distribute_articles(
    corpus: Corpus, settings: SampleSettings, temporary: Path, bar: SampleBar
) -> tuple[list[Path], int]:
    """Write the articles as JSON lines, one file of them for each file of samples to make."""
    bar.stage("counting", None)
    count = 0
    for _ in corpus.read():
        count += 1
        bar.done()
    held_out = settings.held_out_share > 0.0
    files = settings.files or 1
    least = 2 * files + 2 * held_out
    if count < least:
        raise DataError(
            f"text: expected at least {least} articles, two for each of the "
            f"{files + held_out} files, got {count}; separate articles by blank lines, "
            "or make fewer --files and hold none out (--held-out-share 0)"
        )
    training, held_out_articles = list(range(count)), list[int]()
    if held_out:
        training, held_out_articles = split_articles(count, settings.held_out_share, settings.seed)
    if len(training) < 2 * files:
        raise DataError(
            f"--held-out-share: {len(held_out_articles)} of {count} articles leave too few for "
            f"{files} files; lower it, or make fewer --files"
        )
    shuffled = (
        np.random.default_rng((settings.seed, _DISTRIBUTION)).permutation(len(training)).tolist()
    )
    target = dict.fromkeys(held_out_articles, files)
    target |= {training[i]: place % files for place, i in enumerate(shuffled)}
    names = [f"{_training(number)}.jsonl" for number in range(files)]
    paths = [temporary / name for name in (*names, *([f"{HELD_OUT}.jsonl"] if held_out else []))]
    bar.stage("reading", count)
    parts: list[list[str]] = [[] for _ in paths]
    for number, article in enumerate(corpus.read()):
        parts[target[number]].append(json.dumps(article.sentences))
        if len(parts[target[number]]) == _LINES_AT_ONCE:
            _append(paths[target[number]], parts[target[number]])
        bar.done()
    for path, lines in zip(paths, parts, strict=True):
        _append(path, lines)
    return paths, count


def _append(path: Path, lines: list[str]) -> None:
    with path.open("a", encoding="utf-8") as stream:
        stream.writelines(f"{line}\n" for line in lines)
    lines.clear()


def _vocabulary(corpus: Corpus, texts: Sequence[Path], temporary: Path, bar: SampleBar) -> Path:
    """The vocabulary's file in the temporary folder: a copy, or one trained on the text."""
    if corpus.vocabulary is not None:
        copy = temporary / f"vocab{'.json' if corpus.vocabulary.suffix == '.json' else '.txt'}"
        content = corpus.vocabulary.read_bytes()
        with writing(copy) as stream:
            stream.write(content)
        return copy
    bar.stage("vocabulary", 1)
    tokenizer = train_vocabulary(_training_sentences(texts), corpus.vocabulary_size)
    save_vocabulary(tokenizer, temporary / "vocab.txt")
    bar.done()
    return temporary / "vocab.txt"


def _training_sentences(texts: Sequence[Path]) -> Iterator[str]:
    for path in texts:
        if path.stem != HELD_OUT:
            with path.open(encoding="utf-8") as stream:
                for line in stream:
                    yield from json.loads(line)


def _make_all(tasks: Sequence[_Task], processes: int, bar: SampleBar) -> list[MadeFile]:
    """All files, by as many processes; in this one if a single one is wanted."""
    if processes == 1:
        made = []
        for task in tasks:
            made.append(make_file(task))
            bar.made(made[-1])
        return made
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(processes, len(tasks)), context, initializer=_follow_parent)
    try:
        with _interrupts_held():
            futures = [pool.submit(make_file, task) for task in tasks]
        for future in as_completed(futures):
            bar.made(future.result())
        return [future.result() for future in futures]
    except BrokenProcessPool as error:
        raise DataError(
            "a process ended unexpectedly; was it killed, or is there too little memory? "
            "Use fewer --processes or more --files"
        ) from error
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _interrupts_held() -> Iterator[None]:
    """Ctrl-C waits: a process that was started by half would wait for the other half for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupted: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
    if interrupted:
        signal.raise_signal(signal.SIGINT)


def _follow_parent() -> None:
    """Ctrl-C is for the parent, which ends this process; one that is killed ends it too."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


@contextmanager
def _temporary_folder(folder: Path) -> Iterator[Path]:
    """A hidden folder within ``folder``, gone afterwards; an output folder made for it too."""
    made_folder = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    for left in folder.glob(".preparing-*"):  # of a run that was killed
        shutil.rmtree(left)
    temporary = Path(tempfile.mkdtemp(dir=folder, prefix=".preparing-"))
    try:
        yield temporary
    except OSError as error:
        if error.filename is not None:
            raise
        raise cannot_write(folder, error) from error
    finally:
        shutil.rmtree(temporary)
        if made_folder and not any(folder.iterdir()):
            folder.rmdir()


def _prepared_files(folder: Path) -> list[Path]:
    """Sample files and the report of an earlier run."""
    patterns = ("training_*.hdf5", "training_*.tfrecord", f"{HELD_OUT}.*", REPORT_FILE)
    return sorted(path for pattern in patterns for path in folder.glob(pattern))


def _summary(folder: Path, articles: int, size: int, made: Sequence[MadeFile]) -> str:
    by_text = {file.text: file for file in made}.values()
    tokens = sum(file.tokens for file in by_text)
    unknown = sum(file.unknown for file in by_text) / max(1, tokens)
    training = [file for file in made if not file.name.startswith(HELD_OUT)]
    held_out = sum(file.samples for file in made) - sum(file.samples for file in training)
    lines = [
        f"{articles} articles, {tokens} tokens of {size} word pieces, {unknown:.2%} unknown",
        f"{sum(file.samples for file in training)} training samples in {len(training)} files, "
        f"{held_out} held out, in {folder}",
    ]
    if unknown > 0.05:
        lines.append(
            "warning: the vocabulary knows little of this text; is it of another language?"
        )
    return "\n".join(lines)
