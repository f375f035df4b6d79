"""Watches the `_start` or `_close` that is running, and never lets a slow one go unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axonx.core.app_context import AppContext
from axonx.core.graph import Node

SLOW_START_SECONDS = 10.0
_LOOKS_PER_LIMIT = 5


class HookWatch:
    """Looks a few times per limit whether still the same hook runs, so that a hook itself pays nothing.

    A slow start is only reported; a close over its limit is cancelled. Whoever runs hooks sets `node`.
    """

    def __init__(self, context: AppContext, task: asyncio.Task[None]) -> None:
        self.node: Node | None = None
        self._logger = context.logger
        self._close_timeout_seconds = context.config.component_close_timeout_seconds
        self._task = task
        self._loop = task.get_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._seen: Node | None = None
        self._looks = 0
        self._overran: Node | None = None

    def overran(self, node: Node) -> bool:
        """Whether this node's close was cancelled for taking too long."""
        return self._overran is node

    @contextmanager
    def starting(self) -> Iterator[None]:
        with self._watching(SLOW_START_SECONDS, self._report_start):
            yield

    @contextmanager
    def closing(self) -> Iterator[None]:
        with self._watching(self._close_timeout_seconds, self._cancel_close):
            yield

    @contextmanager
    def _watching(self, limit_seconds: float, overrun: Callable[[Node, float], None]) -> Iterator[None]:
        self._look_again(limit_seconds, overrun)
        try:
            yield
        finally:
            self.node = None
            if self._timer is not None:
                self._timer.cancel()

    def _look(self, limit_seconds: float, overrun: Callable[[Node, float], None]) -> None:
        node = self.node
        self._looks = self._looks + 1 if node is self._seen else 1
        self._seen = node
        if node is not None and self._looks > _LOOKS_PER_LIMIT:
            self._looks = 1
            overrun(node, limit_seconds)
        self._look_again(limit_seconds, overrun)

    def _look_again(self, limit_seconds: float, overrun: Callable[[Node, float], None]) -> None:
        seconds = limit_seconds / _LOOKS_PER_LIMIT
        self._timer = self._loop.call_later(seconds, self._look, limit_seconds, overrun)

    def _report_start(self, node: Node, limit_seconds: float) -> None:
        self._logger.warning("%s has been starting for more than %g s", node, limit_seconds)

    def _cancel_close(self, node: Node, limit_seconds: float) -> None:
        self._logger.error("%s: _close took longer than %g s and is cancelled", node, limit_seconds)
        self._overran = node
        self._task.cancel()
