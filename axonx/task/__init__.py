"""Tasks: typed, synchronous units of research, run in this process or in a worker of their own.

Names are imported when they are used, so that a worker process loads only what it needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axonx.task.artifacts import ArtifactRecord
    from axonx.task.base import BaseTask, TaskStep
    from axonx.task.catalogue import TaskCatalogue, TaskDefinition, TaskInfo
    from axonx.task.execute import TaskExecution, execute_task
    from axonx.task.identity import TaskType
    from axonx.task.manager import BaseTaskManager, TaskHandle
    from axonx.task.metadata import TaskMetadata, TaskState
    from axonx.task.params import BaseInputParams, BaseOutputParams
    from axonx.task.repository import BaseTaskRepository
    from axonx.task.runner import BaseTaskRunner, WorkerExit, WorkerLaunch

_MODULES = {
    "ArtifactRecord": "artifacts",
    "BaseInputParams": "params",
    "BaseOutputParams": "params",
    "BaseTask": "base",
    "BaseTaskManager": "manager",
    "BaseTaskRepository": "repository",
    "BaseTaskRunner": "runner",
    "TaskCatalogue": "catalogue",
    "TaskDefinition": "catalogue",
    "TaskExecution": "execute",
    "TaskHandle": "manager",
    "TaskInfo": "catalogue",
    "TaskMetadata": "metadata",
    "TaskState": "metadata",
    "TaskStep": "base",
    "TaskType": "identity",
    "WorkerExit": "runner",
    "WorkerLaunch": "runner",
    "execute_task": "execute",
}

__all__ = [
    "ArtifactRecord",
    "BaseInputParams",
    "BaseOutputParams",
    "BaseTask",
    "BaseTaskManager",
    "BaseTaskRepository",
    "BaseTaskRunner",
    "TaskCatalogue",
    "TaskDefinition",
    "TaskExecution",
    "TaskHandle",
    "TaskInfo",
    "TaskMetadata",
    "TaskState",
    "TaskStep",
    "TaskType",
    "WorkerExit",
    "WorkerLaunch",
    "execute_task",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    return value
