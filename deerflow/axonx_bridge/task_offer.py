"""A Task as something to call: submitted to a worker, followed to its end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, nullcontext
from typing import Any

from axonx import Application, BaseTaskManager, TaskMetadata
from axonx.components.job import ResultEvent
from axonx.components.job.events import StepEvent
from axonx.task import TaskCatalogue, TaskHandle, TaskState
from axonx.task.errors import TasksClosedError
from deerflow.axonx_bridge.tool_schema import tool_schema
from deerflow.cancellation import uninterrupted
from deerflow.errors import ConfigError

POLL_SECONDS = 0.25

logger = logging.getLogger(__name__)


class TaskOffer:
    """A Task under the name of its tool; its run is cancelled where nobody waits for it any more."""

    def __init__(self, application: Application, task: str, tool: str) -> None:
        definition = TaskCatalogue(application.context.registry).definition(task)
        self.name = task
        self.label = f"Task {task!r}"
        self.tool_name = tool
        self.description = definition.description or f"Run the {self.label}."
        self.parameters = tool_schema(definition.input_schema)
        manager = application.context.component("task_manager")
        if not isinstance(manager, BaseTaskManager):
            raise ConfigError(
                f"components.task_manager.default: a {type(manager).__name__} manages no Tasks; "
                "use the backend 'local'"
            )
        self._manager = manager

    async def stream(
        self, arguments: dict[str, Any], agent_depth: int
    ) -> AsyncGenerator[StepEvent | ResultEvent, None]:
        """Progress, log and published files, and last the output of the run."""
        handle = await self._submit(arguments)
        ended = False
        try:
            events = self._manager.stream(handle.task_id, POLL_SECONDS)
            async with _closing(events):
                async for event in events:
                    yield event
            record = await self._manager.wait(handle.task_id, handle.run_id)
            ended = True
            yield _result(record)
        finally:
            if not ended:
                await uninterrupted(self._cancel(handle), name=f"cancel {handle.task_id}")

    async def _submit(self, arguments: dict[str, Any]) -> TaskHandle:
        submitting = asyncio.ensure_future(self._manager.submit(self.name, arguments))
        try:
            return await asyncio.shield(submitting)
        except asyncio.CancelledError:
            await uninterrupted(self._take_back(submitting), name=f"take back {self.label}")
            raise

    async def _take_back(self, submitting: asyncio.Future[TaskHandle]) -> None:
        """Cancel a run that nobody waits for, once its ids are known."""
        await asyncio.wait({submitting})
        if not submitting.cancelled() and submitting.exception() is None:
            await self._cancel(submitting.result())

    async def _cancel(self, handle: TaskHandle) -> None:
        try:
            await self._manager.cancel(handle.task_id, handle.run_id)
        except TasksClosedError:
            logger.debug("%s ends with its application", handle.task_id)
        except Exception:
            logger.exception("%s could not be cancelled", handle.task_id)


def _closing(events: AsyncIterator[Any]) -> Any:
    return aclosing(events) if isinstance(events, AsyncGenerator) else nullcontext()


def _result(record: TaskMetadata) -> ResultEvent:
    """What the Task says at its end; where its files are is said apart."""
    ids = {"task_id": record.task_id, "run_id": record.run_id}
    if record.state is not TaskState.SUCCEEDED:
        answer = record.error or f"it ended as {record.state}"
        return ResultEvent(answer=answer, success=False, metadata={**ids, "exit_code": record.exit_code})
    output = {key: value for key, value in record.output_params.items() if key != "artifacts"}
    return ResultEvent(answer={"task_id": record.task_id, "output": output}, metadata=ids)
