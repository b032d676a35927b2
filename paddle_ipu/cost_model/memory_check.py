"""The check before anything runs: a program that a named machine cannot hold is refused."""

from __future__ import annotations

from paddle_ipu.cost_model.advice import advise
from paddle_ipu.cost_model.choice import Choice
from paddle_ipu.cost_model.memory import IpuMemory, MemoryReport, livenesses, predict_memory
from paddle_ipu.cost_model.operator_cost import Pricing
from paddle_ipu.cost_model.program import Program
from paddle_ipu.errors import OutOfMemoryException

_LARGEST = 5


def check_memory(program: Program, choice: Choice, *, allow: bool = False) -> str:
    """Predicts a program's memory and refuses one that its named machine cannot hold.

    Args:
        allow: ``debug.allowOutOfMemory``: go on all the same.

    Returns:
        One line about what is lacking where the program may run although it does not fit; "" where
        it fits.

    Raises:
        OutOfMemoryException: it names the IPU, the bytes, the largest tensors and what would help.
    """
    machine = choice.machine
    pricing = Pricing(machine.processor)
    report = predict_memory(program, machine, pricing, livenesses(program))
    if report.fits:
        return ""
    worst = report.worst
    if choice.named and not allow:
        raise OutOfMemoryException(_refusal(program, choice, report, worst, pricing))
    return (
        f"on a {machine.processor.name} with {machine.processor.tiles} tiles this program would "
        f"lack {size(worst.over)} on IPU {worst.ipu}; `paddle-ipu report` says what takes them"
    )


def _refusal(
    program: Program, choice: Choice, report: MemoryReport, worst: IpuMemory, pricing: Pricing
) -> str:
    tiles = choice.machine.processor.tiles
    lines = [
        "Out of memory: Cannot fit all variable data onto one or more tiles. By the IPU Model's "
        f"prediction IPU {worst.ipu} of {choice.machine.name} needs {size(worst.per_tile)} on its "
        f"fullest tile, which has {size(worst.tile_capacity)}: {size(worst.over)} over on its "
        f"{tiles} tiles.",
        "It is made of "
        + ", ".join(
            f"{name} {size(count)}"
            for name, count in sorted(worst.categories.items(), key=lambda item: -item[1])
            if count
        )
        + ".",
        "The largest tensors:",
    ]
    lines += [
        f"  {size(holding.bytes):>9}  {holding.category}: {holding.name}"
        + (f" ({where})" if (where := holding.origin.where) else "")
        for holding in worst.holdings[:_LARGEST]
    ]
    advice = advise(program, choice.machine, report, pricing)
    lines.append("What would help, by IpuStrategy.set_options:")
    lines += [
        f"  {size(advised.saves):>9} less  {advised}" + ("; it fits then" if advised.fits else "")
        for advised in advice
    ] or ["  nothing of it; place layers on more IPUs"]
    lines.append(
        "`paddle-ipu plan` looks for a strategy that fits. engine_options={"
        "'debug.allowOutOfMemory': 'true'} compiles and runs it all the same."
    )
    return "\n".join(lines)


def size(count: float) -> str:
    """Bytes for people: ``66 kB``, ``1.3 GB``; thousands, as IPU memory is stated."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= factor:
            value = count / factor
            return f"{value:.0f} {unit}" if value >= 10 else f"{value:.1f} {unit}"
    return f"{count:.0f} B"
