"""Finish a run: named steps in a fixed order, each failing alone, each bounded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any

from deerflow_extension_api import TaskOutcome

from deerflow.errors import NotFoundError
from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import ROLLBACK, Ending
from deerflow.runs.memory import Conversation, MemoryService
from deerflow.runs.parts import RunParts
from deerflow.runs.record import NewRunEvent, RunLostError, RunStatus
from deerflow.runs.removal import remove_run_with_its_traces, remove_thread
from deerflow.runs.title import Naming

logger = logging.getLogger(__name__)

STEP_SECONDS = 15.0
_WRITE_ATTEMPTS = 3


async def finish(run: ActiveRun, ending: Ending, parts: RunParts) -> None:
    """Persist the end, name the thread, tell the extensions, publish the end of the stream."""
    naming = run.naming
    if naming is not None and ending.outcome is not TaskOutcome.COMPLETED:
        await _step("give up the search for a title", run, naming.give_up)
    if ending.outcome is TaskOutcome.ABORTED:
        await _step("wait for its last checkpoints", run, lambda: parts.gate.close(run.run_id))
    named = naming is None or naming.done
    await _step("persist the terminal state", run, lambda: save_ending(run, ending, parts))
    if naming is not None and not named and not run.lost:
        await _step("name the thread", run, partial(_name_thread, naming, run, parts))
    if run.hooks is not None:
        await _step("notify on_task_stop", run, partial(run.hooks.stop, ending.outcome))
    if parts.memory is not None:
        await _step("queue what was said for memory", run, partial(_remember, run, ending, parts.memory))
    if run.request.temporary and not run.lost:
        await _step("remove the temporary thread", run, lambda: _remove_thread(run, parts))
    _publish_end(run, ending)


async def _step(name: str, run: ActiveRun, work: Callable[[], Awaitable[None]]) -> None:
    try:
        async with asyncio.timeout(STEP_SECONDS):
            await work()
    except Exception:
        logger.exception("run %s: could not %s", run.run_id, name)


async def save_ending(run: ActiveRun, ending: Ending, parts: RunParts) -> None:
    """Write down how a run ended, or that it never was; to be called again where that failed."""
    if not run.closing_events:
        details = {"status": ending.status, "outcome": ending.outcome, "stop_reason": ending.stop_reason}
        run.closing_events = [*await run.recorder.rest(), NewRunEvent("run.ended", "lifecycle", details)]
    write = _roll_back if ending.stop_reason == ROLLBACK else _persist
    for attempt in range(_WRITE_ATTEMPTS):
        try:
            await write(run, ending, parts)
            break
        except NotFoundError:
            logger.info("run %s was deleted while it was under way", run.run_id)
            break
        except RunLostError:
            logger.warning("run %s was taken up by another host, which tells its end", run.run_id)
            run.lost = True
            break
        except Exception:  # the database may be away for a moment
            if attempt + 1 == _WRITE_ATTEMPTS:
                raise
            await asyncio.sleep(0.2 * 4**attempt)
    run.is_saved = True


async def _persist(run: ActiveRun, ending: Ending, parts: RunParts) -> None:
    await parts.stores.runs.move(
        run.run_id,
        ending.status,
        error=None if ending.error is None else ": ".join(ending.error),
        stop_reason=ending.stop_reason,
        events=run.closing_events,
        thread_metadata=run.naming.metadata if run.naming is not None and run.naming.done else None,
        host_id=parts.host_id,
    )


async def _roll_back(run: ActiveRun, ending: Ending, parts: RunParts) -> None:
    if await remove_run_with_its_traces(run.run_id, run.thread_id, run.before, parts):
        return
    if await parts.stores.runs.get(run.run_id) is None:
        raise NotFoundError(f"there is no run {run.run_id}")
    raise RunLostError(run.run_id)


async def _name_thread(naming: Naming, run: ActiveRun, parts: RunParts) -> None:
    await naming.settle(run.stopping)
    with suppress(NotFoundError):  # the thread was deleted meanwhile
        await parts.stores.threads.merge_metadata(run.thread_id, naming.metadata, only_absent=True)


async def _remember(run: ActiveRun, ending: Ending, memory: MemoryService) -> None:
    """Let a run that came to its end be read for facts later; of a temporary one nothing stays."""
    if run.scope is not None and not run.request.temporary and ending.status is RunStatus.SUCCESS:
        messages = run.values.get("messages") or ()
        memory.queue(Conversation(run.user_id, run.thread_id, run.scope.snapshot, messages))


async def _remove_thread(run: ActiveRun, parts: RunParts) -> None:
    await remove_thread(run.thread_id, parts)


def _publish_end(run: ActiveRun, ending: Ending) -> None:
    if run.lost:  # readers who find no end ask again, and are told how the run goes on
        run.log.close()
        run.ended.set()
        return
    if ending.error is not None:
        name, message = ending.error
        run.log.publish("error", {"error": name, "message": message})
    usage = run.scope.usage.as_dict() if run.scope is not None else {}
    end: dict[str, Any] = {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "status": ending.status,
        "usage": usage,
    }
    if ending.error is not None:
        end["error"] = ": ".join(ending.error)
    if ending.interrupts:
        end["interrupts"] = list(ending.interrupts)
    run.log.publish("end", end)
    run.log.close()
    run.ended.set()
