"""A program compiled for the IPU as a batching runner's model."""

from __future__ import annotations

import weakref
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from paddle_ipu.errors import BackendUnavailableError, ServingError
from paddle_ipu.serving.batcher import no_rows
from paddle_ipu.serving.model import Array, Model, TensorSpec

if TYPE_CHECKING:
    from paddle_ipu.executor import IpuProgram


class ProgramModel(Model):
    """The steps of an :class:`~paddle_ipu.executor.IpuProgram`, rows in and rows out.

    A call takes the rows of a whole step: micro-batch x replicas x batches_per_step.

    Args:
        program: compiled for inference.
        weak: let the program go when nobody else holds it.
        shared: fetches that do not depend on the rows.

    Raises:
        ServingError: a feed or a fetch has no rows, or a run changes what the next one sees.
    """

    def __init__(
        self, program: IpuProgram, *, weak: bool = False, shared: Collection[str] = ()
    ) -> None:
        feeds = {name: f for name, f in program.feeds.items() if f.tensor is not None}
        rows = _rows({name: feed.shape for name, feed in feeds.items()})
        if program.changes_state:
            raise ServingError(
                "the program changes variables in every run, so that answers would depend on "
                "which requests shared a batch, and on padding. Compile it for inference, "
                "is_training=False, without such operators."
            )
        self._program = weakref.ref(program)
        self._held = None if weak else program
        self._tensors = {name: str(feed.tensor) for name, feed in feeds.items()}
        self.step_rows = rows
        self.micro_batch = rows * program.micro_batches
        self.inputs = [TensorSpec(n, feed.shape[1:], feed.declared) for n, feed in feeds.items()]
        kinds = program.kinds()
        self.outputs = []
        self._shapes: dict[str, tuple[int, ...]] = {}
        for name, fetch in program.fetches.items():
            shape, _ = kinds[fetch.anchor]
            if name not in shared and shape[:1] != (rows,):
                raise ServingError(no_rows(name, shape, rows))
            self._shapes[name] = (self.micro_batch, *shape[1:])
            self.outputs.append(TensorSpec(name, tuple(shape[1:]), fetch.dtype))

    def convert(self, spec: TensorSpec, value: Any) -> Array:
        return self._found().converted(spec.name, value)

    def __call__(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        program = self._found()
        arrays = {self._tensors[name]: array for name, array in inputs.items()}
        outputs = program.compute(arrays)
        return {
            name: program.given_back(fetch, outputs[fetch.anchor], self._shapes[name])
            for name, fetch in program.fetches.items()
        }

    def _found(self) -> IpuProgram:
        program = self._program()
        if program is None:
            raise BackendUnavailableError("the compiled program that was served is gone.")
        return program


def _rows(shapes: Mapping[str, tuple[int, ...]]) -> int:
    """The rows of a micro-batch, which all feeds have first.

    Raises:
        ServingError: they have none, or differ.
    """
    leading = {name: shape[0] if shape else None for name, shape in shapes.items()}
    found = set(leading.values())
    if len(found) != 1 or None in found:
        told = ", ".join(f"{name!r} is {list(shape)}" for name, shape in shapes.items())
        raise ServingError(
            "requests are rows, so every feed must begin with as many rows as the others; here "
            f"{told or 'there are no feeds'}. Declare them with paddle.static.data(name, [-1, ...])"
            " and set the strategy's micro_batch_size."
        )
    return next(rows for rows in found if rows is not None)
