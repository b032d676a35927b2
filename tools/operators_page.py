"""docs/operators.md: every Paddle operator there is a translator for, from the tables."""

from __future__ import annotations

from collections.abc import Sequence

from paddle_ipu.frontend.vocabulary import table  # noqa: F401 - fills the next
from paddle_ipu.frontend.vocabulary.row import TABLE
from paddle_ipu.ops import families  # noqa: F401 - registers the translators
from paddle_ipu.ops.registry import Row, translated_operators
from paddle_ipu.ops.untranslated import operators_by_reason
from tests.operators.operator_case import OperatorCase
from tests.operators.operator_cases import cases_by_operator

_INTRO = """\
# Operators

<!-- Made from ops/ and the case table: python -m tools.generate_docs --write -->

The operators of a Paddle program that the IPU backend translates, by the names they have in a PIR
program (`paddle.nn.functional.cross_entropy` becomes `cross_entropy_with_softmax` and others; print
a program to see its own, or ask `paddle-ipu check`). Backward and optimizer operators are not here:
the device derives gradients itself. Nor are custom operators: [porting.md](porting.md).
What is not here runs on Paddle's CPU kernels with the option `cpu_fallback`.

- *ProgramDesc*: what Paddle 2.6 and `.pdmodel` files call it; nothing where they do not have it.
- *PopART operators*: what a translator may write, in `ai.onnx` unless a domain is given. With none,
  the result is a constant of the PopART program. A `Cast` from one width of integers to another
  may come with any of them, and is not told of.
- *portable*: what it writes runs on IPU hardware too; *in part* where that depends on the use. What
  is not portable needs a domain of this package, which the IPU Model alone runs.
- *dtypes*: of the tensors that its cases compare with Paddle's CPU kernels, exactly in shape and
  dtype. float64 is float32 on the device. int64 has 64 bits on the IPU Model, 32 on hardware.
- *gradient*: the cases compare gradients, too.
- *limits*: uses that compile refuses with a message, and known differences from Paddle.

"""


_UNTRANSLATED = """\
## Operators that are not translated

Of these a program's error, and `paddle-ipu check`, tell why and what to do:
"""


def _portable(row: Row) -> str:
    own = [name for name in row.emits if name.startswith("paddle_ipu.")]
    if not own:
        return "yes"
    return "in part" if len(own) < len(row.emits) else "no"


def _line(row: Row, cases: list[OperatorCase], legacy: Sequence[str]) -> str:
    dtypes = sorted({array.dtype.name for case in cases for array in case.inputs.values()})
    limits = dict.fromkeys([row.limits, *(case.limitation for case in cases)])
    cells = [
        f"`{row.name}`",
        ", ".join(f"`{name}`" for name in legacy),
        ", ".join(f"`{name}`" for name in row.emits) or "a constant",
        _portable(row),
        ", ".join(dtypes),
        "yes" if any(case.gradient for case in cases) else "",
        "; ".join(limit for limit in limits if limit),
    ]
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _legacy_names() -> dict[str, list[str]]:
    """phi name, without the mark of an in-place form -> the names in a ProgramDesc."""
    found: dict[str, list[str]] = {}
    for name, row in sorted(TABLE.items()):
        found.setdefault(row.op, []).append(name)
        if row.op.endswith("_"):
            found.setdefault(row.op.removesuffix("_"), []).append(name)
    return found


def operators_page() -> str:
    """docs/operators.md: one row an operator."""
    by_operator = cases_by_operator()
    rows = translated_operators()
    lines = [
        _INTRO + f"There are {len(rows)}.\n",
        "| operator | ProgramDesc | PopART operators | portable | dtypes | gradient | limits |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    legacy = _legacy_names()
    lines += [_line(row, by_operator.get(row.name, []), legacy.get(row.name, ())) for row in rows]
    lines += ["", _UNTRANSLATED]
    for reason, names in operators_by_reason().items():
        lines.append(f"- {reason}\n  " + ", ".join(f"`{name}`" for name in sorted(names)))
    return "\n".join(lines) + "\n"
