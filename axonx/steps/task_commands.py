"""Steps that start, await, end and remove Tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axonx.components.job import ProgressEvent
from axonx.components.registry import provider
from axonx.steps.base import BaseStep
from axonx.task.catalogue import TASK_ARGUMENT
from axonx.task.metadata import TaskState, summary_of

if TYPE_CHECKING:
    from axonx.task.manager import BaseTaskManager


class TaskManagerStep(BaseStep):
    """A Step that asks the application's Task manager."""

    @property
    def task_manager(self) -> BaseTaskManager:
        """The component `task_manager:default`. Raises ComponentNotFoundError."""
        manager: BaseTaskManager = self.get_component("task_manager", "default")
        return manager


@provider("submit_task")
class SubmitTaskStep(TaskManagerStep):
    """Start the Task `task` with all other arguments as its input; answers task_id, run_id and task."""

    async def execute(self) -> None:
        arguments = dict(self.context)
        task = arguments.pop(TASK_ARGUMENT)
        handle = await self.task_manager.submit(task, arguments)
        await self.emit(ProgressEvent(name="submitted", state="done", percentage=100, label=handle.task_id))
        self.response.answer = {"task_id": handle.task_id, "run_id": handle.run_id, "task": handle.task}


@provider("wait_task")
class WaitTaskStep(TaskManagerStep):
    """Wait until the run `run_id` of `task_id` has ended; answers its record, success if it succeeded."""

    async def execute(self) -> None:
        record = await self.task_manager.wait(
            self.context["task_id"], self.context["run_id"], self.context.get("poll_interval", 1.0)
        )
        summary = self.context.get("detail", "full") == "summary"
        self.response.answer = summary_of(record) if summary else record.model_dump(mode="json")
        self.response.success = record.state == TaskState.SUCCEEDED


@provider("cancel")
class CancelTaskStep(TaskManagerStep):
    """End the run of `task_id`, or the run `run_id`; answers False when it had ended by itself."""

    async def execute(self) -> None:
        self.response.answer = await self.task_manager.cancel(
            self.context.get("task_id"), self.context.get("run_id")
        )


@provider("delete")
class DeleteTasksStep(TaskManagerStep):
    """Remove the Tasks `task_ids`, which must have ended; answers their ids."""

    async def execute(self) -> None:
        self.response.answer = await self.task_manager.delete(self.context["task_ids"])
