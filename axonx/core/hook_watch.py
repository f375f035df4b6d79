"""Watches the `_start` or `_close` that is running, and never lets a slow one go unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from axonx.core.app_context import AppContext
from axonx.core.graph import Node

_SLOW_START_SECONDS = 10.0


class HookWatch:
    """One timer for all hooks of a start or a close, so that watching costs next to nothing.

    A slow start is only reported; a close over its limit is cancelled.
    """

    def __init__(self, context: AppContext) -> None:
        self._logger = context.logger
        self._close_timeout_seconds = context.config.component_close_timeout_seconds
        self._loop = asyncio.get_running_loop()
        self._node: Node | None = None
        self._since = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._cancelled: Node | None = None

    def enter(self, node: Node) -> None:
        """The hook of `node` begins."""
        self._node = node
        self._since = self._loop.time()

    def overran(self, node: Node) -> bool:
        """Whether this node's close was cancelled for taking too long."""
        return self._cancelled is node

    @contextmanager
    def starting(self) -> Iterator[None]:
        self._arm(_SLOW_START_SECONDS, self._report_start)
        try:
            yield
        finally:
            self._disarm()

    @contextmanager
    def closing(self, task: asyncio.Task[None]) -> Iterator[None]:
        self._arm(self._close_timeout_seconds, self._check_close, task)
        try:
            yield
        finally:
            self._disarm()

    def _report_start(self) -> None:
        elapsed = self._loop.time() - self._since
        if self._node is not None and elapsed >= _SLOW_START_SECONDS:
            self._logger.warning("%s has been starting for %.0f s", self._node, elapsed)
        self._arm(_SLOW_START_SECONDS, self._report_start)

    def _check_close(self, task: asyncio.Task[None]) -> None:
        limit = self._close_timeout_seconds
        remaining = self._since + limit - self._loop.time()
        if self._node is not None and remaining <= 0:
            self._logger.error("%s: _close took longer than %g s and is cancelled", self._node, limit)
            self._cancelled = self._node
            task.cancel()
            remaining = limit
        self._arm(max(remaining, 0.001), self._check_close, task)

    def _arm(self, seconds: float, callback: object, *args: object) -> None:
        self._timer = self._loop.call_later(seconds, callback, *args)  # type: ignore[arg-type]

    def _disarm(self) -> None:
        self._node = None
        if self._timer is not None:
            self._timer.cancel()
