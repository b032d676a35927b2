"""A process of the loader: reads files and lays out samples in memory shared with the parent.

It is started as a module of its own, so that it imports neither Paddle nor the user's script. Its
standard input tells, one line each, what to do and which slots are free again; its end is the end
of the work, also when the parent was killed.
"""

from __future__ import annotations

import json
import mmap
import os
import sys
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from examples.bert.files import DataError
from examples.bert.layout import FEEDS, move_masked_to_front
from examples.bert.order import SampleOrder
from examples.bert.sample_files import read_samples
from examples.bert.samples import Arrays


@dataclass(frozen=True)
class Work:
    """What the loader's processes share: the data, the layout, where to begin.

    The visits are dealt out in turns, ``first_visit`` to process 0; it leaves out the first
    ``skip`` samples of that one. Shared memory has ``slots`` slots of ``slot_rows`` samples.
    """

    files: Sequence[str]
    counts: Sequence[int]
    seed: int
    sequence_length: int
    max_predictions: int
    last_position: int
    vocabulary_rows: int | None
    first_visit: int
    skip: int
    workers: int
    slots: int
    slot_rows: int

    def pieces(self, worker: int) -> Iterator[Arrays]:
        """The feeds of this process's visits, at most ``slot_rows`` samples at a time."""
        order = SampleOrder(self.counts, self.seed)
        held, samples = -1, Arrays()
        visit, skip = self.first_visit + worker, self.skip if worker == 0 else 0
        while True:
            number = order.file(visit)
            if number != held:
                held, samples = number, self._read(number)
            rows = order.rows(visit)[skip:]
            for start in range(0, len(rows), self.slot_rows):
                taken = rows[start : start + self.slot_rows]
                piece = {key: array[taken] for key, array in samples.items()}
                yield move_masked_to_front(piece, self.max_predictions, self.last_position)
            visit, skip = visit + self.workers, 0

    def _read(self, number: int) -> Arrays:
        samples = read_samples(Path(self.files[number]), self.vocabulary_rows)
        if len(samples["input_ids"]) != self.counts[number]:
            raise DataError(
                f"{self.files[number]}: expected {self.counts[number]} samples as at the start, "
                f"got {len(samples['input_ids'])}; the file was changed while it is in use"
            )
        return samples

    def slot_views(self, memory: mmap.mmap) -> list[Arrays]:
        """Each slot's feeds as arrays over shared memory of :attr:`size` bytes."""
        rows, length = self.slot_rows, self.sequence_length
        widths = ((length,),) * 3 + ((1,),) * 2 + ((self.max_predictions,), ())
        views, offset = [], 0
        for _ in range(self.slots):
            slot = {}
            for name, width in zip(FEEDS, widths, strict=True):
                shape = (rows, *width)
                slot[name] = np.ndarray(shape, np.int32, memory, offset)
                offset += slot[name].nbytes
            views.append(slot)
        return views

    @property
    def size(self) -> int:
        """Bytes of one process's shared memory."""
        width = 3 * self.sequence_length + 2 + self.max_predictions + 1
        return self.slots * self.slot_rows * width * 4


def run(requests: TextIO, replies: TextIO) -> None:
    """Fill free slots until the requests end; an error is the last reply."""
    task = json.loads(requests.readline())
    work, worker = Work(**task["work"]), int(task["worker"])
    memory = mmap.mmap(int(task["memory"]), work.size)
    slots = work.slot_views(memory)
    free = list(range(work.slots))
    try:
        for piece in work.pieces(worker):
            if not free:
                line = requests.readline()
                if not line:
                    return
                free.append(int(line))
            number = free.pop(0)
            rows = len(piece["indices"])
            for name in FEEDS:
                slots[number][name][:rows] = piece[name]
            _reply(replies, {"slot": number, "rows": rows})
    except BrokenPipeError:
        raise
    except (DataError, OSError) as error:
        _reply(replies, {"error": str(error)})
    except Exception:
        _reply(replies, {"error": f"a loader process failed:\n{traceback.format_exc()}"})


def first_line(work: Work, worker: int, memory: int) -> str:
    """What :func:`run` reads first; ``memory`` is the shared memory's file descriptor."""
    return json.dumps({"work": asdict(work), "worker": worker, "memory": memory}) + "\n"


def _reply(replies: TextIO, content: dict[str, object]) -> None:
    print(json.dumps(content), file=replies, flush=True)


if __name__ == "__main__":
    try:
        run(sys.stdin, sys.stdout)
    except BrokenPipeError:  # the parent was killed: nobody is there to be told
        os._exit(1)
