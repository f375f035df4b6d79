"""From a stream of events to the response that `run_job` would have given."""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterable

from axonx.components.job.events import ResultEvent, StepEvent
from axonx.components.job.response import JobResponse

NO_RESULT = "Stream produced no terminal result"


async def fold_events(
    events: AsyncIterable[StepEvent | ResultEvent] | Iterable[StepEvent | ResultEvent],
) -> JobResponse:
    """Read to the end and return the last result; a failure if there was none."""
    last: ResultEvent | None = None
    if isinstance(events, AsyncIterable):
        async for event in events:
            last = event if isinstance(event, ResultEvent) else last
    else:
        for event in events:
            last = event if isinstance(event, ResultEvent) else last
    if last is None:
        return JobResponse(success=False, answer=NO_RESULT)
    return JobResponse(answer=last.answer, success=last.success, metadata=last.metadata)
