"""What a run came to, as one JSON body."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any

from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import Ending, was_stopped
from deerflow.runs.record import RunRecord, RunStatus
from deerflow.runs.serialize import encode_json

INTERRUPTS = "__interrupt__"


async def result_chunks(run: ActiveRun, heartbeat_seconds: float) -> AsyncGenerator[bytes]:
    """The result, once it is there; until then, now and then, whitespace that keeps proxies patient."""
    while not run.ended.is_set():
        try:
            async with asyncio.timeout(heartbeat_seconds):
                await run.ended.wait()
        except TimeoutError:
            yield b"\n"
    yield encode_json(result_of(run.ending, run.values))


def result_of(ending: Ending | None, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The final state, with what it waits for; a run without one is told apart by `__error__`."""
    if ending is None or was_stopped(ending.status, ending.stop_reason):
        return _error("RunStopped", f"the run was stopped: {(ending and ending.stop_reason) or 'abandoned'}")
    if ending.error is not None:
        return _error(*ending.error)
    state = {key: value for key, value in values.items() if key != INTERRUPTS}
    return {**state, INTERRUPTS: list(ending.interrupts)} if ending.interrupts else state


def result_of_record(run: RunRecord, values: Mapping[str, Any], interrupts: list[Any]) -> Mapping[str, Any]:
    """The same, of a run that ended before anyone asked, with the state that its thread is in now."""
    if was_stopped(run.status, run.stop_reason):
        return _error("RunStopped", f"the run was stopped: {run.stop_reason}")
    if run.status in (RunStatus.ERROR, RunStatus.TIMEOUT):
        name, _, message = (run.error or "Error: no further text").partition(": ")
        return _error(name, message)
    return {**values, INTERRUPTS: interrupts} if interrupts else values


def result_of_removed(run_id: str) -> Mapping[str, Any]:
    """The same, of a run of another host that left nothing: it was removed, or was on a temporary thread."""
    return _error("NotFoundError", f"run {run_id} has ended and was removed; its stream has what it did")


def _error(name: str, message: str) -> Mapping[str, Any]:
    return {"__error__": {"error": name, "message": message}}
