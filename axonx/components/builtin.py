"""The providers that come with AxonX, by (category, backend), as `module:Class`.

Paths instead of classes: a module is imported when a configuration first uses its backend, so that an
Application pays only for what it uses.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

BUILT_IN_PATHS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("client", "http"): "axonx.client.http:HttpClient",
        ("job", "pipeline"): "axonx.components.job.pipeline:PipelineJob",
        ("scheduler", "cron"): "axonx.scheduler.cron:CronScheduler",
        ("service", "http"): "axonx.service.http:HttpService",
        ("step", "agent_stream"): "axonx.steps.agent_stream:AgentStreamStep",
        ("step", "demo_step"): "axonx.steps.demo:DemoStep",
        ("step", "help_step"): "axonx.steps.help:HelpStep",
        ("step", "version_step"): "axonx.steps.version:VersionStep",
        ("step", "cancel"): "axonx.steps.task_commands:CancelTaskStep",
        ("step", "delete"): "axonx.steps.task_commands:DeleteTasksStep",
        ("step", "get_status"): "axonx.steps.task_queries:GetTaskStatusStep",
        ("step", "get_task_definition"): "axonx.steps.task_definitions:GetTaskDefinitionStep",
        ("step", "list_ids"): "axonx.steps.task_queries:ListTaskIdsStep",
        (
            "step",
            "list_installed_task_definitions",
        ): "axonx.steps.task_definitions:ListInstalledTaskDefinitionsStep",
        ("step", "list_schedules_step"): "axonx.steps.schedules:ListSchedulesStep",
        ("step", "list_statuses"): "axonx.steps.task_queries:ListTaskStatusesStep",
        ("step", "read_log"): "axonx.steps.task_queries:ReadTaskLogStep",
        ("step", "stream_task"): "axonx.steps.task_queries:StreamTaskStep",
        ("step", "submit_task"): "axonx.steps.task_commands:SubmitTaskStep",
        ("step", "wait_task"): "axonx.steps.task_commands:WaitTaskStep",
        ("task", "demo"): "axonx.task.demo:DemoTask",
        ("task_manager", "local"): "axonx.task.local_manager:LocalTaskManager",
        ("task_repository", "local"): "axonx.task.repository:LocalTaskRepository",
        ("task_runner", "dask"): "axonx.task.cluster.dask_runner:DaskTaskRunner",
        ("task_runner", "local"): "axonx.task.runner:LocalTaskRunner",
    }
)

#: The extra of the distribution that brings the packages of a provider, where it needs more than the rest.
EXTRAS: Mapping[tuple[str, str], str] = MappingProxyType(
    {
        ("client", "http"): "service",
        ("service", "http"): "service",
        ("task_runner", "dask"): "distributed",
    }
)
