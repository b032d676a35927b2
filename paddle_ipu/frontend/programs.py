"""Tells the kinds of Paddle programs apart and reads each with its own reader.

``paddle.pir.Program``, Paddle 3.x's own, goes through ``frontend/pir.py``;
``paddle.base.framework.Program``, the ProgramDesc of Paddle 2.6 and of 3.x's legacy API, through
``frontend/program_desc.py``; a ``SavedProgram``, which no class of this Paddle stands for, reads
itself.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # The plugin imports this module; ONNX is for the first compilation.
    import onnx_ir as ir


def is_pir(program: object) -> bool:
    """Whether it is a PIR program."""
    pir = sys.modules.get("paddle.pir")
    kind = getattr(pir, "Program", None)
    return kind is not None and isinstance(program, kind)


def is_legacy(program: object) -> bool:
    """Whether it is a ProgramDesc program."""
    framework = sys.modules.get("paddle.base.framework")
    return framework is not None and isinstance(program, framework.Program)


def is_saved(program: object) -> bool:
    """Whether it is a program that was loaded for the IPU alone."""
    saved_model = sys.modules.get("paddle_ipu.frontend.saved_model")
    return saved_model is not None and isinstance(program, saved_model.SavedProgram)


def is_program(program: object) -> bool:
    """Whether it is a program of a kind that can be read."""
    return is_pir(program) or is_legacy(program) or is_saved(program)


def learning_rate_name(program: object) -> str | None:
    """Name of the variable that a scheduler writes before each run, None without a scheduler."""
    if is_pir(program):
        name = getattr(program, "lr_name", None)
        return None if name is None else str(name)
    variable = getattr(program, "lr_var", None)
    return None if variable is None else str(variable.name)


def read(program: Any) -> ir.Graph:
    """The dialect graph of a program, which is not changed.

    Raises:
        NotSupported: an attribute or a dtype that the dialect cannot hold.
    """
    if is_saved(program):
        graph: ir.Graph = program.graph()
        return graph
    # They import ONNX, which waits for the first program; the second the whole vocabulary, too.
    if is_pir(program):
        from paddle_ipu.frontend import pir

        return pir.read(program, learning_rate_name(program))
    from paddle_ipu.frontend import program_desc

    return program_desc.read(program, learning_rate_name(program))
