"""What is kept of a run is kept once and in order, also where a write fails."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from itertools import count
from typing import Any

import pytest

from deerflow.runs import recorder
from deerflow.runs.record import NewRunEvent
from deerflow.runs.recorder import EventRecorder


class Store:
    """Fails as often as it is told, then keeps."""

    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.kept: list[Any] = []
        self.wrote = asyncio.Event()

    async def append(
        self, thread_id: str, run_id: str, events: Sequence[NewRunEvent], *, host_id: str | None = None
    ) -> None:
        await asyncio.sleep(0)
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        self.kept += [event.content["n"] for event in events]
        self.wrote.set()


def noting(store: Any) -> EventRecorder:
    kept = EventRecorder(store, thread_id="t", run_id="r")
    for number in range(5):
        kept.note_custom({"type": "task_running", "execution_id": "e", "n": number})
    return kept


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorder, "FLUSH_SECONDS", 0.001)


async def test_events_of_a_failed_write_are_written_with_the_next(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(failures=2)
    kept = noting(store)
    numbers = count(5)
    async with asyncio.timeout(10):
        while not store.wrote.is_set():
            await asyncio.sleep(0.001)
            kept.note_custom({"type": "task_running", "n": next(numbers)})
    rest = [event.content["n"] for event in await kept.rest()]
    assert [*store.kept, *rest] == list(range(next(numbers)))
    assert store.kept[:5] == [0, 1, 2, 3, 4]
    assert caplog.text.count("events of run r could not be written yet") == 2


async def test_what_was_never_written_is_handed_over_whole() -> None:
    kept = noting(Store(failures=1_000_000))
    await asyncio.sleep(0.01)
    assert [event.content["n"] for event in await kept.rest()] == [0, 1, 2, 3, 4]
