"""With users: nobody passes unknown, but for a few public paths.

What a request asks for is read as the router reads it, and compared as a whole; all else is closed, whoever
serves it. So neither a prefix nor an odd spelling of a path makes a protected route public.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from deerflow_extension_api import ExtensionPrincipal
from starlette._utils import get_route_path  # the router's own reading: a second one could differ from it
from starlette.requests import HTTPConnection
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.errors import DeerFlowError
from deerflow.gateway.auth.credentials import digest, is_csrf_token
from deerflow.gateway.auth.identity import PRINCIPAL_KEY
from deerflow.gateway.auth.session_cookies import CSRF_HEADER, session_secret
from deerflow.gateway.current import accounts_of
from deerflow.gateway.errors import error_response, host_error_response
from deerflow.persistence.accounts import Account

PUBLIC_PATHS: Final = frozenset({"/ok", "/health/live", "/health/ready", "/info", "/auth/login"})
DOCUMENTATION_PATHS: Final = frozenset({"/docs", "/redoc", "/openapi.json"})

ANONYMOUS: Final = "sign in: send `Authorization: Bearer <token>`, or log in at /auth/login"
NO_CSRF_TOKEN: Final = f"{CSRF_HEADER} is missing or wrong: repeat the value of the csrf_token cookie"
_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
_CHANGES_NOTHING: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Authentication:
    """Middleware that leaves the caller in the scope, and answers those whom it does not know."""

    def __init__(self, app: ASGIApp, public_paths: Collection[str] = PUBLIC_PATHS) -> None:
        self._app = app
        self._public_paths = frozenset(public_paths)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            scope.pop(PRINCIPAL_KEY, None)
            refusal = None if get_route_path(scope) in self._public_paths else await _refusal(scope)
            await (refusal or self._app)(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        else:  # nothing here speaks WebSocket
            await send({"type": "websocket.close", "code": 1008})


def unauthenticated(detail: str = ANONYMOUS) -> Response:
    """The answer to those who are not known."""
    return error_response(401, detail, _CHALLENGE)


async def _refusal(scope: Scope) -> Response | None:
    """Note who is calling; the answer where that is nobody who may."""
    connection = HTTPConnection(scope)
    token = _bearer_token(connection)
    secret = session_secret(connection) if token is None else None
    try:
        if token is not None:
            account = await accounts_of(connection).of_token(digest(token))
        else:
            account = await accounts_of(connection).of_session(digest(secret)) if secret else None
    except DeerFlowError as error:
        return host_error_response(error)
    if account is None:
        return unauthenticated()
    if secret is not None and not _may_act(connection, secret):
        return error_response(403, NO_CSRF_TOKEN)
    scope[PRINCIPAL_KEY] = _principal(account)
    return None


def _may_act(connection: HTTPConnection, secret: str) -> bool:
    """Whether the request changes nothing, or comes from a page that can read the session's cookies."""
    if connection.scope["method"] in _CHANGES_NOTHING:
        return True
    return is_csrf_token(connection.headers.get(CSRF_HEADER, ""), secret)


def _bearer_token(connection: HTTPConnection) -> str | None:
    scheme, _, token = connection.headers.get("authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else None


def _principal(account: Account) -> ExtensionPrincipal:
    roles = ("admin",) if account.is_admin else ()
    return ExtensionPrincipal(account.name, is_admin=account.is_admin, roles=roles)
