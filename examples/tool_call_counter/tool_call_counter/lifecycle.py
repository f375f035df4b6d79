"""From the counts of a task to the totals."""

from __future__ import annotations

from deerflow_extension_api import ExtensionData, TaskInfo, TaskLifecycleContributor, TaskOutcome

from tool_call_counter.counts import TaskToolCalls, Totals


class TaskTotals(TaskLifecycleContributor):
    """Adds what a task counted to the totals when it stops, however it ended."""

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        task_store.get_or_init(TaskToolCalls, TaskToolCalls)

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        calls = task_store.get(TaskToolCalls)
        if calls is not None:
            app_store.get_or_init(Totals, Totals).add_task(info.kind, outcome.value, calls.snapshot())
