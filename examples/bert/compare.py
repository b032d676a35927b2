"""The first steps of both devices, on the same batches from the same weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from rich.console import Console
from rich.table import Table

from examples.bert.samples import Arrays
from examples.bert.stages import networks
from examples.bert.stages.device import Device, DeviceProgram
from examples.bert.stages.settings import Settings

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


def comparable(settings: Settings) -> Settings:
    """Without dropout and accumulation, where both devices compute the same numbers."""
    return replace(
        settings,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        grad_acc_factor=1,
        num_ipus=1,
    )


def verify(settings: Settings, batches: Sequence[Arrays], console: Console) -> bool:
    """Run ``batches`` on both devices and print the losses; True if they agree."""
    devices: tuple[Device, ...] = ("cpu", "ipu")
    losses: dict[Device, list[Mapping[str, float]]] = {}
    for device in devices:
        with console.status(f"running {len(batches)} steps, device {device}"):
            program = DeviceProgram(settings, networks.pretraining, device, settings.max_steps)
            program.compile()
            steps = [program.step(dict(batch)) for batch in batches]
        losses[device] = [{n: float(np.mean(v)) for n, v in values.items()} for values in steps]
    rows = [
        Difference(step, name, cpu[f"loss/{name}"], ipu[f"loss/{name}"])
        for step, (cpu, ipu) in enumerate(zip(losses["cpu"], losses["ipu"], strict=True), start=1)
        for name in ("MLM", "NSP")
    ]
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
