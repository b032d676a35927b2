"""What a Paddle program looks like at a glance: programs of one look mostly compile to the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any, cast

from paddle_ipu.compiler.source import Source
from paddle_ipu.frontend import programs

_DECIDE_NOTHING = (
    "enable_engine_caching", "cache_path",
    "compilation_progress_logger", "compilation_progress_total",
)  # fmt: skip
"""Options that the compiled program does not depend on."""


def likeness(source: Source) -> str:
    """A digest of operators in their order, of feeds, parameters, fetches and options, hexadecimal.

    Reading the program takes twenty times as long. Of attributes it says nothing.
    """
    digest = hashlib.sha256()
    for part in (*_arguments(source), *_program(source)):
        digest.update(part.encode() + b"\0")
    return digest.hexdigest()


def _arguments(source: Source) -> Iterator[str]:
    for name, value in source.values.items():
        if name not in _DECIDE_NOTHING:
            yield f"{name} {value!r}"
    yield repr((sorted(source.values.patterns.items()), sorted(source.values.custom_ops)))
    for names in (source.feeds, source.fetches):
        yield repr([n if isinstance(n, str) else str(getattr(n, "name", "")) for n in names])


def _program(source: Source) -> Iterator[str]:
    program = cast("Any", source.program)
    if programs.is_saved(program):
        yield str(program.source)
        return
    block = program.global_block()
    if programs.is_pir(program):
        for operator in block.ops:
            yield str(operator.name())
            if operator.num_operands() == 0:
                yield from (str(value.type()) for value in operator.results())
        return
    for operator in block.ops:
        yield str(operator.type)
    fed = (variable for variable in block.vars.values() if variable.is_data)
    for variable in (*fed, *block.all_parameters()):
        yield f"{variable.name} {variable.shape} {variable.dtype}"
