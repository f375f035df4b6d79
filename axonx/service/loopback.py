"""A service without a token is for this machine only, and not for web pages from elsewhere.

A page that a browser loaded from anywhere can send requests to loopback addresses, under its own name
(`Origin`) or, once its name was rebound to 127.0.0.1, under a foreign `Host`. Both are refused.
"""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from axonx.service.responses import detail


class LoopbackOnly:
    """Middleware that refuses what does not call this machine by its own name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        complaint = _complaint(Headers(scope=scope)) if scope["type"] == "http" else None
        if complaint is None:
            await self._app(scope, receive, send)
        else:
            await detail(403, complaint)(scope, receive, send)


def is_loopback_address(address: str) -> bool:
    """Whether `address` is an IP address of the loopback interface."""
    try:
        ip = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(ip, IPv6Address) and ip.ipv4_mapped is not None:
        return ip.ipv4_mapped.is_loopback
    return ip.is_loopback


def is_loopback_name(name: str) -> bool:
    """Whether a host's name or address can only mean this machine."""
    name = name.lower().rstrip(".")
    return name == "localhost" or name.endswith(".localhost") or is_loopback_address(name)


def _complaint(headers: Headers) -> str | None:
    if not is_loopback_name(_name_in(headers.get("host", ""))):
        return "without a token this service answers to localhost and loopback addresses only"
    origin = headers.get("origin")
    if origin is not None and not is_loopback_name(_name_in(origin.partition("://")[2])):
        return "web pages from other machines may not call this service"
    return None


def _name_in(authority: str) -> str:
    """The host of `host:port`; of `[address]:port` for IPv6."""
    if authority.startswith("["):
        return authority[1:].partition("]")[0]
    return authority.partition(":")[0]
