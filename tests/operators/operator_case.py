"""What a row of the operator case table is, and what a row of refused uses is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.operators.compare import Tolerance

Array = np.ndarray[Any, Any]
Build = Callable[..., Any]
Oracle = Callable[..., Any]
Check = Callable[[Sequence[Array]], None]


@dataclass(frozen=True, slots=True)
class Since:
    """From which version of Paddle on the Python code of a case gives a program that runs.

    Attributes:
        version: major and minor, for instance ``3.0``.
        because: what earlier versions lack.
    """

    version: str
    because: str

    def holds(self, version: str) -> bool:
        """Whether Paddle `version`, for instance ``2.6.2``, has it."""
        return _major_and_minor(version) >= _major_and_minor(self.version)


def _major_and_minor(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


@dataclass(frozen=True, slots=True)
class OperatorCase:
    """One use of a Paddle operator that must give Paddle's numbers.

    Attributes:
        op: the phi name; the built program must contain it.
        build: Paddle API calls on static variables, one argument for each input in order;
            returns one output or a sequence of them.
        inputs: name -> array that is fed.
        gradient: names of inputs whose gradient is compared; they become parameters.
        label: tells rows of one operator apart.
        tolerance: instead of the defaults by dtype, with its reason.
        limitation: where the operator is known to differ from Paddle beside this row.
        since: the first Paddle that can build and run it, where that is not every one.
        oracle: where Paddle has no CPU kernel, the same in NumPy: one array for each input in
            order -> one output or a sequence of them. It must compute in the precision of its
            inputs; gradients are compared with its central differences in float64.
        check: for random results: raises AssertionError where the outputs do not follow the
            distribution, or are not random at all. Nothing else is compared then.
        gpu_only: Paddle has kernels for GPUs only, and a CPU wheel cannot build the program; see
            `tests/operators/gpu_operator.py`.
    """

    op: str
    build: Build
    inputs: Mapping[str, Array]
    gradient: tuple[str, ...] = ()
    label: str = ""
    tolerance: Tolerance | None = None
    limitation: str = ""
    since: Since | None = None
    oracle: Oracle | None = None
    check: Check | None = None
    gpu_only: bool = False

    @property
    def name(self) -> str:
        """The row's name in test reports."""
        return f"{self.op}-{self.label}" if self.label else self.op


@dataclass(frozen=True, slots=True)
class RefusedCase:
    """One use of a Paddle operator that compile must refuse.

    Attributes:
        op: the phi name.
        build: as in `OperatorCase`.
        inputs: name -> array that is fed.
        match: what the message says, as a regular expression.
        since: as in `OperatorCase`.
        gpu_only: as in `OperatorCase`.
    """

    op: str
    build: Build
    inputs: Mapping[str, Array]
    match: str
    since: Since | None = None
    gpu_only: bool = False

    @property
    def name(self) -> str:
        """The row's name in test reports."""
        return f"{self.op}-{self.match[:30]}"


@dataclass(slots=True)
class CaseTable:
    """Rows under construction; one table for each family of operators."""

    rows: list[OperatorCase] = field(default_factory=list)
    refused: list[RefusedCase] = field(default_factory=list)

    def add(
        self,
        op: str,
        build: Build,
        *,
        gradient: tuple[str, ...] = (),
        label: str = "",
        tolerance: Tolerance | None = None,
        limitation: str = "",
        since: Since | None = None,
        oracle: Oracle | None = None,
        check: Check | None = None,
        gpu_only: bool = False,
        **inputs: Array,
    ) -> None:
        """Adds a row; the arguments are those of `OperatorCase`."""
        self.rows.append(
            OperatorCase(
                op=op,
                build=build,
                inputs=inputs,
                gradient=gradient,
                label=label,
                tolerance=tolerance,
                limitation=limitation,
                since=since,
                oracle=oracle,
                check=check,
                gpu_only=gpu_only,
            )
        )

    def refuse(
        self,
        op: str,
        build: Build,
        match: str,
        *,
        since: Since | None = None,
        gpu_only: bool = False,
        **inputs: Array,
    ) -> None:
        """Adds a use that compile refuses with a message that has `match` in it."""
        self.refused.append(RefusedCase(op, build, inputs, match, since, gpu_only))


def normal(*shape: int, seed: int = 0) -> Array:
    """Float32 numbers around 0."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def uniform(*shape: int, low: float = 0.1, high: float = 2.0, seed: int = 0) -> Array:
    """Float32 numbers in [low, high)."""
    return np.random.default_rng(seed).uniform(low, high, shape).astype(np.float32)


def integers(
    *shape: int, low: int = 0, high: int = 5, dtype: str = "int64", seed: int = 0
) -> Array:
    """Whole numbers in [low, high)."""
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def floats(*values: Any) -> Array:
    """Float32 numbers as given."""
    return np.asarray(values, dtype=np.float32)


def bools(*shape: int, seed: int = 0) -> Array:
    """Truth values."""
    return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)
