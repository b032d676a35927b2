"""The processor that this process runs on, as the system describes it."""

from __future__ import annotations

import functools
from collections.abc import Mapping


@functools.cache
def description() -> Mapping[str, str]:
    """What Linux says of the first processor, by Linux's names; empty where nothing is said."""
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                if not line.strip():
                    break
                name, _, value = line.partition(":")
                found[name.strip()] = value.strip()
    except OSError:
        pass
    return found
