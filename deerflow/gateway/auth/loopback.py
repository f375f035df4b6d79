"""Without users, the Gateway serves this machine only: nobody else, and no web page from elsewhere.

A page that a browser loaded from anywhere can send requests to loopback addresses, under its own name
(`Origin`) or, once its name was rebound to 127.0.0.1, under a foreign `Host`. Both are refused.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from deerflow.gateway.errors import error_response

# What browsers may call from: user interfaces on this machine.
LOOPBACK_ORIGIN = r"https?://(localhost|[a-z0-9-]+\.localhost|127(\.\d{1,3}){3}|\[::1\])(:\d{1,5})?"


class LoopbackOnly:
    """Middleware that refuses what does not come from this machine, by its own name for itself."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        complaint = _complaint(scope) if scope["type"] == "http" else None
        if complaint is None:
            await self._app(scope, receive, send)
        else:
            await error_response(403, complaint)(scope, receive, send)


# Every request asks about the same few addresses and names.
@lru_cache(maxsize=128)
def is_loopback_address(address: str) -> bool:
    """Whether `address` is an IP address of the loopback interface."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped.is_loopback
    return ip.is_loopback


@lru_cache(maxsize=128)
def is_loopback_name(name: str) -> bool:
    """Whether a host's name or address can only mean this machine."""
    name = name.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or is_loopback_address(name)


def _complaint(scope: Scope) -> str | None:
    server = scope.get("server")
    if server is None or not _is_address(server[0]):
        return None  # called in process, or through a Unix socket: there is no network to defend against
    if not is_loopback_address(server[0]):
        return "without users (auth.mode: none) only this machine is served; set auth.mode: users"
    headers = Headers(scope=scope)
    if not is_loopback_name(_name_in(headers.get("host", ""))):
        return "the Host header names another machine; call this server as localhost or 127.0.0.1"
    origin = headers.get("origin")
    if origin is not None and not is_loopback_name(_name_in(origin.partition("://")[2])):
        return "web pages from other machines may not call this server"
    return None


@lru_cache(maxsize=128)
def _is_address(text: str) -> bool:
    try:
        ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return True


def _name_in(authority: str) -> str:
    """The host of `host:port`; of `[address]:port` for IPv6."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]
