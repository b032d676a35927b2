"""``--isa avx2``: every engine as on a machine without AVX-512, by the switches that each has.

A benchmark adds the option, sets the switches before it starts an engine, and prints what its
figures are of::

    isa.add_argument(parser)
    isa.cap(arguments.isa)
    print(isa.description(arguments.isa))

Workers of :mod:`worker` say in each answer whether they have used AVX-512; :func:`marked` tells it.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

AVX2 = "avx2"


@dataclass(frozen=True, slots=True)
class Switch:
    """What keeps one library from AVX-512.

    Attributes:
        library: and who uses it.
        variables: of the environment; empty where there is no switch.
        remark: for the benchmark's output.
    """

    library: str
    variables: dict[str, str] = field(default_factory=dict)
    remark: str = ""


SWITCHES = (
    # The second flag leaves float32 products to code that XLA compiles. Its library for them,
    # YNNPACK, chooses by the processor alone.
    Switch(
        "XLA (paddle_ipu, JAX)",
        {"XLA_FLAGS": "--xla_cpu_max_isa=AVX2 --xla_cpu_experimental_ynn_fusion_type="},
        "without YNNPACK, which has no switch",
    ),
    # Kernels of paddle_ipu's own obey oneDNN's variable, too; XLA has a oneDNN for float32 products
    # that YNNPACK does not take.
    Switch("oneDNN (paddle_ipu, JAX, Paddle, torch, OpenVINO)", {"ONEDNN_MAX_CPU_ISA": "AVX2"}),
    # On AMD, MKL uses no AVX-512 without it either.
    Switch("MKL (Paddle, torch)", {"MKL_ENABLE_INSTRUCTIONS": "AVX2"}),
    Switch("torch's own loops", {"ATEN_CPU_CAPABILITY": "avx2"}),
    Switch("OpenBLAS (NumPy)", {"OPENBLAS_CORETYPE": "Haswell"}),
    # Copies, which are everybody's; they would also hide what `has_used_avx512` looks for.
    Switch(
        "glibc",
        {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-AVX512F,-AVX512VL,-AVX512BW,-AVX512DQ,-AVX512CD"},
    ),
    Switch("MLAS (onnxruntime; OpenVINO's products with weights)", remark="no switch: not capped"),
)
"""All libraries that the engines compute with."""

VARIABLES = frozenset(name for switch in SWITCHES for name in switch.variables)
"""Those of the environment that a benchmark sets, or unsets, for all its engines."""

# Of the kernel's clock, by which it says when a thread had used AVX-512.
_TICK_SECONDS = 0.01


def add_argument(parser: argparse.ArgumentParser) -> None:
    """Adds ``--isa``."""
    parser.add_argument(
        "--isa",
        choices=[AVX2],
        help="run every engine as on a machine without AVX-512, by its own switches; what has "
        "none is named in the output (default: all that the processor has)",
    )


def cap(level: str | None) -> None:
    """Sets the switches for all processes that this one starts, and for what it imports later.

    Without a level they are unset: a shell's would change some engines and not others.

    Raises:
        SystemExit: the processor has not got the level.
    """
    if level and _highest() not in ("AVX-512", "AVX2"):
        raise SystemExit(f"--isa {level}: this processor has {_highest()}.")
    for name in VARIABLES:
        os.environ.pop(name, None)
    if level:
        for switch in SWITCHES:
            os.environ.update(switch.variables)


def description(level: str | None) -> str:
    """The machine, its processor, its level, and whether and how engines are capped."""
    about = _processor()
    name = about.get("model name", platform.processor() or platform.machine())
    if "cpu family" in about:
        name += f", family {about['cpu family']}, model {about['model']}"
    memory = ""
    with suppress(ValueError, OSError):
        memory = f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB"
    lines = [
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} processors ({name}){memory}; "
        f"instructions: {_highest()}"
    ]
    if level and _highest() == "AVX2":
        lines.append("--isa avx2: the processor has no more; nothing is capped")
    elif level:
        lines.append(f"--isa {level}: CAPPED at AVX2, figures are not those of a machine without:")
        for switch in SWITCHES:
            settings = " ".join(f"{name}='{value}'" for name, value in switch.variables.items())
            lines.append(
                f"  {switch.library}: {'; '.join(filter(None, [settings, switch.remark]))}"
            )
    return "\n".join([*lines, ""])


def marked(title: str, has_used: bool | None) -> str:
    """An engine's name in a table, with a mark where a cap has no hold on it."""
    return f"{title} [AVX-512 used]" if has_used else title


def has_used_avx512(since: float) -> bool | None:
    """Whether a thread of this process has used AVX-512.

    The kernel keeps the time at which it last saved a thread's 512-bit registers, or the upper 16.

    Args:
        since: a time of `time.monotonic`.

    Returns:
        None where that is not known, or engines are not capped: glibc alone uses AVX-512 then.
    """
    if not all(os.environ.get(name) for name in VARIABLES):
        return None
    passed = time.monotonic() - since - _TICK_SECONDS
    found = None
    with suppress(OSError):
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/arch_status", encoding="ascii") as file:
                for line in file:
                    key, _, value = line.partition(":")
                    if key == "AVX512_elapsed_ms":
                        found = bool(found) or 0 <= int(value) < 1e3 * passed
    return found


def _processor() -> Mapping[str, str]:
    # Here, since importing the package changes Paddle, and workers of plain Paddle import this.
    from paddle_ipu.operating_system import processors

    return processors.description()


def _highest() -> str:
    """AVX-512, AVX2 or what the machine is."""
    flags = _processor().get("flags", "").split()
    if "avx512f" in flags:
        return "AVX-512"
    return "AVX2" if "avx2" in flags else f"{platform.machine()} without AVX2"
