"""Events of runs in Redis: what is kept there, for how long, and what happens while it is away."""

from __future__ import annotations

import asyncio
import logging
import sys
from typing import Any
from uuid import uuid4

import pytest
from support.crashes import until
from support.redis_server import PASSWORD, RedisServer

from deerflow.config.storage import StreamConfig
from deerflow.errors import ConfigError
from deerflow.runs.events.log import IDS_PER_ATTEMPT, EventLog, RunEvent
from deerflow.runs.hosts.relay import EventRelay, RelayError
from deerflow.streams import open_relay, redis_relay

pytestmark = pytest.mark.redis


def configured(server: RedisServer, **fields: Any) -> StreamConfig:
    return StreamConfig(backend="redis", url=server.url, **fields)


def nothing() -> None:
    """What is kept beside the end of most runs."""


async def told(relay: EventRelay, run_id: str, count: int, after_id: int = 0) -> list[tuple[Any, str]]:
    """The next `count` events of a run."""
    events: list[tuple[Any, str]] = []
    async with asyncio.timeout(20):
        while len(events) < count:
            for event in await relay.read(run_id, after_id, wait_seconds=1.0):
                events.append((event.id, event.name))
                after_id = event.id or 0
    return events


async def _first(relay: EventRelay, run_id: str) -> RunEvent:
    """The first event of a run, as it comes."""
    async with asyncio.timeout(20):
        while not (events := await relay.read(run_id, 0, wait_seconds=2.0)):
            pass
    (first,) = events
    return first


async def test_events_arrive_under_their_ids_with_their_bytes(redis_server: RedisServer) -> None:
    run_id, log = str(uuid4()), EventLog()
    async with open_relay(configured(redis_server)) as writer, open_relay(configured(redis_server)) as reader:
        assert writer is not None and reader is not None
        assert await reader.read(run_id, 0) == []
        assert await reader.newest(run_id) is None
        writer.carry(run_id, log, nothing)
        waiting = asyncio.create_task(_first(reader, run_id))
        log.publish("values", {"text": "schön \x00"})
        told_event, (published,) = await waiting, log.after(0)
        assert (told_event, told_event.at_ms) == (published, published.at_ms)
        log.publish("end", {})
        log.close()
        assert await told(reader, run_id, 2) == [(1, "values"), (2, "end")]
        newest = await reader.newest(run_id)
        assert newest is not None and (newest.id, newest.name) == (2, "end")
        await until(lambda: log.on_change is None)


async def test_streams_expire_after_the_end_and_long_after_a_dead_host(redis_server: RedisServer) -> None:
    ended, under_way = EventLog(), EventLog()
    async with open_relay(configured(redis_server, key_prefix="mine:")) as relay:
        assert relay is not None
        relay.carry("ended", ended, nothing)
        relay.carry("under-way", under_way, nothing)
        for log in (ended, under_way):
            log.publish("values", {})
        ended.publish("end", {})
        await told(relay, "ended", 2)
        await told(relay, "under-way", 1)
    with redis_server.client() as client:
        assert sorted(client.keys()) == [b"mine:run:ended", b"mine:run:under-way"]
        assert 200 < client.ttl("mine:run:ended") <= 300
        assert client.ttl("mine:run:under-way") > 80_000


async def test_a_stream_is_as_long_and_as_heavy_as_the_log(redis_server: RedisServer) -> None:
    async with open_relay(configured(redis_server)) as relay:
        assert relay is not None
        by_number, by_weight = EventLog(max_events=300), EventLog(max_bytes=200_000)
        relay.carry("number", by_number, nothing)
        relay.carry("weight", by_weight, nothing)
        for _ in range(2_000):
            by_number.publish("custom", "x")
            by_weight.publish("custom", "x" * 1_000)
            await asyncio.sleep(0)
        for log, run_id in ((by_number, "number"), (by_weight, "weight")):
            log.publish("end", {})
            await until(lambda log=log: log.last_id == 2_001)
            await told(relay, run_id, 1, after_id=2_000)
    with redis_server.client() as client:
        # Redis drops whole nodes of its tree, of at most a hundred entries.
        assert 300 <= client.xlen("deerflow:run:number") <= 400
        assert 190 <= client.xlen("deerflow:run:weight") <= 300


async def test_a_former_host_cannot_write_behind_its_heir(redis_server: RedisServer) -> None:
    run_id, former, heir = str(uuid4()), EventLog(attempt=1), EventLog(attempt=2)
    former.publish("metadata", {"attempt": 1})
    heir.publish("metadata", {"attempt": 2})
    first = IDS_PER_ATTEMPT + 1
    async with open_relay(configured(redis_server)) as relay:
        assert relay is not None
        for log in (former, heir):
            relay.carry(run_id, log, nothing)
            log.publish("values", {})
            await told(relay, run_id, 1, after_id=log.last_id - 1)
        async with open_relay(configured(redis_server)) as paused:
            assert paused is not None
            paused.carry(run_id, former, nothing)
            former.publish("end", {"stale": True})
        heir.publish("end", {})
        assert await told(relay, run_id, 5) == [
            (1, "metadata"), (2, "values"), (first, "metadata"), (first + 1, "values"), (first + 2, "end")
        ]  # fmt: skip


async def test_what_was_told_during_an_outage_arrives_after_it(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    log = EventLog()
    async with open_relay(configured(redis_server)) as relay:
        assert relay is not None
        relay.carry("run", log, nothing)
        log.publish("metadata", {})
        await told(relay, "run", 1)
        redis_server.stop()
        log.publish("values", {})
        await until(lambda: "is away" in caplog.text)
        with pytest.raises(RelayError, match=r"Redis at 127\.0\.0\.1:\d+ did not answer: ConnectionError"):
            await relay.read("run", 0)
        with pytest.raises(RelayError):
            await relay.newest("run")
        log.publish("end", {})
        log.close()
        redis_server.start()
        assert await told(relay, "run", 2) == [(2, "values"), (3, "end")]
        await until(lambda: "is back" in caplog.text)
    assert caplog.text.count("is away") == 1
    assert PASSWORD not in caplog.text


async def test_a_server_that_never_answers_costs_a_warning_and_keeps_nobody(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_relay, "FLUSH_SECONDS", 0.05)
    redis_server.stop()
    first, logs = EventLog(), [EventLog() for _ in range(300)]
    async with open_relay(configured(redis_server)) as relay:
        assert relay is not None
        relay.carry("first", first, nothing)
        first.publish("end", {})
        await asyncio.sleep(0)  # from now on that is what is to be sent first
        for number, log in enumerate(logs):
            relay.carry(str(number), log, nothing)
            log.publish("end", {})
            log.close()
        await until(lambda: sum(log.on_change is None for log in logs) == 300 - 256)
    assert "is away" in caplog.text
    assert "did not reach Redis" in caplog.text
    assert PASSWORD not in caplog.text


async def test_a_server_without_memory_costs_a_gap(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    log = EventLog()
    with redis_server.client() as client:
        async with open_relay(configured(redis_server)) as relay:
            assert relay is not None
            relay.carry("run", log, nothing)
            log.publish("metadata", {})
            await told(relay, "run", 1)
            client.config_set("maxmemory", 1)
            for number in range(3):
                log.publish("values", number)
                await relay._pump.flush(20)  # type: ignore[attr-defined]
                assert await relay.read("run", 1) == []
            client.config_set("maxmemory", 0)
            log.publish("end", {})
            assert await told(relay, "run", 1, after_id=1) == [(5, "end")]
    assert caplog.text.count("refuses events") == 1 and "OutOfMemoryError" in caplog.text
    assert "is away" not in caplog.text


async def test_a_run_whose_events_cannot_be_sent_keeps_nobody_elses(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> bytes:
        raise ValueError("not to be encoded")

    bad, good = EventLog(), EventLog()
    async with open_relay(configured(redis_server)) as relay:
        assert relay is not None
        relay.carry("bad", bad, broken)
        relay.carry("good", good, nothing)
        for log in (bad, good):
            log.publish("end", {})
        assert await told(relay, "good", 1) == [(1, "end")]
    assert "some events could not be sent to Redis" in caplog.text


async def test_a_wrong_password_is_named_without_telling_it(
    redis_server: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    url = redis_server.url.replace(PASSWORD, "guessed-4711")
    async with open_relay(StreamConfig(backend="redis", url=url)) as relay:
        assert relay is not None
        with pytest.raises(RelayError, match="invalid username-password pair") as caught:
            await relay.read("run", 0)
    assert "AuthenticationError" in caplog.text
    assert "guessed-4711" not in caplog.text + str(caught.value)


async def test_a_url_that_cannot_be_read_is_refused_without_telling_it() -> None:
    config = StreamConfig(backend="redis", url="redis://:top/secret@127.0.0.1:6379/0")
    with pytest.raises(ConfigError, match=r"^stream\.url: .*percent-encode") as caught:
        async with open_relay(config):
            pass
    assert "secret" not in str(caught.value) and caught.value.__cause__ is None


async def test_without_a_backend_there_is_no_relay() -> None:
    async with open_relay(StreamConfig()) as relay:
        assert relay is None


async def test_a_missing_client_of_redis_is_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "deerflow.streams.redis_relay", raising=False)
    monkeypatch.setitem(sys.modules, "redis.asyncio", None)
    with pytest.raises(ConfigError, match=r"^stream\.backend: redis\S* is not installed; pip install"):
        async with open_relay(StreamConfig(backend="redis", url="redis://127.0.0.1:1/0")):
            pass
