"""Ending a Task by a signal, only ever inside the Task's own code."""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Iterator

from axonx.task.errors import TaskCancelled, TaskOrphaned


class Interruption:
    """Remembers that the run is to end, and raises where the Task's own code runs.

    The framework's own writes are never interrupted: a signal that arrives there is raised at
    the next `armed` section.
    """

    def __init__(self) -> None:
        self._reason: BaseException | None = None
        self._armed = False

    @contextlib.contextmanager
    def armed(self) -> Iterator[None]:
        """A section that may be interrupted. Raises TaskCancelled or TaskOrphaned inside it, once."""
        self._armed = True
        try:
            if self._reason is not None and self._armed:
                self._raise()
            yield
        finally:
            self._armed = False

    def request(self, reason: BaseException) -> None:
        """Let the run end by `reason`: now in an armed section, else at the beginning of the next one."""
        first, self._reason = self._reason is None, self._reason or reason
        if first and self._armed:
            self._raise()

    def _raise(self) -> None:
        self._armed = False
        if self._reason is not None:
            raise self._reason


class WorkerSignals:
    """Turns the signals a worker gets into the end of its run."""

    def __init__(self, interruption: Interruption, supervisor_pid: int) -> None:
        self._interruption = interruption
        self._supervisor_pid = supervisor_pid

    def install(self) -> None:
        """Handle SIGTERM and SIGINT from now on. Only in the main thread."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._handle)

    def is_orphaned(self) -> bool:
        """Whether the process that started this one is gone."""
        return os.getppid() != self._supervisor_pid

    def check_parent(self) -> None:
        """Let the run end if the parent was gone before the kernel could be asked to tell."""
        if self.is_orphaned():
            self._handle(signal.SIGTERM, None)

    def _handle(self, _number: int, _frame: types.FrameType | None) -> None:
        if self.is_orphaned():
            self._interruption.request(TaskOrphaned("The service that supervised this Task ended"))
        else:
            self._interruption.request(TaskCancelled("Task cancelled"))
