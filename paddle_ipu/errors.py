"""Every exception this package raises.

A message says what went wrong, where (operator, tensor, the user's source line), what was got and
what was expected, and what to do. Catch `PaddleIpuError` to catch all of them but PopART's own
family, which derives from `popart_exception` as in Graphcore's module.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Any

_NEARLY_SAME = 0.85
_SHORTEST_PART = 4


def meant(name: object, known: Iterable[str]) -> str:
    """The words " Did you mean 'x'?" to put behind a message, or "" where no name is similar.

    That is one name where it is nearly the same, else up to three that are similar or contain it.

    Args:
        name: the name that is not known; case does not matter.
        known: those that are.
    """
    by_lower = {text.lower(): text for text in known}
    wanted = str(name).lower()
    close = difflib.get_close_matches(wanted, by_lower, n=1, cutoff=_NEARLY_SAME)
    close = close or difflib.get_close_matches(wanted, by_lower, n=3, cutoff=0.6)
    if not close and len(wanted) >= _SHORTEST_PART:
        close = [text for text in by_lower if wanted in text][:3]
    if not close:
        return ""
    return f" Did you mean {' or '.join(repr(by_lower[text]) for text in close)}?"


class PaddleIpuError(Exception):
    """Base of the errors of this package."""


class ActivationError(PaddleIpuError):
    """Paddle cannot be patched: a name the plugin needs is missing or has another form."""


class NotSupported(PaddleIpuError):  # noqa: N818 - the name users are told to catch
    """A thing that exists in Paddle or PopART and that this package does not do."""


class UnsupportedNameError(NotSupported, AttributeError):
    """A public name of Graphcore's ``popart`` that `paddle_ipu.popart` does not have."""


class UnsupportedOpError(NotSupported):
    """A program holds operators without a translator; the message lists every one of them."""


class NotPortableError(NotSupported):
    """A program that uses the ``ai.paddle_ipu`` domain was handed to Graphcore's SDK."""


class OptionError(PaddleIpuError, ValueError):
    """A strategy option has an unknown name, a wrong type or a value out of range."""


class InvalidProgramError(PaddleIpuError):
    """A program cannot be compiled as it is: wrong feeds, fetches, placement or optimizer."""


class ModelFileError(PaddleIpuError, ValueError):
    """A saved model is missing, truncated, damaged, of a newer version, or contradicts itself."""


class CacheError(PaddleIpuError):
    """The folder for compiled programs cannot be used, or its settings make no sense."""


class ReportError(PaddleIpuError):
    """A report cannot be written, or its settings make no sense."""


class PassError(PaddleIpuError):
    """A pass failed or broke its own contract; names the pass and those that ran before."""


class UninitializedParameterError(InvalidProgramError):
    """A parameter of the program holds no value in the scope."""


class FeedError(PaddleIpuError, ValueError):
    """A feed is undeclared or missing, or its shape, dtype or number of rows does not fit."""


class FetchError(PaddleIpuError, ValueError):
    """A fetch was not compiled, or names nothing in the program."""


class LoweringError(PaddleIpuError):
    """A PopART operator cannot be lowered to XLA as it is used.

    Attributes:
        node: name of the PopART node, None where it is of no single one.
    """

    node: str | None = None


class NumericalError(PaddleIpuError, ArithmeticError):
    """Floating-point checks are on and a step produced NaN or infinity.

    Attributes:
        node: name of the first PopART node whose result is not finite, None for an update.
    """

    node: str | None = None


class OperandValueError(PaddleIpuError):
    """An operator was given a number that it does not take.

    Attributes:
        node: name of the PopART node.
    """

    node: str | None = None


class IndexRangeError(OperandValueError, IndexError):
    """An operator was given an index, or a loss a label, that does not exist."""


class IntegerDivisionError(OperandValueError, ZeroDivisionError):
    """Integers were divided by zero."""


class BackendUnavailableError(PaddleIpuError):
    """The device asked for is not there, or the compiled program was reset or detached."""


class ServingError(PaddleIpuError):
    """A batching runner cannot serve a model as it is, or cannot serve any more."""


class UnknownOutputError(ServingError, FetchError):
    """A request asks for an output that the served model does not give."""


class QueueFullError(ServingError):
    """As many rows wait for a batching runner as may; try again, or later."""


class RequestTimeoutError(ServingError, TimeoutError):
    """A request to a batching runner was not answered within its time."""


class LaunchError(PaddleIpuError):
    """``poprun`` or a tool of the V-IPU cannot do what its command line asks for."""


class VipuError(PaddleIpuError):
    """The V-IPU service refuses what it was asked."""


class VipuConnectionError(VipuError):
    """No V-IPU service answers."""


class MeasurementError(PaddleIpuError):
    """Runs of a program cannot be measured, or none was made."""


class ScriptError(PaddleIpuError):
    """A script that a command is to run is not there."""


class VerificationError(PaddleIpuError):
    """`paddle_ipu.verify` found a tensor that differs from Paddle's CPU executor, or is not finite.

    Attributes:
        report: the ``VerificationReport``, with every comparison.
    """

    def __init__(self, message: str, report: Any) -> None:
        super().__init__(message)
        self.report = report


class popart_exception(Exception):  # noqa: N801, N818 - PopART's name
    """PopART's base exception; ``args[0]`` is the message."""


class popart_internal_exception(popart_exception):  # noqa: N801
    """PopART's error for a broken assumption of its own."""


class popart_runtime_error(popart_exception):  # noqa: N801
    """PopART's error at run time."""


class poplibs_exception(Exception):  # noqa: N801, N818 - PopART's name
    """An error of Graphcore's libraries of operators; an IPU Model has none to raise."""


class poplar_exception(Exception):  # noqa: N801, N818
    """Base of Poplar's errors: a device that there is not; a script may expect others too."""


class poplar_runtime_error(poplar_exception):  # noqa: N801
    """Poplar's error while a program runs."""


class poplar_application_runtime_error(poplar_runtime_error):  # noqa: N801
    """The program itself is at fault."""


class poplar_system_runtime_error(poplar_runtime_error):  # noqa: N801
    """The machine is at fault."""


class poplar_recoverable_runtime_error(poplar_system_runtime_error):  # noqa: N801
    """The machine is at fault, and a reset helps.

    Attributes:
        recoveryAction: which reset.
    """

    recoveryAction: object = None  # noqa: N815 - PopART's name


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):  # noqa: N801
    """The machine is at fault, and no reset helps."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):  # noqa: N801
    """The machine is at fault, and nobody knows how."""


class OutOfMemoryError:
    """Whether something fits the memory, as PopART's C++ tells it; sessions raise here instead.

    Attributes:
        exception: what did not fit, or None.
    """

    def __init__(self) -> None:
        self.exception: OutOfMemoryException | None = None

    def isSuccessful(self) -> bool:  # noqa: N802 - PopART's name
        """Whether all fits."""
        return self.exception is None

    def getSummaryReport(self) -> str:  # noqa: N802
        """What takes the memory; "" where all fits."""
        return "" if self.exception is None else self.exception.getSummaryReport()

    def getProfilePath(self) -> str:  # noqa: N802
        """The folder of the report; "" where all fits, or where none was asked for."""
        return "" if self.exception is None else self.exception.getProfilePath()

    def __str__(self) -> str:
        return "No memory_allocation_err raised" if self.exception is None else str(self.exception)

    def __repr__(self) -> str:
        return f"popart.OutOfMemoryError: {self}"


class OutOfMemoryException(popart_exception):
    """The program does not fit the memory of the machine.

    Args:
        e: the message, or an `OutOfMemoryError` that has what did not fit.

    Attributes:
        error: what was given.
        summary: what takes its memory, as text.
        profile_path: the folder with its report, "" where none was asked for.
    """

    def __init__(self, e: object) -> None:
        super().__init__(str(e))
        self.error = e
        told = e if isinstance(e, OutOfMemoryError) else OutOfMemoryError()
        self.summary, self.profile_path = told.getSummaryReport(), told.getProfilePath()

    def getSummaryReport(self) -> str:  # noqa: N802 - PopART's name
        """What takes the memory. PopART has it with ``debug.allowOutOfMemory`` only."""
        return self.summary

    def getProfilePath(self) -> str:  # noqa: N802
        """The folder of the report; "" without autoReport.outputGraphProfile."""
        return self.profile_path
