"""The Application: one configuration, composed, started, called and closed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from axonx.components.job.base import EventStream
from axonx.components.job.response import JobResponse
from axonx.config import ApplicationConfig
from axonx.core.app_context import AppContext
from axonx.core.composition import compose
from axonx.core.current import current_chain
from axonx.core.lifespan import Lifespan, State
from axonx.errors import NotRunningError
from axonx.plugins.contributions import plugin_contributions


class Application:
    """Components, Jobs, schedulers and a service from one configuration.

    The constructor composes everything and raises every configuration error; it needs no event loop.
    Several Applications in one process share nothing.

    `providers` are classes decorated with `@provider`; the other keywords are the configuration.
    """

    def __init__(self, *, providers: Iterable[type] = (), **config: Any) -> None:
        checked = ApplicationConfig.of(config)
        composition = compose(checked, providers, plugin_contributions(checked.plugins))
        self.context: AppContext = composition.context
        self._order = composition.order
        self._lifespan: Lifespan | None = None

    @property
    def is_started(self) -> bool:
        return self._lifespan is not None and self._lifespan.state is State.RUNNING

    @property
    def app_config(self) -> ApplicationConfig:
        return self.context.config

    @property
    def workspace_path(self) -> Path:
        return self.context.workspace_path

    async def start(self) -> None:
        """Start components, Jobs, schedulers and the service, in this order; does nothing when started.

        If one fails, or the start is cancelled, what was started is closed in reverse, and the first error
        leaves as it is. If closing fails too: `ExceptionGroup` of all. A closed Application can start again.
        """
        while (lifespan := self._current()) is not None:
            if lifespan.state is State.RUNNING:
                return
            if current_chain(self.context):
                raise NotRunningError(
                    f"Application is {lifespan.state.value}: its own work cannot wait until it is started"
                )
            await lifespan.settled()
        self._lifespan = Lifespan(self.context, self._order)
        await self._lifespan.start()

    async def close(self) -> None:
        """Refuse new calls, stop the running ones, and close everything in reverse.

        Every resource is attempted; what failed is raised once, as `ExceptionGroup`. Cancelling the wait
        leaves the close going on, and a later `close` waits for its end.

        Called by work of this Application (a Step, a component, a task that one of them started), it asks
        for the close and returns at once: waiting there would wait for itself. That work has
        `job_close_timeout_seconds` to end by itself before it is cancelled.
        """
        lifespan = self._current()
        if lifespan is not None:
            lifespan.ask_to_close()
            if current_chain(self.context):
                return
            await lifespan.ended()
        if self._lifespan is not None and (errors := self._lifespan.take_close_errors()):
            raise BaseExceptionGroup("Application cleanup failed", errors)

    async def run_job(self, name: str, arguments: Any = None, *, target: str | None = None) -> JobResponse:
        """Run a Job to its end; a failure of its Steps is a response with `success=False`.

        Raises `NotRunningError` (a `RuntimeError`), and `ValueError` subclasses for an unknown Job, for
        arguments that do not fit, and for a target that is not configured.
        """
        return await self.context.dispatcher.run(name, arguments, target=target)

    def stream_job(self, name: str, arguments: Any = None, *, target: str | None = None) -> EventStream:
        """The events of a call and, last, its one ResultEvent; raises as `run_job`, here and now.

        The call begins with the first event asked for. Leaving the stream cancels it; close the stream
        (`contextlib.aclosing`) to wait until the Step has cleaned up.
        """
        return self.context.dispatcher.stream(name, arguments, target=target)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        state = self._lifespan.state.value if self._lifespan else "not started"
        return f"<Application {self.app_config.app_name!r} {state}>"

    def _current(self) -> Lifespan | None:
        """The lifespan that is not over yet."""
        lifespan = self._lifespan
        if lifespan is None or lifespan.task.done():
            return None
        if lifespan.loop is not asyncio.get_running_loop():
            raise RuntimeError("The Application was started in another event loop; close it there")
        return lifespan
