"""Searches random cases for ones that nothing explains: ``make fuzz CASES=2000 SEED=1``.

Each kind is a package with a module ``explore``, whose function of that name tries cases ``first``
to ``first + cases`` of a seed and returns a :class:`~tests.differential.tally.Tally`.
"""

from __future__ import annotations

import argparse
import importlib
import sys
import time

from tests.differential.ledger import append
from tests.differential.tally import Tally

KINDS = ("operators", "training", "files")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.differential", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument(
        "--cases", type=int, default=2000, help="how many are drawn (default: %(default)s)"
    )
    parser.add_argument("--seed", type=int, default=0, help="of all of them (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--ledger", action="store_true", help="add it to docs/differential.jsonl")
    options = parser.parse_args()
    start = time.monotonic()
    explore = importlib.import_module(f"tests.differential.{options.kind}.explore").explore
    tally: Tally = explore(options.cases, options.seed, first=options.first)
    seconds = time.monotonic() - start
    show(tally, options.kind, options.seed, seconds)
    if options.ledger:
        append(
            tally,
            options.kind,
            options.seed,
            range(options.first, options.first + options.cases),
            seconds,
        )
    return 1 if tally.findings else 0


def show(tally: Tally, kind: str, seed: int, seconds: float) -> None:
    """Prints findings, then the counts."""
    for finding in tally.findings:
        where = f"seed {finding.seed}, case {finding.number}"
        sys.stdout.write(f"\n== {finding.title}   ({where})\n{finding.detail}\n")
    counts = ", ".join(f"{count} {name}" for name, count in tally.outcomes.most_common())
    sys.stdout.write(
        f"\n{kind}: {tally.cases} cases of seed {seed}, {seconds:.0f} s, "
        f"{tally.cases / max(seconds, 1e-9):.1f} a second: {counts}\n"
    )


if __name__ == "__main__":
    sys.exit(main())
