"""Steps that say what Tasks there are, how they stand, and what they wrote."""

from __future__ import annotations

from axonx.components.registry import provider
from axonx.steps.task_commands import TaskManagerStep
from axonx.task.identity import TaskType
from axonx.task.metadata import TaskState, summary_of
from axonx.task.run_log import DEFAULT_WINDOW_BYTES


@provider("list_ids")
class ListTaskIdsStep(TaskManagerStep):
    """Answers the IDs of all Tasks, oldest first."""

    async def execute(self) -> None:
        self.response.answer = await self.task_manager.list_ids()


@provider("list_statuses")
class ListTaskStatusesStep(TaskManagerStep):
    """Answers the records of all Tasks, oldest first, or of one `task_type` or `state`.

    They are short unless `detail` is `full`.
    """

    async def execute(self) -> None:
        task_type, state = self.context.get("task_type"), self.context.get("state")
        records = await self.task_manager.list_statuses(
            task_type=TaskType(task_type) if task_type else None, state=TaskState(state) if state else None
        )
        full = self.context.get("detail", "summary") == "full"
        self.response.answer = [
            record.model_dump(mode="json") if full else summary_of(record) for record in records
        ]


@provider("get_status")
class GetTaskStatusStep(TaskManagerStep):
    """Answers the record of `task_id`, with the latest progress of a run that goes on."""

    async def execute(self) -> None:
        record = await self.task_manager.get_status(self.context["task_id"])
        summary = self.context.get("detail", "full") == "summary"
        self.response.answer = summary_of(record) if summary else record.model_dump(mode="json")


@provider("read_log")
class ReadTaskLogStep(TaskManagerStep):
    """Answers a window of the log of `task_id`, with the fields of a LogEvent."""

    async def execute(self) -> None:
        window = await self.task_manager.read_log(
            self.context["task_id"],
            self.context.get("offset", -1),
            self.context.get("limit", DEFAULT_WINDOW_BYTES),
            run_id=self.context.get("run_id"),
        )
        self.response.answer = window.model_dump(mode="json")


@provider("stream_task")
class StreamTaskStep(TaskManagerStep):
    """Emits progress, log and published files of `task_id` until its run has ended; answers its record."""

    async def execute(self) -> None:
        task_id = self.context["task_id"]
        run_id = (await self.task_manager.get_status(task_id)).run_id
        async for event in self.task_manager.stream(task_id, self.context.get("poll_interval", 0.5)):
            await self.emit(event)
        record = await self.task_manager.wait(task_id, run_id)
        self.response.answer = record.model_dump(mode="json")
        self.response.success = record.state == TaskState.SUCCEEDED
