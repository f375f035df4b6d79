"""The scheduler `cron`."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from axonx.components.job.context import copied
from axonx.components.job.outcome import failure_text
from axonx.components.job.response import JobResponse
from axonx.components.registry import provider
from axonx.errors import ConfigurationError, NoApplicationError, NotRunningError, UnknownJobError
from axonx.scheduler.base import BaseScheduler
from axonx.scheduler.history import HistoryFile, RunState, ScheduleRun
from axonx.scheduler.timetable import Tick, Timetable, ticks, utc_now

ConcurrencyPolicy = Literal["forbid", "allow", "replace"]

_MOST_RUNNING = 100
_MOST_WRITINGS = 100


@provider("cron")
class CronScheduler(BaseScheduler):
    """Runs one Job at the moments of a cron expression.

    `timezone` is the application's unless given. `concurrency_policy` says what a trigger does while an
    earlier one runs: `forbid` skips it, `allow` runs both, `replace` cancels the earlier one first.

    Raises `ConfigurationError` (a `ValueError`) for options that cannot be used, `UnknownJobError` and
    `InvalidArgumentsError` (each a `ValueError`) where the Job does not take the call.
    """

    def __init__(
        self,
        *,
        cron: str,
        arguments: Mapping[str, Any] | None = None,
        timezone: str | None = None,
        concurrency_policy: ConcurrencyPolicy = "forbid",
        description: str = "",
        history_retention_days: float = 7,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if self.app_context is None:
            raise NoApplicationError("A scheduler calls Jobs of an application")
        if concurrency_policy not in get_args(ConcurrencyPolicy):
            raise ConfigurationError(
                f"concurrency_policy must be forbid, allow or replace, not {concurrency_policy!r}"
            )
        if arguments is not None and not isinstance(arguments, Mapping):
            raise ConfigurationError(f"arguments must be a mapping, not {type(arguments).__name__}")
        self.timezone = self.app_config.timezone if timezone is None else timezone
        self.timetable = Timetable(cron, self.timezone)
        self.arguments = copied(dict(arguments or {}))
        self.concurrency_policy = concurrency_policy
        self.description = description
        self._history = HistoryFile(self.workspace_path, self.name, _retention(history_retention_days))
        self._one_writer = asyncio.Lock()
        self._writings: set[asyncio.Task[None]] = set()
        self._clockwork: asyncio.Task[None] | None = None
        self._triggers: dict[asyncio.Task[None], datetime] = {}
        self._check_job()

    @property
    def running(self) -> Collection[datetime]:
        """The moments whose triggers are running."""
        return tuple(self._triggers.values())

    async def history(self) -> list[ScheduleRun]:
        """What became of the triggers so far, oldest first."""
        return await asyncio.to_thread(self._history.read)

    def trigger(self, moment: datetime) -> None:
        """Do what is due at `moment`: start the Job, or skip it."""
        running = list(self._triggers)
        if running and (self.concurrency_policy == "forbid" or len(running) >= _MOST_RUNNING):
            self.logger.warning("Schedule %r: skipped, Job %r is still running", self.name, self.job)
            self._record(ScheduleRun(scheduled_at=moment, state="skipped"))
            return
        replaced = running if self.concurrency_policy == "replace" else []
        trigger = asyncio.create_task(self._run(moment, replaced), name=f"axonx-schedule:{self.name}")
        self._triggers[trigger] = moment
        trigger.add_done_callback(self._triggers.pop)

    async def _start(self) -> None:
        self._clockwork = asyncio.create_task(self._tick(), name=f"axonx-scheduler:{self.name}")

    async def _close(self) -> None:
        clockwork, self._clockwork = self._clockwork, None
        tasks = [*self._triggers, *([clockwork] if clockwork is not None else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*self._writings, return_exceptions=True)

    async def _tick(self) -> None:
        try:
            async for tick in ticks(self.timetable):
                self._handle(tick)
        except Exception:
            self.logger.exception("Schedule %r has stopped", self.name)

    def _handle(self, tick: Tick) -> None:
        if tick.missed:
            self.logger.warning("Schedule %r: missed %s", self.name, tick.moment.isoformat())
            self._record(ScheduleRun(scheduled_at=tick.moment, state="missed"))
        else:
            self.trigger(tick.moment)

    async def _run(self, moment: datetime, replaced: Collection[asyncio.Task[None]]) -> None:
        started_at: datetime | None = None
        state: RunState = "cancelled"
        error = ""
        try:
            for trigger in replaced:
                trigger.cancel()
            if replaced:
                await asyncio.wait(replaced)
            started_at = utc_now()
            state, error = self._outcome(await self._call())
        except NotRunningError as closing:
            error = str(closing)
        except Exception as failure:  # noqa: BLE001 - a schedule goes on whatever one trigger meets
            state, error = "failed", failure_text(failure)
        finally:
            run = ScheduleRun(scheduled_at=moment, started_at=started_at, state=state, error=error)
            self._record(run)

    async def _call(self) -> JobResponse:
        assert self.app_context is not None
        return await self.app_context.dispatcher.run(self.job, self.arguments)

    def _outcome(self, response: JobResponse) -> tuple[RunState, str]:
        assert self.app_context is not None
        if response.success:
            return "succeeded", ""
        if not self.app_context.dispatcher.accepting:
            return "cancelled", str(response.answer)
        self.logger.warning("Schedule %r: Job %r failed: %s", self.name, self.job, response.answer)
        return "failed", str(response.answer)

    def _record(self, run: ScheduleRun) -> None:
        """Write in the background: whoever ends here may be cancelled, and a schedule waits for no disk."""
        if len(self._writings) >= _MOST_WRITINGS:
            self.logger.warning("Schedule %r: its history is too slow; a run is left out", self.name)
            return
        writing = asyncio.create_task(self._write(run))
        self._writings.add(writing)
        writing.add_done_callback(self._writings.discard)

    async def _write(self, run: ScheduleRun) -> None:
        async with self._one_writer:
            try:
                await asyncio.to_thread(self._history.append, run)
            except OSError as error:
                self.logger.warning("Schedule %r: its history cannot be written: %s", self.name, error)

    def _check_job(self) -> None:
        assert self.app_context is not None
        job = self.app_context.jobs.get(self.job)
        if job is None:
            reason = self.app_context.unusable_jobs.get(self.job)
            known = reason or f"configured: {', '.join(self.app_context.jobs) or 'none'}"
            raise UnknownJobError(f"Unknown scheduled Job: {self.job!r} ({known})")
        job.argument_schema.check_arguments(self.arguments)


def _retention(days: float) -> timedelta:
    number = isinstance(days, int | float) and not isinstance(days, bool)
    if not number or not math.isfinite(days) or not 0 < days <= 36_500:
        raise ConfigurationError(f"history_retention_days must be a positive number of days, not {days!r}")
    return timedelta(days=days)
