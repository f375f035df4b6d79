"""Admit, record, start, find, stop and drain runs: the one door through which every entry comes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from deerflow.cancellation import abandon, uninterrupted
from deerflow.config.request import RequestOptions, parse_request_options
from deerflow.errors import ConflictError, UnavailableError
from deerflow.runs.active import ActiveRun
from deerflow.runs.ending import Ending
from deerflow.runs.event_log import EventLog
from deerflow.runs.execute import supervise
from deerflow.runs.lanes import ThreadLanes
from deerflow.runs.parts import RunParts
from deerflow.runs.recent import EndedRun, RecentRuns
from deerflow.runs.record import RunRecord, ThreadRecord
from deerflow.runs.recorder import EventRecorder
from deerflow.runs.removal import remove_thread
from deerflow.runs.request import GRAPH_ID, RunRequest, checked_id
from deerflow.runs.resuming import with_options_of_asker
from deerflow.runs.serialize import to_json_value

logger = logging.getLogger(__name__)

# How long a stopped run may take with everything it has to do; each step of it has a limit of its own.
MOST_ENDING_SECONDS = 120.0


class RunService:
    """The runs of one host. All methods belong to the host's event loop."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._lanes = ThreadLanes()
        self._active: dict[str, ActiveRun] = {}
        self._arriving: Counter[str] = Counter()
        self._recent = RecentRuns()
        self._accepting = True

    async def start(self, request: RunRequest) -> ActiveRun:
        """Record the run and let it begin as soon as its thread is free.

        Raises `InvalidRequestError`, `NotFoundError`, `ConflictError`, or `UnavailableError` at shutdown.
        """
        self._check_accepting()
        checked_id(request.thread_id, "thread_id")
        checked_id(request.run_id, "run_id")
        options = parse_request_options(request.context, self._parts.config)
        self._check_room(request)
        self._arriving[request.thread_id] += 1
        try:
            await self._make_way(request)
            if request.resumed:
                request = await with_options_of_asker(request, self._parts.stores.runs)
                options = parse_request_options(request.context, self._parts.config)
            return await uninterrupted(self._admit(request, options), name=f"admit run {request.run_id}")
        except asyncio.CancelledError:
            # Whoever asked is gone, but the record may be there: a recorded run always comes to an end.
            run = self._active.get(request.run_id)
            if run is not None:
                run.stop("disconnected")
            raise
        finally:
            self._arriving -= Counter({request.thread_id: 1})

    @property
    def accepting(self) -> bool:
        """Whether new runs are taken."""
        return self._accepting

    def find(self, run_id: str) -> ActiveRun | None:
        """The run, where it is under way in this process."""
        return self._active.get(run_id)

    def find_ended(self, run_id: str) -> EndedRun | None:
        """The run, where it ended in this process a moment ago."""
        return self._recent.find(run_id)

    def active_on(self, thread_id: str) -> list[ActiveRun]:
        """The runs of a thread that are under way or wait for their turn, oldest first."""
        return [run for run in self._active.values() if run.thread_id == thread_id]

    async def stop(self, run_id: str, *, reason: str = "cancelled", wait: bool = True) -> bool:
        """Stop a run; whether it was under way. With `wait` it has ended when this returns."""
        run = self._active.get(run_id)
        if run is None:
            return False
        run.stop(reason)
        if wait:
            await run.ended.wait()
        return True

    @asynccontextmanager
    async def exclusive(self, thread_id: str) -> AsyncIterator[None]:
        """A thread without runs: those asked for meanwhile wait. `ConflictError` where one is there."""
        others = await self._parts.stores.runs.list_active(thread_id=thread_id)
        if others or self.active_on(thread_id) or self._lanes.is_busy(thread_id):
            raise ConflictError(f"thread {thread_id} has a run under way; wait for it, or cancel it")
        turn = self._lanes.join(thread_id)
        try:
            yield
        finally:
            self._lanes.leave(thread_id, turn)

    async def remove(self, thread_id: str) -> bool:
        """Stop a thread's runs and remove it with all that belongs to it; whether it was there."""
        return await uninterrupted(self._remove(thread_id), name=f"remove thread {thread_id}")

    async def remove_run(self, run_id: str, *, thread_id: str) -> bool:
        """Stop a run and remove its record; whether it was there."""
        await self.stop(run_id, reason="deleted")
        self._recent.forget(run_id)
        return await self._parts.stores.runs.delete(run_id, thread_id=thread_id)

    def stop_accepting(self) -> None:
        """Take no new runs from now on."""
        self._accepting = False

    async def drain(self, drain_seconds: float) -> None:
        """Accept nothing more, let runs finish for `drain_seconds`, stop what is left, wait for it."""
        self.stop_accepting()
        for run in list(self._active.values()):
            if run.is_delayed:
                run.stop("shutdown")
        running = self._supervisors()
        if running and drain_seconds > 0:
            await asyncio.wait(running, timeout=drain_seconds)
        for run in list(self._active.values()):
            run.stop("shutdown")
        running = self._supervisors()
        if running:
            _, stuck = await asyncio.wait(running, timeout=MOST_ENDING_SECONDS)
            for supervisor in stuck:
                abandon(supervisor)

    def _check_accepting(self) -> None:
        if not self._accepting:
            raise UnavailableError("the host is shutting down and takes no new runs")

    def _supervisors(self) -> set[asyncio.Task[None]]:
        return {run.supervisor for run in self._active.values() if run.supervisor is not None}

    async def _admit(self, request: RunRequest, options: RequestOptions) -> ActiveRun:
        thread = ThreadRecord(request.thread_id, user_id=request.user_id)
        record = _record(request)
        admission = await self._parts.stores.runs.create(
            record, thread=thread if request.if_not_exists == "create" else None
        )
        recorder = EventRecorder(
            self._parts.stores.events, thread_id=request.thread_id, run_id=request.run_id
        )
        log = EventLog(max_events=self._parts.config.stream.max_events)
        run = ActiveRun(request, options, record, admission.thread, recorder, log)
        if not self._accepting:  # the host began to close while the record was written
            run.stop("shutdown")
        self._active[run.run_id] = run
        run.supervisor = asyncio.create_task(self._carry(run), name=f"supervisor of run {run.run_id}")
        return run

    def _check_room(self, request: RunRequest) -> None:
        taken = self._arriving[request.thread_id] or self.active_on(request.thread_id)
        if taken and request.multitask_strategy == "reject":
            raise ConflictError(
                f"thread {request.thread_id} has a run under way; wait for it, or choose another "
                "multitask_strategy than 'reject'"
            )

    async def _make_way(self, request: RunRequest) -> None:
        """Stop the thread's other runs where the request's strategy says so."""
        if request.multitask_strategy not in ("interrupt", "rollback"):
            return
        others = self.active_on(request.thread_id)
        for run in others:
            run.stop(request.multitask_strategy)
        await asyncio.gather(*(run.ended.wait() for run in others))

    async def _carry(self, run: ActiveRun) -> None:
        await run.due()
        turn = self._lanes.join(run.thread_id)
        try:
            await supervise(run, turn, self._parts)
        finally:
            self._lanes.leave(run.thread_id, turn)
            self._active.pop(run.run_id, None)
            run.log.close()
            run.ended.set()
            if run.ending is not None:
                self._recent.keep(_ended(run, run.ending))

    async def _remove(self, thread_id: str) -> bool:
        for run in self.active_on(thread_id):
            run.stop("deleted")
        turn = self._lanes.join(thread_id)
        try:
            await turn.wait()
            self._recent.forget_thread(thread_id)
            return await remove_thread(thread_id, self._parts)
        finally:
            self._lanes.leave(thread_id, turn)


def _ended(run: ActiveRun, ending: Ending) -> EndedRun:
    values = run.values if run.request.temporary else None
    return EndedRun(run.run_id, run.thread_id, run.user_id, run.log, ending, values)


def _record(request: RunRequest) -> RunRecord:
    kwargs: dict[str, Any] = {
        "input": request.input,
        "command": request.command,
        "context": request.context,
        "config": request.config,
        "stream_mode": list(request.stream_modes),
        "checkpoint_id": request.checkpoint_id,
        "interrupt_before": request.interrupt_before,
        "interrupt_after": request.interrupt_after,
    }
    ids = {"graph_id": GRAPH_ID, "assistant_id": request.assistant_id}
    return RunRecord(
        run_id=request.run_id,
        thread_id=request.thread_id,
        assistant_id=request.assistant_id,
        user_id=request.user_id,
        metadata=to_json_value(dict(request.metadata)) | ids,
        kwargs=to_json_value({key: value for key, value in kwargs.items() if value is not None}),
        multitask_strategy=request.multitask_strategy,
    )
