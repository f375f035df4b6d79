"""What a bridge offers: Jobs and Tasks, each with a schema and a stream of events that ends with a result."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, Protocol

from axonx import Application
from axonx.components.job import BaseJob, ResultEvent
from axonx.components.job.events import StepEvent
from axonx.components.job.schema import AGENT_DEPTH
from axonx.core.app_context import AppContext
from deerflow.axonx_bridge.options import BridgeOptions, Choice
from deerflow.axonx_bridge.task_offer import TaskOffer
from deerflow.axonx_bridge.tool_names import check_clashes, tool_name
from deerflow.axonx_bridge.tool_schema import tool_schema
from deerflow.errors import ConfigError

Events = AsyncGenerator[StepEvent | ResultEvent, None]


class Offer(Protocol):
    """One Job or Task under the name of its tool. `label` names it for people, as in `Job 'query'`."""

    name: str
    label: str
    tool_name: str
    description: str
    parameters: dict[str, Any]

    def stream(self, arguments: dict[str, Any], agent_depth: int) -> Events:
        """The events of one call, on the Application's loop. Leaving the stream ends the call."""


class JobOffer:
    """A Job, called through the dispatcher."""

    def __init__(self, application: Application, job: BaseJob, tool: str) -> None:
        self.name = job.name
        self.label = f"Job {job.name!r}"
        self.tool_name = tool
        self.description = job.description or f"Run the {self.label}."
        self.parameters = tool_schema(job.parameters)
        self._job = job
        self._dispatcher = application.context.dispatcher
        self._takes_depth = AGENT_DEPTH in job.argument_schema.injected

    async def stream(self, arguments: dict[str, Any], agent_depth: int) -> Events:
        system = {AGENT_DEPTH: agent_depth} if self._takes_depth else None
        if not self._job.enable_stream:
            response = await self._dispatcher.run(self.name, arguments, system=system)
            yield ResultEvent(answer=response.answer, success=response.success, metadata=response.metadata)
            return
        async with aclosing(self._dispatcher.stream(self.name, arguments, system=system)) as events:
            async for event in events:
                yield event


def chosen_offers(application: Application, options: BridgeOptions) -> list[Offer]:
    """The Jobs and Tasks that the options choose, in their order.

    `ConfigError` for a name that is not configured, and where two would be one tool.
    """
    offers: list[Offer] = [
        JobOffer(application, _job(application.context, choice), _name(choice, options))
        for choice in _chosen_jobs(application.context.jobs.values(), options)
    ]
    offers += [TaskOffer(application, choice.name, _name(choice, options)) for choice in options.tasks]
    check_clashes((offer.label, offer.tool_name) for offer in offers)
    return offers


def _chosen_jobs(jobs: Iterable[BaseJob], options: BridgeOptions) -> Iterable[Choice]:
    if options.jobs is not None:
        return options.jobs
    return [Choice(name=job.name) for job in jobs if job.enable_serve]


def _job(context: AppContext, choice: Choice) -> BaseJob:
    job = context.jobs.get(choice.name)
    if job is None:
        reason = context.unusable_jobs.get(choice.name)
        known = ", ".join(context.jobs) or "none"
        raise ConfigError(
            f"config.jobs: {choice.name!r} is no Job of the application; {reason or f'configured: {known}'}"
        )
    return job


def _name(choice: Choice, options: BridgeOptions) -> str:
    return choice.tool or tool_name(choice.name, options.tool_prefix)
