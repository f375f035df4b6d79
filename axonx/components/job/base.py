"""The base of Jobs: what callers see of one, and how its own `stream` becomes a supervised call."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import aclosing, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from axonx.components.base import BaseComponent
from axonx.components.job.call import Call, StopReason, run_call, stop_calls, stream_call
from axonx.components.job.channel import DEFAULT_EVENT_BUFFER_SIZE
from axonx.components.job.context import copied
from axonx.components.job.events import ResultEvent, StepEvent
from axonx.components.job.fold import NO_RESULT
from axonx.components.job.response import JobResponse
from axonx.components.job.schema import ArgumentSchema
from axonx.errors import ConfigurationError, NotRunningError

_DEFAULT_CLOSE_TIMEOUT_SECONDS = 10.0

Events = AsyncIterator[StepEvent | ResultEvent]
Work = Callable[[Call], Awaitable[None]]
EventStream = AsyncGenerator[StepEvent | ResultEvent, None]


@dataclass(slots=True)
class JobRuntime:
    """What the framework keeps for one Job."""

    task_name: str
    event_buffer_size: int
    close_timeout_seconds: float
    calls: set[Call] = field(default_factory=set)
    schema: ArgumentSchema | None = None


class BaseJob(BaseComponent, ABC):
    """A Job with an event contract of its own: implement `stream(arguments, system)`.

    Callers go through `Application.run_job` and `stream_job`, which check the arguments, supervise the
    stream, and deliver exactly one ResultEvent, last.
    """

    component_type = "job"

    def __init__(
        self,
        *,
        description: str = "",
        parameters: Mapping[str, Any] | None = None,
        enable_serve: bool = True,
        enable_stream: bool = True,
        requires_auth: bool = True,
        event_buffer_size: int = DEFAULT_EVENT_BUFFER_SIZE,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.description = description
        self.parameters = copied(dict(parameters)) if parameters else {"type": "object", "properties": {}}
        self.enable_serve = enable_serve
        self.enable_stream = enable_stream
        self.requires_auth = requires_auth
        context = self.app_context
        self._job_runtime = JobRuntime(
            task_name=f"axonx-job:{self.name}",
            event_buffer_size=_checked_buffer_size(event_buffer_size),
            close_timeout_seconds=(
                context.config.job_close_timeout_seconds if context else _DEFAULT_CLOSE_TIMEOUT_SECONDS
            ),
        )

    @abstractmethod
    def stream(self, arguments: dict[str, Any], system: dict[str, Any]) -> Events:
        """Yield events and, last, one ResultEvent: an async generator, with checked arguments."""

    def _injected_parameters(self) -> Mapping[str, Mapping[str, Any]]:
        """System parameters by name, with their JSON Schema; callers cannot supply them."""
        return {}

    @property
    def argument_schema(self) -> ArgumentSchema:
        """The compiled schemas; raises `ConfigurationError` for those that cannot be used."""
        schema = self._job_runtime.schema
        if schema is None:
            schema = ArgumentSchema(self.name, self.parameters, self._injected_parameters())
            self._job_runtime.schema = schema
        return schema

    @property
    def is_accepting(self) -> bool:
        """Whether a call can begin now: started, and the application is not closing."""
        context = self.app_context
        return self.is_started and (context is None or context.dispatcher.accepting)

    @property
    def running_calls(self) -> Collection[Call]:
        return tuple(self._job_runtime.calls)

    async def close(self) -> None:
        """Stop the running calls, then run `_close`."""
        if self._job_runtime.calls and self.is_started:
            limit = self._job_runtime.close_timeout_seconds
            await stop_calls(self.running_calls, StopReason.APPLICATION_CLOSED, limit)
        await super().close()

    def _work(self, arguments: dict[str, Any], system: dict[str, Any]) -> Work:
        return partial(self._pump, copied(arguments), copied(system))

    async def _pump(self, arguments: dict[str, Any], system: dict[str, Any], call: Call) -> None:
        stream: Any = self.stream(arguments, system)
        if not hasattr(stream, "__aiter__"):
            if inspect.iscoroutine(stream):
                stream.close()
            returned = type(stream).__name__
            raise TypeError(
                f"{type(self).__qualname__}.stream must be an async generator; it returned {returned}"
            )
        result: ResultEvent | None = None
        async with aclosing(stream) if hasattr(stream, "aclose") else nullcontext():
            async for event in stream:
                if isinstance(event, ResultEvent):
                    result = event
                else:
                    await call.sink.emit(event)
                if call.stopped is not None:
                    return
        if result is None:
            call.response = JobResponse(success=False, answer=NO_RESULT)
        else:
            call.response = result


async def run_job(job: BaseJob, arguments: Any, system: Mapping[str, Any] | None = None) -> JobResponse:
    """Run a Job to its end.

    Raises `InvalidArgumentsError` (a `ValueError`) and `NotRunningError` (a `RuntimeError`); every other
    failure is a response with `success=False`.
    """
    work = checked_work(job, arguments, system, job._work)
    if not job.is_accepting:
        raise NotRunningError(f"Job {job.name!r} is not running")
    return await run_call(job, work)


def stream_job(job: BaseJob, arguments: Any, system: Mapping[str, Any] | None = None) -> EventStream:
    """The events of a call that begins with the first `anext`; raises as `run_job` does, here and now."""
    return stream_call(job, checked_work(job, arguments, system, job._work))


def checked_work(
    job: BaseJob,
    arguments: Any,
    system: Mapping[str, Any] | None,
    make_work: Callable[[dict[str, Any], dict[str, Any]], Work],
) -> Work:
    """Check what a call was given and prepare its work, which then no longer depends on the caller's objects.

    Raises `InvalidArgumentsError`; where the preparation fails, the work itself raises.
    """
    schema = job.argument_schema
    values = schema.check_arguments(arguments)
    system_values = schema.check_system(system)
    try:
        return make_work(values, system_values)
    except Exception as error:  # noqa: BLE001 - an argument that cannot be copied may raise anything
        return partial(_raise, error)


async def _raise(error: Exception, call: Call) -> None:
    raise error


def _checked_buffer_size(size: object) -> int:
    if type(size) is not int or size < 1:
        raise ConfigurationError("event_buffer_size must be a positive integer")
    return size
