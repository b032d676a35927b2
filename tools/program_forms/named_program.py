"""A Paddle program for a table, and its PopART program without names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import paddle

from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs
from tools.program_forms.default_translation import Array, translate_by_default
from tools.program_forms.program_form import Form, program_form


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A row of a table of Paddle programs.

    Attributes:
        program: a PIR or ProgramDesc program.
        feeds: names of its feeds.
        fetches: variables, or their names.
        training: whether weights are updated.
        parameters: values by name; a parameter without one is zero.
    """

    program: paddle.static.Program
    feeds: Sequence[str]
    fetches: Sequence[Any]
    training: bool = False
    parameters: Mapping[str, Array] | None = None


def form_of(named: NamedProgram) -> Form:
    """The form of a program."""
    values = dict(named.parameters or {})
    shapes = _parameter_shapes(named.program)

    def parameter(name: str) -> Array:
        if name not in values:
            values[name] = np.zeros(*shapes[name])
        return values[name]

    return program_form(
        translate_by_default(
            named.program,
            named.feeds,
            named.fetches,
            parameter,
            training=named.training,
            in_64_bits=True,
        )
    )


def _parameter_shapes(program: paddle.static.Program) -> dict[str, tuple[list[int], str]]:
    return {
        str(value.name): (dialect.dims_of(value), dialect.dtype_name(value))
        for value in programs.read(program).inputs
        if value.meta[dialect.ROLE] != dialect.FEED
    }
