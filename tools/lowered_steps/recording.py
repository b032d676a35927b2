"""Records the text of JAX's lowered steps instead of compiling them; forces the CPU kernels."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Protocol
from unittest.mock import patch

import jax
import numpy as np
import numpy.typing as npt

SETTING = "PADDLE_IPU_ONEDNN"
"""The variable that turns the package's kernels off where it is 0; its module names it so."""


Array = np.ndarray[Any, Any]
Kernel = Callable[..., Any]


class _Spec(Protocol):
    """The weights of a kernel, as the package describes them."""

    weights_shape: tuple[int, ...]


class KernelsNotFoundError(RuntimeError):
    """The package has no module of kernels that could be forced."""


class _Uncompiled:
    """Stands for a compiled step: every number that it gives is zero, every truth value true."""

    def __init__(self, lowered: jax.stages.Lowered) -> None:
        self._results = lowered.out_info

    def __call__(self, *_arguments: object) -> object:
        return jax.tree.map(_array, self._results)

    def memory_analysis(self) -> None:
        """As of a backend that tells nothing."""

    def as_text(self) -> str:
        """As of a compiled step."""
        return ""


def _array(kind: jax.ShapeDtypeStruct) -> jax.Array:
    # Truth values say whether numbers are finite.
    fill = np.ones if np.dtype(kind.dtype) == bool else np.zeros
    made: jax.Array = jax.device_put(fill(kind.shape, kind.dtype))
    return made


@contextmanager
def recording() -> Iterator[list[str]]:
    """The text of every step that is lowered inside, in the order in which they would compile."""
    found: list[str] = []

    def compile_step(
        lowered: jax.stages.Lowered,
        compiler_options: Mapping[str, object] | None = None,
        **_others: object,
    ) -> _Uncompiled:
        options = sorted((compiler_options or {}).items())
        constants = [_described(array) for array in lowered._lowering.const_args]
        head = f"// compiler options {options}\n// constants {constants}\n"
        found.append(head + lowered.as_text())
        return _Uncompiled(lowered)

    with patch.object(jax.stages.Lowered, "compile", compile_step):
        yield found


def _described(array: npt.ArrayLike) -> str:
    found = np.asarray(array)
    return f"{found.dtype}{list(found.shape)} {found.tobytes().hex()}"


@dataclass
class Kernels:
    """The package's own CPU kernels, which lowering sees as available while `forced`.

    No kernel has to be there, nor a processor for it: packed weights have as many numbers as plain
    ones, two threads share the work.
    """

    forced: bool = False

    def take_over(self, package: str) -> None:
        """Replaces the kernels' functions by ones that obey `forced`, wherever they are imported.

        Raises:
            KernelsNotFoundError: no module of the package that is imported has them all.
        """
        modules = [m for name, m in [*sys.modules.items()] if _is_in(name, package)]
        library = next((m for m in modules if vars(m).get("SETTING") == SETTING), None)
        if library is None:
            raise KernelsNotFoundError(f"no module of {package} has SETTING = {SETTING!r}")
        for name, replacement in _FORCED.items():
            original = getattr(library, name, None)
            if original is None:
                raise KernelsNotFoundError(f"{library.__name__} has no {name}")
            self._replace(modules, original, self._either(original, replacement))

    def _either(self, original: Kernel, other: Kernel) -> Kernel:
        return lambda *given: (other if self.forced else original)(*given)

    @staticmethod
    def _replace(modules: list[ModuleType], original: Kernel, replacement: Kernel) -> None:
        for module in modules:
            for name in [name for name, value in vars(module).items() if value is original]:
                setattr(module, name, replacement)


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _pack(_spec: _Spec, weights: npt.ArrayLike, packed: Array) -> None:
    packed[:] = np.asarray(weights, np.float32).reshape(-1)


def _unpack(_spec: _Spec, array: npt.ArrayLike, shape: tuple[int, ...]) -> Array:
    return np.asarray(array, np.float32).reshape(shape)


_FORCED: Mapping[str, Kernel] = {
    "version": lambda: "0.0.0",
    "why_not": lambda: None,
    "lanes": lambda: 16,
    "threads": lambda: 2,
    "packed": lambda spec: math.prod(spec.weights_shape),
    "are_alike": lambda spec, other: spec.weights_shape == other.weights_shape,
    "pack": _pack,
    "unpack": _unpack,
}
