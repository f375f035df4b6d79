"""Functions that tests hold back, so that what they do before it is before it, or count the calls of."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest


class Held:
    """An asynchronous function of `owner` that begins only once it is let go; `reached` tells of its call."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.reached, self.let_go = asyncio.Event(), asyncio.Event()
        self._call = getattr(owner, name)
        monkeypatch.setattr(owner, name, self._later)

    async def _later(self, *args: Any, **options: Any) -> Any:
        self.reached.set()
        await self.let_go.wait()
        return await self._call(*args, **options)


def watched(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str) -> list[Any]:
    """What an asynchronous function of `owner` has returned from now on, call by call."""
    call, returned = getattr(owner, name), list[Any]()

    async def watching(*args: Any, **options: Any) -> Any:
        returned.append(await call(*args, **options))
        return returned[-1]

    monkeypatch.setattr(owner, name, watching)
    return returned
