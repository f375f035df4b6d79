"""AxonX: an asynchronous application framework of components, Jobs and Tasks.

Names are imported when they are first used, so that `import axonx` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axonx.application import Application
    from axonx.client.base import BaseClient
    from axonx.components.agent import BaseAgentComponent
    from axonx.components.base import BaseComponent
    from axonx.components.job.base import BaseJob
    from axonx.components.job.pipeline import PipelineJob
    from axonx.components.registry import provider
    from axonx.errors import AxonXError
    from axonx.scheduler.base import BaseScheduler
    from axonx.service.base import BaseService
    from axonx.steps.base import BaseStep
    from axonx.task.base import BaseTask, TaskStep
    from axonx.task.manager import BaseTaskManager
    from axonx.task.metadata import TaskMetadata
    from axonx.task.params import BaseInputParams, BaseOutputParams
    from axonx.task.repository import BaseTaskRepository

__version__ = "0.1.0"

_MODULES = {
    "Application": "axonx.application",
    "AxonXError": "axonx.errors",
    "BaseAgentComponent": "axonx.components.agent",
    "BaseClient": "axonx.client.base",
    "BaseComponent": "axonx.components.base",
    "BaseInputParams": "axonx.task.params",
    "BaseJob": "axonx.components.job.base",
    "BaseOutputParams": "axonx.task.params",
    "BaseScheduler": "axonx.scheduler.base",
    "BaseService": "axonx.service.base",
    "BaseStep": "axonx.steps.base",
    "BaseTask": "axonx.task.base",
    "BaseTaskManager": "axonx.task.manager",
    "BaseTaskRepository": "axonx.task.repository",
    "PipelineJob": "axonx.components.job.pipeline",
    "TaskMetadata": "axonx.task.metadata",
    "TaskStep": "axonx.task.base",
    "provider": "axonx.components.registry",
}

__all__ = [
    "Application",
    "AxonXError",
    "BaseAgentComponent",
    "BaseClient",
    "BaseComponent",
    "BaseInputParams",
    "BaseJob",
    "BaseOutputParams",
    "BaseScheduler",
    "BaseService",
    "BaseStep",
    "BaseTask",
    "BaseTaskManager",
    "BaseTaskRepository",
    "PipelineJob",
    "TaskMetadata",
    "TaskStep",
    "__version__",
    "provider",
]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
    if module is None:
        raise AttributeError(f"module 'axonx' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(module), name)
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
