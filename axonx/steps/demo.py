"""A Step to try an Application with."""

from __future__ import annotations

from axonx.components.job.events import ProgressEvent
from axonx.components.registry import provider
from axonx.steps.base import BaseStep


@provider("demo_step")
class DemoStep(BaseStep):
    """Greets `context["name"]`, after two ProgressEvents."""

    async def execute(self) -> None:
        name = self.context.get("name", "AxonX")
        await self.emit(ProgressEvent(name="demo", percentage=0, state="running"))
        self.response.answer = f"Hello, {name}!"
        await self.emit(ProgressEvent(name="demo", percentage=100, state="done"))
