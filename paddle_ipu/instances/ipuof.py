"""``ipuof.conf`` files: which IPUs of which partition a process may attach to."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.errors import VipuError
from paddle_ipu.instances.vipu_client import PORT, VipuClient

_SERVER = "V-IPU API"
"""Attribute of files written here: host:port of the service."""


@dataclass(frozen=True, slots=True)
class Target:
    """The GCD of a partition that a process takes its IPUs from.

    Attributes:
        client: of the service that has the partition.
        partition: its name.
        gcd: number of the GCD.
    """

    client: VipuClient
    partition: str
    gcd: int


def text_of(partition: Mapping[str, Any], gcd: int, client: VipuClient) -> str:
    """The file for one GCD of a partition, as JSON."""
    size = partition["size"] // partition["gcds"]
    first = partition["first"] + gcd * size
    return json.dumps(
        {
            "attributes": {
                "GCD Id": str(gcd),
                "Partition Id": partition["name"],
                "Reconfigurable": "1" if partition["reconfigurable"] else "0",
                _SERVER: f"{client.host}:{client.port}",
            },
            "devices": [
                {"id": number, "ipu": (first + number) % 4, "board": (first + number) // 4}
                for number in range(size)
            ],
        },
        indent=2,
    )


def folder(environment: Mapping[str, str]) -> Path:
    """Where ``vipu create partition`` writes files: ``~/.ipuof.conf.d``."""
    return Path(environment.get("HOME", "/")) / ".ipuof.conf.d"


def file_names(partition: Mapping[str, Any]) -> list[str]:
    """The file of each GCD."""
    if partition["gcds"] == 1:
        return [f"{partition['name']}_ipuof.conf"]
    return [f"{partition['name']}_gcd{gcd}_ipuof.conf" for gcd in range(partition["gcds"])]


def write_all(partition: Mapping[str, Any], client: VipuClient, to: Path) -> list[Path]:
    """Writes the files of a partition and returns their paths."""
    to.mkdir(parents=True, exist_ok=True)
    written = []
    for gcd, name in enumerate(file_names(partition)):
        (to / name).write_text(text_of(partition, gcd, client) + "\n", encoding="utf-8")
        written.append(to / name)
    return written


def remove_all(partition: Mapping[str, Any], of: Path) -> None:
    """Removes the files of a partition."""
    for name in file_names(partition):
        (of / name).unlink(missing_ok=True)


def target(environment: Mapping[str, str] | None = None) -> Target | None:
    """The GCD that this process takes its IPUs from; None where no V-IPU service is named.

    ``IPUOF_VIPU_API_PARTITION_ID`` and its like come first, then ``IPUOF_CONFIG_PATH``.

    Raises:
        VipuError: a variable or the file is not what it should be.
    """
    values = os.environ if environment is None else environment
    name = values.get("IPUOF_VIPU_API_PARTITION_ID")
    if name:
        numbers = {}
        for key, default in (("PORT", PORT), ("TIMEOUT", 120), ("GCD_ID", 0)):
            text = values.get(f"IPUOF_VIPU_API_{key}", str(default))
            if not text.isdecimal():
                raise VipuError(f"IPUOF_VIPU_API_{key}={text!r} is not a number")
            numbers[key] = int(text)
        host = values.get("IPUOF_VIPU_API_HOST", "127.0.0.1")
        client = VipuClient(host, numbers["PORT"], float(numbers["TIMEOUT"]))
        return Target(client, name, numbers["GCD_ID"])
    path = values.get("IPUOF_CONFIG_PATH")
    return _from_file(Path(path)) if path else None


def _from_file(path: Path) -> Target | None:
    try:
        attributes = json.loads(path.read_text(encoding="utf-8"))["attributes"]
        server = attributes.get(_SERVER)
        if server is None:
            # A file for hardware, which the IPU Model does not use.
            return None
        host, _, port = str(server).rpartition(":")
        client = VipuClient(host, int(port))
        return Target(client, str(attributes["Partition Id"]), int(attributes["GCD Id"]))
    except OSError as error:
        raise VipuError(f"IPUOF_CONFIG_PATH={path} cannot be read: {error.strerror}") from None
    except (
        AttributeError,
        LookupError,
        OverflowError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        raise VipuError(
            f"IPUOF_CONFIG_PATH={path} is no ipuof.conf file: {error!r}. `vipu get partition NAME "
            "--ipu-configs` prints one."
        ) from None
