"""How many random cases were tried in all, and what they showed: a file of records, and its page.

A run appends a record with ``python -m tests.differential ... --ledger``; ``python -m
tests.differential.ledger`` writes ``docs/differential.md`` from all records.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.checkout import ROOT
from tests.differential.causes import CAUSES, FIRST_SEED
from tests.differential.tally import Tally

RECORDS = ROOT / "docs/differential.jsonl"
PAGE = ROOT / "docs/differential.md"

_HEAD = Path(__file__).with_name("ledger_head.md")


def append(
    tally: Tally, kind: str, seed: int, numbers: range, seconds: float, records: Path = RECORDS
) -> None:
    """Adds a run to the records.

    Args:
        tally: what it showed; operators have several cases of a number, alike but for the values.
        kind: ``operators``, ``training`` or ``files``.
        seed: of the run.
        numbers: of the cases that were drawn.
        seconds: how long it took.
        records: the file.
    """
    import paddle

    record = {
        "kind": kind,
        "seed": seed,
        "first": numbers.start,
        "last": numbers.stop - 1,
        "cases": tally.cases,
        "seconds": round(seconds),
        "paddle": str(paddle.__version__),
        "commit": _commit(),
        "outcomes": dict(tally.outcomes.most_common()),
        "findings": dict(Counter(finding.title for finding in tally.findings)),
    }
    with records.open("a") as file:
        file.write(json.dumps(record) + "\n")


def _commit() -> str:
    called = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return called.stdout.strip()


def page(records: Sequence[dict[str, Any]]) -> str:
    """The page of some records."""
    head = _HEAD.read_text()
    return (
        f"{head}\n## Tried so far\n\n{_totals(records)}\n\n"
        f"## What the last findings were\n\n{_causes(records)}\n\n"
        f"## Runs\n\n{_runs(records)}\n"
    )


def recent_findings(records: Sequence[dict[str, Any]]) -> list[tuple[int, str]]:
    """(seed, title) of the findings of random operators whose causes are in the table."""
    return [
        (record["seed"], title)
        for record in records
        if record["kind"] == "operators" and record["seed"] >= FIRST_SEED
        for title in record["findings"]
    ]


def _causes(records: Sequence[dict[str, Any]]) -> str:
    lines = ["| seed | finding | what it was |", "| --- | --- | --- |"]
    for seed, title in recent_findings(records):
        what = CAUSES.get((seed, title), "not known yet")
        lines.append(f"| {seed} | {title.replace('|', '/')} | {what} |")
    return "\n".join(lines)


def _totals(records: Sequence[dict[str, Any]]) -> str:
    lines = ["| kind | Paddle | cases | outcomes |", "| --- | --- | --- | --- |"]
    kinds = sorted({(record["kind"], record["paddle"]) for record in records})
    for kind, version in kinds:
        those = [r for r in records if (r["kind"], r["paddle"]) == (kind, version)]
        outcomes: Counter[str] = Counter()
        for record in those:
            outcomes.update(record["outcomes"])
        words = ", ".join(f"{count:,} {name}" for name, count in outcomes.most_common())
        total = sum(record["cases"] for record in those)
        lines.append(f"| {kind} | {version} | {total:,} | {words} |")
    return "\n".join(lines)


def _runs(records: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| kind | Paddle | seed | numbers | cases | commit | findings |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for record in records:
        last = record.get("last", record["first"] + record["cases"] - 1)
        findings = "; ".join(f"{title} ({n})" for title, n in record["findings"].items())
        cells = (
            *(record["kind"], record["paddle"], record["seed"]),
            *(f"{record['first']} to {last}", record["cases"], record["commit"]),
            findings.replace("|", "/") or "none",
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def main() -> int:
    """Writes the page."""
    records = [json.loads(line) for line in RECORDS.read_text().splitlines()]
    PAGE.write_text(page(records))
    return 0


if __name__ == "__main__":
    sys.exit(main())
