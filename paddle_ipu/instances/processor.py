"""The processor that this process runs on, as the system describes it."""

from __future__ import annotations

import functools
from collections.abc import Mapping


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
