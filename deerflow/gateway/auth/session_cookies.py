"""The two cookies of a session: the secret itself, and what pages repeat to show that they are ours."""

from __future__ import annotations

from typing import Final

from starlette.requests import HTTPConnection
from starlette.responses import Response

from deerflow.gateway.auth.credentials import csrf_token

SESSION_COOKIE: Final = "deerflow_session"
CSRF_COOKIE: Final = "csrf_token"
CSRF_HEADER: Final = "X-CSRF-Token"


def session_secret(connection: HTTPConnection) -> str | None:
    """The secret of the session that the request claims to belong to."""
    return connection.cookies.get(SESSION_COOKIE) or None


def set_session_cookies(
    response: Response, connection: HTTPConnection, secret: str, *, lasting_seconds: int
) -> None:
    """Let the browser keep the session for as long as it lasts."""
    for name, value in ((SESSION_COOKIE, secret), (CSRF_COOKIE, csrf_token(secret))):
        response.set_cookie(
            name,
            value,
            max_age=lasting_seconds,
            secure=connection.scope["scheme"] == "https",
            httponly=name == SESSION_COOKIE,
            samesite="lax",
        )


def drop_session_cookies(response: Response, connection: HTTPConnection) -> None:
    """Let the browser forget the session."""
    for name in (SESSION_COOKIE, CSRF_COOKIE):
        response.delete_cookie(
            name,
            secure=connection.scope["scheme"] == "https",
            httponly=name == SESSION_COOKIE,
            samesite="lax",
        )
