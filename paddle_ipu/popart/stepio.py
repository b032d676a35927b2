"""Step inputs and outputs: arrays by tensor id, or callbacks, and weights by id."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from paddle_ipu.errors import popart_exception, popart_runtime_error
from paddle_ipu.popart.tensorinfo import TensorInfo

_log = logging.getLogger("popart.devicex")

Array = np.ndarray[Any, Any]


def _contiguous(array: Any, tensor: str, io: str) -> Array:
    if not isinstance(array, np.ndarray):
        raise TypeError(f"PyStepIO takes numpy arrays, got {type(array).__name__} for '{tensor}'")
    if not array.flags.c_contiguous:
        raise popart_exception(
            f"PyStepIO is unable to use the numpy {io} array for tensor '{tensor}' as it is not "
            "c-contiguous (a data conversion here could have a significant impact on performance "
            "and hence is not allowed)"
        )
    return array


def check_elements(io: str, tensor: str, expected: int, received: int, details: str = "") -> None:
    """popart_runtime_error unless an array holds `expected` elements; `io` is input or output."""
    if expected != received:
        raise popart_runtime_error(
            f"Unexpected number of {io} elements for Tensor {tensor}. Expected {expected}, but "
            f"received {received}.\nTo disable this check at your own risk, use "
            f"IStepIO::enableRuntimeAsserts.{details}"
        )


def element_details(
    shape: Iterable[int], batches_per_step: int, accumulation_factor: int, replication_factor: int
) -> str:
    """The lines PopART adds to a wrong number of elements."""
    return (
        "\nThis with, "
        f"\n   replication  factor = {replication_factor}"
        f"\n   accumulation factor = {accumulation_factor}"
        f"\n   batches per step    = {batches_per_step}"
        f"\n   Tensor nelms        = {prod(shape)}"
    )


def _type_error(tensor: str, provided: np.dtype[Any], expected: np.dtype[Any]) -> Exception:
    names = [TensorInfo(dtype, []).data_type() for dtype in (provided, expected)]
    return popart_runtime_error(
        f"Type discrepancy for tensor {tensor}. User provided : {names[0]} and expected : "
        f"{names[1]}. Consider a custom copy here (as memcpy cannot be used)"
    )


def to_device(array: Array, tensor: str, dtype: np.dtype[Any]) -> Array:
    """An input in the device's element type: only int64 to int32 is converted.

    Raises:
        popart_runtime_error: another type, or a value that int32 cannot hold.
    """
    if array.dtype == dtype:
        return array
    if array.dtype != np.int64 or dtype != np.int32:
        raise _type_error(tensor, array.dtype, dtype)
    bounds = np.iinfo(np.int32)
    if array.size and (array.min() < bounds.min or array.max() > bounds.max):
        raise popart_runtime_error(
            f"Tensor {tensor} holds {array.min()}..{array.max()}, which the device's INT32 cannot "
            "hold. Feed smaller values"
        )
    return array.astype(np.int32)


class IStepIO:
    """What a session's ``run`` takes: a `PyStepIO` or a `PyStepIOCallback`."""


class IWeightsIO:
    """What a session's ``readWeights`` and ``writeWeights`` take: a `PyWeightsIO`."""


class PyStepIO(IStepIO):
    """Arrays of a step by tensor id; inputs are consumed one step after another, then again.

    ``PyStepIO(inputs, outputs)``. Outputs are written in place.
    """

    def __init__(self, inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> None:
        self.inputs = {k: _contiguous(v, k, "input") for k, v in inputs.items()}
        self.outputs = {k: _contiguous(v, k, "output") for k, v in outputs.items()}
        self.runtime_asserts = True
        self._offsets = dict.fromkeys(self.inputs, 0)
        self._warned: set[str] = set()

    def enableRuntimeAsserts(self, on: bool) -> None:
        """Whether the numbers of elements are checked on the first run."""
        self.runtime_asserts = bool(on)

    def check_inputs(self, known: Iterable[str]) -> None:
        """popart_runtime_error when an input is given that the program does not have."""
        if not self.runtime_asserts:
            return
        names = set(known)
        for name in self.inputs:
            if name not in names:
                raise popart_runtime_error(
                    f"The tensor '{name}' has been provided as one of the inputs to the stepIO, "
                    "but it is not registered as one of the inputs to the model. Please check "
                    "this tensor and your stepIO."
                )

    def input(
        self,
        id: str,
        shape: tuple[int, ...],
        dtype: Any,
        check: bool = True,
        details: str = "",
        each: int = 1,
    ) -> Array:
        """The next ``prod(shape)`` elements of an input, as `shape` and `dtype`.

        Without runtime asserts an array may have fewer; it then begins again at its end.

        Args:
            id: of the tensor.
            shape: of all micro-batches together.
            dtype: the device's.
            check: whether the number of elements is checked.
            details: the end of that check's message.
            each: elements of one micro-batch, which must be whole ones.

        Raises:
            popart_runtime_error: no such array, or one of another size or type.
        """
        array = self.inputs.get(id)
        if array is None:
            raise popart_runtime_error(f"No tensor {id} provided in PyStepIO's inputs")
        count = prod(shape)
        if check and self.runtime_asserts:
            check_elements("input", id, count, array.size, details)
        start = self._offsets[id]
        if array.size == count:
            flat = array.reshape(-1)
        elif start + count <= array.size:
            flat = array.reshape(-1)[start : start + count]
            self._offsets[id] = (start + count) % array.size
        elif not self.runtime_asserts and array.size and not (array.size % each or start % each):
            flat = array.reshape(-1)[(start + np.arange(count)) % array.size]
            self._offsets[id] = (start + count) % array.size
        else:
            raise popart_runtime_error(
                f"Tensor {id} has {array.size - start} elements left in PyStepIO's inputs, the "
                f"step takes {count}"
            )
        wanted = np.dtype(dtype)
        if flat.dtype == np.int64 and wanted == np.int32 and id not in self._warned:
            self._warned.add(id)
            _log.warning("Copying (host) tensor %s from INT64 to INT32. Will only warn once", id)
        return to_device(flat, id, wanted).reshape(shape)

    def check_output(self, id: str, shape: tuple[int, ...], dtype: Any, details: str = "") -> None:
        """popart_runtime_error unless there is an array for an anchor's values."""
        target = self.outputs.get(id)
        if target is None:
            raise popart_runtime_error(f"No tensor {id} provided in PyStepIO's outputs")
        check_elements("output", id, prod(shape), target.size, details)
        wanted = np.dtype(dtype)
        if target.dtype != wanted and not (target.dtype == np.int64 and wanted == np.int32):
            raise _type_error(id, target.dtype, wanted)

    def output(self, id: str, array: Array, details: str = "") -> None:
        """Writes an anchor's values into the user's array; other outputs are the user's own."""
        self.check_output(id, array.shape, array.dtype, details)
        self.outputs[id].reshape(-1)[...] = array.reshape(-1)


class PyStepIOCallback(IStepIO):
    """Step data by callbacks, called for each micro-batch and replica.

    ``input_callback(id, prefetch)`` returns an array, ``input_complete_callback(id)`` follows when
    it is consumed; ``output_callback(id)`` returns the array to write to and
    ``output_complete_callback(id)`` follows when it is written. Inputs are asked for one
    micro-batch after another, and so are outputs. The IPU Model never asks ahead: `prefetch` is
    False in every call, and an array has to be there. Sizes are not checked as a whole.
    """

    def __init__(
        self,
        input_callback: Callable[[str, bool], Array],
        input_complete_callback: Callable[[str], None],
        output_callback: Callable[[str], Array],
        output_complete_callback: Callable[[str], None],
    ) -> None:
        for callback in (
            input_callback,
            input_complete_callback,
            output_callback,
            output_complete_callback,
        ):
            if not callable(callback):
                raise TypeError(f"PyStepIOCallback takes functions, got {callback!r}")
        self._input = input_callback
        self._input_complete = input_complete_callback
        self._output = output_callback
        self._output_complete = output_complete_callback

    def next_input(self, id: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """One micro-batch of an input, of the tensor's own `shape`.

        Raises:
            popart_runtime_error: no array, or one of another size or type.
        """
        given = self._input(id, False)
        if given is None:
            raise popart_runtime_error(
                f"The input callback gave no data for tensor {id}. It may do so only where "
                "prefetch is True; return an array of the micro-batch"
            )
        array = _contiguous(np.asarray(given), id, "input")
        check_elements("input", id, prod(shape), array.size)
        # A copy: the array is the user's again after the second call.
        converted = np.array(to_device(array.reshape(shape), id, np.dtype(dtype)))
        self._input_complete(id)
        return converted

    def step_inputs(
        self,
        kinds: Mapping[str, tuple[tuple[int, ...], Any]],
        loops: tuple[int, ...],
        broadcast: Collection[str] = (),
    ) -> dict[str, Array]:
        """The inputs of a whole step, [loops, a micro-batch's shape], each micro-batch in turn.

        Args:
            kinds: shape and dtype of a micro-batch, by tensor.
            loops: how many micro-batches a step has, in one or more dimensions.
            broadcast: tensors that are asked for once for all replicas, the last of `loops`.
        """
        arrays = {
            name: np.empty((*(loops[:-1] if name in broadcast else loops), *shape), dtype)
            for name, (shape, dtype) in kinds.items()
        }
        for step in np.ndindex(loops):
            for name, (shape, dtype) in kinds.items():
                if name not in broadcast:
                    arrays[name][step] = self.next_input(name, shape, dtype)
                elif step[-1] == 0:
                    arrays[name][step[:-1]] = self.next_input(name, shape, dtype)
        return arrays

    def next_output(self, id: str, array: Array) -> None:
        """Hands one micro-batch of an anchor to the user's array."""
        target = _contiguous(np.asarray(self._output(id)), id, "output")
        check_elements("output", id, array.size, target.size)
        if target.dtype != array.dtype:
            raise _type_error(id, target.dtype, array.dtype)
        target.reshape(-1)[...] = array.reshape(-1)
        self._output_complete(id)

    def step_outputs(self, anchors: Mapping[str, tuple[Array, Sequence[int]]]) -> None:
        """Hands out what a step kept, in the order in which the step made it.

        Args:
            anchors: by tensor, the values [times, a tensor's shape] and the micro-batch of each.
        """
        made = sorted(
            ((when, name, row) for name, (_, times) in anchors.items()
             for row, when in enumerate(times)),
            key=lambda item: item[0],
        )  # fmt: skip
        for _, name, row in made:
            self.next_output(name, anchors[name][0][row])


class PyWeightsIO(IWeightsIO):
    """``PyWeightsIO({id: array})``: arrays that weights are read into or written from."""

    def __init__(self, weights: Mapping[str, Array]) -> None:
        self.weights = dict(weights)
        for name, array in self.weights.items():
            if not isinstance(array, np.ndarray):
                raise TypeError(
                    f"PyWeightsIO takes numpy arrays, got {type(array).__name__} for '{name}'"
                )
            if not array.flags.c_contiguous:
                raise popart_exception(
                    "PyWeightsIO is unable to use the provided numpy output array for tensor "
                    f"'{name}' as it is not c-contiguous. Please use a function like "
                    "`numpy.ascontiguousarray()` to make contiguous before passing to PyWeightsIO"
                )

    def get(self, id: str) -> Array:
        """The array of one weight."""
        if id not in self.weights:
            raise popart_exception(f"No tensor {id} provided in PyWeightsIO's weights")
        return self.weights[id]


def require_fit(
    what: str, name: str, array: Array, shape: tuple[int, ...], dtype: np.dtype[Any]
) -> None:
    """popart_runtime_error unless a user's array holds a weight's elements."""
    target, source = (array.dtype, dtype) if what == "read" else (dtype, array.dtype)
    if array.size != prod(shape) or not np.can_cast(source, target, "same_kind"):
        got, expected = TensorInfo(array), TensorInfo(dtype, list(shape))
        raise popart_runtime_error(
            f"Trying to {what} weights using tensor with non matching tensor info. Tensor ID: "
            f"{name}. Got {got}, expected {expected}"
        )
