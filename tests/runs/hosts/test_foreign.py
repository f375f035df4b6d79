"""Following a run of another host: by a relay, by its record, and by its own log once it has come here."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from deerflow.runs.events.log import IDS_PER_ATTEMPT, EventLog, RunEvent
from deerflow.runs.hosts import foreign
from deerflow.runs.hosts.foreign import Followers, ForeignReader
from deerflow.runs.hosts.relay import RelayError
from deerflow.runs.parts import RunParts
from deerflow.runs.record import RunRecord, RunStatus

RECORD = RunRecord("run", "thread", "lead_agent", status=RunStatus.RUNNING)
SECOND = IDS_PER_ATTEMPT
"""The id before the first of the second attempt."""


def event(event_id: int, name: str = "values") -> RunEvent:
    return RunEvent(event_id, name, b"{}")


class Relay:
    """Events that are there, and a server that may be away."""

    def __init__(self, *events: RunEvent) -> None:
        self.events = list(events)
        self.is_away = False

    def carry(self, run_id: str, log: EventLog, left: Any) -> None:
        raise AssertionError("nothing is carried here")

    async def left(self, run_id: str) -> bytes | None:
        raise AssertionError("nobody asks for it here")

    async def read(self, run_id: str, after_id: int, *, wait_seconds: float = 0.0) -> list[RunEvent]:
        self._check()
        found = [event for event in self.events if (event.id or 0) > after_id][:2]
        await asyncio.sleep(0 if found else wait_seconds)
        return found

    async def newest(self, run_id: str) -> RunEvent | None:
        self._check()
        return self.events[-1] if self.events else None

    def _check(self) -> None:
        if self.is_away:
            raise RelayError("away")


class Runs:
    """One record, which the test changes."""

    def __init__(self, record: RunRecord | None = RECORD) -> None:
        self.record = record
        self.log: EventLog | None = None
        self.followers = Followers()

    async def get(self, run_id: str, *, thread_id: str) -> RunRecord | None:
        return self.record

    def end(self, status: RunStatus = RunStatus.SUCCESS, error: str | None = None) -> None:
        self.record = replace(RECORD, status=status, error=error)


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("PAUSE_SECONDS", 0.01), ("RECORD_SECONDS", 0.02), ("FINISHING_SECONDS", 0.1)):
        monkeypatch.setattr(foreign, name, seconds)


def reader(runs: Runs, relay: Relay | None, after_id: int | None = 0) -> ForeignReader:
    parts: Any = SimpleNamespace(
        stores=SimpleNamespace(runs=runs), relay=relay, presence=SimpleNamespace(lease_seconds=30.0)
    )
    record = runs.record or RECORD
    return ForeignReader(record, after_id, cast(RunParts, parts), lambda run_id: runs.log, runs.followers)


async def rest(following: ForeignReader) -> list[tuple[str, Any]]:
    """What is told until the end: names with ids, of a gap what it is between, of a told end the status."""
    told: list[tuple[str, Any]] = []
    async with asyncio.timeout(20):
        while (batch := await following.next()) is not None:
            told += [
                (item.name, item.id or item.data.get("next") or item.data.get("status")) for item in batch
            ]
    return told


def names(pairs: Iterable[tuple[str, Any]]) -> list[str]:
    return [name for name, _ in pairs]


async def test_a_gap_stands_wherever_ids_are_missing() -> None:
    relay = Relay(event(3), event(4), event(7), event(SECOND + 1, "metadata"), event(SECOND + 2, "end"))
    assert await rest(reader(Runs(), relay, 1)) == [
        ("gap", 3), ("values", 3), ("values", 4), ("gap", 7), ("values", 7),
        ("gap", SECOND + 1), ("metadata", SECOND + 1), ("end", SECOND + 2),
    ]  # fmt: skip


async def test_who_wants_what_comes_from_now_on_gets_no_gap_for_what_was() -> None:
    runs, relay = Runs(), Relay(event(3), event(4))
    following = reader(runs, relay, None)
    assert await following.next(0.01) == []
    relay.events += [event(5), event(6, "end")]
    assert await rest(following) == [("values", 5), ("end", 6)]


@pytest.mark.parametrize(
    ("after_id", "told"),
    [
        (None, [("end", 2)]),
        (0, [("values", 1), ("end", 2)]),
        (1, [("end", 2)]),
        (2, []),
        (900_000, [("gap", 1), ("values", 1), ("end", 2)]),
    ],
)
async def test_an_ended_run_is_told_as_far_as_the_client_lacks_it(after_id: int | None, told: Any) -> None:
    runs = Runs(replace(RECORD, status=RunStatus.SUCCESS))
    assert await rest(reader(runs, Relay(event(1), event(2, "end")), after_id)) == told


async def test_an_id_of_the_next_attempt_is_waited_for_though_the_relay_lags() -> None:
    runs, relay = Runs(), Relay(event(1), event(2))
    following = reader(runs, relay, SECOND + 5)
    assert await following.next(0.01) == []
    relay.events += [event(SECOND + number) for number in range(1, 7)]
    relay.events.append(event(SECOND + 7, "end"))
    assert await rest(following) == [("values", SECOND + 6), ("end", SECOND + 7)]


async def test_the_end_of_the_stream_is_waited_for_after_that_of_the_record(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "FINISHING_SECONDS", 30.0)
    runs, relay = Runs(), Relay(event(1))
    following = reader(runs, relay)
    assert await following.next() == [event(1)]
    runs.end()
    await asyncio.sleep(0.05)
    assert await following.next(0.0) == []
    relay.events.append(event(2, "end"))
    assert await rest(following) == [("end", 2)]


@pytest.mark.parametrize("relay", [None, Relay(event(1)), Relay()], ids=["none", "without end", "empty"])
async def test_the_record_tells_the_end_that_never_comes(relay: Relay | None) -> None:
    runs = Runs()
    following = reader(runs, relay)
    runs.end(RunStatus.ERROR, "ValueError: broken")
    told = await rest(following)
    assert names(told)[-2:] == ["gap", "end"] and told[-1][1] == "error"
    assert await following.next() is None


async def test_a_relay_that_is_away_is_asked_again() -> None:
    runs, relay = Runs(), Relay(event(1))
    following = reader(runs, relay)
    assert await following.next() == [event(1)]
    relay.is_away = True
    assert await following.next(0.05) == []
    relay.is_away = False
    relay.events += [event(2), event(3, "end")]
    assert await rest(following) == [("values", 2), ("end", 3)]


async def test_a_relay_that_stays_away_leaves_the_end_to_the_record() -> None:
    runs, relay = Runs(), Relay(event(1))
    following = reader(runs, relay)
    await following.next()
    relay.is_away = True
    runs.end()
    assert await rest(following) == [("gap", None), ("end", "success")]


async def test_a_run_that_is_deleted_has_ended() -> None:
    runs = Runs()
    following = reader(runs, None, None)
    runs.record = None
    assert await rest(following) == [("end", "interrupted")]


async def test_followers_leave_without_an_end_when_their_host_closes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreign, "LEAVING_SECONDS", 60.0)
    runs = Runs()
    following = reader(runs, None)
    asking = asyncio.create_task(following.next())
    await asyncio.sleep(0)
    await runs.followers.finished(0.02)
    assert not asking.done()
    await runs.followers.let_go()
    assert asking.done() and await asking is None


async def test_nobody_waits_for_followers_that_are_gone() -> None:
    runs = Runs()
    asking = asyncio.create_task(reader(runs, None).next())
    await asyncio.sleep(0)
    asking.cancel()
    async with asyncio.timeout(20):
        await runs.followers.finished(3600)
    with pytest.raises(asyncio.CancelledError):
        await asking


@pytest.mark.parametrize("relay", [None, Relay(event(1), event(2))], ids=["records", "relay"])
async def test_a_run_that_comes_here_is_told_from_its_own_log(relay: Relay | None) -> None:
    runs = Runs()
    following = reader(runs, relay, 0)
    if relay is not None:
        assert await following.next() == relay.events
    runs.log = EventLog(attempt=2)
    runs.log.publish("metadata", {})
    runs.log.publish("end", {})
    runs.log.close()
    runs.end()
    gap = [] if relay is None else [("gap", SECOND + 1)]
    assert await rest(following) == [*gap, ("metadata", SECOND + 1), ("end", SECOND + 2)]
