"""The state that a predictor and its clones share: weights, and a program for each input shape."""

from __future__ import annotations

import threading
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from paddle_ipu.compiler.compiled_program import IpuCompiledProgram
from paddle_ipu.errors import (
    BackendUnavailableError,
    FeedError,
    NotSupported,
    ServingError,
    popart_exception,
)
from paddle_ipu.runtime import scope as scopes
from paddle_ipu.runtime.ipu_backend import last_program_stays

if TYPE_CHECKING:
    from paddle_ipu.frontend.saved_model import ModelFiles, SavedTensor
    from paddle_ipu.options.strategy import CoreIpuStrategy
    from paddle_ipu.runtime.ipu_program import IpuProgram
    from paddle_ipu.serving.program_model import ProgramModel

Array = np.ndarray[Any, Any]
Shapes = tuple[tuple[int, ...], ...]


class _Strategy:
    """A strategy for ``IpuCompiledProgram``; Paddle's own would be registered for layers."""

    def __init__(self, core: CoreIpuStrategy) -> None:
        self._ipu_strategy = core
        self.need_compile = True


class Model:
    """A saved model on the IPU, for one predictor and its clones; its methods are thread-safe.

    Args:
        files: where the model is.
        core: the options that the config's settings stand for.

    Attributes:
        inputs: what it is fed; -1 for a dynamic dimension.
        outputs: what it computes, by the names that Paddle's predictors have for them.
        output_dtypes: their declared types, Paddle's names, in the same order.
        rows: micro-batches of one run: batches of a step times replicas; one where runs share
            steps, with ipu_enable_model_runtime_executor.
        shares_steps: whether they do, and may be given the same memory.

    Raises:
        ModelFileError: damaged or mismatched files.
        NotSupported: an operator or an option without support.
        OptionError: options that contradict each other.
    """

    def __init__(self, files: ModelFiles, core: CoreIpuStrategy) -> None:
        from paddle_ipu.frontend import saved_model

        self._strategy = _Strategy(core)
        values = core.snapshot()
        replicas = values["replicated_graph_count"] if values["enable_replicated_graphs"] else 1
        shared = values["enable_model_runtime_executor"]
        # Runs that share steps feed one micro-batch each, or a part of one.
        self.shares_steps = bool(shared)
        self.rows = 1 if shared else int(values["batches_per_step"] * replicas)
        self._gathers = shared and values["timeout_ms"] > 0
        self._micro_batch = int(values["micro_batch_size"])
        saved = saved_model.read(files)
        self._program = saved.program()
        # Predictors may run beside training programs, whose weights are in the global Scope.
        self._scope = scopes.temporary()
        scopes.fill(self._scope, saved.parameters)
        # Frees the files' memory, a second copy, before compiling.
        del saved
        self.inputs: Sequence[SavedTensor] = tuple(self._program.feeds)
        self.outputs: Sequence[str] = tuple(self._program.output_names)
        self._fetches = [target.name for target in self._program.fetch_targets]
        self.output_dtypes: Sequence[str] = [target.dtype for target in self._program.fetch_targets]
        self._in_half = bool(values["enable_fp16"])
        self._programs: dict[Shapes, IpuProgram] = {}
        self._compiling = threading.Lock()
        self._first: IpuProgram | None = None
        known = self._known_shapes()
        if known is not None:
            self._compiled(known)

    @property
    def shapes(self) -> list[Shapes]:
        """The input shapes it is compiled for, in the order they came."""
        return list(self._programs)

    def run(self, arrays: Sequence[Array]) -> list[Array]:
        """One run.

        Args:
            arrays: one for each input, in the order of `inputs`.

        Returns:
            One array for each output, which may be read-only.

        Raises:
            FeedError: a shape or dtype that the model does not take, or shapes that do not go
                together.
            BackendUnavailableError: the backend was reset.
        """
        shapes = tuple([array.shape for array in arrays])
        if self._gathers:
            shapes = self._filled_up(shapes)
        program = self._programs.get(shapes)
        if program is None:
            program = self._compiled(shapes)
        if not program.backend.is_attached:
            raise BackendUnavailableError(_GONE)
        feed = {known.name: array for known, array in zip(self.inputs, arrays, strict=True)}
        results = program.run_to_read(feed, self._fetches)
        if self.rows > 1:
            results = [self._merged(array, program) for array in results]
        if self._in_half:
            # A model that computes in half has the outputs that it declares.
            return [self._declared(*pair) for pair in zip(results, self.output_dtypes, strict=True)]
        return results

    @staticmethod
    def _declared(array: Array, dtype: str) -> Array:
        return array.astype(dtype) if array.dtype == np.float16 else array

    def _merged(self, array: Array, program: IpuProgram) -> Array:
        """The rows of all micro-batches in one dimension, as of the whole batch on a CPU."""
        own = array.shape[len(program.axes) :]
        return array.reshape(-1, *own[1:]) if own else array.reshape(-1)

    def serving_model(self, shared_outputs: Collection[str] = ()) -> ProgramModel:
        """This model for a ``paddle_ipu.serving.BatchingRunner``.

        Args:
            shared_outputs: outputs that are the same whatever the rows are.

        Raises:
            ServingError: inputs with dynamic dimensions beside the first, or without rows.
        """
        from paddle_ipu.serving.program_model import ProgramModel

        known = self._known_shapes()
        if known is None:
            shapes = ", ".join(f"{i.name!r} is {list(i.shape)}" for i in self.inputs)
            raise ServingError(
                f"rows of one batch have one shape, and the model leaves more open than their "
                f"number: {shapes}. Save it with fixed dimensions behind the first, and pad rows "
                "to them."
            )
        names = dict(zip(self.outputs, self._fetches, strict=True))
        return ProgramModel(self._compiled(known), shared=shared_outputs, names=names)

    # -- shapes --------------------------------------------------------------------------------

    def _known_shapes(self) -> Shapes | None:
        """The inputs' shapes by the micro-batch size, None where it does not settle them."""
        shapes = []
        for known in self.inputs:
            if -1 in known.shape[1:]:
                return None
            if known.shape and known.shape[0] == -1:
                shapes.append((self._micro_batch * self.rows, *known.shape[1:]))
            else:
                shapes.append(self._whole(known.shape))
        return tuple(shapes)

    def _whole(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of a run's input, given that of one micro-batch."""
        if self.rows == 1:
            return tuple(shape)
        return (shape[0] * self.rows, *shape[1:]) if shape else (self.rows,)

    def _filled_up(self, shapes: Shapes) -> Shapes:
        """The shapes of the micro-batch that runs with fewer rows share.

        Raises:
            FeedError: an input is no part of one.
        """
        filled = tuple(
            (self._micro_batch if known.shape[0] == -1 else known.shape[0], *shape[1:])
            if shape and known.shape
            else shape
            for known, shape in zip(self.inputs, shapes, strict=True)
        )
        if filled not in self._programs:
            for known, shape in zip(self.inputs, shapes, strict=True):
                if known.shape and known.shape[0] == -1:
                    self._micro_shape(known, shape)
        return filled

    def _micro_shape(self, known: SavedTensor, shape: tuple[int, ...]) -> tuple[int, ...]:
        """The shape of one micro-batch, given that of a run's input.

        Raises:
            FeedError: an array of that shape is no input.
        """
        micro = shape
        if self.rows > 1 and shape:
            if shape[0] % self.rows:
                raise FeedError(
                    f"input {known.name!r} has {shape[0]} rows, which {self.rows} batches of one "
                    "run (ipu_batches_per_step x ipu_replica_num) do not divide. Give a multiple "
                    f"of {self.rows} rows."
                )
            micro = (shape[0] // self.rows, *shape[1:]) if known.shape else shape[1:]
        fits = len(micro) == len(known.shape) and all(
            want in (-1, got) for want, got in zip(known.shape, micro, strict=True)
        )
        if not fits:
            expected = list(self._whole(known.shape) if -1 not in known.shape[:1] else known.shape)
            raise FeedError(
                f"input {known.name!r} has the shape {list(shape)}, expected {expected}"
                f"{', where -1 is any size' if -1 in expected else ''}. The tensor takes the shape "
                "of the array that copy_from_cpu is given."
            )
        if 0 in micro:
            raise FeedError(
                f"input {known.name!r} has the shape {list(shape)}, which holds no element; an IPU "
                "program needs at least one row."
            )
        return micro

    # -- programs ------------------------------------------------------------------------------

    def _compiled(self, shapes: Shapes) -> IpuProgram:
        """The program for inputs of these shapes, compiled where it is not yet."""
        from paddle_ipu.passes.bind_feeds import BindFeeds

        micro = {
            known.name: self._micro_shape(known, shape)
            for known, shape in zip(self.inputs, shapes, strict=True)
        }
        with self._compiling:
            if shapes in self._programs:
                return self._programs[shapes]
            if self._first is not None and not self._first.backend.is_attached:
                raise BackendUnavailableError(_GONE)
            compiler = IpuCompiledProgram.with_first_passes(
                self._program, self._scope, self._strategy, (BindFeeds(micro),)
            )
            feeds = [known.name for known in self.inputs]
            try:
                with last_program_stays():
                    program = compiler.compile(feeds, self._fetches)
            except (NotSupported, popart_exception) as error:
                by_popart = isinstance(error.__cause__, popart_exception)
                if shapes == self._known_shapes() or not (
                    by_popart or isinstance(error, popart_exception)
                ):
                    raise
                listed = ", ".join(f"{name!r} {list(shape)}" for name, shape in micro.items())
                raise FeedError(
                    f"the model takes no inputs of these shapes together: {listed}. {error}"
                ) from error
            if self._first is None:
                self._first = program
            else:
                program.backend.share_weights(self._first.backend)
            self._programs[shapes] = program
            return program


_GONE = (
    "this predictor has no device any more: its backend was reset or detached, which a call of "
    "IpuBackend.reset does to every program of the process. Make it again: "
    "paddle.inference.create_predictor(config)."
)
