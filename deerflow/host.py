"""Open a host: build every part once, in order, and close in reverse."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deerflow_extension_api import ExtensionRuntimeDeps
from langchain.agents.middleware import AgentMiddleware
from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.lead import Assembler
from deerflow.cancellation import uninterrupted
from deerflow.config import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.notification_loop import NotificationLoop, register_notification_loop
from deerflow.extensions.policy import lead_policy
from deerflow.extensions.services import RunningServices, start_services
from deerflow.persistence import Database, open_checkpointer, open_database
from deerflow.runs.parts import RunParts
from deerflow.runs.service import RunService
from deerflow.runs.thread_states import ThreadStates

OBSERVATION_DRAIN_SECONDS = 5.0


@dataclass(frozen=True)
class HostOptions:
    """How an entry wants its host. `services_of` is the set whose services run here; `mounts` are read-only
    names in every workspace; `owns_notification_loop` makes the opening loop the one that extensions are
    notified on; `drain_seconds` takes the place of the configured time for runs to finish."""

    services_of: LoadedExtensions | None = None
    owns_notification_loop: bool = False
    middlewares: Sequence[AgentMiddleware[Any, Any]] = ()
    mounts: Mapping[str, Path] = field(default_factory=dict)
    drain_seconds: float | None = None


@dataclass(frozen=True)
class Host:
    """The parts of one running host."""

    config: AppConfig
    database: Database
    checkpointer: BaseCheckpointSaver[Any]
    assembler: Assembler
    runs: RunService
    states: ThreadStates


@asynccontextmanager
async def open_host(config: AppConfig, options: HostOptions | None = None) -> AsyncIterator[Host]:
    """A host on the running loop. On the way out runs are drained first, and engines close last."""
    options = options or HostOptions()
    async with AsyncExitStack() as stack:
        database = await stack.enter_async_context(open_database(config))
        checkpointer = await stack.enter_async_context(open_checkpointer(config))
        loop = None
        if options.owns_notification_loop:
            loop = register_notification_loop(snapshot=options.services_of)
            stack.callback(loop.release)
        services = await _start_services(config, options, database)
        assembler = Assembler(config, checkpointer=checkpointer, middlewares=options.middlewares)
        parts = RunParts(config, database.stores, assembler, options.mounts, checkpointer=checkpointer)
        runs = RunService(parts)
        try:
            yield Host(config, database, checkpointer, assembler, runs, ThreadStates(parts, runs))
        finally:
            drain_seconds = options.drain_seconds
            if drain_seconds is None:
                drain_seconds = config.shutdown.drain_seconds
            await uninterrupted(_shut_down(runs, drain_seconds, loop, services), name="host shutdown")


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


async def _shut_down(
    runs: RunService, drain_seconds: float, loop: NotificationLoop | None, services: RunningServices | None
) -> None:
    """The stated order: no new runs, no new observations, drain, flush what drained runs queued, services."""
    if loop is not None:
        loop.stop_accepting()
    await runs.drain(drain_seconds)
    if loop is not None:
        await loop.drain(OBSERVATION_DRAIN_SECONDS)
    if services is not None:
        await services.stop()
