"""Ways in which code of an extension goes wrong, committed in the place of one of its hooks."""

from __future__ import annotations

import asyncio
import copy
import functools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from langchain.agents.middleware import AgentMiddleware

RAISES: Final = "raises"
HANGS: Final = "hangs"
IGNORES: Final = "ignores cancellation"
CANCELS: Final = "raises CancelledError"
WRONG: Final = "wrong type"

FAULTS: Final = (RAISES, HANGS, IGNORES, CANCELS, WRONG)
PLAIN_FAULTS: Final = (RAISES, CANCELS, WRONG)
"""What a plain function can do wrong that anybody could contain: one that hangs cannot be bounded."""
THREAD_FAULTS: Final = (RAISES, HANGS, CANCELS, WRONG)
"""What a plain function can do wrong that the host runs in a thread."""

Where: TypeAlias = Literal["instead", "before", "after"]

_WRONG_VALUE: Final = 42
_NAP_SECONDS: Final = 0.01
_RELEASE_SECONDS: Final = 2.0


@dataclass(eq=False)
class Fault:
    """One fault; `calls` counts how often it was committed.

    It hangs in the first call only: one is enough to see what follows. What hangs goes on with `release`.
    """

    name: str
    calls: int = 0
    _released: threading.Event = field(default_factory=threading.Event)
    _went_on: threading.Event = field(default_factory=threading.Event)

    @property
    def hangs(self) -> bool:
        """Whether it ends only with `release`, or when it is cancelled."""
        return self.name in (HANGS, IGNORES)

    def release(self) -> None:
        """Let what hangs go on, and wait until it does; from another thread than its own."""
        self._released.set()
        if self.calls and self.hangs:
            self._went_on.wait(_RELEASE_SECONDS)

    async def commit(self) -> None:
        """Raise, hang or pass, in an async function."""
        self.calls += 1
        if self.calls > 1 or not self.hangs:
            self._raise()
            return
        try:
            await (self._nap_until_released() if self.name == HANGS else self._ignore_cancellation())
        finally:
            self._went_on.set()

    def commit_plainly(self) -> None:
        """Raise, hang or pass, in a plain function."""
        self.calls += 1
        if self.name == HANGS and self.calls == 1:
            self._released.wait()
            self._went_on.set()
        self._raise()

    def _raise(self) -> None:
        if self.name == RAISES:
            raise RuntimeError("broken on purpose")
        if self.name == CANCELS:
            raise asyncio.CancelledError

    async def _nap_until_released(self) -> None:
        while not self._released.is_set():
            await asyncio.sleep(_NAP_SECONDS)

    async def _ignore_cancellation(self) -> None:
        while not self._released.is_set():
            try:
                await asyncio.sleep(_NAP_SECONDS)
            except asyncio.CancelledError:
                continue


class FaultyContribution:
    """An extension's own contribution, but for one hook."""

    def __init__(self, inner: Any, hook: str, replacement: Callable[..., Any]) -> None:
        self._inner = inner
        setattr(self, hook, replacement)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def faulty_async(inner: Any, hook: str, fault: Fault) -> FaultyContribution:
    """Return `inner` with a fault in the place of an async hook."""
    original = getattr(inner, hook)

    async def replacement(*arguments: Any) -> Any:
        await fault.commit()
        return await original(*arguments)

    return FaultyContribution(inner, hook, _returning_wrong(fault) if fault.name == WRONG else replacement)


def faulty_plain(inner: Any, hook: str, fault: Fault) -> FaultyContribution:
    """Return `inner` with a fault in the place of a plain hook."""
    original = getattr(inner, hook)

    def replacement(*arguments: Any) -> Any:
        fault.commit_plainly()
        return _WRONG_VALUE if fault.name == WRONG else original(*arguments)

    return FaultyContribution(inner, hook, replacement)


def faulty_middleware(middleware: Any, side: str, where: Where, fault: Fault) -> AgentMiddleware[Any, Any]:
    """Return a copy of `middleware` with a fault in one hook: a wrap hook's before or after its handler."""
    cls = type(middleware)
    original = getattr(cls, side)
    make = _async_side if side.startswith("a") and not side.startswith("after") else _plain_side
    body = functools.wraps(original)(make(original, where, fault))
    clone: AgentMiddleware[Any, Any] = copy.copy(middleware)
    clone.__class__ = type(cls.__name__, (cls,), {side: body})
    return clone


def _returning_wrong(fault: Fault) -> Callable[..., Any]:
    def replacement(*arguments: Any) -> int:
        fault.calls += 1
        return _WRONG_VALUE

    return replacement


def _async_side(original: Callable[..., Any], where: Where, fault: Fault) -> Callable[..., Any]:
    async def hook(self: Any, *arguments: Any, **named: Any) -> Any:
        result = await original(self, *arguments, **named) if where == "after" else None
        await fault.commit()
        if fault.name == WRONG:
            return _WRONG_VALUE
        return result if where == "after" else await original(self, *arguments, **named)

    return hook


def _plain_side(original: Callable[..., Any], where: Where, fault: Fault) -> Callable[..., Any]:
    def hook(self: Any, *arguments: Any, **named: Any) -> Any:
        result = original(self, *arguments, **named) if where == "after" else None
        fault.commit_plainly()
        if fault.name == WRONG:
            return _WRONG_VALUE
        return result if where == "after" else original(self, *arguments, **named)

    return hook
