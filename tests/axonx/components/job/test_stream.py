"""Streams: order, backpressure, and what happens when the reader goes."""

from __future__ import annotations

import asyncio
import gc
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from support.axonx_app import step_app, ticks

from axonx import Application, BaseStep
from axonx.components.job import LogEvent, ProgressEvent, ResultEvent


class Ticker:
    """A Step body that emits for ever and counts."""

    def __init__(self) -> None:
        self.emitted = 0
        self.finally_ran = False

    async def __call__(self, step: BaseStep) -> None:
        try:
            while True:
                await step.emit(ProgressEvent(name="tick", completed=self.emitted))
                self.emitted += 1
        finally:
            await asyncio.sleep(0)
            self.finally_ran = True


def job_tasks() -> list[asyncio.Task[Any]]:
    return [task for task in asyncio.all_tasks() if task.get_name().startswith("axonx-job:")]


async def test_events_arrive_in_order_before_the_only_result(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        for number in range(200):
            await step.emit(ProgressEvent(name="n", completed=number))
        step.response.answer = "end"

    async with step_app(tmp_path, body) as app:
        events = [event async for event in app.stream_job("job")]
    assert [event.completed for event in events[:-1]] == list(range(200))  # type: ignore[union-attr]
    assert isinstance(events[-1], ResultEvent)
    assert events[-1].model_dump(mode="json") == {
        "answer": "end",
        "success": True,
        "metadata": {},
        "kind": "result",
    }


async def test_a_stream_is_lazy(tmp_path: Path) -> None:
    ran = []

    async def body(step: BaseStep) -> None:
        ran.append(1)

    async with step_app(tmp_path, body) as app:
        stream = app.stream_job("job")
        await ticks()
        assert ran == []
        await stream.aclose()
        await ticks()
        assert ran == []


@pytest.mark.parametrize("size", [1, 3, 64])
async def test_emit_waits_while_the_buffer_is_full(tmp_path: Path, size: int) -> None:
    ticker = Ticker()
    job = {} if size == 64 else {"event_buffer_size": size}
    async with step_app(tmp_path, ticker, job=job) as app:
        async with aclosing(app.stream_job("job")) as stream:
            for taken in range(1, 4):
                await anext(stream)
                await ticks()
                assert ticker.emitted == size + taken


@pytest.mark.parametrize("extra", [-1, 0, 1])
async def test_the_result_follows_a_buffer_that_was_filled_to_the_brim(tmp_path: Path, extra: int) -> None:
    async def body(step: BaseStep) -> None:
        for _ in range(4 + extra):
            await step.emit(LogEvent())

    async with step_app(tmp_path, body, job={"event_buffer_size": 4}) as app:
        kinds = []
        async for event in app.stream_job("job"):
            await ticks(8)
            kinds.append(event.kind)
    assert kinds == ["log"] * (4 + extra) + ["result"]


async def test_a_blocked_stream_disturbs_no_other_job(tmp_path: Path) -> None:
    ticker = Ticker()
    app = Application(workspace_dir=tmp_path, jobs={"other": {"steps": [{"backend": "demo_step"}]}})
    async with app, step_app(tmp_path, ticker, job={"event_buffer_size": 1}) as blocked:
        async with aclosing(blocked.stream_job("job")) as stream:
            await anext(stream)
            assert (await app.run_job("other")).success
    assert ticker.finally_ran


async def test_several_writers_share_the_buffer(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        async def write(name: str) -> None:
            for number in range(20):
                await step.emit(ProgressEvent(name=name, completed=number))

        async with asyncio.TaskGroup() as group:
            for name in "abc":
                group.create_task(write(name))

    async with step_app(tmp_path, body, job={"event_buffer_size": 2}) as app:
        events = [event async for event in app.stream_job("job") if isinstance(event, ProgressEvent)]
    for name in "abc":
        assert [event.completed for event in events if event.name == name] == list(range(20))


async def test_a_writer_that_is_cancelled_lets_the_next_one_in(tmp_path: Path) -> None:
    emitted = []
    one_is_gone = asyncio.Event()

    async def body(step: BaseStep) -> None:
        async def write(name: str) -> None:
            await step.emit(ProgressEvent(name=name))
            emitted.append(name)

        await write("taken")
        await write("buffered")
        writers = [asyncio.create_task(write(name)) for name in ("gone", "second", "third")]
        await ticks()
        writers[0].cancel()
        one_is_gone.set()
        await asyncio.wait(writers)

    async with step_app(tmp_path, body, job={"event_buffer_size": 1}) as app:
        async with aclosing(app.stream_job("job")) as stream:
            first = await anext(stream)
            await one_is_gone.wait()
            names = [
                getattr(event, "name", "result") for event in [first, *[event async for event in stream]]
            ]
    assert names == ["taken", "buffered", "second", "third", "result"]
    assert emitted == names[:-1]


async def test_closing_the_stream_waits_for_the_steps_finally(tmp_path: Path) -> None:
    ticker = Ticker()
    async with step_app(tmp_path, ticker) as app:
        async with aclosing(app.stream_job("job")) as stream:
            for _ in range(3):
                await anext(stream)
        assert ticker.finally_ran
        assert job_tasks() == []


async def test_what_a_step_emits_while_it_cleans_up_does_not_hold_it_back(tmp_path: Path) -> None:
    cleaned = []

    async def body(step: BaseStep) -> None:
        try:
            while True:
                await step.emit(LogEvent())
        finally:
            for _ in range(5):
                await step.emit(LogEvent(content="bye"))
            cleaned.append(1)

    app = step_app(tmp_path, body, job={"event_buffer_size": 2}, job_close_timeout_seconds=30)
    async with app:
        async with aclosing(app.stream_job("job")) as stream:
            await anext(stream)
        assert cleaned == [1]
        unread = app.stream_job("job")
        await anext(unread)
        await asyncio.wait_for(app.close(), 5)
        assert cleaned == [1, 1]
        assert [event.kind async for event in unread] == ["log", "log", "result"]


async def test_breaking_out_cancels_the_step_within_a_few_turns(tmp_path: Path) -> None:
    ticker = Ticker()
    async with step_app(tmp_path, ticker) as app:
        async for _ in app.stream_job("job"):
            break
        gc.collect()
        await ticks(8)
        assert ticker.finally_ran
        assert job_tasks() == []


async def test_a_dropped_stream_cancels_the_step(tmp_path: Path) -> None:
    ticker = Ticker()
    async with step_app(tmp_path, ticker) as app:
        stream = app.stream_job("job")
        await anext(stream)
        del stream
        gc.collect()
        await ticks(8)
        assert ticker.finally_ran


async def test_a_cancelled_reader_cancels_the_step(tmp_path: Path) -> None:
    started = asyncio.Event()
    finally_ran = []

    async def body(step: BaseStep) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            finally_ran.append(1)

    async def read(app: Application) -> None:
        async for _ in app.stream_job("job"):
            pass

    async with step_app(tmp_path, body) as app:
        reader = asyncio.create_task(read(app))
        await started.wait()
        reader.cancel()
        await asyncio.wait({reader})
        assert reader.cancelled()
        assert finally_ran == [1]
        assert job_tasks() == []


async def test_a_cancelled_caller_cancels_the_step_and_later_steps_are_skipped(tmp_path: Path) -> None:
    log: list[str] = []

    async def first(step: BaseStep) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            log.append("swallowed")

    async def second(step: BaseStep) -> None:
        log.append("never")

    async with step_app(tmp_path, first, second) as app:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(app.run_job("job"), 0.01)
        assert log == ["swallowed"]
        assert job_tasks() == []


async def test_a_caller_waits_no_longer_than_the_limit_for_a_deaf_step(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    release = asyncio.Event()

    async def deaf(step: BaseStep) -> None:
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    async with step_app(tmp_path, deaf, job_close_timeout_seconds=0.05) as app:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(app.run_job("job"), 0.01)
        assert "ignored cancellation for 0.05 s and was abandoned" in caplog.text
        release.set()
        await ticks()
        assert job_tasks() == []


async def test_late_events_of_a_finished_call_go_nowhere(tmp_path: Path) -> None:
    tasks = []

    async def body(step: BaseStep) -> None:
        async def later() -> None:
            await asyncio.sleep(0.01)
            await step.emit(LogEvent())

        tasks.append(asyncio.create_task(later()))

    async with step_app(tmp_path, body) as app:
        assert [event.kind async for event in app.stream_job("job")] == ["result"]
        await asyncio.gather(*tasks)


async def test_a_stream_that_is_first_read_after_close_ends_with_a_failure(tmp_path: Path) -> None:
    ticker = Ticker()
    app = step_app(tmp_path, ticker)
    async with app:
        stream = app.stream_job("job")
    events = [event async for event in stream]
    assert [event.kind for event in events] == ["result"]
    assert events[0].answer == "NotRunningError: Job 'job' is not running"  # type: ignore[union-attr]


async def test_a_job_that_only_emits_lets_others_run(tmp_path: Path) -> None:
    async def body(step: BaseStep) -> None:
        for _ in range(1000):
            await step.emit(LogEvent())

    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    async with step_app(tmp_path, body) as app:
        counter = asyncio.create_task(count())
        await app.run_job("job")
        counter.cancel()
    assert turns >= 1000 // 64
