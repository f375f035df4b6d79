"""A run as it goes on: its progress and its log, from the beginning to the end."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from axonx.components.job import ArtifactEvent
from axonx.components.job.events import StepEvent
from axonx.task.metadata import TaskMetadata, TaskState
from axonx.task.params import BaseOutputParams
from axonx.task.repository import BaseTaskRepository
from axonx.task.run_log import LARGEST_WINDOW_BYTES


async def follow_run(
    repository: BaseTaskRepository,
    current: Callable[[], Awaitable[TaskMetadata]],
    pause: Callable[[], Awaitable[None]],
) -> AsyncIterator[StepEvent]:
    """What is new of events and log, again and again, until the record of the run has ended.

    A run that succeeded ends with one ArtifactEvent for each published file, its path relative to
    the workspace. Raises what `current` raises, for one when the Task is started again.
    """
    events_offset = log_offset = 0
    while True:
        record = await current()  # before reading: what an ended run wrote is all there
        while (page := await repository.events(record.task_id, events_offset)).next_offset > events_offset:
            for event in page.events:
                yield event
            events_offset = page.next_offset
        while (window := await repository.log(record.task_id, log_offset, LARGEST_WINDOW_BYTES)).content:
            yield window
            log_offset = window.next_offset
        if record.state.is_terminal:
            break
        await pause()
    for artifact in artifact_events(record):
        yield artifact


def artifact_events(record: TaskMetadata) -> list[ArtifactEvent]:
    """The published files of a run that succeeded; empty for any other."""
    if record.state != TaskState.SUCCEEDED:
        return []
    files = BaseOutputParams.model_validate(
        {"artifacts": record.output_params.get("artifacts", {})}
    ).artifacts
    return [
        ArtifactEvent(
            path=f"{record.task_type}/{record.task_id}/{file.path}",
            sha256=file.sha256,
            size=file.size,
            media_type=file.media_type,
            extra={"name": name, "task_id": record.task_id},
        )
        for name, file in files.items()
    ]
