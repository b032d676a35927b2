"""The command: lower the steps of two checkouts, compare them, show what differs."""

from __future__ import annotations

import argparse
import difflib
import gzip
import json
import os
import re
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from tools.lowered_steps.child import text_of
from tools.lowered_steps.measuring import ROOT, Key, MeasuringError, Record, Side, measure

DESCRIPTION = """\
Show that a change of the package changes no compiled program.

Lowers the steps of some 1,200 programs to StableHLO with the package of two checkouts, and compares
the text: every row of the operator case table, training with every optimizer and many strategies,
whole models, predictors and the examples. Nothing is compiled or run. Left out of the comparison
are names of functions, arguments and results, locations and the targets of the package's own calls;
constants count, however large, and so do the compiler's options and what a refusal says.

The programs are those of the checkout that this command is in, built by public names of Paddle and
paddle_ipu; only the package is the other checkout's. Its modules may be anywhere in it, but for one
thing: the module with SETTING = "PADDLE_IPU_ONEDNN" has to say whether there are CPU kernels. Each
program is lowered with kernels and without, whatever processor this machine has.
"""

EPILOG = """\
exit codes:
  0 every program is the same; 1 one differs, or is missing; 2 wrong arguments, or a checkout whose
  programs could not be lowered

examples:
  git worktree add ../before HEAD~3
  python -m tools.lowered_steps compare ../before
  python -m tools.lowered_steps compare ../before --only '^operators/conv' --jobs 1
  python -m tools.lowered_steps compare ../before --paddle26-python none

  what a checkout gives can be kept, and takes the place of a checkout then:
  python -m tools.lowered_steps collect --checkout ../before --out before.jsonl.gz
  python -m tools.lowered_steps compare before.jsonl.gz
  python -m tools.lowered_steps compare before.jsonl.gz after.jsonl.gz
"""

_PADDLE26 = "PADDLE_IPU_PADDLE26_PYTHON"
Measured = Mapping[Key, Record]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; returns its exit code."""
    given = _parser().parse_args(arguments)
    try:
        if given.command == "collect":
            (found,) = _measured([given.checkout], given)
            _write(found, given.out)
            return 0
        this, other = _measured([given.this, given.other], given)
        return _compare(other, this, given.show)
    except (MeasuringError, OSError, ValueError) as error:
        print(f"lowered_steps: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tools.lowered_steps", description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    common = argparse.ArgumentParser(add_help=False)
    add = common.add_argument
    add("--jobs", type=_positive, default=2, help="processes at once (2)")
    add("--only", default="", metavar="PATTERN", type=_pattern,
        help="programs whose name has this regular expression in it")  # fmt: skip
    add("--paddle26-python", metavar="PATH", default=os.environ.get(_PADDLE26),
        help=f"the Python that has Paddle 2.6, or none (${_PADDLE26}, else .venv-2.6 if it is "
        "there)")  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True)
    compare = commands.add_parser(
        "compare", parents=[common], help="compare two checkouts, or files that collect wrote",
        description=DESCRIPTION, epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    compare.add_argument("other", type=Path, help="the checkout, or file, to compare with")
    compare.add_argument(
        "this", type=Path, nargs="?", default=ROOT, help="another than the one this command is in"
    )
    compare.add_argument("--show", type=int, default=3, metavar="N", help="differences shown (3)")
    collect = commands.add_parser("collect", parents=[common], help="write what a checkout gives")
    collect.add_argument("--checkout", type=Path, default=ROOT, help="the one of this command")
    collect.add_argument("--out", type=Path, required=True, help="the file, .jsonl.gz")
    return parser


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"expected 1 or more, got {text}")
    return number


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no regular expression: {error}") from error
    return text


def _measured(places: Sequence[Path], given: argparse.Namespace) -> list[Measured]:
    """What each place gives: a file is read, checkouts are measured side by side."""
    found = [_read(place) if place.is_file() else None for place in places]
    sides = [Side(str(p), p.resolve()) for p, one in zip(places, found, strict=True) if one is None]
    measured: list[Measured] = []
    if sides:
        begin = time.monotonic()
        pythons = _pythons(given.paddle26_python)
        measured.extend(measure(sides, pythons, given.jobs, given.only, _tell))
        _tell_end(time.monotonic() - begin)
    paddles = {paddle for one in measured for paddle, *_ in one}
    rest = iter(measured)
    # A file may have more versions of Paddle than were asked for, and more programs.
    return [
        {
            key: record
            for key, record in (next(rest) if one is None else one).items()
            if re.search(given.only, key[2]) and (not paddles or key[0] in paddles)
        }
        for one in found
    ]


def _pythons(paddle26: str | None) -> list[Path]:
    if paddle26 == "none":
        return [Path(sys.executable)]
    other = Path(paddle26) if paddle26 else ROOT / ".venv-2.6/bin/python"
    if not other.exists():
        if paddle26:
            raise ValueError(f"--paddle26-python: {other} does not exist")
        print("Paddle 2.6 is left out: no --paddle26-python was given", file=sys.stderr)
        return [Path(sys.executable)]
    return [Path(sys.executable), other.absolute()]


def _tell(done: int, known: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r{done} of {known or '?'} programs lowered\033[K")
        sys.stderr.flush()


def _tell_end(seconds: float) -> None:
    start = "\r\033[K" if sys.stderr.isatty() else ""
    print(f"{start}lowered in {seconds:.0f} s", file=sys.stderr)


def _write(found: Measured, path: Path) -> None:
    with gzip.open(path, "wt") as file:
        for key, record in found.items():
            file.write(json.dumps([key, record]) + "\n")


def _read(path: Path) -> Measured:
    try:
        with gzip.open(path, "rt") as file:
            rows = [json.loads(line) for line in file]
        return {(paddle, kernels, name): record for (paddle, kernels, name), record in rows}
    except (gzip.BadGzipFile, EOFError, ValueError, TypeError) as error:
        raise ValueError(f"{path} is no file that collect wrote: {error}") from error


def _compare(before: Measured, after: Measured, shown: int) -> int:
    """Prints a table and what differs; 1 where something does."""
    if not before and not after:
        raise ValueError("no program has a name that --only matches")
    different = [key for key in {**before, **after} if _digest(before, key) != _digest(after, key)]
    counts: dict[tuple[str, str], Counter[str]] = {}
    for key in {**before, **after}:
        count = counts.setdefault(key[:2], Counter())
        record = after.get(key) or before[key]
        count["programs"] += 1
        count["steps"] += record["steps"]
        count["refused"] += bool(record["refusal"])
        count["different" if key in different else "same"] += 1
    columns = ("programs", "steps", "refused", "same", "different")
    print(f"{'Paddle':<8}{'kernels':<9}" + "".join(f"{column:>11}" for column in columns))
    for (paddle, kernels), count in sorted(counts.items(), reverse=True):
        numbers = "".join(f"{count[column]:>11}" for column in columns)
        print(f"{paddle:<8}{kernels:<9}{numbers}")
    if different:
        print("\ndifferent:")
        for paddle, kernels, name in different:
            print(f"  Paddle {paddle}, kernels {kernels}: {name}")
    for key in different[:shown]:
        print(f"\n{_difference(before, after, key)}")
    return 1 if different else 0


def _digest(measured: Measured, key: Key) -> str | None:
    return str(measured[key]["digest"]) if key in measured else None


def _difference(before: Measured, after: Measured, key: Key) -> str:
    old, new = (
        (text_of(side[key]) if key in side else "missing").splitlines() for side in (before, after)
    )
    lines = difflib.unified_diff(old, new, "before", "after", lineterm="", n=2)
    return "\n".join([f"{key[2]}, Paddle {key[0]}, kernels {key[1]}", *list(lines)[:60]])


if __name__ == "__main__":
    sys.exit(main())
