"""The bound over what all runs under way keep."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from deerflow.runs.events.budget import EventBudget
from deerflow.runs.events.log import EventLog, RunEvent


def _filled(budget: EventBudget, events: int, *, payload_bytes: int = 100) -> EventLog:
    log = EventLog(budget=budget)
    for _ in range(events):
        log.publish("values", "x" * (payload_bytes - 2))
    return log


async def _read(log: EventLog) -> list[RunEvent]:
    log.close()
    async with aclosing(log.subscribe(0)) as events:
        return [event async for event in events]


async def test_the_largest_log_drops_its_oldest_events_and_its_readers_are_told() -> None:
    budget = EventBudget(16_000)
    small, large = _filled(budget, 10), _filled(budget, 140)
    assert (small.size_bytes, large.size_bytes) == (1_000, 14_000)
    another = _filled(budget, 11)
    assert (small.size_bytes, another.size_bytes) == (1_000, 1_100)
    assert large.size_bytes == 7_000
    gap, *rest = await _read(large)
    assert (gap.name, gap.data) == ("gap", {"after": 0, "next": 71})
    assert [event.id for event in rest] == list(range(71, 141))
    assert [event.id for event in await _read(small)] == list(range(1, 11))


def test_logs_of_like_size_share_the_loss() -> None:
    budget = EventBudget(16_000)
    logs = [_filled(budget, 40) for _ in range(5)]
    sizes = [log.size_bytes for log in logs]
    assert sum(sizes) == budget.used_bytes <= 16_000
    assert max(sizes) <= 4_000 and min(sizes) >= 2_000


def test_where_all_logs_are_small_room_is_made_for_many_events_at_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget = EventBudget(16_000)
    logs = [_filled(budget, 2, payload_bytes=50) for _ in range(161)]
    assert budget.used_bytes == sum(log.size_bytes for log in logs) == 15_050
    for _ in range(19):
        logs[-1].publish("values", "x" * 48)
    assert (budget.used_bytes, len(caplog.records)) == (16_000, 1)


def test_an_ended_run_counts_no_longer() -> None:
    budget = EventBudget(16_000)
    ended = _filled(budget, 150)
    ended.close()
    ended.close()
    assert budget.used_bytes == 0
    assert _filled(budget, 150).size_bytes == ended.size_bytes == 15_000


def test_what_a_log_drops_by_its_own_bounds_counts_no_longer() -> None:
    budget = EventBudget(16_000)
    log = EventLog(max_events=3, budget=budget)
    for _ in range(1_000):
        log.publish("values", "x" * 98)
    assert budget.used_bytes == log.size_bytes == 300


def test_a_run_that_went_without_closing_its_log_counts_no_longer() -> None:
    budget = EventBudget(16_000)
    _filled(budget, 150)
    assert _filled(budget, 150).size_bytes == budget.used_bytes == 15_000


def test_logs_of_one_large_event_are_not_searched_with_every_event(
    caplog: pytest.LogCaptureFixture,
) -> None:
    budget = EventBudget(16_000)
    kept = [_filled(budget, 1, payload_bytes=3_000) for _ in range(6)]
    assert len(caplog.records) == 1
    small = _filled(budget, 9)
    assert [log.size_bytes for log in kept] == [3_000] * 6
    assert (small.size_bytes, len(caplog.records)) == (900, 1)


def test_large_events_that_went_leave_the_whole_room_again(caplog: pytest.LogCaptureFixture) -> None:
    budget = EventBudget(16_000)
    for log in [_filled(budget, 1, payload_bytes=3_000) for _ in range(20)]:
        log.close()
    told = len(caplog.records)
    log = _filled(budget, 161)
    assert log.size_bytes < 16_000
    assert len(caplog.records) == told + 1
