"""Where ends of runs may be posted to: what the operator allows, under whatever name it goes."""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from functools import partial
from typing import Final
from urllib.parse import SplitResult, urlsplit

from anyio import CapacityLimiter, to_thread

from deerflow.config.webhooks import WebhooksConfig
from deerflow.errors import InvalidRequestError

MAX_URL_CHARS: Final = 2048
_PORTS: Final = {"http": 80, "https": 443}


class WebhookRefusedError(Exception):
    """A name that leads where the operator allows nothing; the text holds no secret of the URL."""


@dataclass(frozen=True)
class WebhookTarget:
    """What is called: `address` is where `host` leads, in numbers; `path` has the query."""

    scheme: str
    host: str
    port: int
    address: str
    path: str

    @property
    def url(self) -> str:
        """The URL that names the address, so that nothing asks for the name again."""
        address = f"[{self.address}]" if ":" in self.address else self.address
        return f"{self.scheme}://{address}:{self.port}{self.path}"

    @property
    def host_header(self) -> str:
        """The name that the receiver is called by."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"


def check_webhook(url: str | None, config: WebhooksConfig) -> None:
    """Refuse, with `InvalidRequestError`, a URL that the operator does not allow."""
    if url is None:
        return
    if not config.allow:
        raise InvalidRequestError(
            "webhook: this server posts to no address; the operator names those it may in webhooks.allow"
        )
    parts = _split(url)
    if not any(_allows(origin, parts) for origin in config.allow):
        raise InvalidRequestError(
            f"webhook: {_origin(parts)} is not among the origins that the operator names in webhooks.allow"
        )


def shown_origin(url: str) -> str:
    """What of a webhook's URL may be written into a log."""
    return _origin(urlsplit(url))


async def resolve(url: str, config: WebhooksConfig) -> list[WebhookTarget]:
    """Where the URL leads now. `WebhookRefusedError` where that is not allowed, `OSError` where nowhere."""
    parts = _split(url)
    if not any(_allows(origin, parts) for origin in config.allow):  # of a run from before the last start
        raise WebhookRefusedError(f"{_origin(parts)} is not among the origins in webhooks.allow any more")
    host, port = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    addresses = await _addresses_of(host)
    # All of them: a name that leads to a private address as well is a trick, or will be one.
    private = [address for address in addresses if not _is_public(address)]
    if private and not config.private_addresses and not _is_address(host):
        raise WebhookRefusedError(f"{host} leads to a private address; see webhooks.private_addresses")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return [WebhookTarget(parts.scheme, host, port, address, path) for address in addresses]


async def _addresses_of(host: str) -> list[str]:
    # Threads of its own: names that nobody answers for must not keep others from theirs.
    look_up = partial(socket.getaddrinfo, host, None, type=socket.SOCK_STREAM)
    found = await to_thread.run_sync(look_up, abandon_on_cancel=True, limiter=CapacityLimiter(1))
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        is_plain = parts.port != 0 and parts.username is None and parts.password is None
        (parts.hostname or "").encode("idna")  # as whoever looks it up does: no label is empty or too long
    except ValueError:
        is_plain = False
    if not is_plain or parts.scheme not in _PORTS or not parts.hostname or not _is_printable(url):
        raise InvalidRequestError("webhook: an http or https URL is needed, without a user or password in it")
    return parts


def _is_printable(url: str) -> bool:
    return len(url) <= MAX_URL_CHARS and url.isascii() and url.isprintable() and not set(url) & set(" \\")


def _allows(allowed: str, parts: SplitResult) -> bool:
    origin = urlsplit(allowed.replace("//*.", "//"))
    if (origin.scheme, _port(origin)) != (parts.scheme, _port(parts)):
        return False
    host = parts.hostname or ""
    return host.endswith(f".{origin.hostname}") if "//*." in allowed else host == origin.hostname


def _origin(parts: SplitResult) -> str:
    port = parts.port
    return f"{parts.scheme}://{parts.hostname}" + ("" if port is None else f":{port}")


def _port(parts: SplitResult) -> int:
    return parts.port or _PORTS[parts.scheme]


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _is_public(address: str) -> bool:
    found = ipaddress.ip_address(address.partition("%")[0])
    inner = getattr(found, "ipv4_mapped", None) or getattr(found, "sixtofour", None)
    return found.is_global and not found.is_multicast and (inner is None or inner.is_global)
