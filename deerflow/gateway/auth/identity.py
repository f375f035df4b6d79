"""Who is calling, what they own, and what they may see."""

from __future__ import annotations

from typing import Any, Final, Protocol

from deerflow_extension_api import ExtensionPrincipal
from starlette.requests import HTTPConnection

from deerflow.config import AppConfig
from deerflow.errors import ConfigError

LOCAL_PRINCIPAL: Final = ExtensionPrincipal("local", is_admin=True, roles=("admin",))
# Where `Authentication` leaves the caller in a request's scope.
PRINCIPAL_KEY: Final = "deerflow.principal"


class Identity(Protocol):
    """Tells callers apart. Calling it resolves the principal of a request, `None` for anonymous ones."""

    def __call__(self, request: Any) -> ExtensionPrincipal | None: ...

    def owner_of(self, request: HTTPConnection) -> str | None:
        """The owner of what this request makes; None: there are no owners."""

    def visible_to(self, request: HTTPConnection) -> str | None:
        """Whose things this request may see and change; None: everyone's."""


class LocalIdentity:
    """Without users everyone is the administrator of this machine."""

    def __call__(self, request: Any) -> ExtensionPrincipal:
        return LOCAL_PRINCIPAL

    def owner_of(self, request: HTTPConnection) -> str | None:
        return None

    def visible_to(self, request: HTTPConnection) -> str | None:
        return None


class UsersIdentity:
    """With users, a caller is who `Authentication` found it to be."""

    def __call__(self, request: Any) -> ExtensionPrincipal | None:
        principal = request.scope.get(PRINCIPAL_KEY)
        return principal if isinstance(principal, ExtensionPrincipal) else None

    def owner_of(self, request: HTTPConnection) -> str | None:
        return self._caller(request).user_id

    def visible_to(self, request: HTTPConnection) -> str | None:
        caller = self._caller(request)
        return None if caller.is_admin else caller.user_id

    def _caller(self, request: HTTPConnection) -> ExtensionPrincipal:
        principal = self(request)
        if principal is None:
            raise PermissionError("an anonymous request came past the authentication")
        return principal


def build_identity(config: AppConfig) -> Identity:
    """The way to tell callers apart that the configuration names."""
    if config.auth.mode == "none":
        return LocalIdentity()
    if config.database_url is None:
        raise ConfigError(
            "auth.mode: 'users' needs a database that keeps them, and database.backend is 'memory'; "
            "set it to sqlite or postgres"
        )
    return UsersIdentity()
