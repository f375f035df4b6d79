"""The base of Steps: one short-lived object for each step of each call of a Job."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from axonx.components.base import ComponentBase
from axonx.components.job.channel import DiscardedEvents

if TYPE_CHECKING:
    from axonx.components.job.context import RuntimeContext
    from axonx.components.job.events import StepEvent
    from axonx.components.job.response import JobResponse


class EventSink(Protocol):
    """Where the events of one call go."""

    def emit(self, event: StepEvent) -> Awaitable[None]: ...


class BaseStep(ComponentBase, ABC):
    """One step of a PipelineJob: override `async def execute(self)`.

    In `execute`, `self.context` holds the call's arguments (shared by the steps of one call),
    `self.response` takes answer, success and metadata, and `await self.emit(event)` sends an event.
    What `execute` returns is ignored; an exception becomes the call's failure result.

    `injected_parameters` (name to JSON Schema) declares system fields that callers cannot supply.
    """

    component_type = "step"
    injected_parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {}

    context: RuntimeContext
    response: JobResponse
    _event_sink: EventSink | None = None

    def _bind(self, context: RuntimeContext, response: JobResponse, sink: EventSink) -> None:
        """Attach this instance to one call; the pipeline does it before `execute`."""
        self.context = context
        self.response = response
        self._event_sink = sink

    @abstractmethod
    async def execute(self) -> None:
        """Do the step's work."""

    def emit(self, event: StepEvent) -> Awaitable[None]:
        """Send an event to whoever streams the call; waits while the call's buffer is full.

        The event is checked and copied, so that changing it afterwards changes nothing that was sent.
        Outside of a call, as in a unit test of the Step, it is only checked.
        Raises `InvalidEventError` (a `TypeError`) for anything that a Step may not emit.
        """
        sink = self._event_sink or DiscardedEvents(self.workspace_path)
        return sink.emit(event)
