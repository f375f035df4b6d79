"""Applications, components and Steps for the tests of AxonX."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from axonx import Application, BaseComponent, BaseStep, provider
from axonx.components.job import JobResponse, ResultEvent

StepBody = Callable[[BaseStep], Awaitable[None]]


def step(body: StepBody, backend: str = "step") -> type[BaseStep]:
    """A Step class whose `execute` is `body(self)`."""

    @provider(backend)
    class BodyStep(BaseStep):
        async def execute(self) -> None:
            await body(self)

    return BodyStep


def step_app(workspace: Path, *bodies: StepBody, **config: Any) -> Application:
    """An Application with one Job, `job`, whose Steps are the bodies; `job=` adds to its entry."""
    classes = [step(body, f"step{index}") for index, body in enumerate(bodies)]
    entry = {"steps": [{"backend": f"step{index}"} for index in range(len(bodies))], **config.pop("job", {})}
    return Application(providers=classes, workspace_dir=workspace, jobs={"job": entry}, **config)


class Recorder(BaseComponent):
    """Writes what happens to it into `log`; subclasses get a category of their own from `recorder`."""

    component_type = "recorder"
    log: list[str]

    def __init__(
        self,
        needs: str | None = None,
        start_error: BaseException | None = None,
        close_error: BaseException | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.start_error = start_error
        self.close_error = close_error
        self.depend("needed", needs, Recorder, required=False)

    async def _start(self) -> None:
        self.log.append(f"start {self.name}")
        if self.start_error is not None:
            raise self.start_error

    async def _close(self) -> None:
        self.log.append(f"close {self.name}")
        if self.close_error is not None:
            raise self.close_error


def recorder(log: list[str]) -> type[Recorder]:
    """A fresh Recorder class with the backend name `recorder`, writing into `log`."""
    cls: type[Recorder] = type("LoggedRecorder", (Recorder,), {"log": log})
    return provider("recorder")(cls)


def recorder_app(
    workspace: Path, log: list[str], entries: dict[str, dict[str, Any]], **config: Any
) -> Application:
    """An Application of Recorders; `entries` maps names to options."""
    components = {"recorder": {name: {"backend": "recorder", **entry} for name, entry in entries.items()}}
    return Application(providers=(recorder(log),), workspace_dir=workspace, components=components, **config)


async def ticks(count: int = 5) -> None:
    """Let the loop turn a few times."""
    for _ in range(count):
        await asyncio.sleep(0)


async def until(condition: Callable[[], object]) -> None:
    """Wait until the condition holds; the test's own time limit ends a wait in vain."""
    while not condition():
        await asyncio.sleep(0.001)


async def outcome(app: Application, arguments: Any = None, job: str = "job") -> JobResponse:
    """The response of a call, after checking that both ways to call agree on it."""
    response = await app.run_job(job, arguments)
    events = [event async for event in app.stream_job(job, arguments)]
    results = [event for event in events if isinstance(event, ResultEvent)]
    assert results == events[-1:]
    assert results[0].model_dump(exclude={"kind"}) == response.model_dump()
    return response
