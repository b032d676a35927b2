"""Engines of others that a benchmark runs where they are installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

INSTALLED_BY = {
    "torch": "pip install torch",
    "onnxruntime": "pip install onnxruntime",
    "openvino": "pip install openvino",
}
"""How to install an engine that need not be there.

An engine's name is that of its module; behind a hyphen stands how it is used.
"""


def present(engines: Sequence[str]) -> list[str]:
    """Those that can run here; of each other it is said how to install it."""
    found = []
    for name in engines:
        module = name.partition("-")[0]
        if module in INSTALLED_BY and find_spec(module) is None:
            print(f"{name} is left out: {module} is not installed ({INSTALLED_BY[module]})")
        else:
            found.append(name)
    return found
