"""Open a host: build every part once, in order, and close in reverse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from deerflow_extension_api import ExtensionRuntimeDeps
from langchain.agents.middleware import AgentMiddleware
from langgraph.store.base import BaseStore

from deerflow.agents.lead import Assembler
from deerflow.agents.mcp import open_mcp_tools
from deerflow.cancellation import uninterrupted
from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.costs import costs_told
from deerflow.extensions.notification_loop import NotificationLoop, register_notification_loop
from deerflow.extensions.policy import lead_policy
from deerflow.extensions.services import RunningServices, start_services
from deerflow.models import warn_of_missing_models
from deerflow.persistence import (
    Database,
    FencedSaver,
    open_checkpointer,
    open_database,
    open_store,
    prune_checkpoints,
    roll_back_checkpoints,
)
from deerflow.runs.active import ActiveRun
from deerflow.runs.checkpoint_gate import CheckpointGate
from deerflow.runs.hosts.presence import open_presence
from deerflow.runs.hosts.watch import watching
from deerflow.runs.memory import MemoryService
from deerflow.runs.parts import RunParts
from deerflow.runs.service import RunService
from deerflow.runs.sweep import ThreadSweep, sweeping
from deerflow.runs.thread_states import ThreadStates
from deerflow.streams import open_relay
from deerflow.tracing import open_tracing

logger = logging.getLogger(__name__)

OBSERVATION_DRAIN_SECONDS = 5.0
MEMORY_FLUSH_SECONDS = 10.0


@dataclass(frozen=True)
class HostOptions:
    """How an entry wants its host. `services_of` is the set whose services run here; `mounts` are read-only
    names in every workspace; `owns_notification_loop` makes the opening loop the one that extensions are
    notified on; `drain_seconds` takes the place of the configured time for runs to finish; `on_run_end` is
    told of every run, once it has ended."""

    services_of: LoadedExtensions | None = None
    owns_notification_loop: bool = False
    middlewares: Sequence[AgentMiddleware[Any, Any]] = ()
    mounts: Mapping[str, Path] = field(default_factory=dict)
    drain_seconds: float | None = None
    on_run_end: Callable[[ActiveRun], None] | None = None


@dataclass(frozen=True)
class Host:
    """The parts of one running host."""

    config: AppConfig
    database: Database
    checkpointer: FencedSaver
    store: BaseStore
    assembler: Assembler
    runs: RunService
    states: ThreadStates
    sweep: ThreadSweep


@asynccontextmanager
async def open_host(config: AppConfig, options: HostOptions | None = None) -> AsyncIterator[Host]:
    """A host on the running loop. On the way out runs are drained first, and engines close last."""
    options = options or HostOptions()
    async with AsyncExitStack() as stack:
        stack.enter_context(costs_told())
        database = await stack.enter_async_context(open_database(config))
        presence = await stack.enter_async_context(
            open_presence(database.stores.hosts, lease_seconds=config.runs.lease_seconds)
        )
        relay = await stack.enter_async_context(open_relay(config.stream))
        checkpointer = await stack.enter_async_context(open_checkpointer(config))
        gate = CheckpointGate(presence)
        checkpointer.fence = gate.writing
        store = await stack.enter_async_context(open_store(config))
        # Whatever may fail of the host's own stands before the services, which would have to be stopped.
        tracing = await stack.enter_async_context(open_tracing(config.tracing))
        assembler = Assembler(
            config, checkpointer=checkpointer, middlewares=options.middlewares, tracing=tracing
        )
        tools = open_mcp_tools(config.mcp, offer_later=assembler.add_tools)
        assembler.add_tools(await stack.enter_async_context(tools))
        await asyncio.to_thread(warn_of_missing_models, config)
        memory = MemoryService(config, store, assembler.system_models) if config.memory.enabled else None
        loop = None
        if options.owns_notification_loop:
            loop = register_notification_loop(snapshot=options.services_of)
            stack.callback(loop.release)
        services = await _start_services(config, options, database)
        parts = RunParts(
            config,
            database.stores,
            assembler,
            options.mounts,
            checkpointer=checkpointer,
            memory=memory,
            presence=presence,
            gate=gate,
            roll_back=partial(roll_back_checkpoints, checkpointer),
            on_run_end=options.on_run_end,
            relay=relay,
        )
        runs = RunService(parts)
        sweep = ThreadSweep(runs, parts, partial(prune_checkpoints, checkpointer))
        try:
            await stack.enter_async_context(watching(runs, presence))
            await stack.enter_async_context(sweeping(sweep))
            states = ThreadStates(parts, runs)
            yield Host(config, database, checkpointer, store, assembler, runs, states, sweep)
        finally:
            drain_seconds = options.drain_seconds
            if drain_seconds is None:
                drain_seconds = config.shutdown.drain_seconds
            shutdown = _Shutdown(runs, drain_seconds, loop, memory, services)
            await uninterrupted(shutdown.run(), name="host shutdown")


async def _start_services(
    config: AppConfig, options: HostOptions, database: Database
) -> RunningServices | None:
    if options.services_of is None:
        return None
    deps = ExtensionRuntimeDeps(
        app_store=options.services_of.app_store,
        policy=lead_policy(config),
        session_factory=database.session_factory,
        run_evidence_reader=database.evidence,
    )
    return await start_services(options.services_of, deps)


@dataclass(frozen=True)
class _Shutdown:
    """How a host ends, in the stated order; each step is bounded."""

    runs: RunService
    drain_seconds: float
    loop: NotificationLoop | None
    memory: MemoryService | None
    services: RunningServices | None

    async def run(self) -> None:
        """No new runs, no new observations, memory, runs, what the drained runs queued, services."""
        self.runs.stop_accepting()
        if self.loop is not None:
            self.loop.stop_accepting()
        await _step("flush memory", self._flush_memory)
        await _step("drain runs", lambda: self.runs.drain(self.drain_seconds))
        await _step("flush what drained runs queued", self._flush_memory)
        await _step("drain observations", self._drain_observations)
        if self.services is not None:
            await self.services.stop()

    async def _flush_memory(self) -> None:
        if self.memory is not None:
            await self.memory.flush(MEMORY_FLUSH_SECONDS)

    async def _drain_observations(self) -> None:
        if self.loop is not None:
            await self.loop.drain(OBSERVATION_DRAIN_SECONDS)


async def _step(name: str, work: Callable[[], Awaitable[object]]) -> None:
    """Each step fails alone: runs are drained and services stopped whatever went wrong before."""
    try:
        await work()
    except Exception:
        logger.exception("shutdown: could not %s", name)
