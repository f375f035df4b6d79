"""Admit, record, start, find, stop and drain runs: the one door through which every entry comes."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace

from deerflow.cancellation import abandon, uninterrupted
from deerflow.config.request import RequestOptions, parse_request_options
from deerflow.errors import ConflictError, UnavailableError
from deerflow.log_ids import bearing_log_ids
from deerflow.runs.active import ActiveRun
from deerflow.runs.arrivals import Arrivals
from deerflow.runs.ending import ROLLBACK, Ending
from deerflow.runs.events.budget import EventBudget
from deerflow.runs.events.log import EventLog
from deerflow.runs.execute import supervise
from deerflow.runs.finish import save_ending
from deerflow.runs.hosts.elsewhere import Elsewhere, end_stray
from deerflow.runs.hosts.foreign import Followers, ForeignReader
from deerflow.runs.hosts.left import LeftRun, decode_left, encode_left
from deerflow.runs.hosts.recovery import recover
from deerflow.runs.hosts.relay import RelayError
from deerflow.runs.lanes import ThreadLanes
from deerflow.runs.notices import ThreadNotices
from deerflow.runs.parts import RunParts
from deerflow.runs.recent import EndedRun, RecentRuns
from deerflow.runs.record import HOST_LOST, RunRecord, ThreadRecord
from deerflow.runs.recorder import EventRecorder
from deerflow.runs.removal import remove_thread
from deerflow.runs.request import RunRequest, checked_id
from deerflow.runs.request_record import record_of
from deerflow.runs.resuming import with_options_of_asker
from deerflow.runs.run_span import supervise_traced

logger = logging.getLogger(__name__)

# How long a stopped run may take with everything it has to do; each step of it has a limit of its own.
MOST_ENDING_SECONDS = 120.0
# For what could not be written before; where it cannot be now, another host finds these runs and ends them.
LAST_WRITES_SECONDS = 15.0


class RunService:
    """The runs of one host. All methods belong to the host's event loop."""

    def __init__(self, parts: RunParts) -> None:
        self._parts = parts
        self._lanes = ThreadLanes()
        self._active: dict[str, ActiveRun] = {}
        self._arrivals = Arrivals()
        self._emptying: Counter[str] = Counter()
        self._unsaved: dict[str, ActiveRun] = {}
        self._recent = RecentRuns()
        self._event_budget = EventBudget(parts.config.stream.max_total_bytes)
        self.notices = ThreadNotices()
        self._accepting = True
        self._elsewhere = Elsewhere(parts, self.find)
        self._followers = Followers()

    async def start(self, request: RunRequest, *, of_any_owner: bool = False) -> ActiveRun:
        """Record the run and let it begin as soon as its thread is free, on this host and on all others.

        Runs that it replaces are stopped before it begins. With `of_any_owner` the thread may be anyone's,
        and the run is its owner's; else a thread of somebody else is as if it were not there. Raises
        `InvalidRequestError`, `NotFoundError`, `ConflictError`, or `UnavailableError` at shutdown.
        """
        self._check_accepting()
        checked_id(request.thread_id, "thread_id")
        checked_id(request.run_id, "run_id")
        options = parse_request_options(request.context, self._parts.config)
        with self._arrivals.arriving(request.run_id):
            try:
                if request.resumed:
                    request = await with_options_of_asker(
                        request, self._parts.stores.runs, of_any_owner=of_any_owner
                    )
                    options = parse_request_options(request.context, self._parts.config)
                admission = self._admit(request, options, of_any_owner=of_any_owner)
                return await uninterrupted(admission, name=f"admit run {request.run_id}")
            except asyncio.CancelledError:
                # Whoever asked is gone, but the record may be there: a recorded run always comes to an end.
                run = self._active.get(request.run_id)
                if run is not None:
                    run.stop("disconnected")
                raise

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

    def follow(self, record: RunRecord, after_id: int | None) -> ForeignReader:
        """The events after `after_id` of a run that another host has or had; None: what comes from now on."""
        return ForeignReader(record, after_id, self._parts, self._here, self._followers)

    def ended_on(self, thread_id: str) -> list[EndedRun]:
        """The runs of a thread that ended in this process a moment ago, in the order of their ends."""
        return self._recent.on_thread(thread_id)

    @property
    def shares_events(self) -> bool:
        """Whether hosts read the events of each other's runs."""
        return self._parts.relay is not None

    @property
    def relay_answers(self) -> bool | None:
        """Whether events can be shared just now; `None` where they are not."""
        return None if self._parts.relay is None else self._parts.relay.answers

    async def find_left(self, run_id: str) -> LeftRun | None:
        """The run, where it ended on a temporary thread of another host a moment ago."""
        if self._parts.relay is None:
            return None
        try:
            payload = await self._parts.relay.left(run_id)
        except RelayError:
            return None
        return None if payload is None else decode_left(run_id, payload)

    async def awaits_end(self, run_id: str) -> bool:
        """Whether other hosts' events of a run are there, and its end is not among them."""
        if self._parts.relay is None:
            return False
        try:
            newest = await self._parts.relay.newest(run_id)
        except RelayError:
            return False
        return newest is not None and newest.name != "end"

    def active(self) -> list[ActiveRun]:
        """The runs that are under way or wait for their turn, oldest first."""
        return list(self._active.values())

    def active_on(self, thread_id: str) -> list[ActiveRun]:
        """The runs of a thread that are under way or wait for their turn, oldest first."""
        return [run for run in self._active.values() if run.thread_id == thread_id]

    async def stop(self, run_id: str, *, reason: str = "cancelled", wait: bool = True) -> bool:
        """Stop a run, also one of another host; whether it was under way, and had not come to its own end.

        With `wait` it has ended when this returns. With the reason `rollback` nothing of it stays: no record
        and no checkpoint. Raises `UnavailableError` where no host stops it.
        """
        run = self._active.get(run_id)
        if run is None:
            return await self._elsewhere.stop(run_id, reason, wait=wait)
        was_under_way = run.ending is None
        run.stop(reason)
        if not wait or reason == ROLLBACK:
            # What a caller was told holds although this host may die before it is done.
            await self._parts.stores.runs.request_stop(run_id, reason)
        if wait:
            await run.ended.wait()
        return was_under_way

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

    def forget(self, thread_id: str) -> None:
        """Keep nothing more of the runs that ended on a thread."""
        self._recent.forget_thread(thread_id)

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
        if drain_seconds > 0:
            # Who follows a run of another host gets the same time to see its end.
            followed = asyncio.create_task(self._followers.finished(drain_seconds), name="end of streams")
            await asyncio.wait({*self._supervisors(), followed}, timeout=drain_seconds)
            await followed
        # Once the host is closed nobody here could end what is just being recorded.
        await self._arrivals.over(LAST_WRITES_SECONDS)
        for run in list(self._active.values()):
            run.stop("shutdown")
        running = self._supervisors()
        if running:
            _, stuck = await asyncio.wait(running, timeout=MOST_ENDING_SECONDS)
            for supervisor in stuck:
                abandon(supervisor)
        await self._followers.let_go()
        await self._save_last_endings()

    async def _save_last_endings(self) -> None:
        try:
            async with asyncio.timeout(LAST_WRITES_SECONDS):
                await self.save_late_endings()
        except Exception:
            logger.exception("the ends of %d runs could not be written", len(self._unsaved))

    def active_ids(self) -> frozenset[str]:
        """The runs that are under way here, or wait for their turn."""
        return frozenset(self._active)

    async def heed(self, owned: Mapping[str, str | None], active: Collection[str]) -> None:
        """Bring to this host's runs what its database says of them: which it has, and why each is to stop.

        `active` are those that were here before the database was asked.
        """
        for run in list(self._active.values()):
            reason = owned.get(run.run_id)
            if reason is not None:
                run.stop(reason)
            elif run.run_id not in owned and run.run_id in active and run.ending is None:
                run.stop(HOST_LOST)
        carried = {*active, *self._active, *self._arrivals, *self._unsaved}
        for run_id in owned.keys() - carried:
            await end_stray(run_id, self._parts)

    def take_up(self, records: Iterable[RunRecord]) -> None:
        """Let the runs of dead hosts go on; where they cannot, they end with `host_lost`."""
        for record in records:
            if record.run_id in self._active:
                continue
            found = recover(record, self._parts)
            thread = ThreadRecord(record.thread_id, user_id=record.user_id)
            run = self._run(found.request, found.options, record, thread)
            run.taken_up, run.obstacle = True, found.obstacle
            if record.stop_requested is not None:
                run.stop(record.stop_requested)
            self._parts.gate.open(run.run_id)
            self._set_out(run)

    async def save_late_endings(self) -> None:
        """Write down the ends of runs for which the database was away too long."""
        for run in list(self._unsaved.values()):
            assert run.ending is not None, "only runs that have ended are kept here"
            await save_ending(run, run.ending, self._parts)
            self._unsaved.pop(run.run_id, None)

    def _here(self, run_id: str) -> EventLog | None:
        run = self.find(run_id) or self.find_ended(run_id)
        return None if run is None else run.log

    def _check_accepting(self) -> None:
        if not self._accepting:
            raise UnavailableError("the host is shutting down and takes no new runs")

    def _supervisors(self) -> set[asyncio.Task[None]]:
        return {run.supervisor for run in self._active.values() if run.supervisor is not None}

    async def _admit(self, request: RunRequest, options: RequestOptions, *, of_any_owner: bool) -> ActiveRun:
        """Queue up, record the run, and let it set out."""
        turn = None if request.after_seconds > 0 else self._lanes.join(request.thread_id)
        try:
            may_begin = turn is not None and turn.is_set()
            run = await self._recorded(request, options, of_any_owner=of_any_owner, may_begin=may_begin)
        except BaseException:
            if turn is not None:
                self._lanes.leave(request.thread_id, turn)
            raise
        if not self._accepting:  # the host began to close while the record was written
            run.stop("shutdown")
        elif self._emptying[run.thread_id]:
            run.stop("deleted")
        self._set_out(run, turn)
        return run

    async def _recorded(
        self, request: RunRequest, options: RequestOptions, *, of_any_owner: bool, may_begin: bool
    ) -> ActiveRun:
        thread = ThreadRecord(request.thread_id, user_id=request.user_id)
        admission = await self._parts.stores.runs.create(
            record_of(request, host_id=self._parts.host_id),
            thread=thread if request.if_not_exists == "create" else None,
            of_any_owner=of_any_owner,
            may_begin=may_begin,
        )
        for run_id in admission.superseded:
            if run_id in self._active:
                self._active[run_id].stop(request.multitask_strategy)
        if admission.run.user_id != request.user_id:
            request = replace(request, user_id=admission.run.user_id)
        return self._run(request, options, admission.run, admission.thread)

    def _run(
        self, request: RunRequest, options: RequestOptions, record: RunRecord, thread: ThreadRecord
    ) -> ActiveRun:
        parts = self._parts
        ids = {"thread_id": request.thread_id, "run_id": request.run_id, "host_id": parts.host_id}
        max_events, budget = parts.config.stream.max_events, self._event_budget
        log = EventLog(max_events=max_events, attempt=record.attempt, budget=budget)
        if parts.relay is not None:
            parts.relay.carry(record.run_id, log, lambda: encode_left(self.find_ended(record.run_id)))
        return ActiveRun(request, options, record, thread, EventRecorder(parts.stores.events, **ids), log)

    def _set_out(self, run: ActiveRun, turn: asyncio.Event | None = None) -> None:
        self._active[run.run_id] = run
        self.notices.tell(run.thread_id)
        with bearing_log_ids(thread_id=run.thread_id, run_id=run.run_id):
            run.supervisor = asyncio.create_task(
                self._carry(run, turn), name=f"supervisor of run {run.run_id}"
            )

    async def _carry(self, run: ActiveRun, turn: asyncio.Event | None) -> None:
        if turn is None:
            await run.due()
            turn = self._lanes.join(run.thread_id, is_under_way=run.was_under_way)
        try:
            await self._supervise(run, turn)
        finally:
            self._lanes.leave(run.thread_id, turn)
            self._active.pop(run.run_id, None)
            run.log.close()
            run.ended.set()
            self._keep(run, run.ending)
            self._tell_end(run)

    async def _supervise(self, run: ActiveRun, turn: asyncio.Event) -> None:
        tracing = self._parts.assembler.tracing
        if tracing is None:
            await supervise(run, turn, self._parts)
        else:
            await supervise_traced(run, turn, self._parts, tracing)

    def _tell_end(self, run: ActiveRun) -> None:
        try:
            if self._parts.on_run_end is not None:
                self._parts.on_run_end(run)
        except Exception:  # whoever counts runs must not fail them
            logger.exception("run %s: its end could not be told", run.run_id)

    def _keep(self, run: ActiveRun, ending: Ending | None) -> None:
        if ending is None:
            return
        if not run.is_saved:
            self._unsaved[run.run_id] = run
        if not run.lost and ending.stop_reason != ROLLBACK:
            self._recent.keep(_ended(run, ending))

    async def _remove(self, thread_id: str) -> bool:
        turn = self._lanes.join(thread_id)
        try:
            await self._empty(thread_id, turn)
            for other in await self._parts.stores.runs.list_active(thread_id=thread_id):
                await self.stop(other.run_id, reason="deleted")
            self._recent.forget_thread(thread_id)
            return await remove_thread(thread_id, self._parts)
        finally:
            self._lanes.leave(thread_id, turn)

    async def _empty(self, thread_id: str, turn: asyncio.Event) -> None:
        """Stop what runs on a thread, waits to, or is being admitted, until nothing is before `turn`."""
        self._emptying[thread_id] += 1
        try:
            for run in self.active_on(thread_id):
                run.stop("deleted")
            await turn.wait()
        finally:
            self._emptying[thread_id] -= 1
            if not self._emptying[thread_id]:
                del self._emptying[thread_id]


def _ended(run: ActiveRun, ending: Ending) -> EndedRun:
    values = run.values if run.request.temporary else None
    ids = (run.run_id, run.thread_id, run.user_id)
    return EndedRun(*ids, run.log, ending, values, created_at=run.record.created_at)
