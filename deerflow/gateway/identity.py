"""Who is calling."""

from __future__ import annotations

from typing import Any

from deerflow_extension_api import ExtensionPrincipal
from starlette.requests import Request

from deerflow.config import AppConfig
from deerflow.errors import ConfigError

LOCAL_PRINCIPAL = ExtensionPrincipal("local", is_admin=True, roles=("admin",))


class LocalIdentity:
    """Without users everyone is the administrator of this machine."""

    def __call__(self, request: Any) -> ExtensionPrincipal:
        return LOCAL_PRINCIPAL

    def owner_of(self, request: Request) -> str | None:
        """The owner of what this request makes and may see; None: there are no owners."""
        return None


def build_identity(config: AppConfig) -> LocalIdentity:
    """The way to tell callers apart that the configuration names."""
    if config.auth.mode != "none":
        raise ConfigError(f"auth.mode: {config.auth.mode!r} is not available; allowed: 'none'")
    return LocalIdentity()
