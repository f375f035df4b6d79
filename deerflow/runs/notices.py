"""What those who follow a thread are told beside the events of its runs."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

MOST_WAITING: Final = 64
"""How many notices wait for one reader; older ones are dropped for a newer one."""


class Mailbox:
    """What one reader has not read yet. Belongs to one event loop."""

    def __init__(self) -> None:
        self._notices: deque[Any] = deque(maxlen=MOST_WAITING)
        self._arrival = asyncio.Event()

    def put(self, notice: Any) -> None:
        """Add a notice; None only wakes the reader."""
        if notice is not None:
            self._notices.append(notice)
        self._arrival.set()

    def take(self) -> list[Any]:
        """Everything that waits, oldest first."""
        self._arrival.clear()
        notices = list(self._notices)
        self._notices.clear()
        return notices

    async def wait(self, timeout_seconds: float) -> None:
        """Return when something came since the last `take`, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_seconds):
                await self._arrival.wait()


class ThreadNotices:
    """The mailboxes of those who follow threads."""

    def __init__(self) -> None:
        self._mailboxes: dict[str, set[Mailbox]] = {}

    @contextmanager
    def following(self, thread_id: str) -> Iterator[Mailbox]:
        """A mailbox for what happens on a thread from now on."""
        mailbox = Mailbox()
        self._mailboxes.setdefault(thread_id, set()).add(mailbox)
        try:
            yield mailbox
        finally:
            self._mailboxes[thread_id].discard(mailbox)
            if not self._mailboxes[thread_id]:
                del self._mailboxes[thread_id]

    def has_readers(self, thread_id: str) -> bool:
        """Whether anybody here follows the thread."""
        return thread_id in self._mailboxes

    def tell(self, thread_id: str, notice: Any = None) -> None:
        """Tell a thread's followers; without a notice they look what is new."""
        for mailbox in self._mailboxes.get(thread_id, ()):
            mailbox.put(notice)
