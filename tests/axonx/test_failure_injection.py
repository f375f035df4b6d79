"""Random failures in every hook: nothing leaks, and what was opened is closed once."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from axonx import Application, BaseComponent, BaseJob, BaseScheduler, BaseStep, provider
from axonx.components.job import JobEvent, JobResponse, LogEvent, ResultEvent

HANG_SECONDS = 0.004
LIMIT_SECONDS = 0.02
PATIENCE_SECONDS = 60


class Injected(Exception):
    pass


class InjectedBase(BaseException):
    pass


class Chaos:
    """Decides what each hook does, and counts what is open."""

    def __init__(self, seed: int, calm: float) -> None:
        self.random = random.Random(seed)
        self.calm = calm
        self.open: Counter[str] = Counter()
        self.first_failure: BaseException | None = None
        self.misuse: list[str] = []

    async def strike(self) -> None:
        """Return, raise, hang until cancelled, or swallow one cancellation."""
        if self.random.random() < self.calm:
            if self.random.random() < 0.3:
                await asyncio.sleep(0)
            return
        kind = self.random.choice(["raise", "base", "cancelled", "hang", "swallow", "late"])
        if kind == "hang":
            await asyncio.Event().wait()
        if kind == "swallow":
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return
        if kind == "late":
            await asyncio.sleep(HANG_SECONDS)
        errors = {"base": InjectedBase("base"), "cancelled": asyncio.CancelledError()}
        error = errors.get(kind, Injected(kind))
        if self.first_failure is None:
            self.first_failure = error
        raise error

    async def start(self, name: str) -> None:
        self.open[name] += 1
        if self.open[name] != 1:
            self.misuse.append(f"{name} started twice")
        await self.strike()

    async def close(self, name: str) -> None:
        self.open[name] -= 1
        if self.open[name] != 0:
            self.misuse.append(f"{name} closed {1 - self.open[name]} times")
        await self.strike()


def chaotic_app(tmp_path: Path, chaos: Chaos) -> Application:
    class Hooks(BaseComponent):
        async def _start(self) -> None:
            await chaos.start(repr(self))

        async def _close(self) -> None:
            await chaos.close(repr(self))

    @provider("chaos")
    class Part(Hooks):
        component_type = "part"

        def __init__(self, needs: str = "", **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.depend("needed", needs, Part, required=False)

    @provider("chaos")
    class Custom(Hooks, BaseJob):
        component_type = "job"

        async def stream(self, arguments: dict[str, Any], system: dict[str, Any]) -> AsyncIterator[JobEvent]:
            chaos.open["stream"] += 1
            try:
                yield LogEvent()
                await chaos.strike()
                yield ResultEvent(answer="done")
            finally:
                chaos.open["stream"] -= 1

    @provider("chaos")
    class Scheduler(Hooks, BaseScheduler):
        component_type = "scheduler"

    @provider("chaos")
    class Step(BaseStep):
        async def execute(self) -> None:
            chaos.open["step"] += 1
            try:
                for _ in range(3):
                    await self.emit(LogEvent())
                await chaos.strike()
            finally:
                chaos.open["step"] -= 1

    count = chaos.random.randint(1, 6)
    parts = {f"p{i}": {"backend": "chaos", "needs": f"p{i - 1}" if i else ""} for i in range(count)}
    return Application(
        providers=(Part, Custom, Scheduler, Step),
        workspace_dir=tmp_path,
        job_close_timeout_seconds=LIMIT_SECONDS,
        component_close_timeout_seconds=LIMIT_SECONDS,
        components={"part": parts},
        jobs={
            "custom": {"backend": "chaos"},
            "steps": {"steps": [{"backend": "chaos"}] * 2, "event_buffer_size": 2},
        },
        schedules={"s": {"backend": "chaos", "job": "custom"}},
    )


async def run(app: Application, name: str) -> None:
    assert isinstance(await app.run_job(name), JobResponse)


async def read(app: Application, name: str, stop_after: int = 99) -> None:
    kinds = []
    async with aclosing(app.stream_job(name)) as stream:
        async for event in stream:
            kinds.append(event.kind)
            if len(kinds) == stop_after:
                return
    assert kinds.count("result") == 1
    assert kinds[-1] == "result"


async def use(app: Application, chaos: Chaos) -> None:
    """Call the Jobs in every way, cancel some calls, perhaps close in between."""
    calls = [
        run(app, "custom"),
        run(app, "steps"),
        read(app, "custom"),
        read(app, "steps", 1),
        read(app, "steps"),
    ]
    tasks = [asyncio.create_task(call) for call in calls]
    await asyncio.sleep(chaos.random.choice([0, HANG_SECONDS]))
    for task in tasks:
        if chaos.random.random() < 0.3:
            task.cancel()
    if chaos.random.random() < 0.5:
        await close(app, chaos)
    await asyncio.wait(tasks, timeout=3 * LIMIT_SECONDS)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
    for task in tasks:
        error = None if task.cancelled() else task.exception()
        assert error is None or isinstance(error, RuntimeError), error  # "not running": the close came first


async def close(app: Application, chaos: Chaos) -> None:
    """Close, perhaps with impatient tries first; errors are allowed, hanging is not."""
    if chaos.random.random() < 0.5:
        try:
            await asyncio.wait_for(app.close(), 0.001)
        except (TimeoutError, BaseExceptionGroup):
            pass
    try:
        await asyncio.wait_for(app.close(), PATIENCE_SECONDS)
    except BaseExceptionGroup as group:
        assert group.message == "Application cleanup failed"


async def start(app: Application, chaos: Chaos) -> bool:
    chaos.first_failure = None
    try:
        await asyncio.wait_for(app.start(), 0.05)
    except TimeoutError:
        return False
    except BaseException as error:
        reported = error
        while isinstance(reported, BaseExceptionGroup):
            reported = reported.exceptions[0]
        if isinstance(chaos.first_failure, asyncio.CancelledError):
            reported = reported.__cause__ or reported
        assert reported is chaos.first_failure
        return False
    return True


@pytest.mark.parametrize("seed", range(120))
async def test_nothing_leaks_whatever_fails(tmp_path: Path, seed: int) -> None:
    chaos = Chaos(seed, calm=random.Random(seed).choice([0.6, 0.85, 0.97]))
    before = asyncio.all_tasks()
    app = chaotic_app(tmp_path, chaos)
    for _ in range(2):
        if await start(app, chaos):
            assert app.is_started
            await use(app, chaos)
        await close(app, chaos)
        assert not app.is_started
        left = asyncio.all_tasks() - before
        if left:
            await asyncio.wait(left, timeout=PATIENCE_SECONDS)
        assert asyncio.all_tasks() <= before
        assert +chaos.open == Counter()
        assert -chaos.open == Counter()
        assert chaos.misuse == []
