"""Runs the HTTP application until a signal; answers the requests under way before it ends."""

from __future__ import annotations

import math
import signal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import uvicorn

from paddle_ipu.serving.batching_runner import BatchingRunner
from paddle_ipu.serving.http.application import (
    DEFAULT_BODY_LIMIT,
    DEFAULT_JSON_LIMIT,
    DEFAULT_TIMEOUT,
    Application,
)
from paddle_ipu.serving.http.intake import protocol_with_deadline

DEFAULT_GRACE = 30.0
"""Seconds for what is under way at a shutdown."""

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class HttpServer:
    """An HTTP server for some models.

    Args:
        runners: by the names of their models; ``run`` closes them.
        host: where to listen; loopback by default, so that only this machine reaches it.
        port: 0 for any that is free.
        body_limit: bytes that a request may have.
        json_limit: bytes that the JSON in it may have.
        bodies_limit: bytes that all requests under way may have together; four times `body_limit`
            by default.
        timeout: seconds that a request may take, its body to come, and a connection to ask for
            something or to take its answer.
        grace: seconds for what is under way at a shutdown.

    Raises:
        OSError: nothing can listen there.

    Attributes:
        address: the URL, with the port that was taken.
    """

    def __init__(
        self,
        runners: Mapping[str, BatchingRunner],
        *,
        host: str = "127.0.0.1",
        port: int = 8000,
        body_limit: int = DEFAULT_BODY_LIMIT,
        json_limit: int = DEFAULT_JSON_LIMIT,
        bodies_limit: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
        grace: float = DEFAULT_GRACE,
    ) -> None:
        self._runners = dict(runners)
        self._grace = grace
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._socket = socket.create_server((host, port), family=family, backlog=2048)
        shown = f"[{host}]" if family == socket.AF_INET6 else host
        self.address = f"http://{shown}:{self._socket.getsockname()[1]}"
        self._application = Application(
            runners,
            body_limit=body_limit,
            json_limit=json_limit,
            bodies_limit=bodies_limit,
            timeout=timeout,
        )
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._application.starlette(),
                lifespan="off",
                loop="asyncio",
                http=protocol_with_deadline(timeout),
                ws="none",
                access_log=False,
                log_config=None,
                server_header=False,
                timeout_graceful_shutdown=math.ceil(grace),
            )
        )

    def run(self, when_listening: Callable[[], None] = lambda: None) -> bool:
        """Serves until SIGTERM, SIGINT, or `stop`; then takes no more and answers the rest.

        Args:
            when_listening: called before the first request is answered.

        Returns:
            True where everything under way was answered.
        """
        try:
            with _signals_call(self.stop):
                when_listening()
                self._server.run(sockets=[self._socket])
        finally:
            self._socket.close()
            ended = [r.close(timeout=self._grace) for r in self._runners.values()]
        return all(ended) and not self._application.given_up

    def stop(self) -> None:
        """Ends `run`, from any thread."""
        self._server.should_exit = True


@contextmanager
def _signals_call(act: Callable[[], None]) -> Iterator[None]:
    """Has signals call ``act()`` while the server does not handle them itself.

    uvicorn raises the signal that ended it once more when it is done, which by Python's handlers
    would end the process. Signals belong to the main thread; in others nothing is changed.
    """
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {number: signal.signal(number, lambda *_: act()) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
