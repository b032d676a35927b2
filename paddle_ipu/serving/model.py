"""The model that a batching runner calls: fixed micro-batches, with its inputs and outputs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from paddle_ipu.errors import FeedError, OptionError
from paddle_ipu.runtime.feed_words import listed
from paddle_ipu.runtime.feeds import numbers_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An input or an output of a model.

    Attributes:
        name: as requests and answers have it.
        shape: of one row, without the leading axis of rows.
        dtype: NumPy's name.
        shared: an output that has no rows: `shape` is all of it.
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    shared: bool = False


class Model(ABC):
    """A model that takes exactly `micro_batch` rows of every input in each call.

    Row *i* of an output may depend on row *i* of the inputs only: the rows of a call belong to
    different requests, and some of them are padding.

    Attributes:
        inputs: what a request has to give.
        outputs: what a call returns; None where that is not known before the first call.
        micro_batch: rows of a call.
    """

    inputs: Sequence[TensorSpec]
    outputs: list[TensorSpec] | None
    micro_batch: int

    @abstractmethod
    def __call__(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        """Computes one micro-batch.

        Args:
            inputs: name -> array [micro_batch, *shape of a row].

        Returns:
            Name -> array [micro_batch, *shape of a row]. The model must not write to it any more:
            it is read during the next call.
        """

    def convert(self, spec: TensorSpec, value: npt.ArrayLike) -> Array:
        """A request's value of an input, in the input's dtype.

        Raises:
            FeedError: another dtype than can be converted without loss.
        """
        array = numbers_of(f"input {spec.name!r}", value, spec.dtype)
        if array.dtype == spec.dtype:
            return array
        casting = "safe" if hasattr(value, "dtype") else "same_kind"
        if not np.can_cast(array.dtype, spec.dtype, casting):  # type: ignore[arg-type]
            raise FeedError(
                f"input {spec.name!r}: got dtype {array.dtype.name}, expected {spec.dtype}. "
                f"Convert it, for instance with array.astype({spec.dtype!r})."
            )
        return array.astype(spec.dtype)


class FunctionModel(Model):
    """A Python function as a model; it may write to the arrays that it returned before.

    Args:
        function: as `Model.__call__`.
        inputs: name -> (shape of one row, dtype).
        micro_batch: rows of a call.
    """

    def __init__(
        self,
        function: Callable[[Mapping[str, Array]], Mapping[str, Array]],
        inputs: Mapping[str, tuple[Sequence[int], str]],
        micro_batch: int,
    ) -> None:
        self._function = function
        try:
            self.inputs = [
                TensorSpec(n, tuple(s), np.dtype(d).name) for n, (s, d) in inputs.items()
            ]
        except (AttributeError, TypeError, ValueError) as error:
            raise OptionError(
                f"BatchingRunner: inputs is {inputs!r}, expected a dict of input name -> "
                "(shape of a row, dtype), for instance {'x': ([3], 'float32')}."
            ) from error
        self.outputs = None
        self.micro_batch = micro_batch

    def __call__(self, inputs: Mapping[str, Array]) -> Mapping[str, Array]:
        return {name: np.array(array) for name, array in self._function(inputs).items()}


class Inputs:
    """The inputs of a model, as requests are checked against them.

    Args:
        model: asked to convert what has another dtype.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._names = frozenset(spec.name for spec in model.inputs)
        # NumPy has each plain dtype once; others are converted every time.
        self._plan = [(s.name, _plain(s.dtype), s.shape, (1, *s.shape), s) for s in model.inputs]

    def checked(self, feed: Mapping[str, Any]) -> tuple[dict[str, Array], int]:
        """A request's arrays, and how many rows it has.

        Raises:
            FeedError: a wrong name, shape, dtype or number of rows.
        """
        try:
            names = feed.keys()
        except AttributeError:
            raise FeedError(
                f"a request is a {type(feed).__name__}, expected a dict of input name -> array for "
                f"{', '.join(sorted(map(repr, self._names)))}."
            ) from None
        if names != self._names:
            check_names(self._model.inputs, feed)
        arrays, rows = {}, 0
        for name, dtype, shape, one_row, spec in self._plan:
            array = feed[name]
            if type(array) is not np.ndarray or array.dtype is not dtype:
                array = self._model.convert(spec, array)
            arrays[name] = array
            got = array.shape
            if got == one_row and rows < 2:
                rows = 1
                continue
            if not got or got[1:] != shape or got[0] != (rows or got[0]) or not got[0]:
                # Some of them may not be converted yet.
                break
            rows = got[0]
        else:
            return arrays, rows
        arrays = {spec.name: self._model.convert(spec, feed[spec.name]) for *_, spec in self._plan}
        return arrays, rows_of(self._model.inputs, arrays)


def _plain(dtype: str) -> np.dtype[Any] | None:
    try:
        return np.dtype(dtype)
    except TypeError:
        return None


def rows_of(specs: Sequence[TensorSpec], arrays: Mapping[str, Array]) -> int:
    """How many rows a request has.

    Args:
        specs: the model's inputs.
        arrays: the request's, of the right dtypes.

    Raises:
        FeedError: a shape does not fit, there are no rows, or inputs differ in their number.
    """
    rows = -1
    for spec in specs:
        shape = arrays[spec.name].shape
        if len(shape) != len(spec.shape) + 1 or shape[1:] != spec.shape:
            expected = ", ".join(["rows", *map(str, spec.shape)])
            raise FeedError(
                f"input {spec.name!r}: got an array of shape {list(shape)}, expected [{expected}]."
            )
        if rows < 0:
            rows = shape[0]
        elif shape[0] != rows:
            counts = ", ".join(f"{s.name!r} has {len(arrays[s.name])}" for s in specs)
            raise FeedError(
                f"the inputs of one request differ in their number of rows: {counts}. Give as many "
                "rows of every input."
            )
    if rows == 0:
        raise FeedError("the request has 0 rows: give at least one row of every input.")
    return rows


def check_names(specs: Sequence[TensorSpec], feed: Mapping[str, Any]) -> None:
    """Refuses a request that does not name the model's inputs.

    Raises:
        FeedError: inputs are missing or unknown.
    """
    known = [spec.name for spec in specs]
    unknown = [name for name in feed if name not in known]
    missing = [name for name in known if name not in feed]
    if unknown or missing:
        problems = [listed(unknown, "input", "is unknown", "are unknown")] if unknown else []
        problems += [listed(missing, "input", "is missing", "are missing")] if missing else []
        raise FeedError(
            f"{', and '.join(problems)}: the model has the inputs "
            f"{', '.join(map(repr, known))}, and every request gives all of them."
        )
