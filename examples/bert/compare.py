"""The first steps of both devices, on the same batches from the same weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from rich.console import Console
from rich.table import Table

from examples.bert.presets import Preset
from examples.bert.session import Feeds, Session, StepValues

TOLERANCE = 1e-5  # relative, for every loss of every step


@dataclass(frozen=True)
class Difference:
    """One loss of one step on both devices."""

    step: int
    name: str
    cpu: float
    ipu: float

    @property
    def relative(self) -> float:
        """``|ipu - cpu| / |cpu|``; NaN where a loss is NaN, which is within no tolerance."""
        if self.cpu == self.ipu:
            return 0.0
        return abs(self.ipu - self.cpu) / abs(self.cpu) if self.cpu else float("inf")


def comparable(preset: Preset) -> Preset:
    """The preset without dropout and accumulation, where both devices compute the same numbers."""
    model = replace(preset.model, dropout=0.0)
    return replace(preset, model=model, accumulation=1, num_ipus=1)


def differences(cpu: Iterable[StepValues], ipu: Iterable[StepValues]) -> list[Difference]:
    """Both losses of every step, step by step."""
    rows = []
    for step, (one, other) in enumerate(zip(cpu, ipu, strict=True), start=1):
        rows.append(Difference(step, "MLM", one.mlm_loss, other.mlm_loss))
        rows.append(Difference(step, "NSP", one.nsp_loss, other.nsp_loss))
    return rows


def verify(preset: Preset, batches: list[Feeds], console: Console) -> bool:
    """Run ``batches`` on both devices and print the losses; True if they agree."""
    runs = {}
    for device in ("cpu", "ipu"):
        with console.status(f"running {len(batches)} steps, device {device}"):
            session = Session(preset, "cpu" if device == "cpu" else "ipu")
            session.compile()
            runs[device] = [session.step(batch) for batch in batches]
    rows = differences(runs["cpu"], runs["ipu"])
    return print_differences(rows, console)


def print_differences(rows: list[Difference], console: Console) -> bool:
    """Print the table and the verdict; True if every difference is within the tolerance."""
    table = Table("step", "loss", "Paddle CPU", "IPU", "relative difference")
    for row in rows:
        table.add_row(
            str(row.step), row.name, f"{row.cpu:.7f}", f"{row.ipu:.7f}", f"{row.relative:.1e}"
        )
    console.print(table)
    agree = all(row.relative <= TOLERANCE for row in rows)
    verdict = "agree" if agree else "differ"
    console.print(
        f"The two devices {verdict}: every loss within {TOLERANCE:.0e} relative"
        f"{'' if agree else ' was expected'}."
    )
    return agree
