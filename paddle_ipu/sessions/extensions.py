"""What a session of the IPU Model offers beyond PopART's: runs on arrays, and facts of its step."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.sessions.weights import SessionWeights
from paddle_ipu.xla.process import DeferredSignals

if TYPE_CHECKING:
    from paddle_ipu.xla.step.step_trace import Recording

Array = np.ndarray[Any, Any]


class SessionExtensions(SessionWeights):
    """Methods beyond PopART's; the session sets the attribute without a value."""

    _updating: bool
    _memory_is_reserved = False

    @abstractmethod
    def initAnchorArrays(self) -> dict[str, Array]:
        """Empty arrays, one for each anchor."""

    # -- runs on arrays ------------------------------------------------------------------------

    def runArrays(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One step without step I/O, whose checks and copies the caller has done.

        Args:
            inputs: by tensor, the values of all micro-batches in the device's dtype, in C order.

        Returns:
            Anchor -> array as ``initAnchorArrays`` has it, the caller's own.

        Raises:
            popart_runtime_error: not prepared, weights never uploaded in training, an input
                missing or of another size.
        """
        self._require_prepared("run")
        self._require_weights("run")
        executable = self._executable
        executable.upload_initial_state()
        if not self._memory_is_reserved:
            executable.reserve_memory()
            self._memory_is_reserved = True
        try:
            feeds = {name: inputs[name].reshape(shape) for name, shape in self._feed_shapes.items()}
        except (KeyError, ValueError) as error:
            raise self._input_error(inputs) from error
        self._release_host_copies()
        results = executable.run(feeds, self._updating)
        return {
            name: np.array(results[name]).reshape(shape)
            for name, shape in self._anchor_shapes.items()
        }

    @cached_property
    def _feed_shapes(self) -> dict[str, tuple[int, ...]]:
        """[batches, micro-batches, replicas, *shape] of each input, as far as there are several."""
        program = self._executable.program
        return {
            name: (*program.feed_dims(name), *shape) for name, (shape, _) in program.inputs.items()
        }

    @cached_property
    def _anchor_shapes(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.initAnchorArrays().items()}

    def _input_error(self, inputs: Mapping[str, Array]) -> popart_runtime_error:
        for name, shape in self._feed_shapes.items():
            if name not in inputs:
                return popart_runtime_error(f"No tensor {name} is among the inputs of a run")
            if inputs[name].size != prod(shape):
                return popart_runtime_error(
                    f"Tensor {name} has {inputs[name].size} elements, a run takes {prod(shape)}"
                )
        raise AssertionError("every input fits")

    def uninterrupted(self) -> AbstractContextManager[None]:
        """A block that defers Python's signal handlers to its end."""
        return DeferredSignals()

    def recordRuns(self) -> AbstractContextManager[Recording]:
        """Records how the time of runs is spent; PopART's reports are about the device alone.

        Each run, and what belongs to it on the host, happens within the recording's ``run()``.

        Raises:
            popart_runtime_error: not prepared.
            MeasurementError: JAX's profiler is on already; at the end, that there was no run.
        """
        self._require_prepared("recordRuns")
        return self._executable.recording()

    # -- facts of the step ---------------------------------------------------------------------

    @property
    def graph(self) -> ir.Graph:
        """The program's graph."""
        return self._graph

    def temporaryBytes(self) -> int:
        """Bytes that a step takes beside weights, state, feeds and anchors."""
        self._require_prepared("temporaryBytes")
        return int(self._executable.temporary_bytes)

    def tensorsIn64Bits(self) -> int:
        """The number of tensors with integers of 64 bits."""
        return len(self._executable.program.in_64_bits)

    def executableOrigin(self) -> str:
        """Where the compiled program came from.

        ``compiled`` or ``loaded`` with engine caching, ``not kept: ...`` for a program that the
        cache does not take, and "" without engine caching.
        """
        self._require_prepared("executableOrigin")
        if not self._options.enableEngineCaching:
            return ""
        step = self._executable.compiled
        return f"not kept: {step.not_kept}" if step.not_kept else str(step.origin)

    def drawsRandomNumbers(self) -> bool:
        """Whether a run depends on the random seed; known once prepared."""
        self._require_prepared("drawsRandomNumbers")
        return bool(self._executable.draws)

    def runsAreIndependent(self) -> bool:
        """Whether threads may call ``run`` at the same time, each with its own data.

        A run then leaves nothing for the next: no weights, state or random numbers. Nor does it
        call the host, where a user's code may be.
        """
        self._require_prepared("runsAreIndependent")
        draws = self._synthetic or self.drawsRandomNumbers()
        return not draws and bool(self._executable.runs_are_independent)
