"""Telling extensions that a task, which is one agent execution, starts and how it ended."""

from __future__ import annotations

from collections.abc import Callable

from deerflow_extension_api import ExtensionData, TaskInfo, TaskOutcome

from deerflow.extensions.dispatch import Notification
from deerflow.extensions.notify import notify
from deerflow.extensions.snapshot import LoadedExtensions


class TaskHooks:
    """The hooks around one task: its start and its stop are told in pairs.

    Where the task was cancelled before anybody had been told of its start, nobody is told of its stop.
    """

    def __init__(self, snapshot: LoadedExtensions, task_store: ExtensionData | None, info: TaskInfo) -> None:
        self._snapshot = snapshot
        self._task_store = task_store
        self._info = info
        self._start_was_told = False

    async def start(self) -> None:
        """Call every `on_task_start`."""
        await notify_task_start(self._snapshot, self._task_store, self._info, on_first=self._note)
        # Whoever was skipped, as the time was over, is told of the stop all the same.
        self._note()

    async def stop(self, outcome: TaskOutcome) -> None:
        """Call every `on_task_stop`, unless nobody was told of the start."""
        if self._start_was_told:
            await notify_task_stop(self._snapshot, self._task_store, self._info, outcome)

    def _note(self) -> None:
        self._start_was_told = True


async def notify_task_start(
    snapshot: LoadedExtensions,
    task_store: ExtensionData | None,
    info: TaskInfo,
    *,
    on_first: Callable[[], None] | None = None,
) -> None:
    """Call every `on_task_start`, within 3 seconds in all; `on_first` just before the first is called."""
    await _notify(snapshot, "on_task_start", (task_store, info), on_first)


async def notify_task_stop(
    snapshot: LoadedExtensions, task_store: ExtensionData | None, info: TaskInfo, outcome: TaskOutcome
) -> None:
    """Call every `on_task_stop`, within 3 seconds in all."""
    await _notify(snapshot, "on_task_stop", (task_store, info, outcome), None)


async def _notify(
    snapshot: LoadedExtensions,
    hook: str,
    arguments: tuple[ExtensionData | None, TaskInfo] | tuple[ExtensionData | None, TaskInfo, TaskOutcome],
    on_first: Callable[[], None] | None,
) -> None:
    if not snapshot.task_lifecycle:
        return
    await notify(
        Notification(
            hook,
            snapshot,
            snapshot.task_lifecycle,
            (snapshot.app_store, *arguments),
            f"task {arguments[1].task_id}",
            snapshot.notification_budget_seconds,
            on_first,
        )
    )
