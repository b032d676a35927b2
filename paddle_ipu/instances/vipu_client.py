"""Calls to a V-IPU service."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paddle_ipu.errors import VipuConnectionError, VipuError

PORT = 8090
_LONGEST = 1 << 22
_SYSTEM = Path("/etc/vipu/vipu-cli.hcl")


def body(method: str, arguments: Mapping[str, Any]) -> str:
    """The text of a call."""
    return json.dumps({"call": method, "arguments": arguments})


@dataclass(frozen=True, slots=True)
class VipuClient:
    """A service by its address.

    Attributes:
        host: name or address.
        port: of the service.
        timeout: seconds to wait for an answer.
    """

    host: str = "127.0.0.1"
    port: int = PORT
    timeout: float = 120.0

    def call(self, method: str, /, **arguments: Any) -> Any:
        """One call.

        Raises:
            VipuConnectionError: no V-IPU service answers there in time.
            VipuError: the service refuses.
        """
        try:
            data = self._answer(body(method, arguments))
        except (OSError, ValueError, RecursionError, http.client.HTTPException) as error:
            raise VipuConnectionError(
                f"unable to connect to VIRM/V-IPU Controller at {self.host}:{self.port}: context "
                "deadline exceeded"
            ) from error
        if "error" in data:
            raise VipuError(str(data["error"]))
        return data.get("result")

    def _answer(self, text: str) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        with contextlib.closing(connection):
            connection.connect()
            address, port = connection.sock.getpeername()[:2]
            # The service answers to addresses only, whatever name it has here.
            host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
            headers = {"Content-Type": "application/json", "Host": host}
            connection.request("POST", "/", text, headers)
            data = json.loads(connection.getresponse().read(_LONGEST))
        if not isinstance(data, dict):
            raise ValueError("no object")
        return data


def configured_host(environment: Mapping[str, str] | None = None) -> str | None:
    """The server that ``vipu`` is set up for: by the environment, the user's file, the system's."""
    values = os.environ if environment is None else environment
    named = values.get("VIPU_CLI_API_HOST")
    if named:
        return named
    for path in (Path(values.get("HOME", "/")) / ".vipu.hcl", _SYSTEM):
        try:
            text = path.read_text(encoding="utf-8")
        except OSError:
            continue
        for line in text.splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "api-host" and value.strip():
                return value.strip().strip('"')
    return None
