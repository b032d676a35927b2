"""A program compiled for the IPU as a batching runner's model."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from paddle_ipu.errors import BackendUnavailableError, FeedError, ServingError
from paddle_ipu.runtime.fetches import Fetch, fetched_array
from paddle_ipu.serving.batcher import no_rows
from paddle_ipu.serving.model import Array, Model, TensorSpec

if TYPE_CHECKING:
    from paddle_ipu.runtime.feeds import Feed
    from paddle_ipu.runtime.ipu_program import IpuProgram


_NOT_IN_NUMPY = ("bfloat16",)
"""Declared dtypes that arrays of requests cannot have."""


class ProgramModel(Model):
    """The steps of an `IpuProgram`, rows in and rows out.

    A call takes the rows of a whole step: micro-batch x replicas x batches_per_step.

    Args:
        program: compiled for inference.
        weak: do not keep the program alive.
        shared: outputs that do not depend on the rows.
        names: fetch by the name that its output is to have; the fetches' own by default.

    Raises:
        ServingError: a feed or a fetch has no rows, or a run changes what the next one sees.
    """

    def __init__(
        self,
        program: IpuProgram,
        *,
        weak: bool = False,
        shared: Collection[str] = (),
        names: Mapping[str, str] | None = None,
    ) -> None:
        if program.changes_state:
            raise ServingError(
                "the program changes variables in every run, so that answers would depend on "
                "which requests shared a batch, and on padding. Compile it for inference, "
                "is_training=False, without such operators."
            )
        self._program = weakref.ref(program)
        # Keeps it alive.
        self._strong = None if weak else program
        self._tensors = {name: str(feed.tensor) for name, feed in read_feeds(program).items()}
        # Of each output: its name, the fetch, and the shape that the values of a call have.
        self._results: list[tuple[str, Fetch, tuple[int, ...]]] = []
        self._shared = frozenset(shared)
        self._specs: list[TensorSpec] = []
        self.outputs = self._specs
        self._describe(program, names or {name: name for name in program.fetches})

    def _describe(self, program: IpuProgram, names: Mapping[str, str]) -> None:
        """Fills in what callers see of the program, and `_results`."""
        feeds = read_feeds(program)
        rows = _rows({name: feed.shape for name, feed in feeds.items()})
        self.micro_batch = rows * program.micro_batches
        self.inputs = [TensorSpec(n, feed.shape[1:], feed.declared) for n, feed in feeds.items()]
        for name, fetch, shape in self._fetched(program, names):
            if name in self._shared:
                self._add(name, fetch, shape, (program.micro_batches, *shape))
            elif shape[:1] != (rows,):
                raise ServingError(no_rows(name, shape, rows))
            else:
                self._add(name, fetch, shape[1:], (self.micro_batch, *shape[1:]))

    def _fetched(
        self, program: IpuProgram, names: Mapping[str, str]
    ) -> Iterator[tuple[str, Fetch, tuple[int, ...]]]:
        """Of each output: its name, the fetch, and its shape in a micro-batch."""
        kinds = program.kinds()
        for name, fetched in names.items():
            fetch = program.fetches[fetched]
            yield name, fetch, kinds[fetch.anchor][0]

    def _add(self, name: str, fetch: Fetch, row: tuple[int, ...], whole: tuple[int, ...]) -> None:
        self._specs.append(TensorSpec(name, row, fetch.dtype, name in self._shared))
        self._results.append((name, fetch, whole))

    def convert(self, spec: TensorSpec, value: npt.ArrayLike) -> Array:
        array = self._alive().converted(spec.name, value)
        # One dtype for all requests: they are concatenated.
        return array if spec.dtype in _NOT_IN_NUMPY else array.astype(spec.dtype, copy=False)

    def __call__(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        program = self._alive()
        arrays = {
            self._tensors[name]: program.converted(name, array) for name, array in inputs.items()
        }
        outputs = program.compute(arrays)
        results = {}
        for name, fetch, shape in self._results:
            array = fetched_array(fetch, outputs[fetch.anchor], shape)
            # A shared output is the same in every micro-batch.
            results[name] = array[0] if name in self._shared else array
        return results

    def _alive(self) -> IpuProgram:
        program = self._program()
        if program is None:
            raise BackendUnavailableError("the compiled program that was served is gone.")
        return program


class WholeBatches(ProgramModel):
    """Steps of a program whose requests are whole micro-batches, each counted as one row.

    Feeds and fetches need no axis of rows then.

    Args:
        program: compiled for inference.
    """

    def _describe(self, program: IpuProgram, names: Mapping[str, str]) -> None:
        self.micro_batch = program.micro_batches
        self.inputs = [TensorSpec(n, f.shape, f.declared) for n, f in read_feeds(program).items()]
        for name, fetch, shape in self._fetched(program, names):
            self._add(name, fetch, shape, (self.micro_batch, *shape))

    def convert(self, spec: TensorSpec, value: npt.ArrayLike) -> Array:
        array = super().convert(spec, value)
        if array.shape != spec.shape:
            raise FeedError(
                f"feed {spec.name!r}: got an array of shape {list(array.shape)}, expected "
                f"{list(spec.shape)}: without auto-batching every run of a program with "
                "enable_model_runtime_executor feeds one whole micro-batch. The strategy's "
                "timeout_ms turns auto-batching on."
            )
        return array[np.newaxis]


def read_feeds(program: IpuProgram) -> dict[str, Feed]:
    """The feeds that the program reads."""
    return {name: feed for name, feed in program.feeds.items() if feed.tensor is not None}


def _rows(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The rows of a micro-batch, which all feeds have first.

    Raises:
        ServingError: they have none, or differ.
    """
    leading = {name: shape[0] if shape else None for name, shape in shapes.items()}
    numbers = set(leading.values())
    if len(numbers) != 1 or None in numbers:
        described = ", ".join(f"{name!r} is {list(shape)}" for name, shape in shapes.items())
        raise ServingError(
            "requests are rows, so every feed must begin with as many rows as the others; here "
            f"{described or 'there are no feeds'}. Declare them with paddle.static.data(name, "
            "[-1, ...]) and set the strategy's micro_batch_size."
        )
    return next(rows for rows in numbers if rows is not None)
