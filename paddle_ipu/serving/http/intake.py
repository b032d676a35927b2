"""Bounds on what clients send: bytes of a request, bytes of all requests under way, and time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from paddle_ipu.serving.http.protocol import HEADER_LENGTH


class Intake:
    """Reads the bodies of requests.

    Args:
        each: bytes that a body may have.
        json: bytes that the JSON of a body may have; its objects take several times as many.
        together: bytes that those under way may have, from their first byte to their answer.
        seconds: that a body may take to come.
    """

    def __init__(self, each: int, json: int, together: int, seconds: float) -> None:
        self._each = each
        self._json = json
        self._together = together
        self._seconds = seconds
        self._held = 0

    @property
    def held(self) -> int:
        """Bytes of the bodies under way."""
        return self._held

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytes]:
        """A request's body, which counts as under way until the block ends.

        Raises:
            HTTPException: 413, 503, 408 where a bound is reached; 499 where the client has gone.
        """
        parts: list[bytes] = []
        try:
            await self._read(request, parts)
            whole = b"".join(parts)
            parts[:] = [whole]
            yield whole
        finally:
            self._held -= sum(map(len, parts))

    async def _read(self, request: Request, parts: list[bytes]) -> None:
        header = request.headers.get(HEADER_LENGTH)
        is_json = header is None
        self._check(_number(request.headers.get("content-length")), is_json)
        size = 0
        try:
            async with asyncio.timeout(self._seconds):
                async for part in request.stream():
                    size += len(part)
                    self._check(size, is_json)
                    if self._held + len(part) > self._together:
                        raise HTTPException(
                            503,
                            f"the requests under way have {self._held} bytes, and together they "
                            f"may have {self._together}. Try again later, or start the server "
                            "with a larger --bodies-limit.",
                            {"Retry-After": "1"},
                        )
                    self._held += len(part)
                    parts.append(part)
            # `protocol.parse` reports a header that is longer than the body.
            if _number(header) <= size:
                self._check(_number(header), True)
        except TimeoutError:
            raise HTTPException(
                408,
                f"{size} bytes of the body came within {self._seconds:.3g} s, and not its end.",
                {"Connection": "close"},
            ) from None
        except ClientDisconnect:
            raise HTTPException(499, "the client went before its request had come.") from None

    def _check(self, size: int, is_json: bool) -> None:
        if size > self._each:
            raise HTTPException(
                413,
                f"the body has {size} bytes or more, and {self._each} are allowed. Send fewer rows "
                "at once, send them as binary data, or start the server with a larger "
                "--body-limit.",
            )
        if is_json and size > self._json:
            raise HTTPException(
                413,
                f"the JSON has {size} bytes or more, and {self._json} are allowed. Send fewer rows "
                "at once, send them as binary data, or start the server with a larger "
                "--json-limit.",
            )


class OneLength:
    """An application without the requests that have both a Content-Length and a Transfer-Encoding.

    A proxy in front may go by the other one, and take a part of the body for a request; so they are
    refused wherever they go, and their connection is closed.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers 400, or hands the request on."""
        if {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            answer = JSONResponse(
                {
                    "error": "the request has both Content-Length and Transfer-Encoding. Send one "
                    "of them."
                },
                400,
                {"Connection": "close"},
            )
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _number(header: str | None) -> int:
    """A number in a header; 0 where there is none."""
    return int(header) if header and header.isdecimal() and len(header) < 20 else 0


def protocol_with_deadline(seconds: float) -> type[H11Protocol]:
    """uvicorn's HTTP protocol, which closes connections that stay idle or do not read an answer.

    uvicorn itself waits for ever for the rest of a request's headers, and for a client that does
    not read.

    Args:
        seconds: from a connection's first moment, or the end of an answer, to the next request.
    """

    class WithDeadline(H11Protocol):
        """A connection with a deadline."""

        _deadline: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._set_deadline()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._set_deadline()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._set_deadline()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._cancel_deadline()

        def _set_deadline(self) -> None:
            if self.cycle is not None and not self.cycle.response_complete:
                self._cancel_deadline()
            elif self._deadline is None:
                self._deadline = self.loop.call_later(seconds, self.transport.abort)

        def _cancel_deadline(self) -> None:
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    return WithDeadline
