"""The HTTP application: inference, metadata, health and metrics of batching runners."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import paddle_ipu
from paddle_ipu.errors import FeedError, IndexRangeError, QueueFullError, RequestTimeoutError
from paddle_ipu.serving.batching_runner import BatchingRunner
from paddle_ipu.serving.http import protocol
from paddle_ipu.serving.http.metrics import Metrics

DEFAULT_BODY_LIMIT = 64 << 20
"""Bytes of a request."""
DEFAULT_TIMEOUT = 60.0
"""Seconds that an answer may take."""


class Application:
    """What the URLs do.

    Args:
        runners: by the names of their models; the application does not close them.
        body_limit: bytes that a request may have.
        timeout: seconds that a request may take; requests may ask for less.

    Attributes:
        given_up: requests that the end of the server cut off.
    """

    def __init__(
        self,
        runners: Mapping[str, BatchingRunner],
        *,
        body_limit: int = DEFAULT_BODY_LIMIT,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._runners = dict(runners)
        self._body_limit = body_limit
        self._timeout = timeout
        self._metrics = Metrics(self._runners)
        self.given_up = 0

    def starlette(self) -> Starlette:
        """The application for a server."""
        get = [
            ("/health", self.ready), ("/health/live", self.live), ("/health/ready", self.ready),
            ("/v2/health/live", self.live), ("/v2/health/ready", self.ready),
            ("/v2", self.server), ("/v2/models/{model}", self.metadata),
            ("/v2/models/{model}/ready", self.model_ready), ("/metrics", self.metrics),
        ]  # fmt: skip
        routes = [Route(path, endpoint, methods=["GET"]) for path, endpoint in get]
        routes.append(Route("/v2/models/{model}/infer", self.infer, methods=["POST"]))
        return Starlette(routes=routes, exception_handlers={HTTPException: _told})

    # -- what there is -------------------------------------------------------------------------

    async def live(self, _: Request) -> Response:
        """The process answers."""
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        """Every model takes requests; 503 during a shutdown."""
        ready = all(runner.is_open for runner in self._runners.values())
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """One model takes requests."""
        name, runner = self._asked(request)
        return JSONResponse({"name": name, "ready": runner.is_open}, 200 if runner.is_open else 503)

    async def server(self, _: Request) -> Response:
        """Name, version and models."""
        return JSONResponse(
            {
                "name": "paddle_ipu",
                "version": paddle_ipu.__version__,
                "extensions": ["binary_tensor_data"],
                "models": list(self._runners),
            }
        )

    async def metadata(self, request: Request) -> Response:
        """A model's inputs and outputs."""
        name, runner = self._asked(request)
        return JSONResponse(protocol.describe(name, runner.model))

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    # -- inference -----------------------------------------------------------------------------

    async def infer(self, request: Request) -> Response:
        """Answers an inference request."""
        name, runner = self._asked(request)
        try:
            response = await self._answer(request, name, runner)
        except HTTPException as error:
            self._metrics.count(name, error.status_code)
            raise
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        self._metrics.count(name, response.status_code)
        return response

    async def _answer(self, request: Request, name: str, runner: BatchingRunner) -> Response:
        body = await self._body(request)
        try:
            asked = protocol.parse(body, request.headers.get(protocol.HEADER_LENGTH), runner.model)
        except protocol.RequestError as error:
            raise _http(400, error) from None
        timeout = min(asked.timeout or self._timeout, self._timeout)
        try:
            future = runner.submit(asked.feed, timeout=timeout, outputs=asked.outputs, block=False)
        except FeedError as error:
            raise _http(400, error) from None
        except QueueFullError as error:
            raise _http(503, error, {"Retry-After": "1"}) from None
        except Exception as error:
            raise _http(503, error) from None
        outputs = await _unless_gone(request, asyncio.wrap_future(future), timeout)
        try:
            content, header = protocol.answer(asked, name, outputs, runner.model)
        except protocol.RequestError as error:
            raise _http(422, error) from None
        if header is None:
            return Response(content, media_type="application/json")
        return Response(
            content,
            media_type="application/octet-stream",
            headers={protocol.HEADER_LENGTH: str(header)},
        )

    async def _body(self, request: Request) -> bytes:
        limit = self._body_limit
        told = request.headers.get("content-length", "0")
        parts, size = [], int(told) if told.isdecimal() else 0
        if size <= limit:
            size = 0
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    break
                parts.append(part)
        if size > limit:
            raise HTTPException(
                413,
                f"the body has {size} bytes or more, and {limit} are allowed. Send fewer rows at "
                "once, send them as binary data, or start the server with a larger --body-limit.",
            )
        return b"".join(parts)

    def _asked(self, request: Request) -> tuple[str, BatchingRunner]:
        name = request.path_params["model"]
        if name not in self._runners:
            raise HTTPException(
                404,
                f"there is no model {name!r}; this server has "
                f"{', '.join(map(repr, self._runners))}.",
            )
        return name, self._runners[name]


async def _unless_gone(request: Request, answer: asyncio.Future[Any], timeout: float) -> Any:
    """Waits for an answer, not longer than for its time or than somebody waits for it."""
    gone = asyncio.ensure_future(_disconnected(request))
    try:
        await asyncio.wait({answer, gone}, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        if answer.done():
            return answer.result()
        answer.cancel()
        if gone.done():
            raise HTTPException(499, "nobody waits for the answer any more.")
        raise HTTPException(504, f"no answer within {timeout:.3g} s; the request is given up.")
    except RequestTimeoutError as error:
        raise _http(504, error) from None
    except HTTPException:
        raise
    except IndexRangeError as error:
        raise _http(400, error) from None
    except Exception as error:
        raise _http(500, error) from None
    finally:
        gone.cancel()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _http(code: int, error: Exception, headers: dict[str, str] | None = None) -> HTTPException:
    return HTTPException(code, protocol.problem(error), headers)


async def _told(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
