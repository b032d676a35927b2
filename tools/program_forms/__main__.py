"""Write the PopART programs of a table of Paddle programs, without names, for comparing.

python -m tools.program_forms --out here.json --programs my_tests.table:PROGRAMS

Run under two versions of Paddle, the files show where the same Python code becomes another PopART
program. The table maps a name to a function without arguments that returns a ``NamedProgram``
(``tools.program_forms.named_program``). ``tools.program_forms.program_form`` describes the form.
"""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import paddle

from tools.program_forms.named_program import NamedProgram, form_of
from tools.program_forms.program_form import Form


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
        help="a table of programs; may be repeated",
    )
    options = parser.parse_args(arguments)
    written = {"paddle": str(paddle.__version__), "programs": forms_of(options.programs)}
    options.out.write_text(json.dumps(written, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
