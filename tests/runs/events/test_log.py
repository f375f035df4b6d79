"""The live events of one run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from deerflow.runs.events.log import IDS_PER_ATTEMPT, EventLog, EventReader, RunEvent


async def _read(log: EventLog, after_id: int | None) -> list[RunEvent]:
    return [event async for event in log.subscribe(after_id)]


async def test_subscriber_from_the_start_sees_every_event_in_order() -> None:
    log = EventLog()
    for number in range(200):
        log.publish("values", number)
    log.close()
    events = await _read(log, 0)
    assert [event.data for event in events] == list(range(200))
    assert [event.id for event in events] == list(range(1, 201))


async def test_live_subscriber_sees_only_what_comes_after_it_subscribed() -> None:
    log = EventLog()
    log.publish("values", "before")
    reader = asyncio.create_task(_collect(log.batches(None)))
    await asyncio.sleep(0)
    log.publish("values", "after")
    log.close()
    assert [event.data for event in await reader] == ["after"]


async def _collect(batches) -> list[RunEvent]:
    return [event async for batch in batches for event in batch]


async def test_subscriber_resumes_right_after_the_event_it_names() -> None:
    log = EventLog()
    for number in range(5):
        log.publish("values", number)
    log.close()
    assert [event.data for event in await _read(log, 3)] == [3, 4]


async def test_trimmed_replay_begins_with_one_gap_and_goes_on_with_the_oldest_event() -> None:
    log = EventLog(max_events=2)
    for number in range(5):
        log.publish("values", number)
    log.close()
    events = await _read(log, 1)
    assert (events[0].name, events[0].id, events[0].data) == ("gap", None, {"after": 1, "next": 4})
    assert [event.data for event in events[1:]] == [3, 4]


async def test_reader_that_falls_behind_is_told_of_the_gap_while_the_run_goes_on() -> None:
    log = EventLog(max_events=3)
    log.publish("values", 0)
    reader = log.subscribe(0)
    assert (await anext(reader)).data == 0
    for number in range(1, 10):
        log.publish("values", number)
    log.close()
    rest = [event async for event in reader]
    assert [event.name for event in rest] == ["gap", "values", "values", "values"]
    assert [event.data for event in rest[1:]] == [7, 8, 9]


async def test_bytes_are_bounded_beside_the_count() -> None:
    log = EventLog(max_bytes=1000)
    for _ in range(50):
        log.publish("values", "x" * 200)
    log.close()
    events = await _read(log, 0)
    assert sum(len(event.payload) for event in events if event.name != "gap") <= 1000
    assert events[-1].id == 50


async def test_batches_are_bounded_by_count_and_bytes() -> None:
    log = EventLog()
    for _ in range(100):
        log.publish("values", 1)
    for _ in range(5):
        log.publish("values", "x" * 700_000)
    log.close()
    sizes = [len(batch) async for batch in log.batches(0)]
    assert sizes == [64, 38, 2, 1]


async def test_an_event_larger_than_the_bound_still_reaches_its_readers() -> None:
    log = EventLog(max_bytes=10)
    log.publish("end", "x" * 100)
    log.close()
    assert [event.name for event in await _read(log, 0)] == ["end"]


async def test_empty_closed_log_ends_at_once_whatever_is_asked_of_it() -> None:
    log = EventLog()
    log.close()
    assert await _read(log, 0) == []
    assert await _read(log, 17) == []


async def test_nothing_is_published_after_the_end() -> None:
    log = EventLog()
    log.publish("end", None)
    log.close()
    log.publish("values", "late")
    assert [event.name for event in await _read(log, 0)] == ["end"]


async def test_event_data_is_detached_from_what_was_published() -> None:
    log = EventLog()
    state = {"items": [1]}
    log.publish("values", state)
    state["items"].append(2)
    log.close()
    assert (await _read(log, 0))[0].data == {"items": [1]}


async def test_a_reader_that_leaves_keeps_nothing_waiting() -> None:
    log = EventLog()
    reader = asyncio.create_task(_read(log, 0))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.wait({reader})
    assert not log._waiters


async def test_an_id_from_another_log_is_answered_with_a_gap_and_everything_there_is() -> None:
    log = EventLog()
    reader = log.reader(50)
    for number in range(60):
        log.publish("values", number)
    log.close()
    events = [event async for event in _rest(reader)]
    assert events[0].data == {"after": 50, "next": 1}
    assert [event.data for event in events[1:]] == list(range(60))


async def test_ids_of_a_later_attempt_lie_above_all_before() -> None:
    log = EventLog(attempt=3)
    for number in range(2):
        log.publish("values", number)
    log.close()
    first = 2 * IDS_PER_ATTEMPT + 1
    assert [event.id async for event in log.subscribe(0)] == [first, first + 1]
    events = [event async for event in log.subscribe(7)]
    assert events[0].data == {"after": 7, "next": first}
    assert [event.id for event in events[1:]] == [first, first + 1]


async def test_who_has_seen_the_next_attempt_reads_nothing_of_the_former_one() -> None:
    log = EventLog(attempt=1)
    reader = log.reader(IDS_PER_ATTEMPT + 3)
    log.publish("values", "late")
    assert await reader.next(timeout_seconds=0.01) == []
    log.close()
    assert await reader.next() is None


async def test_a_log_tells_whoever_wants_to_know_that_it_changed() -> None:
    log, told = EventLog(max_events=2), []
    log.on_change = lambda: told.append((log.last_id, log.dropped_before, log.closed))
    for number in range(3):
        log.publish("values", number)
    log.close()
    assert told == [(1, None, False), (2, None, False), (3, 2, False), (3, 2, True)]


async def test_a_reader_with_a_time_limit_gets_nothing_while_nothing_comes() -> None:
    log = EventLog()
    reader = log.reader(0)
    assert await reader.next(timeout_seconds=0.01) == []
    log.publish("values", 1)
    assert [event.data for event in await reader.next(timeout_seconds=0.01) or []] == [1]
    log.close()
    assert await reader.next(timeout_seconds=0.01) is None


async def _rest(reader: EventReader) -> AsyncIterator[RunEvent]:
    while (batch := await reader.next()) is not None:
        for event in batch:
            yield event
