"""Telling observers of the host's own model calls, of compactions and of assemblies.

Each begins with a look at whether anybody observes: without observers nothing is built.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic, perf_counter
from typing import Any, TypeVar

from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    CompactionEvent,
    ExtensionData,
    SystemModelRequest,
    SystemModelResult,
    SystemOperationKind,
)

from deerflow.extensions.cancellation import must_propagate
from deerflow.extensions.diagnostics import error_text, logger, watch_duration
from deerflow.extensions.dispatch import Notification
from deerflow.extensions.hooks import discard_unfinished
from deerflow.extensions.notification_loop import observe_later
from deerflow.extensions.notify import notify
from deerflow.extensions.outcomes import record_outcome
from deerflow.extensions.snapshot import LoadedExtensions

T = TypeVar("T")


async def notify_system_model_call(
    snapshot: LoadedExtensions,
    task_store: ExtensionData | None,
    kind: SystemOperationKind,
    request: SystemModelRequest,
    result: SystemModelResult,
) -> None:
    """Tell every observer of one call that is over, within 3 seconds in all.

    Without a live task (`task_store` is None) they get a detached store.
    """
    if snapshot.system_model_observers:
        await notify(_system_model_call(snapshot, task_store, kind, request, result))


def observe_system_model_call_later(
    snapshot: LoadedExtensions,
    task_store: ExtensionData | None,
    kind: SystemOperationKind,
    request: SystemModelRequest,
    result: SystemModelResult,
) -> None:
    """The same without waiting, for cancelled calls and for calls on a background thread."""
    if snapshot.system_model_observers:
        observe_later(_system_model_call(snapshot, task_store, kind, request, result))


async def call_observed(
    snapshot: LoadedExtensions,
    task_store: ExtensionData | None,
    kind: SystemOperationKind,
    request: Callable[[], SystemModelRequest],
    call: Callable[[], Awaitable[T]],
    *,
    background: bool = False,
) -> T:
    """Return what `call` returns, and tell the observers once how it ended; its own error travels on.

    `request` is asked only where somebody observes. Nobody waits for the observers of a cancelled call, nor
    for those of a `background` one.
    """
    if not snapshot.system_model_observers:
        return await call()
    sent = request()
    started = perf_counter()

    async def tell(result: SystemModelResult) -> None:
        if background or isinstance(result.error, asyncio.CancelledError):
            observe_system_model_call_later(snapshot, task_store, kind, sent, result)
        else:
            await notify_system_model_call(snapshot, task_store, kind, sent, result)

    try:
        response = await call()
    except (Exception, asyncio.CancelledError) as error:
        await tell(SystemModelResult(error=error, duration_ms=_milliseconds_since(started)))
        raise
    await tell(SystemModelResult(response=response, duration_ms=_milliseconds_since(started)))
    return response


def notify_compaction(snapshot: LoadedExtensions, event: CompactionEvent) -> None:
    """Tell every observer soon that messages were replaced, with a detached store of this notification."""
    observers = snapshot.context_compaction_observers
    if observers:
        arguments = (snapshot.app_store, _detached_store(), event)
        budget_seconds = snapshot.notification_budget_seconds
        subject = "one compaction"
        observe_later(
            Notification("on_context_compacted", snapshot, observers, arguments, subject, budget_seconds)
        )


def notify_assembly(snapshot: LoadedExtensions, descriptor: AgentAssemblyDescriptor) -> None:
    """Tell every observer, here and now, what an assembled agent consists of."""
    for source, observer in snapshot.agent_assembly_observers:
        started = monotonic()
        took_it = _tell_of_assembly(source, observer, snapshot.app_store, descriptor)
        record_outcome(source, "on_agent_assembled", monotonic() - started, failed=not took_it)


def _tell_of_assembly(
    source: str, observer: Any, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor
) -> bool:
    """Whether the observer took it as it should; what it did wrong is logged."""
    hook = "on_agent_assembled"
    try:
        with watch_duration(source, hook):
            returned = observer.on_agent_assembled(app_store, descriptor)
        unfinished = discard_unfinished(returned)
    except BaseException as error:  # whatever an observer raises stays with it
        if must_propagate(error):
            raise
        logger.error("Extension %s: %s failed: %s", source, hook, error_text(error), exc_info=error)
        return False
    if unfinished is not None:
        logger.error("Extension %s: %s must be a plain function; it returned %s", source, hook, unfinished)
    return unfinished is None


def _system_model_call(
    snapshot: LoadedExtensions,
    task_store: ExtensionData | None,
    kind: SystemOperationKind,
    request: SystemModelRequest,
    result: SystemModelResult,
) -> Notification:
    store = _detached_store() if task_store is None else task_store
    subject = f"a {kind} call" if task_store is None else f"the {kind} call of task {store.scope_id}"
    arguments = (snapshot.app_store, store, kind, request, result)
    observers, budget_seconds = snapshot.system_model_observers, snapshot.notification_budget_seconds
    return Notification("on_system_model_call", snapshot, observers, arguments, subject, budget_seconds)


def _detached_store() -> ExtensionData:
    return ExtensionData("detached")


def _milliseconds_since(started: float) -> float:
    return (perf_counter() - started) * 1000
