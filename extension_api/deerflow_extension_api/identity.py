"""Who is calling a contributed route."""

from __future__ import annotations

import inspect
import logging
from dataclasses import dataclass
from typing import Any, Final

EXTENSION_PRINCIPAL_RESOLVER_KEY: Final = "deerflow_extension_principal_resolver"
"""The attribute of `app.state` under which the host installs its resolver."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ExtensionPrincipal:
    """The account behind a request. `is_internal` marks the host's own calls."""

    user_id: str
    is_admin: bool = False
    is_internal: bool = False
    roles: tuple[str, ...] = ()


def resolve_principal(request: Any) -> ExtensionPrincipal | None:
    """Return who sent `request`, `None` for anonymous ones and wherever that cannot be told. Never raises.

    `request` is a Starlette or FastAPI request, or anything with `app.state`.
    """
    try:
        resolver = getattr(request.app.state, EXTENSION_PRINCIPAL_RESOLVER_KEY)
    except Exception:  # noqa: BLE001 - anything may be handed in; without a resolver everyone is anonymous
        return None
    try:
        principal = resolver(request)
        if inspect.iscoroutine(principal):
            principal.close()  # a resolver is synchronous; unawaited, it would only warn
        return principal if isinstance(principal, ExtensionPrincipal) else None
    except Exception:  # noqa: BLE001 - an identity that cannot be told is nobody's
        _log.exception("The principal resolver failed; the request is treated as anonymous")
        return None


def require_admin(request: Any) -> ExtensionPrincipal:
    """Return who sent `request` if that is an administrator, else raise `PermissionError`.

    Fails closed: no resolver, a failing one, or an `is_admin` that is anything but `True` is refused.
    """
    principal = resolve_principal(request)
    if principal is None or principal.is_admin is not True:
        raise PermissionError("this endpoint requires an administrator account")
    return principal
