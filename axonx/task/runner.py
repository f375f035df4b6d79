"""Where workers run: the interface, which a cluster can implement as well, and the local processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from axonx.components.base import BaseComponent
from axonx.components.registry import provider
from axonx.task.metadata import TaskMetadata
from axonx.task.process import end_process_group, kill_group, terminate_group
from axonx.task.targets import import_paths

# A killed process is gone in milliseconds unless the kernel itself is stuck in its file system.
_KILL_SECONDS = 5
_INHERITED_VARIABLES = ("PATH", "HOME", "LD_LIBRARY_PATH")
# Windows cannot start a process without these.
_WINDOWS_VARIABLES = ("SYSTEMROOT", "TEMP", "TMP", "USERPROFILE")


@dataclass(frozen=True)
class WorkerLaunch:
    """What a worker needs: the queued record is in the workspace, `target` names the Task's class."""

    record: TaskMetadata
    target: str
    workspace_path: Path
    log_path: Path
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class WorkerExit:
    """How a worker's process ended: its exit code, or the negative number of the signal that ended it.

    `reason` says more where the number does not say it all, such as the loss of a whole machine.
    """

    return_code: int
    reason: str = ""

    @property
    def exit_code(self) -> int:
        """The code for a record without a result: 1 to 255, 128 and the signal's number for a signal."""
        if self.return_code < 0:
            return min(128 - self.return_code, 255)
        return self.return_code if 1 <= self.return_code <= 255 else 1

    def __str__(self) -> str:
        if self.reason:
            return self.reason
        if self.return_code < 0:
            return f"Task worker was ended by signal {-self.return_code} before it had a result"
        return f"Task worker ended without a result (exit code {self.return_code})"


class BaseTaskRunner(BaseComponent, ABC):
    """Starts workers and ends them; who asks keeps the records.

    Every method is bounded in time except `wait`, which lasts as long as the worker.
    """

    component_type = "task_runner"

    @abstractmethod
    async def start_worker(self, launch: WorkerLaunch) -> None:
        """Start a worker for a queued record. Raises OSError when it cannot be started."""

    @abstractmethod
    async def wait(self, run_id: str) -> WorkerExit:
        """How the worker of the run ended, once it has, with everything that it started."""

    @abstractmethod
    async def cancel(self, run_id: str) -> None:
        """End the worker of the run: asked first, then killed. Returns when it is gone."""

    @abstractmethod
    async def settle(self, record: TaskMetadata) -> bool:
        """End what is left of an abandoned run of another process. False when something still runs."""


@provider("local")
class LocalTaskRunner(BaseTaskRunner):
    """Workers as processes of this machine, each in a session of its own."""

    def __init__(self, terminate_grace_seconds: float = 5, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.terminate_grace_seconds = checked_grace(terminate_grace_seconds)
        self._processes: dict[str, asyncio.subprocess.Process] = {}

    async def start_worker(self, launch: WorkerLaunch) -> None:
        command = worker_command(launch)
        environment = await asyncio.to_thread(worker_environment, launch.environment)
        log = await asyncio.to_thread(_open_log, launch.log_path)
        try:
            self._processes[launch.record.run_id] = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        finally:
            os.close(log)

    async def wait(self, run_id: str) -> WorkerExit:
        process = self._processes[run_id]
        try:
            return WorkerExit(await process.wait())
        finally:
            if process.returncode is not None:
                kill_group(process.pid)
                self._processes.pop(run_id, None)

    async def cancel(self, run_id: str) -> None:
        process = self._processes.get(run_id)
        if process is None or process.returncode is not None:
            return
        terminate_group(process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), self.terminate_grace_seconds)
            return
        kill_group(process.pid)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), _KILL_SECONDS)
            return
        self.logger.error("Task worker %d does not end although it was killed", process.pid)

    async def settle(self, record: TaskMetadata) -> bool:
        worker = record.worker
        if worker is None or record.source.kind != "submit":
            return worker is None or not worker.is_alive()
        return await asyncio.to_thread(end_process_group, worker, self.terminate_grace_seconds)


def checked_grace(seconds: float) -> float:
    """`seconds` itself. Raises ValueError for a negative number, TypeError for no number."""
    if not seconds >= 0:
        raise ValueError(f"terminate_grace_seconds must be 0 or more, got {seconds}")
    return seconds


def worker_command(launch: WorkerLaunch) -> list[str]:
    """The command line of a worker. Raises RuntimeError where no Python interpreter is known."""
    if not sys.executable:
        raise RuntimeError("sys.executable is empty, so no worker process can be started; set it")
    record = launch.record
    command = [sys.executable, "-P", "-m", "axonx.task.worker"]
    command += ["--workspace", str(launch.workspace_path), "--task-id", record.task_id]
    return [*command, "--run-id", record.run_id, "--target", launch.target]


def worker_environment(configured: Mapping[str, str]) -> dict[str, str]:
    """The few variables that a worker inherits, and those of the configuration on top.

    PYTHONPATH lets it import what this process can import.
    """
    names = _INHERITED_VARIABLES + (_WINDOWS_VARIABLES if os.name == "nt" else ())
    inherited = {name: os.environ[name] for name in names if name in os.environ}
    paths = [*filter(None, [configured.get("PYTHONPATH")]), *import_paths()]
    return inherited | dict(configured) | {"PYTHONPATH": os.pathsep.join(paths)}


def _open_log(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)
