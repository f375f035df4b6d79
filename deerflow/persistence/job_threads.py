"""Threads that do blocking jobs for event loops, in the order in which they are asked for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

MAX_WAITING: Final = 10_000


class JobRefusedError(Exception):
    """The end came before a job began, too many wait, or no thread can begin; the text says which."""


class _Job:
    __slots__ = ("future", "loop", "work")

    def __init__(self, work: Callable[[], Any], loop: asyncio.AbstractEventLoop) -> None:
        self.work = work
        self.loop = loop
        self.future: asyncio.Future[Any] = loop.create_future()


class JobThreads:
    """`size` threads, which belong to no event loop. They do not keep the process from ending.

    A `ThreadPoolExecutor` costs twice as much for each job: it makes a future of its own, with a lock, and
    chains it to that of the loop.
    """

    def __init__(self, size: int = 1, *, name: str) -> None:
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._size = size
        self._name = name
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._closed = False

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, or raise what it raises.

        A caller that is cancelled before its job has begun takes it back; afterwards the job is done all the
        same. Raises `JobRefusedError` where `close` comes before that, where 10,000 jobs wait, and where no
        thread can begin.
        """
        if self._jobs.qsize() >= MAX_WAITING:
            raise JobRefusedError(f"{MAX_WAITING} jobs wait; try again later")
        job = _Job(work, asyncio.get_running_loop())
        with self._lock:  # nothing is queued behind the end
            if self._closed:
                raise _closed()
            if len(self._threads) < self._size:
                self._start_one()
            self._jobs.put(job)
        result: T = await job.future
        return result

    def close(self) -> None:
        """Wait for what runs, and refuse what waits. Calling it again does nothing."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._refuse()
                for _ in self._threads:
                    self._jobs.put(None)
        for thread in self._threads:
            thread.join()

    def _start_one(self) -> None:
        name = f"{self._name}-{len(self._threads)}"
        thread = threading.Thread(target=_work_off, args=(self._jobs,), name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more; it is tried again with the next job
            if not self._threads:
                raise JobRefusedError(str(error)) from error
        else:
            self._threads.append(thread)

    def _refuse(self) -> None:
        with suppress(Empty):
            while (job := self._jobs.get_nowait()) is not None:
                _tell(job, _fail, job.future, _closed())


def _closed() -> JobRefusedError:
    return JobRefusedError("it is closed")


def _work_off(jobs: SimpleQueue[_Job | None]) -> None:
    while (job := jobs.get()) is not None:
        if not job.future.cancelled():
            _do(job)
        del job  # until the next one comes, nothing of this one is held


def _do(job: _Job) -> None:
    try:
        result = job.work()
    except StopIteration as error:  # no future takes it
        _tell(job, _fail, job.future, RuntimeError(f"a job for a thread raised {error!r}"))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is the caller's
        _tell(job, _fail, job.future, error)
    else:
        _tell(job, _settle, job.future, result)


def _tell(job: _Job, callback: Callable[..., Any], *arguments: Any) -> None:
    with suppress(RuntimeError):  # the caller's loop is closed: nobody waits
        job.loop.call_soon_threadsafe(callback, *arguments)


def _settle(future: asyncio.Future[Any], result: Any) -> None:
    if not future.done():
        future.set_result(result)


def _fail(future: asyncio.Future[Any], error: BaseException) -> None:
    if not future.done():
        future.set_exception(error)
