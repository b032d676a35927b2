"""The HTTP application: inference, metadata, health and metrics of batching runners."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import paddle_ipu
from paddle_ipu.errors import (
    FeedError,
    OperandValueError,
    QueueFullError,
    RequestTimeoutError,
    ServingError,
    UnknownOutputError,
)
from paddle_ipu.serving.batching_runner import BatchingRunner
from paddle_ipu.serving.http import protocol
from paddle_ipu.serving.http.intake import Intake, OneLength
from paddle_ipu.serving.http.metrics import Metrics
from paddle_ipu.serving.model import Array

_T = TypeVar("_T")

DEFAULT_BODY_LIMIT = 64 << 20
"""Bytes of a request."""
DEFAULT_JSON_LIMIT = 16 << 20
"""Bytes of the JSON in a request."""
DEFAULT_TIMEOUT = 60.0
"""Seconds that an answer may take."""
BODIES = 4
"""How many bodies of the largest size may be under way, by default."""
_LARGE = 1 << 20
"""Bytes from which on a body is parsed, or an answer written, in a thread."""


class Application:
    """The endpoints.

    Args:
        runners: by the names of their models; the application does not close them.
        body_limit: bytes that a request may have.
        json_limit: bytes that the JSON in it may have.
        bodies_limit: bytes that all requests under way may have together; `BODIES` of the largest
            by default.
        timeout: seconds that a request may take, and its body to come; requests may ask for less.

    Attributes:
        given_up: requests that the end of the server cut off.
        intake: reads the bodies of requests.
    """

    def __init__(
        self,
        runners: Mapping[str, BatchingRunner],
        *,
        body_limit: int = DEFAULT_BODY_LIMIT,
        json_limit: int = DEFAULT_JSON_LIMIT,
        bodies_limit: int | None = None,
        timeout: float = DEFAULT_TIMEOUT,
    ) -> None:
        self._runners = dict(runners)
        together = BODIES * body_limit if bodies_limit is None else bodies_limit
        self.intake = Intake(body_limit, min(json_limit, body_limit), together, timeout)
        # One large body at a time: its JSON objects take several times the memory.
        self._parsing = asyncio.Lock()
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
        return Starlette(
            routes=routes,
            middleware=[Middleware(OneLength)],
            exception_handlers={
                HTTPException: _error_response,
                404: _not_found,
                405: _not_allowed,
                Exception: _failed,
            },
        )

    # -- health, metadata -------------------------------------------------------------------------

    async def live(self, _: Request) -> Response:
        """The process answers."""
        return JSONResponse({"live": True})

    async def ready(self, _: Request) -> Response:
        """Every model takes requests; 503 during a shutdown."""
        ready = all(runner.is_open for runner in self._runners.values())
        return JSONResponse({"ready": ready}, 200 if ready else 503)

    async def model_ready(self, request: Request) -> Response:
        """One model takes requests."""
        name, runner = self._model_of(request)
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
        name, runner = self._model_of(request)
        return JSONResponse(protocol.describe(name, runner.model))

    async def metrics(self, _: Request) -> Response:
        """Prometheus' text."""
        return Response(self._metrics.text(), media_type="text/plain; version=0.0.4")

    # -- inference -----------------------------------------------------------------------------

    async def infer(self, request: Request) -> Response:
        """Answers an inference request."""
        name, runner = self._model_of(request)
        try:
            async with self.intake.body(request) as body:
                response = await self._answer(request, body, name, runner)
        except HTTPException as error:
            self._metrics.count(name, error.status_code)
            raise
        except asyncio.CancelledError:
            self.given_up += 1
            raise
        self._metrics.count(name, response.status_code)
        return response

    async def _answer(
        self, request: Request, body: bytes, name: str, runner: BatchingRunner
    ) -> Response:
        length = request.headers.get(protocol.HEADER_LENGTH)
        try:
            if len(body) < _LARGE:
                parsed = protocol.parse(body, length, runner.model)
            else:
                async with self._parsing:
                    parsed = await asyncio.to_thread(protocol.parse, body, length, runner.model)
        except protocol.RequestError as error:
            raise _http(400, error) from None
        timeout = min(parsed.timeout or self._timeout, self._timeout)
        try:
            future = runner.submit(
                parsed.feed, timeout=timeout, outputs=parsed.outputs, block=False
            )
        except FeedError as error:
            raise HTTPException(400, protocol.feed_problem(error, parsed, runner.model)) from None
        except QueueFullError as error:
            raise _http(503, error, {"Retry-After": "1"}) from None
        except ServingError as error:
            if runner.is_open:
                raise _http(503, error) from None
            raise HTTPException(
                503, f"the model {name!r} takes no more requests: the server ends."
            ) from None
        except Exception as error:
            raise _http(503, error) from None
        outputs = await _answer_unless_gone(request, asyncio.wrap_future(future), timeout)
        size = sum(array.nbytes for array in outputs.values())
        try:
            content, header = await _in_thread_if_large(
                size, protocol.answer, parsed, name, outputs, runner.model
            )
        except protocol.RequestError as error:
            raise _http(422, error) from None
        if header is None:
            return Response(content, media_type="application/json")
        return Response(
            content,
            media_type="application/octet-stream",
            headers={protocol.HEADER_LENGTH: str(header)},
        )

    def _model_of(self, request: Request) -> tuple[str, BatchingRunner]:
        name = request.path_params["model"]
        if name not in self._runners:
            raise HTTPException(
                404,
                f"there is no model {name!r}; this server has "
                f"{', '.join(map(repr, self._runners))}.",
            )
        return name, self._runners[name]


async def _in_thread_if_large(size: int, function: Callable[..., _T], *arguments: Any) -> _T:
    """Calls a function on `size` bytes, in a thread where it would delay other requests."""
    if size < _LARGE:
        return function(*arguments)
    return await asyncio.to_thread(function, *arguments)


async def _answer_unless_gone(
    request: Request, answer: asyncio.Future[dict[str, Array]], timeout: float
) -> dict[str, Array]:
    """Waits for an answer until its time is over or the client disconnects.

    Raises:
        HTTPException: 504, 499; 400 and 500 for errors of the model.
    """
    gone: asyncio.Future[Any] = asyncio.ensure_future(_disconnected(request))
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
    except (OperandValueError, UnknownOutputError) as error:
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


async def _not_found(request: Request, error: Exception) -> Response:
    """Of a path that no route has; a model that is not there says so itself."""
    if isinstance(error, HTTPException) and "endpoint" not in request.scope:
        error = HTTPException(
            404,
            f"there is no {request.url.path}; the paths are /v2, /v2/models/MODEL, "
            "/v2/models/MODEL/infer, /v2/models/MODEL/ready, /health/live, /health/ready and "
            "/metrics.",
        )
    return await _error_response(request, error)


async def _not_allowed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException) and error.headers is not None
    allowed = ", ".join(sorted(error.headers["Allow"].split(", ")))
    told = f"{request.method} is not allowed at {request.url.path}; allowed: {allowed}."
    return await _error_response(request, HTTPException(405, told, {"Allow": allowed}))


async def _failed(request: Request, error: Exception) -> Response:
    """Of an error in the server itself, which the log has."""
    return await _error_response(
        request, HTTPException(500, "the server failed; its log says how.")
    )


async def _error_response(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse({"error": error.detail}, error.status_code, headers=error.headers)
