"""Engines of others that a benchmark runs where they are installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec

INSTALLED_BY = {
    "torch": "pip install torch",
    "onnxruntime": "pip install onnxruntime",
    "openvino": "pip install openvino",
}
"""How to install an engine that need not be there; its name is that of its module."""


def present(engines: Sequence[str]) -> list[str]:
    """Those that can run here; of each other it is said how to install it."""
    found = []
    for name in engines:
        if name in INSTALLED_BY and find_spec(name) is None:
            print(f"{name} is left out: it is not installed ({INSTALLED_BY[name]})")
        else:
            found.append(name)
    return found
