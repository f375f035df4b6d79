"""Which process is which, although process ids are given out again; and ending what a worker started."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict, Field

if sys.platform != "linux":
    import psutil

#: Tells a worker that its supervisor is gone. Not SIGTERM: while a killed process loses its threads
#: one by one, it is still the parent, so the two could not be told apart.
ORPHAN_SIGNAL: signal.Signals | None = getattr(signal, "SIGHUP", None)

_PR_SET_PDEATHSIG = 1
_POLL_SECONDS = 0.02


class ProcessIdentity(BaseModel):
    """A process id together with the start of that process: no other process ever has both."""

    model_config = ConfigDict(frozen=True)

    pid: int = Field(gt=0)
    started: str

    @classmethod
    def of(cls, pid: int) -> Self:
        """The process that has the id now. Raises ProcessLookupError when there is none."""
        started = _start_of(pid)
        if started is None:
            raise ProcessLookupError(f"No process has the id {pid}")
        return cls(pid=pid, started=started)

    def is_alive(self) -> bool:
        """Whether exactly this process still runs (one that ended but was not waited for does not)."""
        return _start_of(self.pid) == self.started


def this_process() -> ProcessIdentity:
    """The identity of the calling process."""
    return ProcessIdentity.of(os.getpid())


if sys.platform == "linux":

    def _start_of(pid: int) -> str | None:
        try:
            # The command name in parentheses may hold anything, so fields count from the last parenthesis.
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            return None
        state, start_ticks = fields[0], fields[19]
        return None if state in "ZX" else f"{_boot_id()}:{start_ticks}"

    def _boot_id() -> str:
        try:
            return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        except OSError:  # hidden in some sandboxes; the start tick then stands alone
            return "boot"

    def end_with_parent() -> None:
        """Let the kernel send ORPHAN_SIGNAL when the thread that started this process is gone."""
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, ORPHAN_SIGNAL)

else:

    def _start_of(pid: int) -> str | None:
        try:
            process = psutil.Process(pid)
            return None if process.status() == psutil.STATUS_ZOMBIE else f"{process.create_time():.2f}"
        except psutil.Error:
            return None

    def end_with_parent() -> None:
        """Only Linux can do this; elsewhere the next start of the service ends such a worker."""


if sys.platform != "win32":

    def terminate_group(pid: int) -> None:
        """Ask the process group that `pid` leads to end; nothing happens when it is gone."""
        _signal_group(pid, signal.SIGTERM)

    def kill_group(pid: int) -> None:
        """End the process group that `pid` leads, without asking."""
        _signal_group(pid, signal.SIGKILL)

    def _signal_group(pid: int, signal_number: signal.Signals) -> None:
        if pid == os.getpgrp():
            raise ValueError(f"Process group {pid} is this process's own")
        with contextlib.suppress(ProcessLookupError, PermissionError):  # gone, or (macOS) only zombies left
            os.killpg(pid, signal_number)

else:

    def terminate_group(pid: int) -> None:
        """Ask the process `pid` and its descendants to end."""
        kill_group(pid)

    def kill_group(pid: int) -> None:
        """End the process `pid` and its descendants."""
        with contextlib.suppress(psutil.Error):
            process = psutil.Process(pid)
            for each in [*process.children(recursive=True), process]:
                with contextlib.suppress(psutil.Error):
                    each.kill()


def end_process_group(identity: ProcessIdentity, grace_seconds: float) -> bool:
    """End a worker that is not this process's child: ask, wait `grace_seconds`, kill.

    False when the process is still there a further five seconds later.
    """
    if not identity.is_alive():
        return True
    terminate_group(identity.pid)
    if _wait_until_gone(identity, grace_seconds):
        return True
    kill_group(identity.pid)
    return _wait_until_gone(identity, 5)


def _wait_until_gone(identity: ProcessIdentity, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while identity.is_alive():
        if time.monotonic() >= deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
