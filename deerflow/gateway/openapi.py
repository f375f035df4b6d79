"""The OpenAPI document: what FastAPI makes of the routes, with what middlewares and handlers add to them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any, Final

from fastapi import FastAPI

from deerflow.gateway.auth.session_cookies import CSRF_HEADER, SESSION_COOKIE

Json = dict[str, Any]

_METHODS: Final = frozenset({"get", "put", "post", "delete", "options", "head", "patch", "trace"})
_SAFE: Final = frozenset({"get", "head", "options", "trace"})
_ERROR_SCHEMA: Final[Json] = {
    "title": "Error",
    "description": "Every error of the host's: what is wrong, and where.",
    "type": "object",
    "properties": {"detail": {"title": "Detail", "type": "string"}},
    "required": ["detail"],
}
_SECURITY_SCHEMES: Final[Json] = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token, from `deerflow users add`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": f"A session, from /auth/login. State-changing requests also send {CSRF_HEADER}.",
    },
    "csrf": {
        "type": "apiKey",
        "in": "header",
        "name": CSRF_HEADER,
        "description": "The value of the csrf_token cookie.",
    },
}


class GatewayApp(FastAPI):
    """FastAPI whose document says what is true of every route of the Gateway.

    `public_paths` need no sign-in; `None` where nobody signs in.
    """

    def __init__(self, *, public_paths: Collection[str] | None, **options: Any) -> None:
        super().__init__(**options)
        self._public_paths = public_paths
        self._completed: Json | None = None

    def openapi(self) -> Json:
        document = super().openapi()  # the same one until routes are added
        if document is not self._completed:
            complete(document, self._public_paths)
            self._completed = document
        return document


def complete(document: Json, public_paths: Collection[str] | None) -> None:
    """Add the errors and the ways to sign in that no route declares by itself."""
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Error"] = _ERROR_SCHEMA
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    for path, method, operation in _operations(document):
        is_public = public_paths is None or path in public_paths
        _add_errors(operation, is_public=is_public)
        if public_paths is not None:
            operation["security"] = [] if is_public else _ways_in(method)
    if public_paths is not None:
        document["components"]["securitySchemes"] = _SECURITY_SCHEMES


def _operations(document: Json) -> Iterator[tuple[str, str, Json]]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if method in _METHODS:
                yield path, method, operation


def _add_errors(operation: Json, *, is_public: bool) -> None:
    responses = operation["responses"]
    takes_something = "requestBody" in operation or "parameters" in operation
    if takes_something:
        responses["422"] = _error("What was sent cannot be used; `detail` says where.")
    else:
        responses.pop("422", None)
    if "requestBody" in operation:
        responses.setdefault("413", _error("The body is too large."))
    if not is_public:
        responses["401"] = _error("Sign in first.")
    responses.setdefault("403", _error("Not for this caller, or without the CSRF token."))
    responses.setdefault("503", _error("The host is starting, shutting down, or without its database."))


def _error(description: str) -> Json:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": description, "content": content}


def _ways_in(method: str) -> list[Json]:
    by_session: Json = {"session": []} if method in _SAFE else {"session": [], "csrf": []}
    return [{"token": []}, by_session]
