"""Copies a Paddle program for verify, by the file for its kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from paddle_ipu.errors import NotSupported
from paddle_ipu.frontend import programs
from paddle_ipu.verification.pir_copy import PirCopy
from paddle_ipu.verification.program_copy import ProgramCopy
from paddle_ipu.verification.program_desc_copy import ProgramDescCopy

if TYPE_CHECKING:
    import paddle


def copy_of(program: paddle.static.Program, *, without_dropout: bool = False) -> ProgramCopy:
    """A copy of a program; the program stays as it is.

    Args:
        program: a PIR or ProgramDesc program, or a ``SavedProgram``.
        without_dropout: put the copy's dropouts, and their gradients, into test mode.

    Raises:
        NotSupported: not a program that Paddle's CPU executor runs.
    """
    if programs.is_pir(program):
        return PirCopy.of(program, without_dropout)
    if programs.is_legacy(program):
        return ProgramDescCopy.of(program, without_dropout)
    if programs.is_saved(program):
        copy = ProgramDescCopy.of_saved(program, without_dropout)
        if copy is None:
            raise NotSupported(
                f"verify compares with Paddle's CPU kernels, which cannot run {program!r}: "
                f"{program.reason}. Verify it under the Paddle version that saved it, where "
                "paddle.static.load_inference_model gives a program of Paddle's own."
            )
        return copy
    raise NotSupported(
        f"verify takes a program built with Paddle, got {type(program).__module__}."
        f"{type(program).__name__}. Pass the program that IpuCompiledProgram takes."
    )
