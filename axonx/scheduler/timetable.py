"""When a schedule is due: cron expressions in a time zone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cronsim import CronSim, CronSimError

from axonx.errors import ConfigurationError
from axonx.task.identity import timezone_named

# The wall clock may be set while a schedule sleeps, so it looks again from time to time.
_LONGEST_SLEEP_SECONDS = 30.0
#: A moment that is longer ago than this, as after a suspend, is missed and not made up for.
MISSED_AFTER = timedelta(seconds=60)


class Timetable:
    """The moments of a cron expression: 5 fields, or 6 with the second in front.

    Where clocks change, 5-field expressions follow Debian's cron: a time of day that does not exist is
    due when the gap ends, and one that exists twice is due once. Raises `ConfigurationError`, a `ValueError`.
    """

    def __init__(self, cron: str, timezone: str = "UTC") -> None:
        self.cron = cron
        try:
            self.timezone = timezone_named(timezone)
        except (ValueError, TypeError):
            raise ConfigurationError(
                f"Unknown timezone: {timezone!r}; use an IANA name such as 'Europe/Berlin'"
            ) from None
        self._simulation(datetime.now(UTC))
        if self.next_after(datetime.now(UTC)) is None:
            raise ConfigurationError(f"Invalid cron expression: {cron!r}: no date matches it")

    def next_after(self, moment: datetime) -> datetime | None:
        """The first moment after an aware one, in the timetable's zone; `None` within 50 years."""
        for found in self._simulation(moment):
            # In the repeated hour of a clock change, a 5-field expression may give a time of the first pass.
            if found.astimezone(UTC) > moment:
                return found
        return None

    def _simulation(self, moment: datetime) -> CronSim:
        try:
            return CronSim(self.cron, moment.astimezone(self.timezone))
        except (CronSimError, ValueError, AttributeError) as error:
            reason = "expected text" if isinstance(error, AttributeError) else error
            raise ConfigurationError(f"Invalid cron expression: {self.cron!r}: {reason}") from None


@dataclass(frozen=True, slots=True)
class Tick:
    """A moment that has come; `missed` when it was noticed too late."""

    moment: datetime
    missed: bool


def utc_now() -> datetime:
    return datetime.now(UTC)


async def ticks(timetable: Timetable, now: Callable[[], datetime] = utc_now) -> AsyncIterator[Tick]:
    """Yield each moment when it comes. After a gap in time, only its first missed moment is told."""
    moment = timetable.next_after(now())
    while moment is not None:
        while (seconds := (moment - now()).total_seconds()) > 0:
            await asyncio.sleep(min(seconds, _LONGEST_SLEEP_SECONDS))
        missed = now() - moment > MISSED_AFTER
        yield Tick(moment, missed)
        moment = timetable.next_after(now() if missed else moment)
