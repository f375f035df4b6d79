"""Applications with Tasks, and what their tests wait for, wherever the workers run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from axonx import Application
from axonx.task import BaseTaskManager, TaskHandle, TaskMetadata
from axonx.task.defaults import TASK_COMPONENTS
from support import research

TASKS = (research.RepeatWordTask, research.CountLettersTask, research.ActTask)


def application(
    workspace: Path, *more: type, runner: dict[str, Any] | None = None, grace: float = 5, **config: Any
) -> Application:
    """An application with the Tasks of `research`; `runner` are the options of a task_runner."""
    components = dict(TASK_COMPONENTS)
    if runner is None:
        manager = {"backend": "local", "terminate_grace_seconds": grace}
    else:
        manager = {"backend": "local", "task_runner": "chosen"}
        components["task_runner"] = {"chosen": runner | {"terminate_grace_seconds": grace}}
    components["task_manager"] = {"default": manager}
    return Application(
        providers=(*TASKS, *more), workspace_dir=str(workspace), components=components, **config
    )


def manager_of(app: Application) -> BaseTaskManager:
    manager = app.context.component("task_manager")
    assert isinstance(manager, BaseTaskManager)
    return manager


async def ended(manager: BaseTaskManager, handle: TaskHandle) -> TaskMetadata:
    return await manager.wait(handle.task_id, handle.run_id, 0.02, timeout_seconds=60)


async def act(manager: BaseTaskManager, action: str, **more: Any) -> TaskMetadata:
    return await ended(manager, await manager.submit("act", {"action": action, **more}))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.01)


async def sleeping(
    manager: BaseTaskManager, action: str = "sleep", name: str = "one"
) -> tuple[TaskHandle, int]:
    """Submit a Task that sleeps; returns when it does and has told all, with the id of its process."""
    handle = await manager.submit("act", {"action": action, "task_name": name})
    async with asyncio.timeout(60):
        while " started\n" not in (await manager.read_log(handle.task_id)).content:
            await asyncio.sleep(0.02)
        # Record, events and log are files of their own, and come out of a cluster one after another.
        while (status := await manager.get_status(handle.task_id)).pid is None or not status.steps:
            await asyncio.sleep(0.02)
    return handle, status.pid


def persistent(workspace: Path, handle: TaskHandle) -> Path:
    return workspace / "base" / handle.task_id / "persistent"


def is_gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
