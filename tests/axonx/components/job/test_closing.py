"""Closing an Application while its Jobs run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import step_app, ticks

from axonx import Application, BaseJob, BaseStep, provider
from axonx.components.job import LogEvent, ProgressEvent, ResultEvent
from axonx.errors import NotRunningError

CLOSED = "Application closed while job 'job' was running"


class Waiting:
    """A Step body that waits for ever and says when its clean-up ran."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cleaned = False

    async def __call__(self, step: BaseStep) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned = True


async def test_a_waiting_caller_gets_a_failure_that_says_so(tmp_path: Path) -> None:
    body = Waiting()
    app = step_app(tmp_path, body)
    await app.start()
    caller = asyncio.create_task(app.run_job("job"))
    await body.started.wait()
    await app.close()
    assert body.cleaned
    response = await caller
    assert (response.success, response.answer) == (False, CLOSED)


async def test_a_stream_gets_its_result_after_the_events_that_it_has_not_read_yet(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        while True:
            await step.emit(LogEvent())

    app = step_app(tmp_path, body, job={"event_buffer_size": 3})
    await app.start()
    stream = app.stream_job("job")
    await anext(stream)
    await ticks()
    await app.close()
    rest = [event async for event in stream]
    assert [event.kind for event in rest] == ["log"] * 3 + ["result"]
    assert isinstance(rest[-1], ResultEvent)
    assert (rest[-1].success, rest[-1].answer) == (False, CLOSED)


async def test_a_step_that_fails_while_it_is_stopped_still_says_why_it_was_stopped(tmp_path: Path) -> None:
    started = asyncio.Event()

    async def body(step: BaseStep) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            raise LookupError("clean-up")

    app = step_app(tmp_path, body)
    await app.start()
    caller = asyncio.create_task(app.run_job("job"))
    await started.wait()
    await app.close()
    assert (await caller).answer == CLOSED


async def test_a_call_that_has_not_begun_yet_is_answered_too(tmp_path: Path) -> None:
    app = step_app(tmp_path, Waiting())
    await app.start()
    caller = asyncio.create_task(app.run_job("job"))
    await asyncio.sleep(0)
    await app.close()
    assert (await caller).answer == CLOSED


async def test_the_stream_of_an_abandoned_call_ends_at_once(tmp_path: Path) -> None:
    release = asyncio.Event()

    async def deaf(step: BaseStep) -> None:
        await step.emit(LogEvent())
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    app = step_app(tmp_path, deaf, job_close_timeout_seconds=0.05)
    await app.start()
    stream = app.stream_job("job")
    await anext(stream)
    await app.close()
    # Whoever waited for the limit once more would now wait in vain.
    app.context.jobs["job"]._job_runtime.close_timeout_seconds = 3600
    async with asyncio.timeout(30):
        assert [event.answer async for event in stream] == [CLOSED]  # type: ignore[union-attr]
    release.set()


async def test_a_deaf_step_is_abandoned_after_the_limit(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    started, release = asyncio.Event(), asyncio.Event()

    async def deaf(step: BaseStep) -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue
        await step.emit(LogEvent())

    app = step_app(tmp_path, deaf, job_close_timeout_seconds=0.05)
    await app.start()
    caller = asyncio.create_task(app.run_job("job"))
    await started.wait()
    await asyncio.wait_for(app.close(), 60)
    assert (await caller).answer == CLOSED
    assert "jobs.job.steps.0 (step0) ignored cancellation for 0.05 s and was abandoned" in caplog.text
    release.set()
    await ticks()
    assert not [task for task in asyncio.all_tasks() if task.get_name() == "axonx-job:job"]


@pytest.mark.parametrize("how", ["await", "task", "gather"])
async def test_a_step_may_close_the_application(tmp_path: Path, how: str) -> None:
    async def closer(step: BaseStep) -> None:
        if how == "await":
            await app.close()
        elif how == "task":
            await asyncio.create_task(app.close())
        else:
            await asyncio.gather(app.close(), app.close())
        await asyncio.sleep(0.01)
        step.response.answer = "closing"

    app = step_app(tmp_path, closer)
    await app.start()
    response = await asyncio.wait_for(app.run_job("job"), 60)
    assert (response.success, response.answer) == (True, "closing")
    assert not app.is_started
    with pytest.raises(NotRunningError):
        await app.run_job("job")
    await asyncio.wait_for(app.close(), 60)
    async with app:
        assert app.is_started


async def test_a_step_that_closes_and_then_hangs_is_cancelled_after_the_limit(tmp_path: Path) -> None:
    async def closer(step: BaseStep) -> None:
        await app.close()
        await asyncio.Event().wait()

    app = step_app(tmp_path, closer, job_close_timeout_seconds=0.02)
    await app.start()
    response = await asyncio.wait_for(app.run_job("job"), 60)
    assert response.answer == CLOSED
    await asyncio.wait_for(app.close(), 60)


async def test_closing_from_a_nested_call_spares_the_calls_around_it(tmp_path: Path) -> None:
    other = Waiting()

    async def inner(step: BaseStep) -> None:
        await app.close()
        step.response.answer = "inner"

    async def outer(step: BaseStep) -> None:
        step.response.answer = (await app.run_job("inner")).answer

    bodies = {"outer": outer, "inner": inner, "other": other}
    classes = []
    for name, body in bodies.items():

        async def execute(self: BaseStep, body: Any = body) -> None:
            await body(self)

        classes.append(provider(name)(type(name.title(), (BaseStep,), {"execute": execute})))
    jobs = {name: {"steps": [{"backend": name}]} for name in bodies}
    app = Application(providers=classes, workspace_dir=tmp_path, jobs=jobs)
    await app.start()
    bystander = asyncio.create_task(app.run_job("other"))
    await other.started.wait()
    assert (await asyncio.wait_for(app.run_job("outer"), 60)).answer == "inner"
    assert "Application closed" in (await bystander).answer
    await asyncio.wait_for(app.close(), 60)


async def test_errors_of_a_close_from_inside_reach_the_next_close_and_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def closer(step: BaseStep) -> None:
        await app.close()

    @provider("broken")
    class Broken(BaseJob):
        async def _close(self) -> None:
            raise LookupError("broken close")

        async def stream(
            self, arguments: dict[str, Any], system: dict[str, Any]
        ) -> AsyncIterator[ResultEvent]:
            yield ResultEvent()

    from_steps = step_app(tmp_path, closer)
    closer_class = from_steps.context.registry.get("step", "step0")
    app = Application(
        providers=(Broken, closer_class),
        workspace_dir=tmp_path,
        jobs={"job": {"steps": [{"backend": "step0"}]}, "broken": {"backend": "broken"}},
    )
    await app.start()
    assert (await app.run_job("job")).success
    await ticks(10)
    assert "Application cleanup failed" in caplog.text
    assert "broken close" in caplog.text
    with pytest.raises(ExceptionGroup, match="Application cleanup failed"):
        await app.close()
    await app.close()


async def test_a_custom_jobs_stream_is_stopped_by_close(tmp_path: Path) -> None:
    started = asyncio.Event()
    log: list[str] = []

    @provider("custom")
    class Custom(BaseJob):
        async def _close(self) -> None:
            log.append("close job")

        async def stream(
            self, arguments: dict[str, Any], system: dict[str, Any]
        ) -> AsyncIterator[ProgressEvent]:
            try:
                yield ProgressEvent(name="x")
                started.set()
                await asyncio.Event().wait()
            finally:
                log.append("stream ended")

    app = Application(providers=(Custom,), workspace_dir=tmp_path, jobs={"job": {"backend": "custom"}})
    await app.start()
    caller = asyncio.create_task(app.run_job("job"))
    await started.wait()
    await app.close()
    assert (await caller).answer == CLOSED
    assert log == ["stream ended", "close job"]


async def test_closing_one_job_stops_its_calls(tmp_path: Path) -> None:
    body = Waiting()
    async with step_app(tmp_path, body) as app:
        caller = asyncio.create_task(app.run_job("job"))
        await body.started.wait()
        await app.context.jobs["job"].close()
        assert not (await caller).success
        with pytest.raises(RuntimeError, match="Job 'job' is not running"):
            await app.run_job("job")
