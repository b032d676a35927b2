"""The page of machines, made from the predictor's table."""

from __future__ import annotations

from dataclasses import fields

from paddle_ipu.cost_model.constants import CONSTANTS, RULE_CYCLES, TABLE
from paddle_ipu.cost_model.machines import (
    MACHINE_SOURCES,
    MACHINES,
    PROCESSOR_SOURCES,
    PROCESSORS,
    UNCERTAIN,
    Machine,
    Processor,
)

_INTRO = """\
# Machines

<!-- Made from machines.py and constants.py of paddle_ipu/cost_model:
python -m tools.generate_docs --write -->

What `paddle-ipu report` and `plan` know of IPU systems ([docs/ipu_model.md](ipu_model.md)). A
machine is named by the option `ipu_machine`, by `POPLAR_TARGET_OPTIONS='{"machine": "pod16"}'`, or
by `--machine`; capitals, spaces and dashes do not matter. `ipu:FILE` is one that a JSON file
describes:

```json
{"base": "POD16", "host_bandwidth": 25e9, "processor": {"clock": 1.5e9}}
```

`base` names the machine, and within `processor` the processor, whose figures hold where the file
has none (Bow-2000 where it is left out); a field that no machine has is an error.
"""

_CONSTANTS = """
## Constants

What the predictor takes for granted beside the figures of a machine. *Fitted* ones were fitted to
published results, *counted* ones counted in the sources of poplibs and PopART; for *assumed* ones
no source was found. 80 % of the belief lies between the two factors; the
[interval of a report](ipu_model.md#how-far-it-may-be-off) is made of them.
"""


def machines_page() -> str:
    """The page as Markdown."""
    lines = [_INTRO, "## Processors", ""]
    names = list(PROCESSORS)
    lines += [
        f"| figure | {' | '.join(names)} | source |",
        "| --- |" + " ---: |" * len(names) + " --- |",
    ]
    for field in fields(Processor):
        if field.name == "name":
            continue
        values = " | ".join(_number(getattr(p, field.name)) for p in PROCESSORS.values())
        lines.append(f"| `{field.name}` | {values} | {PROCESSOR_SOURCES[field.name]} |")
    lines += [
        "",
        "Rates are a cycle and tile, sizes bytes, links bytes a second.",
        "",
        "## Systems",
        "",
    ]
    shown = [field.name for field in fields(Machine) if field.name not in ("name", "processor")]
    lines += [f"| machine | processor | {' | '.join(f'`{n}`' for n in shown)} |"]
    lines += ["| --- | --- |" + " ---: |" * len(shown)]
    for machine in MACHINES.values():
        values = " | ".join(_number(getattr(machine, name)) for name in shown)
        lines.append(f"| {machine.name} | {machine.processor.name} | {values} |")
    lines += ["", "Bandwidths are bytes a second. Where they come from:", ""]
    lines += [f"- `{name}`: {source}" for name, source in MACHINE_SOURCES.items()]
    lines += [_CONSTANTS, "| constant | value | | 80 %: times | where it comes from |"]
    lines += ["| --- | ---: | --- | --- | --- |"]
    for name, belief in TABLE.items():
        lines.append(
            f"| `{name}` | {getattr(CONSTANTS, name):g} | {belief.kind} | "
            f"{belief.low:g} to {belief.high:g} | {belief.why} |"
        )
    rules = ", ".join(f"{name} {count:g}" for name, count in RULE_CYCLES.items())
    lines += ["", f"Vector operations of an update rule for an element, assumed: {rules}.", ""]
    lines += ["Of the figures above, these are uncertain, between so many times their value:", ""]
    lines += [f"- `{name}`: {low:g} to {high:g}" for name, (low, high) in UNCERTAIN.items()]
    return "\n".join(lines) + "\n"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.4g}".replace("e+", "e")
