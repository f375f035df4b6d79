"""How often somebody may try to log in: per user and per address, in bounded memory."""

from __future__ import annotations

import time
from collections import OrderedDict, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import Final

WINDOW_SECONDS: Final = 900.0
TRIES_OF_USER: Final = 10
TRIES_FROM_PEER: Final = 50
MAX_KEYS: Final = 10_000


class LoginThrottle:
    """Counts tries, also those for users that do not exist; a success takes its own try back."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic, max_keys: int = MAX_KEYS) -> None:
        self._by_user = _Tries(TRIES_OF_USER, clock, max_keys)
        self._by_peer = _Tries(TRIES_FROM_PEER, clock, max_keys)

    def enter(self, user: str, peer: str | None) -> int:
        """Count a try. Where it must not be made: after how many seconds to try again, else 0."""
        network = network_of(peer)
        wait_seconds = max(self._by_user.wait_seconds(user), self._by_peer.wait_seconds(network))
        if wait_seconds <= 0:
            self._by_user.count(user)
            self._by_peer.count(network)
        return max(0, ceil(wait_seconds))

    def forgive(self, user: str, peer: str | None) -> None:
        """Somebody was who they said they were."""
        self._by_user.forget(user)
        self._by_peer.take_back(network_of(peer))


def network_of(peer: str | None) -> str:
    """The address; of IPv6 the network, which one person has the whole of."""
    try:
        address = ip_address((peer or "").partition("%")[0])
    except ValueError:
        return peer or ""
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address, 64), strict=False))


class _Tries:
    """The newest tries of each key, the longest unused keys forgotten first."""

    def __init__(self, allowed: int, clock: Callable[[], float], max_keys: int) -> None:
        self._allowed = allowed
        self._clock = clock
        self._max_keys = max_keys
        self._tries: OrderedDict[str, deque[float]] = OrderedDict()

    def wait_seconds(self, key: str) -> float:
        tries = self._tries.get(key)
        if tries is None or len(tries) < self._allowed:
            return 0.0
        return tries[0] + WINDOW_SECONDS - self._clock()

    def count(self, key: str) -> None:
        tries = self._tries.setdefault(key, deque(maxlen=self._allowed))
        tries.append(self._clock())
        self._tries.move_to_end(key)
        if len(self._tries) > self._max_keys:
            self._tries.popitem(last=False)

    def take_back(self, key: str) -> None:
        tries = self._tries.get(key)
        if tries:
            tries.pop()

    def forget(self, key: str) -> None:
        self._tries.pop(key, None)
