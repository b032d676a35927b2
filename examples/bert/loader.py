"""Batches for pretraining: files in, the feeds of a step out, prepared ahead by processes."""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import subprocess
import sys
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from examples.bert.files import DataError
from examples.bert.layout import FEEDS
from examples.bert.loader_worker import Work, first_line
from examples.bert.order import SampleOrder
from examples.bert.sample_files import describe_samples
from examples.bert.samples import Arrays

Position = dict[str, int]


class PretrainingLoader:
    """Endless batches of ``batch_size`` samples of all files with "training" in their names.

    The order is a function of files and ``seed`` alone (:class:`SampleOrder`), whatever the number
    of processes. With ``workers`` 0 the samples are read when they are asked for; else each process
    reads every ``workers``-th file and keeps ``prefetch`` steps ready. A batch is a copy: it may be
    kept. Close the loader, or use it in a ``with`` block, to end its processes.

    Args:
        max_predictions: slots for masked words; the files must have as many.
        last_position: what empty slots hold as their position.
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
        prefetch: int = 2,
        vocabulary_rows: int | None = None,
        start: Mapping[str, int] | None = None,
    ) -> None:
        self.files = sorted(path for path in files if "training" in path.name)
        if not self.files:
            raise DataError(
                'input files: expected at least one with "training" in its name, got none'
            )
        shapes = [describe_samples(path) for path in self.files]
        for path, shape in zip(self.files, shapes, strict=True):
            if shape.sequence_length != shapes[0].sequence_length:
                raise DataError(
                    f"{path}: expected samples of {shapes[0].sequence_length} tokens as in "
                    f"{self.files[0]}, got {shape.sequence_length}"
                )
            if shape.max_predictions != max_predictions:
                raise DataError(
                    f"{path}: expected {max_predictions} masked words a sample, got "
                    f"{shape.max_predictions}; prepare the data with the same "
                    "--max-predictions-per-seq"
                )
        self._order = SampleOrder([shape.samples for shape in shapes], seed)
        if self._order.total == 0:
            raise DataError(f"{self.files[0].parent}: expected samples, all files are empty")
        self.batch_size = batch_size
        self.waited_seconds = 0.0
        self.total_waited_seconds = 0.0
        self._next_sample = _start_sample(start, self._identity())
        visit, skip = self._order.locate(self._next_sample)
        self._visit = visit
        self._left_in_visit = self._order.counts[self._order.file(visit)] - skip
        self._piece = Arrays()
        self._used = 0
        work = Work(
            files=[str(path.resolve()) for path in self.files],
            counts=self._order.counts,
            seed=seed,
            sequence_length=shapes[0].sequence_length,
            max_predictions=max_predictions,
            last_position=last_position,
            vocabulary_rows=vocabulary_rows,
            first_visit=visit,
            skip=skip,
            workers=max(1, workers),
            slots=max(1, prefetch),
            slot_rows=min(batch_size, max(self._order.counts)),
        )
        self._first_visit = visit
        self._sources: list[_Process] | list[_Inline] = (
            [_Process(work, number) for number in range(workers)] if workers else [_Inline(work)]
        )

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
        begin = time.perf_counter()
        try:
            batch = self._gather()
        except BaseException:
            self.close()  # half a batch was taken
            raise
        self._next_sample += self.batch_size
        self.waited_seconds = time.perf_counter() - begin
        self.total_waited_seconds += self.waited_seconds
        return batch

    def close(self) -> None:
        """End the processes; a closed loader gives no more batches."""
        for source in self._sources:
            source.close()
        self._sources = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _identity(self) -> Position:
        return {"seed": self._order.seed, "samples": self._order.total}

    def _gather(self) -> Arrays:
        if not self._sources:
            raise ValueError("the loader is closed; make a new one, with start= to go on")
        batch = Arrays()
        filled = 0
        while filled < self.batch_size:
            piece = self._current_piece()
            rows = min(self.batch_size - filled, len(piece["indices"]) - self._used)
            for name in FEEDS:
                part = piece[name][self._used : self._used + rows]
                if name not in batch:
                    batch[name] = np.empty((self.batch_size, *part.shape[1:]), np.int32)
                batch[name][filled : filled + rows] = part
            filled += rows
            self._used += rows
        return batch

    def _current_piece(self) -> Arrays:
        """The piece that has samples left, or the next one, of the visit whose turn it is."""
        if self._piece and self._used < len(self._piece["indices"]):
            return self._piece
        while self._left_in_visit == 0:
            self._visit += 1
            self._left_in_visit = self._order.counts[self._order.file(self._visit)]
        source = self._sources[(self._visit - self._first_visit) % len(self._sources)]
        self._piece, self._used = source.next_piece(), 0
        self._left_in_visit -= len(self._piece["indices"])
        return self._piece


class _Inline:
    """The one source of a loader without processes."""

    def __init__(self, work: Work) -> None:
        self._pieces = work.pieces(0)

    def next_piece(self) -> Arrays:
        """The next samples, laid out now."""
        return next(self._pieces)

    def close(self) -> None:
        """Nothing runs that would have to end."""


class _Process:
    """A process of :mod:`examples.bert.loader_worker` and the memory shared with it."""

    def __init__(self, work: Work, number: int) -> None:
        descriptor = os.memfd_create("bert-loader")
        try:
            os.ftruncate(descriptor, work.size)
            self._slots = work.slot_views(mmap.mmap(descriptor, work.size))
            root = str(Path(__file__).parents[2])
            paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
            self._process = subprocess.Popen(
                [sys.executable, "-m", "examples.bert.loader_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                pass_fds=(descriptor,),
                env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
                process_group=0,  # Ctrl-C is for the parent, which ends this process
            )
            self._finalizer = weakref.finalize(self, _end, self._process)
            self._write(first_line(work, number, descriptor))
        finally:
            os.close(descriptor)
        self._taken: int | None = None

    def next_piece(self) -> Arrays:
        """The next samples, in shared memory until the next call."""
        if self._taken is not None:
            self._write(f"{self._taken}\n")
            self._taken = None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            code = self._process.wait()
            raise DataError(
                "a loader process ended unexpectedly, with "
                + (f"signal {-code}" if code < 0 else f"exit code {code}")
                + "; was it killed, or is there too little memory?"
            )
        reply = json.loads(line)
        if "error" in reply:
            raise DataError(reply["error"])
        number, rows = int(reply["slot"]), int(reply["rows"])
        self._taken = number
        return {name: array[:rows] for name, array in self._slots[number].items()}

    def close(self) -> None:
        """End the process and wait for it."""
        self._finalizer()

    def _write(self, text: str) -> None:
        # A process that has ended says why on its output, which is read next.
        with contextlib.suppress(BrokenPipeError):
            assert self._process.stdin is not None
            self._process.stdin.write(text)
            self._process.stdin.flush()


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    process.wait()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            # What is still buffered for a process that has ended is not written.
            with contextlib.suppress(BrokenPipeError):
                stream.close()


def _start_sample(start: Mapping[str, int] | None, identity: Position) -> int:
    if start is None:
        return 0
    given = {name: start.get(name) for name in identity}
    next_sample = start.get("next_sample")
    if given != identity or not isinstance(next_sample, int) or next_sample < 0:
        raise DataError(
            f"data position: expected one of data with {identity}, got {dict(start)}; "
            "go on with the same files and seed"
        )
    return next_sample
