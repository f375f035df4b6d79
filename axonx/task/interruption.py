"""Ending a Task by a signal, only ever inside the Task's own code."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

from axonx.task.errors import TaskCancelled, TaskOrphaned
from axonx.task.process import ORPHAN_SIGNAL

_CANCELLING = (signal.SIGTERM, signal.SIGINT)


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


class RunSignals:
    """Turns signals into the end of the run: SIGTERM and SIGINT cancel it.

    A worker, which has a `supervisor_pid`, is orphaned by SIGHUP: the kernel sends it when the
    supervisor ends.
    """

    def __init__(self, interruption: Interruption, supervisor_pid: int | None = None) -> None:
        self._interruption = interruption
        self._supervisor_pid = supervisor_pid
        self.orphaned = False

    @contextlib.contextmanager
    def installed(self) -> Iterator[None]:
        """Handle the signals in this section. Raises ValueError outside of the main thread."""
        handlers = {number: self._cancel for number in _CANCELLING}
        if self._supervisor_pid is not None and ORPHAN_SIGNAL is not None:
            handlers[ORPHAN_SIGNAL] = self._orphan
        before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        try:
            yield
        finally:
            for number, former in before.items():
                signal.signal(number, former)

    def check_parent(self) -> None:
        """Let the run end if the parent was gone before the kernel could be asked to tell."""
        if self._supervisor_pid is not None and os.getppid() != self._supervisor_pid:
            self._orphan()

    def _cancel(self, *_: object) -> None:
        self._interruption.request(TaskCancelled("Task cancelled"))

    def _orphan(self, *_: object) -> None:
        self.orphaned = True
        self._interruption.request(TaskOrphaned("The service that supervised this Task ended"))


def leave_signals_to_children() -> None:
    """Let processes that this one forks from now on end by signals as any other process does."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_restore_signals)


def _restore_signals() -> None:
    for number in (signal.SIGTERM, ORPHAN_SIGNAL):
        if number is not None:
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
