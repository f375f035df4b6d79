"""The bearer token of a service: https://www.rfc-editor.org/rfc/rfc6750."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from axonx.errors import ConfigurationError
from axonx.service.responses import detail

_REFUSED = detail(401, "Invalid bearer token", {"WWW-Authenticate": "Bearer"})


def checked_token(token: str | None) -> str | None:
    """The token, or `None` for a service without one. Raises `ConfigurationError` for one nobody can send."""
    if token is None:
        return None
    if not isinstance(token, str) or not token:
        raise ConfigurationError("service: token must be a text that is not empty; leave it out for none")
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("service: token may hold printable ASCII characters without spaces only")
    return token


class BearerToken:
    """Middleware that lets nobody through who does not send the token, whatever the path."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._is_known(scope):
            await self._app(scope, receive, send)
        else:
            await _REFUSED(scope, receive, send)

    def _is_known(self, scope: Scope) -> bool:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(given) != 1:
            return False
        scheme, _, token = given[0].partition(b" ")
        same = hmac.compare_digest(token.strip(), self._token)
        return scheme.lower() == b"bearer" and same
