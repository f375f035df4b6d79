"""Runs per second of 1, 2 and 4 worker processes on PostgreSQL and Redis, and what Redis costs."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import redis
import yaml

from tests.bench.http import free_port, many, wait_until_up

_POSTGRES = os.environ.get("DEERFLOW_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
_REDIS = os.environ.get("DEERFLOW_TEST_REDIS", "redis://127.0.0.1:6379/0")
_AT_ONCE, _TOTAL = 32, 192
_START_SECONDS = 240.0


def run(rounds: int = 3) -> None:
    """Print rates beside that of one worker. Two servers run at a time, and are asked in turn."""
    if (missing := _missing()) is not None:
        print(f"workers: not measured, {missing}")
        return
    aim = f"> 1 with cores to spare; {os.cpu_count()} here for servers, databases and clients"
    with _served(1, _REDIS) as one:
        for count in (2, 4):
            with _served(count, _REDIS) as several:
                _show(f"runs per second, {count} workers / 1 worker", several, one, rounds, aim)
        with _served(1, None) as alone:
            _show("runs per second, 1 worker with Redis / without", one, alone, rounds, ">= 0.8")


def _show(name: str, ours: str, reference: str, rounds: int, aim: str) -> None:
    for url in (ours, reference):
        _rate(url)
    pairs = [(_rate(ours), _rate(reference)) for _ in range(rounds)]
    ratio = statistics.median(a / b for a, b in pairs)
    rates = [statistics.median(column) for column in zip(*pairs, strict=True)]
    print(f"{name:<58} {rates[0]:8.1f} /s  {rates[1]:8.1f} /s  {ratio:5.2f}x  (aim {aim})")


def _rate(url: str) -> float:
    return asyncio.run(many(url, at_once=_AT_ONCE, total=_TOTAL))


def _missing() -> str | None:
    try:
        psycopg.connect(_POSTGRES, connect_timeout=3).close()
        with redis.Redis.from_url(_REDIS, socket_timeout=3) as client:
            client.ping()
    except (psycopg.OperationalError, redis.RedisError) as error:
        return str(error).splitlines()[0]
    return None


@contextmanager
def _schema() -> Iterator[str]:
    """The URL of an empty schema."""
    name = f"bench_{uuid4().hex}"
    with psycopg.connect(_POSTGRES, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{name}"')
        try:
            yield f"{_POSTGRES}?options=-csearch_path%3D{name}"
        finally:
            connection.execute(f'DROP SCHEMA "{name}" CASCADE')


@contextmanager
def _served(count: int, redis_url: str | None) -> Iterator[str]:
    """The address of a Gateway with so many workers, all of them up."""
    with tempfile.TemporaryDirectory() as home, _schema() as database_url:
        (Path(home) / "config.yaml").write_text(yaml.safe_dump(_config(database_url, redis_url)))
        port = free_port()
        command = [str(Path(sys.executable).with_name("deerflow")), "serve", "--port", str(port)]
        with (Path(home) / "log").open("wb") as log:
            process = subprocess.Popen([*command, "--workers", str(count)], cwd=home, stderr=log)
            url = f"http://127.0.0.1:{port}"
            try:
                wait_until_up(url, process, seconds=_START_SECONDS)
                _wait_for_all(Path(home) / "log", count)
                yield url
            finally:
                process.send_signal(signal.SIGTERM)
                process.wait(60)


def _wait_for_all(log: Path, count: int) -> None:
    deadline = time.monotonic() + _START_SECONDS
    while log.read_text().count("Application startup complete") < count:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{count} workers did not come up:\n{log.read_text()}")
        time.sleep(0.1)  # only its log tells when a worker is up


def _config(database_url: str, redis_url: str | None) -> dict[str, Any]:
    rules = [{"when": "", "turns": [{"text": "echo: {prompt}"}]}]
    stream = {"backend": "redis", "url": redis_url, "key_prefix": f"bench:{uuid4().hex}:"}
    return {
        "models": [{"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": rules}],
        "title": {"enabled": False},
        "database": {"backend": "postgres", "url": database_url},
        "stream": stream if redis_url is not None else {},
    }
