"""Where a compiled step runs and by which code it was made: versions, machine, settings."""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import numpy as np

import paddle_ipu
from paddle_ipu.operating_system import processors
from paddle_ipu.xla.kernels import library

_FLAGS = ("XLA_FLAGS", "ONEDNN_MAX_CPU_ISA", library.SETTING)
_INSTALLED = ("jaxlib", "onnx-ir", "paddlepaddle", "paddlepaddle-gpu")


def surroundings() -> list[tuple[str, Any]]:
    """What a compiled step depends on beside the program: versions, machine, settings."""
    device = jax.local_devices()[0]
    settings = {
        name: repr(value)
        for name, value in sorted(jax.config.values.items())
        if "cache" not in name
    }
    return [
        ("paddle_ipu", paddle_ipu.__version__),
        ("jax", jax.__version__),
        ("numpy", np.__version__),
        ("installed", _versions()),
        ("kernels", _kernels()),
        ("backend", jax.default_backend()),
        ("device", (device.device_kind, device.client.platform_version)),
        ("machine", (platform.machine(), _processor())),
        # XLA shares its work out among as many threads.
        ("processors", processors.usable()),
        ("flags", [os.environ.get(name, "") for name in _FLAGS]),
        ("settings", settings),
    ]


def digest_of_surroundings(*texts: str) -> str:
    """A digest of texts and of :func:`surroundings`, hexadecimal."""
    return hashlib.sha256(repr([*texts, surroundings()]).encode()).hexdigest()


@functools.cache
def _versions() -> dict[str, str]:
    """Of what is installed, whether it is imported or not."""
    versions = {}
    for name in _INSTALLED:
        with suppress(importlib.metadata.PackageNotFoundError):
            versions[name] = importlib.metadata.version(name)
    return versions


@functools.cache
def _kernels() -> str:
    """A digest of the compiled kernels, which executables call by name."""
    folder = Path(paddle_ipu.__file__).parent / "xla" / "kernels"
    found = sorted(folder.glob("_kernels*.so"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


def _processor() -> tuple[str, ...]:
    """Vendor, model and features of the processor."""
    wanted = {"vendor_id", "cpu family", "model", "model name", "flags", "Features", "CPU part"}
    description = processors.description()
    said = tuple(f"{name}={description[name]}" for name in sorted(wanted & description.keys()))
    return said or (platform.processor(),)


@functools.cache
def source_digest() -> str:
    """Of the code that turns a PopART program into a step, as it is installed."""
    package = Path(paddle_ipu.__file__).parent
    digest = hashlib.sha256()
    for part in ("popart", "sessions", "xla"):
        for path in sorted((package / part).rglob("*.py")):
            content = path.read_bytes()
            digest.update(f"{path.relative_to(package)} {len(content)}\n".encode())
            digest.update(content)
    return digest.hexdigest()
