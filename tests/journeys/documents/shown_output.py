"""Whether a command printed what a document shows."""

from __future__ import annotations

import difflib
import enum
import re

import pytest

# A hash, or a number, a version, a time of day.
_NUMBER = r"\b[0-9a-f]{16}\b|-?\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?"
_MEASURED = r"\d+\.\d+(?:e[+-]?\d+)?|\d{1,3}(?:,\d{3})+|\d+(?=%)"
_LEFT_OUT = "..."


class Shown(enum.Enum):
    """How much of the shown output has to be printed again."""

    AS_PRINTED = "every word and number; those with a point or a comma, and percentages, within 5 %"
    ANY_NUMBERS = "every word; numbers are those of a machine, a process or a moment"
    SOME_LINES = "each line somewhere; processes print beside each other, and numbers differ"


def difference(shown: str, printed: str, how: Shown) -> str | None:
    """What differs; None if nothing does.

    In ``shown`` a line ``...`` stands for any lines, and ``...`` at the end of a line for anything
    more. Blanks count once, empty lines not at all.
    """
    expected, got = _lines(shown), _lines(printed)
    if how is Shown.SOME_LINES:
        loose = [re.compile(_pattern(line, _NUMBER)) for line in expected]
        missing = [
            line
            for line, pattern in zip(expected, loose, strict=True)
            if line != _LEFT_OUT and not any(map(pattern.fullmatch, got))
        ]
        return "\n  ".join(["not printed:", *missing, "but:", *got]) if missing else None
    numbers = _NUMBER if how is Shown.ANY_NUMBERS else _MEASURED
    pattern = "".join(
        r"(?:.*\n)*?" if line == _LEFT_OUT else _pattern(line, numbers) + r"\n" for line in expected
    )
    match = re.fullmatch(pattern, "".join(f"{line}\n" for line in got))
    if match is None:
        lines = ([re.sub(numbers, "#", line) for line in side] for side in (expected, got))
        return "\n".join(difflib.unified_diff(*lines, "shown", "printed", n=1, lineterm=""))
    if how is Shown.AS_PRINTED:
        written = [number for line in expected for number in re.findall(f"({_MEASURED})", line)]
        for ours, theirs in zip(match.groups(), written, strict=True):
            got_number, shown_number = (float(each.replace(",", "")) for each in (ours, theirs))
            if got_number != pytest.approx(shown_number, rel=0.05, abs=0.02):
                return f"{theirs} is shown, {ours} printed"
    return None


def _lines(text: str) -> list[str]:
    """A text's lines, without the blanks and bars by which columns of numbers are filled up."""
    lines = (" ".join(re.sub(r"━+", "━", line).split()) for line in text.splitlines())
    return [line.replace("[ ", "[").replace(" ]", "]") for line in lines if line]


def _pattern(line: str, numbers: str) -> str:
    """A regular expression for a line, with a group for each of its numbers."""
    kept, cut = line.removesuffix(_LEFT_OUT), line.endswith(_LEFT_OUT)
    between = re.split(numbers, kept)
    pattern = f"({numbers})".join(map(re.escape, between))
    return pattern + (".*" if cut else "")
