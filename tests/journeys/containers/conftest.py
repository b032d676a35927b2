"""What tests of images and cluster files share."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """The path of a linter by its name; skips where it is not installed."""

    def find(name: str) -> str:
        beside = Path(sys.executable).parent / name
        found = str(beside) if beside.is_file() else shutil.which(name)
        if found is None:
            pytest.skip(f"{name} is not installed; the extra `dev` has it")
        return found

    return find
