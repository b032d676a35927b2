"""Has JAX's lowered steps written down in place of compiled; the package's CPU kernels forced."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any
from unittest.mock import patch

import jax
import numpy as np

SETTING = "PADDLE_IPU_ONEDNN"
"""The variable that turns the package's kernels off where it is 0; its module names it so."""


class KernelsNotFoundError(RuntimeError):
    """The package has no module of kernels that could be forced."""


class _Uncompiled:
    """Stands for a compiled step: every number that it gives is zero, every truth value true."""

    def __init__(self, lowered: Any) -> None:
        self._results = lowered.out_info

    def __call__(self, *_arguments: Any) -> Any:
        return jax.tree.map(_array, self._results)

    def memory_analysis(self) -> None:
        """As of a backend that tells nothing."""

    def as_text(self) -> str:
        """As of a compiled step."""
        return ""


def _array(kind: Any) -> Any:
    # Truth values say whether numbers are finite.
    fill = np.ones if np.dtype(kind.dtype) == bool else np.zeros
    return jax.device_put(fill(kind.shape, kind.dtype))


@contextmanager
def recording() -> Iterator[list[str]]:
    """The text of every step that is lowered inside, in the order in which they would compile."""
    found: list[str] = []

    def compile_step(lowered: Any, compiler_options: Any = None, **_others: Any) -> Any:
        options = sorted((compiler_options or {}).items())
        constants = [_described(array) for array in lowered._lowering.const_args]
        head = f"// compiler options {options}\n// constants {constants}\n"
        found.append(head + lowered.as_text())
        return _Uncompiled(lowered)

    with patch.object(jax.stages.Lowered, "compile", compile_step):
        yield found


def _described(array: Any) -> str:
    found = np.asarray(array)
    return f"{found.dtype}{list(found.shape)} {found.tobytes().hex()}"


@dataclass
class Kernels:
    """The package's own CPU kernels, which lowering sees as available while `forced`.

    No kernel has to be there, nor a processor for it: packed weights have as many numbers as plain
    ones, two threads share the work.
    """

    forced: bool = False
    _originals: dict[str, Callable[..., Any]] = field(default_factory=dict)

    def take_over(self, package: str) -> None:
        """Puts itself in front of the kernels' functions, wherever the package has them by name.

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

    def _either(self, original: Callable[..., Any], other: Callable[..., Any]) -> Any:
        return lambda *given: (other if self.forced else original)(*given)

    @staticmethod
    def _replace(modules: list[ModuleType], original: Any, replacement: Any) -> None:
        for module in modules:
            for name in [name for name, value in vars(module).items() if value is original]:
                setattr(module, name, replacement)


def _is_in(name: str, package: str) -> bool:
    return name == package or name.startswith(f"{package}.")


def _pack(_spec: Any, weights: Any, found: Any) -> None:
    found[:] = np.asarray(weights, np.float32).reshape(-1)


def _unpack(_spec: Any, array: Any, shape: tuple[int, ...]) -> Any:
    return np.asarray(array, np.float32).reshape(shape)


_FORCED: Mapping[str, Callable[..., Any]] = {
    "version": lambda: "0.0.0",
    "why_not": lambda: None,
    "has_attention": lambda: True,
    "threads": lambda: 2,
    "packed": lambda spec: math.prod(spec.weights_shape),
    "are_alike": lambda spec, other: spec.weights_shape == other.weights_shape,
    "pack": _pack,
    "unpack": _unpack,
}
