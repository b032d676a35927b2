"""The V-IPU service: partitions of IPU Models over HTTP, one call a request, in JSON.

It listens on loopback by default: whoever can reach it may make and remove partitions.
"""

from __future__ import annotations

import contextlib
import inspect
import ipaddress
import json
import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import paddle_ipu
from paddle_ipu.errors import VipuError
from paddle_ipu.instances.vipu_state import Allocation, VipuState, place

PORT = 8090
_LONGEST = 1 << 16
_PATIENCE = 10.0
_Connection = Any
"""A socket: Python's annotations also allow a datagram's."""
MOST_CONNECTIONS = 256
"""Connections at a time; the processes of a launch connect for a moment each."""
_CALLS = (
    "allocations",
    "partitions",
    "partition",
    "create",
    "reset",
    "remove",
    "attach",
    "renew",
    "release",
    "end_launch",
    "version",
)


def version() -> str:
    """What ``vipu --server-version`` prints."""
    return f"{paddle_ipu.__version__} (paddle_ipu)"


class VipuServer(ThreadingHTTPServer):
    """The service.

    Args:
        state: what it serves.
        host: the address to listen on.
        port: 0 takes a free one.

    At most `MOST_CONNECTIONS` are open at a time, each for `deadline` seconds, whatever comes.

    Attributes:
        deadline: seconds of a connection.

    Raises:
        VipuError: the port is in use, or the address is not this host's.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(
        self,
        state: VipuState,
        host: str = "127.0.0.1",
        port: int = PORT,
        deadline: float = _PATIENCE,
    ) -> None:
        self.state = state
        self.deadline = deadline
        self._ends: dict[_Connection, float] = {}
        self._guard = threading.Lock()
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise VipuError(
                f"the V-IPU service cannot listen on {host}:{port}: {error.strerror}. Stop what "
                "uses the port, or give another one with --port."
            ) from None

    def process_request(self, request: _Connection, client_address: object) -> None:
        """Begins a connection; one too many is closed."""
        with self._guard:
            is_taken = len(self._ends) < MOST_CONNECTIONS
            if is_taken:
                self._ends[request] = time.monotonic() + self.deadline
        if is_taken:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def shutdown_request(self, request: _Connection) -> None:
        """Ends a connection."""
        with self._guard:
            self._ends.pop(request, None)
        super().shutdown_request(request)

    def service_actions(self) -> None:
        """Ends the connections whose time is over; the loop of the server calls it."""
        now = time.monotonic()
        with self._guard:
            over = [request for request, end in self._ends.items() if end < now]
        for request in over:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: _Connection, client_address: object) -> None:
        """Logs nothing: it is the client that has gone, or that was not heard to its end."""


class _Handler(BaseHTTPRequestHandler):
    """Answers ``POST /`` with ``{"call": name, "arguments": {...}}``."""

    server: VipuServer

    def do_POST(self) -> None:
        """One call."""
        try:
            name, arguments = self._request()
            answer: dict[str, object] = {"result": self._call(name, arguments)}
            status = 200
        except VipuError as error:
            answer, status = {"error": str(error)}, 409
        except ValueError as error:
            answer, status = {"error": f"malformed request: {error}"}, 400
        except (ArithmeticError, LookupError, TypeError) as error:
            answer, status = {"error": f"a fault of paddle_ipu: {error!r}"}, 500
        body = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _request(self) -> tuple[str, dict[str, Any]]:
        # A page in a browser can send neither this type nor another Host without being asked.
        if self.headers.get_content_type() != "application/json":
            raise ValueError("the content type must be application/json")
        if not _is_address(self.headers.get("Host", "")):
            raise ValueError("the Host header must be an address or localhost")
        if "Transfer-Encoding" in self.headers:
            raise ValueError("the body must have a Content-Length, and no Transfer-Encoding")
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LONGEST:
            raise ValueError(f"the length must be given and at most {_LONGEST} bytes")
        try:
            request = json.loads(self.rfile.read(int(length)))
        except RecursionError:
            raise ValueError("it is nested too deeply") from None
        if not isinstance(request, dict) or set(request) - {"call", "arguments"}:
            raise ValueError('expected {"call": name, "arguments": {...}}')
        name, arguments = request.get("call"), request.get("arguments", {})
        if name not in _CALLS or not isinstance(arguments, dict):
            raise ValueError(f"the call must be one of {', '.join(_CALLS)}")
        return str(name), arguments

    def _call(self, name: str, arguments: dict[str, Any]) -> object:
        if name == "version":
            return version()
        method = getattr(self.server.state, name)
        known = inspect.signature(method).parameters
        kinds = {"str": str, "int": int, "bool": bool}
        for key, value in arguments.items():
            if key not in known:
                raise ValueError(f"{name} takes no {key}")
            if type(value) is not kinds[str(known[key].annotation)]:
                raise ValueError(f"{key} of {name} must be {known[key].annotation}")
        missing = [key for key, p in known.items() if p.default is p.empty and key not in arguments]
        if missing:
            raise ValueError(f"{name} needs {', '.join(missing)}")
        return method(**arguments)

    def log_message(self, format: str, *args: object) -> None:
        """Logs nothing: the answer has what matters."""


def _is_address(host: str) -> bool:
    name = host.rpartition(":")[0] if host.count(":") == 1 or "]" in host else host
    name = name.strip("[]") or host
    if name == "localhost" or name == socket.gethostname():
        return True
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def new_state(ipus: int, allocations: dict[str, int], cluster: str, ild_size: int) -> VipuState:
    """A service's state with no partition.

    Args:
        ipus: of the one allocation, named as the cluster, where `allocations` is empty.
        allocations: name -> IPUs.
        cluster: its name.
        ild_size: IPUs of an IPU-Link domain.
    """
    sizes = allocations or {cluster: ipus}
    named = [Allocation(name, cluster, size) for name, size in sizes.items()]
    return VipuState(named, ild_size, place(), time.time)
