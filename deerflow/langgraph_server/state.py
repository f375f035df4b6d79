"""What this process serves: configuration, extensions, services, and the runs that are under way."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from concurrent.futures import Future
from contextlib import AsyncExitStack, asynccontextmanager
from functools import cache

from deerflow_extension_api import ExtensionRuntimeDeps, TaskInfo

from deerflow.agents.lead import Assembler
from deerflow.agents.mcp import open_mcp_tools
from deerflow.agents.run_scope import Delegations, RunScope, open_task_store
from deerflow.agents.workspace import Workspace
from deerflow.cancellation import uninterrupted
from deerflow.config import AppConfig, RequestOptions, load_config
from deerflow.extensions import get_loaded_extensions, load_extensions, set_loaded_extensions
from deerflow.extensions.costs import costs_told
from deerflow.extensions.notification_loop import NotificationLoop, register_notification_loop
from deerflow.extensions.policy import lead_policy
from deerflow.extensions.services import RunningServices, start_services
from deerflow.models import warn_of_missing_models
from deerflow.tracing import open_tracing

logger = logging.getLogger(__name__)

OBSERVATION_DRAIN_SECONDS = 5.0
_READY_WARNING_SECONDS = 10.0


class DevServer:
    """The host's part of a LangGraph server process."""

    def __init__(self, config: AppConfig) -> None:
        self.config = config
        self.assembler = Assembler(config)
        self.loaded, _ = load_extensions(config.plugins)
        set_loaded_extensions(self.loaded)
        self._ready: Future[None] = Future()
        self._runs: set[str] = set()
        self._idle: asyncio.Event | None = None
        if self.loaded.routers:
            sources = ", ".join(dict.fromkeys(source for source, _ in self.loaded.routers))
            logger.warning(
                "Contributed routers of %s are not mounted: this server does not authenticate them", sources
            )

    @asynccontextmanager
    async def lifespan(self) -> AsyncIterator[None]:
        """Run the extensions' services; on the way out wait for runs first."""
        self._idle = asyncio.Event()
        self._idle.set()
        loop = register_notification_loop(snapshot=self.loaded)
        deps = ExtensionRuntimeDeps(app_store=self.loaded.app_store, policy=lead_policy(self.config))
        try:
            async with AsyncExitStack() as stack:
                stack.enter_context(costs_told())
                self.assembler.trace_with(await stack.enter_async_context(open_tracing(self.config.tracing)))
                tools = open_mcp_tools(self.config.mcp, offer_later=self.assembler.add_tools)
                self.assembler.add_tools(await stack.enter_async_context(tools))
                await asyncio.to_thread(warn_of_missing_models, self.config)
                services = await start_services(self.loaded, deps)
                self._ready.set_result(None)
                try:
                    yield
                finally:
                    self._ready = Future()
                    await uninterrupted(self._shut_down(loop, services), name="LangGraph server shutdown")
        finally:
            loop.release()

    @asynccontextmanager
    async def execution(self, run_id: str) -> AsyncIterator[None]:
        """Hold the services for one run: wait until they are up, keep them up until it has ended."""
        await self._until_ready()
        self._runs.add(run_id)
        self._note_idle()
        try:
            yield
        finally:
            self._runs.discard(run_id)
            self._note_idle()

    def scope(self, run_id: str, thread_id: str, options: RequestOptions, user_id: str | None) -> RunScope:
        """The scope of a run under the server's ids, on the process-wide set as it is now."""
        snapshot = get_loaded_extensions()
        policy = lead_policy(self.config, max_total_subagents=options.max_total_subagents)
        return RunScope(
            snapshot=snapshot,
            task_info=TaskInfo(
                task_id=run_id, run_id=run_id, thread_id=thread_id, kind="lead", agent_name=options.agent_name
            ),
            task_store=open_task_store(snapshot, run_id),
            policy=policy,
            options=options,
            workspace=Workspace(self.config.workspace_path(thread_id)),
            delegations=Delegations(policy.max_subagents_per_run or 0),
            user_id=user_id,
        )

    async def _until_ready(self) -> None:
        ready = self._ready
        while not ready.done():
            await asyncio.wait({asyncio.wrap_future(ready)}, timeout=_READY_WARNING_SECONDS)
            if not ready.done():
                logger.warning("a run waits for the extensions' services to start; is `http.app` configured?")

    def _note_idle(self) -> None:
        idle = self._idle
        if idle is not None:
            (idle.clear if self._runs else idle.set)()

    async def _shut_down(self, loop: NotificationLoop, services: RunningServices) -> None:
        loop.stop_accepting()
        if self._idle is not None:
            idle = asyncio.create_task(self._idle.wait(), name="runs of the LangGraph server")
            await asyncio.wait({idle}, timeout=self.config.shutdown.drain_seconds)
            idle.cancel()
            if self._runs:  # they are the server's, which stops them; services wait for nobody any longer
                logger.warning("services stop although runs are under way: %s", ", ".join(sorted(self._runs)))
        await loop.drain(OBSERVATION_DRAIN_SECONDS)
        await services.stop()


@cache
def dev_server() -> DevServer:
    """The one of this process, made when the first entry is imported."""
    return DevServer(load_config())
