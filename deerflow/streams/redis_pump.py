"""Send the events of a host's runs to Redis, those of many runs with one round trip."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from redis.asyncio import Redis
from redis.exceptions import RedisError, ResponseError

from deerflow.runs.events.log import BATCH_BYTES, EventLog, EventReader, RunEvent
from deerflow.runs.recent import KEPT_BYTES, KEPT_RUNS, KEPT_SECONDS
from deerflow.streams.outages import Outages

logger = logging.getLogger(__name__)

NAME: Final = b"name"
PAYLOAD: Final = b"payload"
AT_MS: Final = b"at_ms"
LEFT: Final = b"left"

LIVE_SECONDS: Final = 24 * 60 * 60
"""What a stream lasts without a further event: longer than any host that will still write is silent."""

RENEW_SECONDS: Final = 60 * 60
FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
_KNOWN_ALREADY: Final = "equal or smaller"


_Command = tuple[Any, ...]


def key_of(prefix: str, run_id: str) -> str:
    """Where the events of a run are."""
    return f"{prefix}run:{run_id}"


@dataclass(eq=False)
class _Feed:
    """One run's events on their way."""

    key: str
    log: EventLog
    left: Callable[[], bytes | None]
    reader: EventReader = field(init=False)
    trimmed_before: int | None = None
    renewed_at_seconds: float = float("-inf")

    def __post_init__(self) -> None:
        self.reader = self.log.reader(0)

    def take(self) -> list[RunEvent]:
        """The next events. What the log has dropped meanwhile is missing between their ids."""
        return [event for event in self.reader.available() if event.id is not None]

    def commands(self, events: Sequence[RunEvent], now_seconds: float) -> list[_Command]:
        """What Redis is to do with `events`, and with the stream that they go to."""
        commands: list[_Command] = [
            ("XADD", self.key, f"{event.id}-0", *self._fields(event)) for event in events
        ]
        dropped_before = self.log.dropped_before
        if dropped_before != self.trimmed_before:  # the stream is as long, and as heavy, as the log
            commands.append(("XTRIM", self.key, "MINID", "~", f"{dropped_before}-0"))
            self.trimmed_before = dropped_before
        if events and events[-1].name == "end":
            commands.append(("EXPIRE", self.key, int(KEPT_SECONDS)))
        elif events and now_seconds - self.renewed_at_seconds > RENEW_SECONDS:
            commands.append(("EXPIRE", self.key, LIVE_SECONDS))
            self.renewed_at_seconds = now_seconds
        return commands

    def _fields(self, event: RunEvent) -> list[Any]:
        fields: list[Any] = [NAME, event.name, PAYLOAD, event.payload]
        if event.at_ms is not None:
            fields += [AT_MS, event.at_ms]
        if event.name == "end" and (left := self.left()) is not None:
            fields += [LEFT, left]
        return fields


class RedisPump:
    """Reads the logs of a host's runs like any other reader: no run ever waits for it."""

    def __init__(self, client: Redis, prefix: str, outages: Outages) -> None:
        self._client = client
        self._prefix = prefix
        self._outages = outages
        self._waiting: dict[str, _Feed] = {}
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()

    def carry(self, run_id: str, log: EventLog, left: Callable[[], bytes | None]) -> None:
        """Pass on all that is published in `log`, and with the end what is `left`."""
        feed = _Feed(key_of(self._prefix, run_id), log, left)
        log.on_change = partial(self._changed, feed)

    async def check(self) -> None:
        """Say in the log where the server does not answer."""
        try:
            await self._client.ping()
        except (RedisError, OSError) as error:
            self._outages.failed(error)

    async def run(self) -> None:
        """Send what there is, for ever; a server that is away gets it later."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                try:
                    feeds, commands = self._gather()
                    await self._send(commands)
                    self._let_go(feeds)
                except Exception:  # one run's events must not keep those of all others
                    logger.exception("some events could not be sent to Redis")
            self._idle.set()

    async def flush(self, timeout_seconds: float) -> None:
        """Wait until everything has been sent, or the time is over."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            logger.warning("the last events of some runs did not reach Redis before the host closed")

    def _changed(self, feed: _Feed) -> None:
        self._waiting[feed.key] = feed
        self._idle.clear()
        self._wake.set()

    def _gather(self) -> tuple[list[_Feed], list[_Command]]:
        """Commands of about a megabyte, and the feeds that they are of, those first that waited longest."""
        feeds: list[_Feed] = []
        commands: list[_Command] = []
        size_bytes, now = 0, time.monotonic()
        for feed in list(self._waiting.values()):
            del self._waiting[feed.key]
            events = feed.take()
            feeds.append(feed)
            commands += feed.commands(events, now)
            if events and events[-1].id != feed.log.last_id:
                self._waiting[feed.key] = feed
            size_bytes += sum(len(event.payload) for event in events)
            if size_bytes > BATCH_BYTES:
                break
        return feeds, commands

    async def _send(self, commands: Sequence[_Command]) -> None:
        """Try until Redis has answered. What it took at an earlier try it refuses, and so keeps once."""
        pause_seconds = FIRST_PAUSE_SECONDS
        while commands:
            try:
                results = await self._try(commands)
            except (RedisError, OSError) as error:
                self._outages.failed(error)
                self._forget_what_is_too_much()
                await asyncio.sleep(pause_seconds)
                pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)
            else:
                self._judge(results)
                return

    async def _try(self, commands: Sequence[_Command]) -> list[Any]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            return await pipeline.execute(raise_on_error=False)

    def _judge(self, results: Sequence[Any]) -> None:
        refused = [
            result
            for result in results
            if isinstance(result, ResponseError) and _KNOWN_ALREADY not in str(result)
        ]
        self._outages.judged(refused[0] if refused else None)

    def _let_go(self, feeds: Sequence[_Feed]) -> None:
        for feed in feeds:
            if feed.log.closed and feed.key not in self._waiting:
                feed.log.on_change = None

    def _forget_what_is_too_much(self) -> None:
        """While the server is away: of runs that have ended, only the newest wait for it."""
        ended = [feed for feed in self._waiting.values() if feed.log.closed]
        held_bytes = sum(feed.log.size_bytes for feed in ended)
        while ended and (len(ended) > KEPT_RUNS or held_bytes > KEPT_BYTES):
            feed = ended.pop(0)
            held_bytes -= feed.log.size_bytes
            del self._waiting[feed.key]
            self._let_go([feed])
