"""Write the PopART programs of a table of Paddle programs, without names, for comparing.

python -m paddle_ipu.compiler.write_program_forms --out here.json --programs my_tests.table:PROGRAMS

Run under two versions of Paddle, the files show where the same Python code becomes another PopART
program. The table maps a name to a function without arguments that gives a ``NamedProgram``. The
form is told in ``paddle_ipu.compiler.program_form``.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import paddle

from paddle_ipu.compiler.default_translation import Array, translate_by_default
from paddle_ipu.compiler.program_form import Form, program_form
from paddle_ipu.dialect import dialect
from paddle_ipu.frontend import programs


@dataclass(frozen=True, slots=True)
class NamedProgram:
    """A Paddle program to be written.

    Attributes:
        program: PIR or ProgramDesc.
        feeds: names of its feeds.
        fetches: variables, or their names.
        training: whether weights are updated.
        parameters: value by name; where a parameter is missing, zeros stand for it.
    """

    program: Any
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


def _parameter_shapes(program: Any) -> dict[str, tuple[list[int], str]]:
    return {
        str(value.name): (dialect.dims_of(value), dialect.dtype_name(value))
        for value in programs.read(program).inputs
        if value.meta[dialect.ROLE] != dialect.FEED
    }


def forms_of(tables: Sequence[str]) -> dict[str, Form]:
    """Name -> form of every program of some tables.

    Args:
        tables: each ``module:NAME`` of a mapping from name to a maker of a :class:`NamedProgram`.
    """
    forms: dict[str, Form] = {}
    for table in tables:
        module, _, name = table.partition(":")
        makers: Mapping[str, Callable[[], NamedProgram]] = getattr(
            importlib.import_module(module), name
        )
        forms.update((each, form_of(make())) for each, make in makers.items())
    return forms


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="the JSON file to write")
    parser.add_argument(
        "--programs",
        action="append",
        required=True,
        metavar="MODULE:NAME",
        help="a table of programs; may be given again",
    )
    given = parser.parse_args(arguments)
    written = {"paddle": str(paddle.__version__), "programs": forms_of(given.programs)}
    given.out.write_text(json.dumps(written, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
