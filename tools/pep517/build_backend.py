"""The build backend: setuptools', whose wheels get the .pth file that activates the plugin.

pyproject.toml names it. Its hooks are those of PEP 517 and PEP 660; setuptools has no way of its
own to put a .pth file into an editable wheel.
"""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta  # type: ignore[import-untyped]
from setuptools.build_meta import (  # type: ignore[import-untyped]
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_editable,
    prepare_metadata_for_build_wheel,
)

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_editable",
    "prepare_metadata_for_build_wheel",
]

Settings = Mapping[str, Any] | None
PTH_NAME = "paddle_ipu_autoload.pth"
PTH_LINE = b"import _paddle_ipu_autoload; _paddle_ipu_autoload.start()\n"


def build_wheel(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """A wheel in a folder; gives its name."""
    name: str = build_meta.build_wheel(wheel_directory, config_settings, metadata_directory)
    _add_pth(Path(wheel_directory, name))
    return name


def build_editable(
    wheel_directory: str, config_settings: Settings = None, metadata_directory: str | None = None
) -> str:
    """A wheel in a folder that leads to the sources; gives its name."""
    name: str = build_meta.build_editable(wheel_directory, config_settings, metadata_directory)
    _add_pth(Path(wheel_directory, name))
    return name


def _add_pth(wheel: Path) -> None:
    """Writes the wheel anew with the file at its top, and with its line in RECORD."""
    digest = base64.urlsafe_b64encode(hashlib.sha256(PTH_LINE).digest()).rstrip(b"=").decode()
    line = f"{PTH_NAME},sha256={digest},{len(PTH_LINE)}\n"
    made = wheel.with_suffix(".made")
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        new.writestr(PTH_NAME, PTH_LINE)
        for entry in old.infolist():
            content = old.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                content = line.encode() + content
            new.writestr(entry, content)
    made.replace(wheel)
