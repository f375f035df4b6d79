"""The relay on Redis: one stream for each run, whose entries have the ids of its events.

Redis takes ids in rising order only. So nothing is there twice, although it may be sent twice, and a host
that was only paused cannot write behind the events of its heir, whose ids are higher.

The commands: https://redis.io/docs/latest/commands/?group=stream
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import MaxConnectionsError, RedisError

from deerflow.cancellation import stop_task
from deerflow.config.storage import StreamConfig
from deerflow.errors import ConfigError
from deerflow.runs.events.log import EventLog, RunEvent
from deerflow.runs.hosts.relay import RelayError
from deerflow.streams.outages import Outages
from deerflow.streams.redis_pump import AT_MS, LEFT, NAME, PAYLOAD, RedisPump, key_of

logger = logging.getLogger(__name__)

MAX_READERS: Final = 1_000
"""Connections for readers at once; whoever comes later is told by records, and asks again."""

READ_EVENTS: Final = 16
CONNECT_SECONDS: Final = 3.0
ANSWER_SECONDS: Final = 5.0
LONGEST_WAIT_SECONDS: Final = 2.0
FLUSH_SECONDS: Final = 3.0

_Entry = tuple[bytes, Mapping[bytes, bytes]]


@asynccontextmanager
async def open_redis_relay(config: StreamConfig) -> AsyncIterator[RedisRelay]:
    """The relay on the server of `stream.url`. On the way out, what is waiting gets a moment to be sent."""
    async with _client(config, 2) as writer, _client(config, MAX_READERS) as reader:
        outages = Outages(_address(reader))
        pump = RedisPump(writer, config.key_prefix, outages)
        pumping = asyncio.create_task(pump.run(), name="events to Redis")
        try:
            await pump.check()
            yield RedisRelay(reader, config.key_prefix, pump, outages)
        finally:
            await pump.flush(FLUSH_SECONDS)
            await stop_task(pumping, grace_seconds=ANSWER_SECONDS)


class RedisRelay:
    """The contract stands in `deerflow.runs.hosts.relay.EventRelay`."""

    def __init__(self, client: Redis, prefix: str, pump: RedisPump, outages: Outages) -> None:
        self._client = client
        self._prefix = prefix
        self._pump = pump
        self._outages = outages
        self._is_full = False

    @property
    def answers(self) -> bool:
        return self._outages.answers

    def carry(self, run_id: str, log: EventLog, left: Callable[[], bytes | None]) -> None:
        self._pump.carry(run_id, log, left)

    async def read(self, run_id: str, after_id: int, *, wait_seconds: float = 0.0) -> list[RunEvent]:
        key = key_of(self._prefix, run_id)
        wait_ms = int(min(wait_seconds, LONGEST_WAIT_SECONDS) * 1000) or None
        try:
            found: Any = await self._client.xread({key: f"{after_id}-0"}, count=READ_EVENTS, block=wait_ms)
        except (RedisError, OSError) as error:
            raise self._away(error) from None
        self._outages.answered()
        return [_event(entry) for _, entries in found for entry in entries]

    async def newest(self, run_id: str) -> RunEvent | None:
        entry = await self._newest_entry(run_id)
        return None if entry is None else _event(entry)

    async def left(self, run_id: str) -> bytes | None:
        entry = await self._newest_entry(run_id)
        return None if entry is None else entry[1].get(LEFT)

    async def _newest_entry(self, run_id: str) -> _Entry | None:
        try:
            entries: Any = await self._client.xrevrange(key_of(self._prefix, run_id), count=1)
        except (RedisError, OSError) as error:
            raise self._away(error) from None
        return entries[0] if entries else None

    def _away(self, error: Exception) -> RelayError:
        if not isinstance(error, MaxConnectionsError):
            self._outages.failed(error)
        elif not self._is_full:
            self._is_full = True
            logger.warning("%d streams of other hosts are followed here; further readers wait", MAX_READERS)
        return RelayError(f"Redis at {self._outages.address} did not answer: {self._outages.text_of(error)}")


def _event(entry: _Entry) -> RunEvent:
    entry_id, fields = entry
    at_ms = int(fields[AT_MS]) if AT_MS in fields else None
    return RunEvent(int(entry_id.partition(b"-")[0]), fields[NAME].decode(), fields[PAYLOAD], at_ms)


def _client(config: StreamConfig, connections: int) -> Redis:
    assert config.url is not None, "the configuration was checked"
    try:
        return Redis.from_url(
            config.url,
            protocol=2,
            max_connections=connections,
            socket_connect_timeout=CONNECT_SECONDS,
            socket_timeout=ANSWER_SECONDS,
            # A connection that the server closed meanwhile is replaced at once.
            retry=Retry(NoBackoff(), 1),
        )
    except (ValueError, TypeError):
        # Its text may hold a part of the password.
        raise ConfigError(
            "stream.url: it cannot be read as redis://[user:password@]host:port/number; "
            "percent-encode what is special in user and password"
        ) from None


def _address(client: Redis) -> str:
    """Where the server is, without what the URL holds beside that."""
    given = client.connection_pool.connection_kwargs
    return str(given.get("path") or f"{given.get('host', 'localhost')}:{given.get('port', 6379)}")
