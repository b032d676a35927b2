"""The models in ``fixtures`` and how the tests ask for them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

FIXTURES = Path(__file__).parent / "fixtures"

NAMES = sorted(str(path.relative_to(FIXTURES))[:-4] for path in FIXTURES.glob("*/*.npz"))
"""Each model, as ``paddle_2_6/mlp``."""


def prefix(name: str) -> Path:
    """The path without suffix."""
    return FIXTURES / name


def program_file(name: str) -> Path:
    """The program of a model."""
    return prefix(name).with_suffix(".json" if name.startswith("paddle_3") else ".pdmodel")


def parts(name: str) -> tuple[bytes, bytes]:
    """The bytes of the program and of the parameters."""
    return program_file(name).read_bytes(), prefix(name).with_suffix(".pdiparams").read_bytes()


def recorded(name: str) -> tuple[dict[str, Any], list[Any]]:
    """(feeds, what the stock CPU executor that saved the model gave for them)."""
    with np.load(prefix(name).with_suffix(".npz")) as arrays:
        feeds = {key[5:]: arrays[key] for key in arrays if key.startswith("feed_")}
        fetches = [arrays[key] for key in sorted(arrays) if key.startswith("fetch_")]
    return feeds, fetches
