"""Jobs: events, responses and the classes that run them."""

from axonx.components.job.base import BaseJob
from axonx.components.job.catalog import JobCatalog, JobInfo
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
from axonx.components.job.fold import fold_events
from axonx.components.job.pipeline import PipelineJob
from axonx.components.job.response import JobResponse

__all__ = [
    "JOB_EVENT_ADAPTER",
    "AgentBlockPatch",
    "AgentMessageEvent",
    "ArtifactEvent",
    "BaseJob",
    "JobCatalog",
    "JobEvent",
    "JobInfo",
    "JobResponse",
    "LogEvent",
    "PipelineJob",
    "ProgressEvent",
    "ResultEvent",
    "RuntimeContext",
    "fold_events",
]
