"""Jobs: events, responses and the classes that run them.

Names are imported when they are first used: a Task's worker process needs the events only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

_MODULES = {
    "JOB_EVENT_ADAPTER": "events",
    "AgentBlockPatch": "events",
    "AgentMessageEvent": "events",
    "ArtifactEvent": "events",
    "BaseJob": "base",
    "JobCatalog": "catalog",
    "JobEvent": "events",
    "JobInfo": "catalog",
    "JobResponse": "response",
    "LogEvent": "events",
    "PipelineJob": "pipeline",
    "ProgressEvent": "events",
    "ResultEvent": "events",
    "RuntimeContext": "context",
    "fold_events": "fold",
}

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


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{module}"), name)
    return value
