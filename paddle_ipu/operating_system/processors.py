"""The processors: how many this process may use, and what the system says of them."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping


def usable() -> int:
    """How many processors this process may use, or how many there are where nothing tells."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    # From Python 3.13 on.
    count = getattr(os, "process_cpu_count", os.cpu_count)
    return count() or 1


@functools.cache
def description() -> Mapping[str, str]:
    """The fields of the first processor in ``/proc/cpuinfo``; empty without that file."""
    fields: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                name, _, value = line.partition(":")
                fields[name.strip()] = value.strip()
    except OSError:
        pass
    return fields


def features() -> frozenset[str]:
    """The processor's features, by Linux's names; empty where they are unknown.

    ``ONEDNN_MAX_CPU_ISA``, which caps oneDNN's kernels and ours, hides AVX-512 and AMX here too.
    """
    found = frozenset(description().get("flags", "").split())
    if os.environ.get("ONEDNN_MAX_CPU_ISA", "").startswith(("AVX2", "SSE")):
        return frozenset(name for name in found if not name.startswith(("avx512", "amx")))
    return found
