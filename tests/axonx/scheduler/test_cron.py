"""Schedules in an Application."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import StepBody, step, step_app, ticks, until

from axonx import Application, BaseStep
from axonx.errors import ConfigurationError, InvalidArgumentsError, UnknownJobError
from axonx.scheduler import cron
from axonx.scheduler.cron import CronScheduler
from axonx.scheduler.timetable import ticks as ticks_of

NOW = datetime(2025, 1, 1, tzinfo=UTC)
NEVER = "0 0 1 1 *"


def scheduled(tmp_path: Path, body: StepBody, **schedule: Any) -> Application:
    entry = {"job": "job", "cron": NEVER, **schedule}
    return step_app(tmp_path, body, schedules={"s": entry})


def scheduler_of(app: Application) -> CronScheduler:
    scheduler = app.context.schedulers["s"]
    assert isinstance(scheduler, CronScheduler)
    return scheduler


async def states(app: Application, count: int) -> list[str]:
    """The states in the history, once it has that many entries."""
    async with asyncio.timeout(60):
        while len(runs := await scheduler_of(app).history()) < count:
            await asyncio.sleep(0.005)
    return [run.state for run in runs]


class Held:
    """A Step that runs until `go` is set, and says what became of it."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.log: list[str] = []

    async def __call__(self, step: BaseStep) -> None:
        self.log.append("begin")
        try:
            await self.go.wait()
            self.log.append("end")
        except asyncio.CancelledError:
            self.log.append("cancelled")
            raise


async def test_a_schedule_runs_its_job_with_its_arguments_at_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    moment = NOW.replace(hour=12)

    async def body(step: BaseStep) -> None:
        seen.append(dict(step.context))

    # The clock stands still at the moment, so that no second one comes.
    readings = chain([moment - timedelta(seconds=0.01)] * 2, repeat(moment))
    monkeypatch.setattr(cron, "ticks", partial(ticks_of, now=lambda: next(readings)))
    monkeypatch.setattr(cron, "utc_now", lambda: moment)
    async with scheduled(tmp_path, body, cron="* * * * * *", arguments={"a": [1]}) as app:
        assert await states(app, 1) == ["succeeded"]
    assert seen == [{"a": [1]}]
    (run,) = await scheduler_of(app).history()
    assert (run.scheduled_at, run.started_at) == (moment, moment)


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"cron": "zz"}, ConfigurationError, "Invalid cron expression: 'zz'"),
        ({"timezone": "Mars/Olympus"}, ConfigurationError, "Unknown timezone: 'Mars/Olympus'"),
        ({"timezone": ""}, ConfigurationError, "Unknown timezone: ''"),
        ({"arguments": [1]}, ConfigurationError, "arguments must be a mapping, not list"),
        ({"job": "nope"}, UnknownJobError, "Unknown scheduled Job: 'nope'"),
        ({"arguments": {"n": "x"}}, InvalidArgumentsError, "Invalid arguments for job 'job': n: 'x' is not"),
        ({"concurrency_policy": "queue"}, ConfigurationError, "must be forbid, allow or replace"),
        ({"history_retention_days": 0}, ConfigurationError, "history_retention_days"),
        ({"history_retention_days": True}, ConfigurationError, "history_retention_days"),
        ({"history_retention_days": float("nan")}, ConfigurationError, "history_retention_days"),
        ({"concurency_policy": "allow"}, ConfigurationError, "Did you mean 'concurrency_policy'"),
    ],
)
def test_a_wrong_schedule_is_refused_by_the_constructor(
    tmp_path: Path, changes: dict[str, Any], error: type[Exception], message: str
) -> None:
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}}
    with pytest.raises(error, match=message) as caught:
        Application(
            workspace_dir=tmp_path,
            jobs={"job": {"steps": [{"backend": "demo_step"}], "parameters": parameters}},
            schedules={"s": {"job": "job", "cron": NEVER, **changes}},
        )
    assert isinstance(caught.value, ValueError)


def test_the_zone_is_the_applications_unless_given(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None: ...

    app = step_app(
        tmp_path, body, timezone="Asia/Tokyo", schedules={"s": {"job": "job", "cron": "0 0 * * *"}}
    )
    following = scheduler_of(app).timetable.next_after(NOW)
    assert following is not None
    assert following.astimezone(UTC).hour == 15


async def test_forbid_skips_while_the_job_runs(tmp_path: Path) -> None:
    held = Held()
    async with scheduled(tmp_path, held) as app:
        scheduler_of(app).trigger(NOW)
        await ticks()
        scheduler_of(app).trigger(NOW + timedelta(minutes=1))
        assert held.log == ["begin"]
        held.go.set()
        assert await states(app, 2) == ["skipped", "succeeded"]
        scheduler_of(app).trigger(NOW)
        await states(app, 3)
    assert held.log == ["begin", "end"] * 2


async def test_allow_runs_both(tmp_path: Path) -> None:
    held = Held()
    async with scheduled(tmp_path, held, concurrency_policy="allow") as app:
        scheduler_of(app).trigger(NOW)
        scheduler_of(app).trigger(NOW + timedelta(minutes=1))
        await ticks()
        assert held.log == ["begin", "begin"]
        assert list(scheduler_of(app).running) == [NOW, NOW + timedelta(minutes=1)]
        held.go.set()
        assert await states(app, 2) == ["succeeded", "succeeded"]
        await ticks()
        assert not scheduler_of(app).running


async def test_replace_cancels_the_running_one_before_it_begins(tmp_path: Path) -> None:
    held = Held()
    async with scheduled(tmp_path, held, concurrency_policy="replace") as app:
        scheduler_of(app).trigger(NOW)
        await ticks()
        scheduler_of(app).trigger(NOW + timedelta(minutes=1))
        await states(app, 1)
        held.go.set()
        assert await states(app, 2) == ["cancelled", "succeeded"]
    assert held.log == ["begin", "cancelled", "begin", "end"]


async def test_closing_cancels_what_is_running_and_leaves_nothing(tmp_path: Path) -> None:
    held = Held()
    before = asyncio.all_tasks()
    async with scheduled(tmp_path, held) as app:
        scheduler_of(app).trigger(NOW)
        await ticks()
    assert held.log == ["begin", "cancelled"]
    assert [run.state for run in await scheduler_of(app).history()] == ["cancelled"]
    assert asyncio.all_tasks() <= before
    async with app:
        held.go.set()
        scheduler_of(app).trigger(NOW)
        assert (await states(app, 2))[1] == "succeeded"


async def test_a_failing_job_is_recorded_and_the_schedule_goes_on(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def body(step: BaseStep) -> None:
        raise OSError("disk " + "x" * 5000)

    async with scheduled(tmp_path, body, arguments={"password": "s3cret"}) as app:
        scheduler_of(app).trigger(NOW)
        await states(app, 1)
        scheduler_of(app).trigger(NOW)
        assert await states(app, 2) == ["failed", "failed"]
    run = (await scheduler_of(app).history())[0]
    assert run.error.startswith("OSError: disk xxx")
    assert len(run.error) == 2000
    assert "Schedule 's': Job 'job' failed: OSError: disk" in caplog.text
    assert "s3cret" not in caplog.text


async def test_an_unwritable_history_does_not_stop_the_schedule(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    held = Held()
    held.go.set()
    (tmp_path / "schedules").write_text("a file where the directory should be")
    async with scheduled(tmp_path, held) as app:
        for _ in range(2):
            scheduler_of(app).trigger(NOW)
            await until(lambda: not scheduler_of(app).running)
    assert held.log == ["begin", "end"] * 2
    assert "its history cannot be written" in caplog.text


async def test_schedules_are_listed_by_a_step(tmp_path: Path) -> None:
    @step
    async def body(step: BaseStep) -> None: ...

    app = Application(
        providers=(body,),
        workspace_dir=tmp_path,
        jobs={
            "job": {"steps": [{"backend": "step"}]},
            "list": {"steps": [{"backend": "list_schedules_step"}]},
        },
        schedules={"s": {"job": "job", "cron": NEVER, "description": "yearly"}},
    )
    async with app:
        scheduler_of(app).trigger(NOW)
        await states(app, 1)
        (found,) = (await app.run_job("list")).answer
    assert found["name"] == "s"
    assert found["description"] == "yearly"
    assert found["next_at"].endswith("-01-01T00:00:00+00:00")
    assert found["last_run"]["state"] == "succeeded"
    json.dumps(found)
