"""Which schedules there are."""

from __future__ import annotations

from typing import Any

from axonx.components.registry import provider
from axonx.errors import NoApplicationError
from axonx.scheduler.cron import CronScheduler
from axonx.scheduler.timetable import utc_now
from axonx.steps.base import BaseStep


@provider("list_schedules_step")
class ListSchedulesStep(BaseStep):
    """Answers the cron schedules: what they run, when next, what is running, and the last outcome."""

    async def execute(self) -> None:
        if self.app_context is None:
            raise NoApplicationError("list_schedules_step lists the schedules of an application")
        schedulers = self.app_context.schedulers.values()
        self.response.answer = [
            await _described(scheduler) for scheduler in schedulers if isinstance(scheduler, CronScheduler)
        ]


async def _described(scheduler: CronScheduler) -> dict[str, Any]:
    next_at = scheduler.timetable.next_after(utc_now())
    runs = await scheduler.history()
    return {
        "name": scheduler.name,
        "job": scheduler.job,
        "cron": scheduler.timetable.cron,
        "timezone": scheduler.timezone,
        "concurrency_policy": scheduler.concurrency_policy,
        "description": scheduler.description,
        "next_at": next_at.isoformat() if next_at else None,
        "running": [moment.isoformat() for moment in scheduler.running],
        "last_run": runs[-1].model_dump(mode="json") if runs else None,
    }
