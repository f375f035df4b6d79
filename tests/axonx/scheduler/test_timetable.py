"""When a cron expression is due."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest

from axonx.errors import ConfigurationError
from axonx.scheduler.timetable import Tick, Timetable, ticks

BERLIN = "Europe/Berlin"


def moments(cron: str, after: str, count: int, timezone: str = BERLIN) -> list[str]:
    """The next moments as UTC texts."""
    timetable = Timetable(cron, timezone)
    moment = datetime.fromisoformat(after)
    found = []
    for _ in range(count):
        following = timetable.next_after(moment)
        assert following is not None
        moment = following
        found.append(moment.astimezone(UTC).strftime("%m-%d %H:%M:%S"))
    return found


def test_five_fields_are_minutes_and_six_begin_with_the_second() -> None:
    assert moments("*/15 * * * *", "2025-01-01T00:07:03+00:00", 2) == ["01-01 00:15:00", "01-01 00:30:00"]
    assert moments("*/20 * * * * *", "2025-01-01T00:07:03+00:00", 2) == ["01-01 00:07:20", "01-01 00:07:40"]


def test_times_are_those_of_the_zone() -> None:
    assert moments("0 12 * * *", "2025-01-01T00:00:00+00:00", 1, "Asia/Tokyo") == ["01-01 03:00:00"]
    assert moments("0 12 * * *", "2025-01-01T00:00:00+00:00", 1, "UTC") == ["01-01 12:00:00"]


def test_a_time_that_does_not_exist_is_due_when_the_gap_ends() -> None:
    assert moments("30 2 * * *", "2025-03-29T12:00:00+00:00", 2) == ["03-30 01:00:00", "03-31 00:30:00"]


def test_a_time_that_exists_twice_is_due_once() -> None:
    assert moments("30 2 * * *", "2025-10-25T12:00:00+00:00", 2) == ["10-26 00:30:00", "10-27 01:30:00"]


def test_the_second_pass_of_a_repeated_hour_never_gives_a_moment_of_the_past() -> None:
    # 02:10 for the second time; the first 02:45 is over.
    assert moments("45 2 * * *", "2025-10-26T01:10:00+00:00", 1) == ["10-27 01:45:00"]


def test_every_hour_is_every_hour_when_clocks_change() -> None:
    for day in ("2025-03-29T20:00:00+00:00", "2025-10-25T20:00:00+00:00"):
        timetable = Timetable("0 * * * *", BERLIN)
        found = [datetime.fromisoformat(day)]
        for _ in range(12):
            following = timetable.next_after(found[-1])
            assert following is not None
            found.append(following.astimezone(UTC))
        assert {after - before for before, after in pairwise(found)} == {timedelta(hours=1)}


@pytest.mark.parametrize(
    "cron",
    ["zz", "", "* * * *", "* * * * * * *", "60 * * * *", "*/0 * * * *", "0 0 30 2 *", 5, None, "5-1 * * * *"],
)
def test_a_wrong_expression_is_refused(cron: Any) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"Invalid cron expression: '?{str(cron)[:1]}".replace("*", r"\*")
    ):
        Timetable(cron)


def test_a_wrong_zone_is_refused() -> None:
    names: list[Any] = ["Mars/Olympus", "", "/etc/passwd", "../x", 5]
    for name in names:
        with pytest.raises(ConfigurationError, match="Unknown timezone"):
            Timetable("* * * * *", name)


async def test_of_the_moments_missed_in_a_gap_the_first_is_told() -> None:
    start = datetime(2025, 1, 1, tzinfo=UTC)
    minute, gap = timedelta(minutes=1), timedelta(hours=3)
    # The clock as it is read: when the wait begins, when it ends, and once more after a gap.
    readings = [start, *[start + minute] * 2, *[start + gap] * 3, *[start + gap + minute] * 2]
    clock = iter(readings)
    found = [tick async for tick in _first(3, ticks(Timetable("* * * * *"), lambda: next(clock)))]
    assert found == [
        Tick(start + minute, False),
        Tick(start + 2 * minute, True),
        Tick(start + gap + minute, False),
    ]


async def _first(count: int, stream: AsyncIterator[Tick]) -> AsyncIterator[Tick]:
    for _ in range(count):
        yield await anext(stream)
