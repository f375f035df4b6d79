"""Daemon threads for synchronous hooks: started on demand, reused, and never waited for.

The interpreter joins the threads of `concurrent.futures` when it exits, so one hook that hangs would keep the
process alive; and a pool of fixed size runs dry as soon as hooks that stand inside each other's handlers hold
all of its threads. Neither can happen here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Final

Work = Callable[[], None]
"""Something to run in a thread. It must not raise."""

IDLE_SECONDS: Final = 10.0
MOST_IDLE: Final = 32


class HookThreads:
    """Threads that take one piece of work after another and leave when there is none for a while."""

    def __init__(self) -> None:
        # A deque's `pop`, `append` and `remove` are atomic, so no lock is taken on the event loop.
        self._idle: deque[SimpleQueue[Work]] = deque()

    def start(self, work: Work) -> None:
        """Run `work` in an idle thread, or in a new one."""
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            inbox.put(work)
            Thread(target=self._serve, args=(inbox,), name="deerflow-hook", daemon=True).start()
        else:
            inbox.put(work)

    def _serve(self, inbox: SimpleQueue[Work]) -> None:
        while True:
            try:
                work = inbox.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    self._idle.remove(inbox)
                except ValueError:
                    continue  # taken in this very moment: work is on its way
                return
            work()
            del work
            if len(self._idle) >= MOST_IDLE:
                return
            self._idle.append(inbox)


HOOK_THREADS: Final = HookThreads()


class Lane:
    """At most `width` threads at work for one middleware; what comes on top waits in line.

    A thread that stands inside its hook's handler waits for the host and does not count.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._busy = 0
        self._stuck = 0
        self._waiting: deque[Work] = deque()
        self._lock = Lock()

    @property
    def blocked(self) -> bool:
        """Whether every thread hangs in work that was given up, so that waiting is in vain."""
        return self._stuck >= self._width

    def submit(self, work: Work) -> None:
        """Run `work` as soon as a thread is free."""
        with self._lock:
            if self._busy >= self._width:
                self._waiting.append(work)
                return
            self._busy += 1
        self._begin(work)

    def park(self) -> None:
        """Called by a thread that enters its handler: hand its place to the next in line."""
        with self._lock:
            if not self._waiting:
                self._busy -= 1
                return
            work = self._waiting.popleft()
        self._begin(work)

    def unpark(self) -> None:
        """Called by a thread whose handler is done: go on at once, one more than the width if need be."""
        with self._lock:
            self._busy += 1

    def give_up(self) -> None:
        """Count one thread as stuck."""
        with self._lock:
            self._stuck += 1

    def recover(self) -> None:
        """Called by a thread that was given up and came back after all."""
        with self._lock:
            self._stuck -= 1

    def _begin(self, work: Work) -> None:
        try:
            HOOK_THREADS.start(lambda: self._serve(work))
        except RuntimeError:  # the system has no thread left
            self.park()
            raise

    def _serve(self, work: Work | None) -> None:
        while work is not None:
            work()
            work = self._next()

    def _next(self) -> Work | None:
        with self._lock:
            if self._waiting and self._busy <= self._width:
                return self._waiting.popleft()
            self._busy -= 1
            return None
