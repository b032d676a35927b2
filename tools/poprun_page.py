"""docs/poprun_options.md: every option of ``poprun``, from its table."""

from __future__ import annotations

from paddle_ipu.distributed.poprun_options import EXCLUSIVE, OPTIONS, PoprunOption, spellings

_INTRO = """\
# Options of poprun

<!-- Made from paddle_ipu/distributed/poprun_options.py:
python -m tools.generate_docs --write -->

`poprun [options] program [arguments]`; a value follows its option after a space or `=`. Yes-or-no
options also take on, off, true, false, 1 and 0. [poprun.md](poprun.md) has runs to learn from.
"""

_TAKES = {
    "switch": "nothing",
    "yes_no": "yes or no",
    "count": "a number from 1",
    "number": "a number from 0",
    "text": "a text",
    "words": "arguments, which add up",
    "repeated": "`N:arguments`, which add up",
}


def poprun_page() -> str:
    """The page."""
    lines = [_INTRO]
    group = ""
    for option in OPTIONS.values():
        if option.group != group:
            group = option.group
            lines += [f"\n## {group}\n", "| option | takes | default | meaning |"]
            lines.append("| --- | --- | --- | --- |")
        lines.append(_row(option))
    lines += ["\n## Not at the same time\n"]
    lines += [f"- `--{first}` and `--{second}`" for first, second in EXCLUSIVE]
    return "\n".join(lines) + "\n"


def _row(option: PoprunOption) -> str:
    names = ", ".join(f"`{spelling}`" for spelling in spellings(option))
    takes = "one of " + ", ".join(option.choices) if option.choices else _TAKES[option.kind]
    default = f"`{option.default}`" if option.default else ""
    return f"| {names} | {takes} | {default} | {option.meaning} |"
