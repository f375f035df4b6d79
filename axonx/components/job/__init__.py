"""Jobs: events, responses and the classes that run them."""

from axonx.components.job.context import RuntimeContext
from axonx.components.job.events import (
    JOB_EVENT_ADAPTER,
    AgentBlockPatch,
    AgentMessageEvent,
    ArtifactEvent,
    JobEvent,
    LogEvent,
    ProgressEvent,
    ResultEvent,
)
from axonx.components.job.response import JobResponse

__all__ = [
    "JOB_EVENT_ADAPTER",
    "AgentBlockPatch",
    "AgentMessageEvent",
    "ArtifactEvent",
    "JobEvent",
    "JobResponse",
    "LogEvent",
    "ProgressEvent",
    "ResultEvent",
    "RuntimeContext",
]
