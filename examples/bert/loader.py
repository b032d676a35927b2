"""Batches for pretraining: files of samples in, the feeds of a step out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Self

import numpy as np

from examples.bert.files import DataError
from examples.bert.layout import FEEDS, move_masked_to_front
from examples.bert.order import SampleOrder
from examples.bert.sample_files import describe_samples, read_samples
from examples.bert.samples import Arrays

Position = dict[str, int]


class PretrainingLoader:
    """Endless batches of ``batch_size`` samples of all files with "training" in their names.

    The order is a function of files and ``seed`` alone (:class:`SampleOrder`). While the samples of
    a file are used, threads read the files that follow. A batch is a copy: it may be kept. Close
    the loader, or use it in a ``with`` block, to end the threads.

    Args:
        max_predictions: slots for masked words; the files must have as many.
        last_position: what empty slots hold as their position.
        workers: how many threads read, and how many files ahead; 0 reads a file when it is needed.
        vocabulary_rows: rows of the network's embedding, which all ids must stay below.
        start: a :meth:`position` of a loader of the same files and seed, to go on from there.

    Raises:
        DataError: a file is missing, damaged, or does not fit; ``start`` is from other data.
    """

    def __init__(
        self,
        files: Sequence[Path],
        max_predictions: int,
        last_position: int,
        batch_size: int,
        seed: int,
        *,
        workers: int = 2,
        vocabulary_rows: int | None = None,
        start: Mapping[str, int] | None = None,
    ) -> None:
        self.files = sorted(path for path in files if "training" in path.name)
        self.batch_size = batch_size
        self.waited_seconds = 0.0
        self.total_waited_seconds = 0.0
        self._max_predictions = max_predictions
        self._last_position = last_position
        self._vocabulary_rows = vocabulary_rows
        self._order = SampleOrder(_counts(self.files, max_predictions), seed)
        if self._order.total == 0:
            raise DataError(f"{self.files[0].parent}: expected samples, all files are empty")
        self._next_sample = _start_sample(start, self._identity())
        self._next_visit, self._skip = self._order.locate(self._next_sample)
        self._feeds = Arrays()
        self._rows = np.empty(0, np.int64)  # of the open file, those that are left
        self._workers = workers
        self._pool: ThreadPoolExecutor | None = ThreadPoolExecutor(max(1, workers))
        self._ahead: deque[tuple[int, Future[Arrays]]] = deque()  # file number, its feeds

    @property
    def samples(self) -> int:
        """Samples in all files together."""
        return self._order.total

    def position(self) -> Position:
        """Where the next batch begins, for ``start`` and for JSON."""
        return {"next_sample": self._next_sample, **self._identity()}

    def __iter__(self) -> Iterator[Arrays]:
        return self

    def __next__(self) -> Arrays:
        """The next batch, int32 feeds under the names of :data:`FEEDS`.

        ``waited_seconds`` is then what this call took, ``total_waited_seconds`` what all did.

        Raises:
            DataError: a file cannot be read; the message names it. The loader is closed then.
        """
        if self._pool is None:
            raise ValueError("the loader is closed; make a new one, with start= to go on")
        begin = time.perf_counter()
        try:
            batch = self._gather()
        except BaseException:
            self.close()  # the rows of half a batch are gone
            raise
        self._next_sample += self.batch_size
        self.waited_seconds = time.perf_counter() - begin
        self.total_waited_seconds += self.waited_seconds
        return batch

    def close(self) -> None:
        """End the threads; a closed loader gives no more batches."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
        self._pool = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _identity(self) -> Position:
        return {"seed": self._order.seed, "samples": self._order.total}

    def _gather(self) -> Arrays:
        parts: list[Arrays] = []
        missing = self.batch_size
        while missing:
            if not len(self._rows):
                self._open_next()
            rows, self._rows = self._rows[:missing], self._rows[missing:]
            parts.append({name: self._feeds[name][rows] for name in FEEDS})
            missing -= len(rows)
        return {name: np.concatenate([part[name] for part in parts]) for name in FEEDS}

    def _open_next(self) -> None:
        """Wait for the file of the next visit, and have those of the visits after it read."""
        assert self._pool is not None
        newest = self._ahead[-1] if self._ahead else None
        while len(self._ahead) <= self._workers:
            number = self._order.file(self._next_visit + len(self._ahead))
            if newest is None or newest[0] != number:
                newest = number, self._pool.submit(self._read, number)
            self._ahead.append(newest)
        self._feeds = self._ahead.popleft()[1].result()
        self._rows = self._order.rows(self._next_visit)[self._skip :]
        self._next_visit, self._skip = self._next_visit + 1, 0

    def _read(self, number: int) -> Arrays:
        """The feeds of all samples of a file."""
        path, count = self.files[number], self._order.counts[number]
        samples = read_samples(path, self._vocabulary_rows)
        if len(samples["input_ids"]) != count:
            raise DataError(
                f"{path}: expected {count} samples as at the start, got "
                f"{len(samples['input_ids'])}; the file was changed while it is in use"
            )
        return move_masked_to_front(samples, self._max_predictions, self._last_position)


def _counts(files: Sequence[Path], max_predictions: int) -> list[int]:
    """The files' numbers of samples; all samples must have the same shape."""
    if not files:
        raise DataError('input files: expected at least one with "training" in its name, got none')
    shapes = [describe_samples(path) for path in files]
    for path, shape in zip(files, shapes, strict=True):
        if shape.sequence_length != shapes[0].sequence_length:
            raise DataError(
                f"{path}: expected samples of {shapes[0].sequence_length} tokens as in "
                f"{files[0]}, got {shape.sequence_length}"
            )
        if shape.max_predictions != max_predictions:
            raise DataError(
                f"{path}: expected {max_predictions} masked words a sample, got "
                f"{shape.max_predictions}; prepare the data with the same "
                "--max-predictions-per-seq"
            )
    return [shape.samples for shape in shapes]


def _start_sample(start: Mapping[str, int] | None, identity: Position) -> int:
    if start is None:
        return 0
    start_identity = {name: start.get(name) for name in identity}
    next_sample = start.get("next_sample")
    if start_identity != identity or not isinstance(next_sample, int) or next_sample < 0:
        raise DataError(
            f"data position: expected one of data with {identity}, got {dict(start)}; "
            "go on with the same files and seed"
        )
    return next_sample
