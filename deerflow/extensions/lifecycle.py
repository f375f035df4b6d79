"""Telling extensions that a task, which is one agent execution, starts and how it ended."""

from __future__ import annotations

from deerflow_extension_api import ExtensionData, TaskInfo, TaskOutcome

from deerflow.extensions.dispatch import Notification
from deerflow.extensions.notify import notify
from deerflow.extensions.snapshot import LoadedExtensions


async def notify_task_start(
    snapshot: LoadedExtensions, task_store: ExtensionData | None, info: TaskInfo
) -> None:
    """Call every `on_task_start`, within 3 seconds in all."""
    await _notify(snapshot, task_store, "on_task_start", info)


async def notify_task_stop(
    snapshot: LoadedExtensions, task_store: ExtensionData | None, info: TaskInfo, outcome: TaskOutcome
) -> None:
    """Call every `on_task_stop`, within 3 seconds in all."""
    await _notify(snapshot, task_store, "on_task_stop", info, outcome)


async def _notify(
    snapshot: LoadedExtensions, task_store: ExtensionData | None, hook: str, info: TaskInfo, *rest: object
) -> None:
    if not snapshot.task_lifecycle:
        return
    arguments = (snapshot.app_store, task_store, info, *rest)
    subject = f"task {info.task_id}"
    budget_seconds = snapshot.notification_budget_seconds
    await notify(Notification(hook, snapshot, snapshot.task_lifecycle, arguments, subject, budget_seconds))
