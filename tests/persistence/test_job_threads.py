"""Jobs in threads: in order, whole or not at all, and answered whatever they raise."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deerflow.persistence.job_threads import JobRefusedError, JobThreads


@pytest.fixture
def threads() -> Iterator[JobThreads]:
    opened = JobThreads(name="jobs")
    yield opened
    opened.close()


class Held:
    """A job that waits until it is let go."""

    def __init__(self) -> None:
        self.begun, self.go_on = threading.Event(), threading.Event()

    def __call__(self) -> str:
        self.begun.set()
        assert self.go_on.wait(10)
        return "done"


def raiser(error: BaseException) -> Callable[[], Any]:
    def job() -> None:
        raise error

    return job


async def test_jobs_of_one_thread_are_done_in_their_order(threads: JobThreads) -> None:
    done: list[int] = []
    await asyncio.gather(*(threads.run(lambda n=n: done.append(n)) for n in range(100)))  # type: ignore[misc]
    assert done == list(range(100))


@pytest.mark.parametrize("error", [ValueError("no"), SystemExit(3), KeyboardInterrupt()])
async def test_what_a_job_raises_is_its_callers(threads: JobThreads, error: BaseException) -> None:
    future = asyncio.ensure_future(asyncio.wait_for(asyncio.shield(_caught(threads, error)), 10))
    assert await future is error
    assert await threads.run(lambda: "still there") == "still there"


async def _caught(threads: JobThreads, error: BaseException) -> BaseException | None:
    try:
        await threads.run(raiser(error))
    except BaseException as caught:
        return caught
    return None


async def test_a_job_that_raises_stop_iteration_is_answered(threads: JobThreads) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await asyncio.wait_for(threads.run(raiser(StopIteration("odd"))), 10)


async def test_a_job_is_taken_back_before_it_begins_and_finished_afterwards(threads: JobThreads) -> None:
    held, done = Held(), list[str]()
    running = asyncio.create_task(threads.run(held))
    waiting = asyncio.create_task(threads.run(lambda: done.append("taken back")))
    await asyncio.to_thread(held.begun.wait, 10)
    for task in (running, waiting):
        task.cancel()
    held.go_on.set()
    await threads.run(lambda: done.append("later"))
    assert done == ["later"]
    assert running.cancelled() and waiting.cancelled()


async def test_a_job_that_fails_when_its_caller_has_left_is_nobodys(threads: JobThreads) -> None:
    held = Held()

    def failing() -> None:
        held()
        raise ValueError("no")

    left = asyncio.create_task(threads.run(failing))
    await asyncio.to_thread(held.begun.wait, 10)
    left.cancel()
    held.go_on.set()
    assert await threads.run(lambda: "still there") == "still there"
    assert left.cancelled()


async def test_closing_waits_for_what_runs_and_refuses_what_waits() -> None:
    threads, held = JobThreads(name="jobs"), Held()
    running, waiting = (asyncio.create_task(threads.run(job)) for job in (held, lambda: "never"))
    await asyncio.to_thread(held.begun.wait, 10)
    closing = asyncio.create_task(asyncio.to_thread(threads.close))
    with pytest.raises(JobRefusedError, match="closed"):
        await waiting
    assert not closing.done()
    held.go_on.set()
    assert await running == "done"
    await closing
    with pytest.raises(JobRefusedError, match="closed"):
        await threads.run(lambda: None)
    await asyncio.to_thread(threads.close)


async def test_nothing_of_a_job_is_held_while_the_next_one_is_waited_for(threads: JobThreads) -> None:
    class Thing:
        pass

    thing = Thing()
    gone = weakref.ref(thing)
    await threads.run(lambda thing=thing: thing)  # type: ignore[misc]
    del thing
    async with asyncio.timeout(10):  # the thread may not have come to its waiting yet
        while gone() is not None:
            await asyncio.sleep(0.01)
            gc.collect()


async def test_where_no_thread_can_begin_a_job_is_refused_and_the_next_one_tries_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    threads, done = JobThreads(2, name="jobs"), list[str]()

    def start(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        with pytest.raises(JobRefusedError, match="can't start new thread"):
            await threads.run(lambda: done.append("refused"))
    await asyncio.wait_for(threads.run(lambda: done.append("first")), 10)
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", start)
        await asyncio.wait_for(threads.run(lambda: done.append("by one alone")), 10)
    both = threading.Barrier(2)
    await asyncio.gather(*(threads.run(lambda: both.wait(10)) for _ in range(2)))
    threads.close()
    assert done == ["first", "by one alone"]


def test_jobs_of_several_loops_are_answered_on_each(threads: JobThreads) -> None:
    answers: list[int] = []

    def loop_of_its_own(n: int) -> None:
        answers.append(asyncio.run(threads.run(lambda: n)))

    callers = [threading.Thread(target=loop_of_its_own, args=(n,)) for n in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(10)
    assert sorted(answers) == [0, 1, 2, 3]


def test_a_loop_that_is_gone_stops_no_thread(threads: JobThreads) -> None:
    held = Held()

    async def leave() -> None:
        task = asyncio.create_task(threads.run(held))
        await asyncio.to_thread(held.begun.wait, 10)
        task.cancel()

    asyncio.run(leave())
    held.go_on.set()
    assert asyncio.run(threads.run(lambda: "still there")) == "still there"


async def test_several_threads_work_at_once() -> None:
    threads, both = JobThreads(2, name="jobs"), threading.Barrier(2)
    await asyncio.gather(*(threads.run(lambda: both.wait(10)) for _ in range(2)))
    await asyncio.to_thread(threads.close)
