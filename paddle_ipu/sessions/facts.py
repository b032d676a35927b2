"""What a session tells of its compiled program beyond what PopART's sessions do."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

import onnx_ir as ir

from paddle_ipu.sessions.arrays import SessionArrays

if TYPE_CHECKING:
    from paddle_ipu.xla.step.step_trace import Recording


class SessionFacts(SessionArrays):
    """Facts of a prepared session, its weights and runs on arrays."""

    def recordRuns(self) -> AbstractContextManager[Recording]:
        """Records what the time of runs goes to; PopART's reports tell of the device's only.

        Each run, and what belongs to it on the host, happens within the recording's ``run()``.

        Raises:
            popart_runtime_error: not prepared.
            MeasurementError: JAX's profiler is on already; at the end, that there was no run.
        """
        self._require_prepared("recordRuns")
        recording: AbstractContextManager[Recording] = self._executable.recording()
        return recording

    @property
    def graph(self) -> ir.Graph:
        """The program's graph; PopART's sessions do not show theirs."""
        return self._graph

    def temporaryBytes(self) -> int:
        """Memory of a step beside weights, state, feeds and anchors; PopART has none."""
        self._require_prepared("temporaryBytes")
        return int(self._executable.temporary_bytes)

    def tensorsIn64Bits(self) -> int:
        """How many tensors have integers of 64 bits; PopART has none."""
        return len(self._executable.program.in_64_bits)

    def executableOrigin(self) -> str:
        """Where the compiled program came from; PopART has none.

        ``compiled`` or ``loaded`` with engine caching, ``not kept: ...`` for a program that the
        cache does not take, and "" without engine caching.
        """
        self._require_prepared("executableOrigin")
        if not self._options.enableEngineCaching:
            return ""
        step = self._executable.compiled
        return f"not kept: {step.not_kept}" if step.not_kept else str(step.origin)

    def drawsRandomNumbers(self) -> bool:
        """Whether a run depends on the random seed; known once prepared. PopART has none."""
        self._require_prepared("drawsRandomNumbers")
        return bool(self._executable.draws)

    def runsAreIndependent(self) -> bool:
        """Whether threads may call ``run`` at the same time, each with its own data.

        A run then leaves nothing for the next: no weights, state or random numbers; nor does it
        call the host, where a user's code may be. PopART has none.
        """
        self._require_prepared("runsAreIndependent")
        is_drawing = self._synthetic or self.drawsRandomNumbers()
        return not is_drawing and bool(self._executable.runs_are_independent)
