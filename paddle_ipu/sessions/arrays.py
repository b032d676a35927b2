"""A session's step on arrays as the device has them, without step I/O; PopART has none.

What a ``PyStepIO`` checks and copies is known to the caller here, who runs small programs often.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from paddle_ipu.errors import popart_runtime_error
from paddle_ipu.sessions.weights import SessionWeights
from paddle_ipu.xla.process import DeferredSignals

Array = np.ndarray[Any, Any]


class SessionArrays(SessionWeights):
    """Runs on arrays; the session gives the attribute without a value, and `initAnchorArrays`."""

    _updating: bool
    _is_reserved = False

    def uninterrupted(self) -> AbstractContextManager[None]:
        """A block that Python's handlers of signals wait for the end of; PopART has none."""
        return DeferredSignals()

    def runArrays(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One step.

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
        if not self._is_reserved:
            executable.reserve_memory()
            self._is_reserved = True
        try:
            feeds = {name: inputs[name].reshape(shape) for name, shape in self._fed.items()}
        except (KeyError, ValueError) as error:
            raise self._misfed(inputs) from error
        self._let_go()
        found = executable.run(feeds, self._updating)
        return {name: np.array(found[name]).reshape(shape) for name, shape in self._got.items()}

    @abstractmethod
    def initAnchorArrays(self) -> dict[str, Array]:
        """Empty arrays, one for each anchor."""

    @cached_property
    def _fed(self) -> dict[str, tuple[int, ...]]:
        program = self._executable.program
        return {
            name: (*program.feed_dims(name), *shape) for name, (shape, _) in program.inputs.items()
        }

    @cached_property
    def _got(self) -> dict[str, tuple[int, ...]]:
        return {name: array.shape for name, array in self.initAnchorArrays().items()}

    def _misfed(self, inputs: Mapping[str, Array]) -> popart_runtime_error:
        for name, shape in self._fed.items():
            if name not in inputs:
                return popart_runtime_error(f"No tensor {name} is among the inputs of a run")
            if inputs[name].size != prod(shape):
                return popart_runtime_error(
                    f"Tensor {name} has {inputs[name].size} elements, a run takes {prod(shape)}"
                )
        raise AssertionError("every input fits")
