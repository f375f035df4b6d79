"""From errors to status codes, in one table; every error body is `{"detail": "<string>"}`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from deerflow.errors import (
    ConflictError,
    DeerFlowError,
    InvalidRequestError,
    NotFoundError,
    UnavailableError,
)
from deerflow.gateway.responses import JsonResponse

logger = logging.getLogger(__name__)

STATUS_OF: Final[Mapping[type[DeerFlowError], int]] = {
    InvalidRequestError: 422,
    NotFoundError: 404,
    ConflictError: 409,
    UnavailableError: 503,
}

# What pydantic says of a body that is none, or no object.
_NO_OBJECT: Final = frozenset({"missing", "model_attributes_type", "model_type", "dict_type"})

INTERNAL_ERROR = "internal error; the server's log says more"


def error_response(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JsonResponse:
    """The one form of an error."""
    return JsonResponse({"detail": detail}, status, dict(headers) if headers else None)


def host_error_response(error: DeerFlowError) -> JsonResponse:
    """The answer to an error that the host raised on purpose; one that has no status is raised again."""
    for kind, status in STATUS_OF.items():
        if isinstance(error, kind):
            return error_response(status, str(error))
    raise error


def exception_handlers() -> dict[Any, Callable[[Request, Any], Any]]:
    """What FastAPI is to do with the errors that routes raise."""
    return {
        DeerFlowError: _on_host_error,
        PermissionError: _on_permission_error,
        RequestValidationError: _on_validation_error,
        HTTPException: _on_http_exception,
    }


class UnexpectedErrors:
    """Middleware that answers whatever nobody expected with 500: written to the log once, told to nobody."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def note_start(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        try:
            await self._app(scope, receive, note_start)
        except Exception:
            if scope["type"] != "http" or started:
                raise
            logger.exception("%s %s failed", scope["method"], scope["path"])
            await error_response(500, INTERNAL_ERROR)(scope, receive, send)


async def _on_host_error(_: Request, error: DeerFlowError) -> JsonResponse:
    return host_error_response(error)


async def _on_permission_error(_: Request, error: PermissionError) -> JsonResponse:
    if error.errno is not None:  # the operating system's, not `require_admin`'s
        raise error
    return error_response(403, str(error))


async def _on_validation_error(request: Request, error: RequestValidationError) -> JsonResponse:
    problems = error.errors()
    if any(found["loc"] == ("body",) and found["type"] in _NO_OBJECT for found in problems):
        return error_response(422, f"body: a JSON object is needed{_content_type_hint(request)}")
    return error_response(422, "; ".join(map(problem, problems)))


def _content_type_hint(request: Request) -> str:
    if "json" in request.headers.get("content-type", ""):
        return ""
    return "; send it with the header `Content-Type: application/json`"


async def _on_http_exception(_: Request, error: HTTPException) -> JsonResponse:
    # The host's own details are strings; a contributed route may agree on more with its own clients.
    return JsonResponse({"detail": error.detail}, error.status_code, error.headers)


def problem(found: Mapping[str, Any]) -> str:
    """One problem that pydantic found: where it is, and what it is."""
    where = ".".join(str(part) for part in found["loc"])
    return f"{where}: {str(found['msg']).removeprefix('Value error, ')}"
