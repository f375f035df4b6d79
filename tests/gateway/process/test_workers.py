"""Several worker processes behind one address."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from support.crashes import lasting_values
from support.gateway_process import GatewayProcess, gateway_process
from support.gateways import answer, parse_events, said
from support.redis_server import RedisServer

from deerflow.config import config_from
from deerflow.errors import ConfigError
from deerflow.gateway.process.workers import check_workers

POSTGRES: dict[str, Any] = {"backend": "postgres", "url": "postgresql://localhost/x"}
REDIS: dict[str, Any] = {"backend": "redis", "url": "redis://localhost:6379/0"}

_SERVICE = """
import os
from pathlib import Path
from deerflow_extension_api import ExtensionService

class Told(ExtensionService):
    async def start(self, deps):
        Path(f"{os.getpid()}.started").touch()

    async def stop(self):
        Path(f"{os.getpid()}.stopped").touch()

def install(registry, config):
    registry.service(Told())
"""
LEASE_SECONDS = 5.0
"""Longer than a worker that lives is held up while others start."""

STEADY = {"when": "^steady", "turns": [{"delay_seconds": 1.0, "text": "in time"}]}


@pytest.mark.parametrize(
    ("sections", "reason"),
    [
        (
            {"database": {"backend": "sqlite"}, "stream": REDIS},
            r"database\.backend: 'sqlite' lets one process write",
        ),
        (
            {"database": {"backend": "memory"}, "stream": REDIS},
            r"database\.backend: 'memory' is known to one",
        ),
        ({"database": POSTGRES}, r"stream\.backend: 'memory' shows .* with 2 workers"),
    ],
)
def test_what_workers_cannot_share_is_refused_with_the_reason(sections: dict[str, Any], reason: str) -> None:
    check_workers(config_from(sections), 1)
    with pytest.raises(ConfigError, match=reason):
        check_workers(config_from(sections), 2)


def test_postgres_and_redis_let_workers_share() -> None:
    check_workers(config_from({"database": POSTGRES, "stream": REDIS}), 4)


def pids(folder: Path, what: str) -> set[int]:
    """The workers that started, or stopped as they should."""
    return {int(path.stem) for path in folder.glob(f"*.{what}")}


def wait_until(condition: Callable[[], bool], seconds: float = 90.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it took too long"
        time.sleep(0.02)  # the processes that are waited for tell through files


@contextmanager
def light_workers(folder: Path, kind: str = "wait") -> Iterator[subprocess.Popen[bytes]]:
    """Two workers without a Gateway."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    command = [sys.executable, "-m", "support.light_workers", str(folder), kind]
    with (folder / "log").open("wb") as log, subprocess.Popen(command, env=environment, stderr=log) as parent:
        try:
            yield parent
        finally:
            parent.kill()


def test_workers_live_until_sigterm_and_the_dead_are_replaced(tmp_path: Path) -> None:
    with light_workers(tmp_path) as parent:
        wait_until(lambda: len(pids(tmp_path, "started")) == 2)
        dead = min(pids(tmp_path, "started"))
        os.kill(dead, signal.SIGKILL)
        wait_until(lambda: len(pids(tmp_path, "started")) == 3)
        assert pids(tmp_path, "stopped") == set()
        parent.terminate()
        assert parent.wait(60) == 0
    assert pids(tmp_path, "stopped") == pids(tmp_path, "started") - {dead}
    assert f"worker {dead} died with status -9 and is replaced" in (tmp_path / "log").read_text()


def test_workers_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    with light_workers(tmp_path) as parent:
        wait_until(lambda: len(pids(tmp_path, "started")) == 2)
        parent.kill()
        wait_until(lambda: pids(tmp_path, "stopped") == pids(tmp_path, "started"))


def test_a_worker_that_cannot_start_ends_the_others(tmp_path: Path) -> None:
    (tmp_path / "0.started").touch()
    with light_workers(tmp_path, "refuse") as parent:
        assert parent.wait(90) == 1
    assert "could not start: the others end, too" in (tmp_path / "log").read_text()


@pytest.fixture
def gateway(postgres_url: str, redis_server: RedisServer, tmp_path: Path) -> Iterator[GatewayProcess]:
    """A Gateway of two workers, both of them up."""
    (tmp_path / "told.py").write_text(_SERVICE)
    values = lasting_values(
        config_from({"database": {"backend": "postgres", "url": postgres_url}}),
        [STEADY],
        stream={"backend": "redis", "url": redis_server.url},
        plugins=[{"use": "told:install"}],
        runs={"lease_seconds": LEASE_SECONDS},
        shutdown={"drain_seconds": 30},
    )
    environment = {"PYTHONPATH": str(tmp_path)}
    with gateway_process(tmp_path, values, environment=environment, workers=2) as process:
        wait_until(lambda: len(pids(tmp_path, "started")) == 2)
        yield process


def start(gateway: GatewayProcess, text: str) -> str:
    """Start a run through a connection of its own, and so through either worker; its path."""
    thread = httpx.post(f"{gateway.url}/threads", json={}, timeout=60).json()["thread_id"]
    run = httpx.post(f"{gateway.url}/threads/{thread}/runs", json=said(text), timeout=60)
    assert run.status_code == 200, run.text
    return f"{gateway.url}{run.headers['content-location']}"


def joined(path: str) -> Any:
    """What a run came to, asked again where the worker that was asked dies."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        try:
            return httpx.get(f"{path}/join", timeout=60).json()
        except httpx.TransportError:
            time.sleep(0.05)  # a worker that takes its place comes up
    raise AssertionError(f"no worker told what became of {path}")


def checkpointed(postgres_url: str) -> int:
    """How many threads have a checkpoint."""
    with psycopg.connect(postgres_url) as connection:
        return len(connection.execute("SELECT DISTINCT thread_id FROM checkpoints").fetchall())


@pytest.mark.postgres
@pytest.mark.redis
def test_runs_of_a_dead_worker_go_on_and_all_drain_together(
    gateway: GatewayProcess, tmp_path: Path, postgres_url: str
) -> None:
    paths = [start(gateway, f"steady {number}") for number in range(6)]
    wait_until(lambda: checkpointed(postgres_url) == len(paths))  # a run without a checkpoint cannot go on
    dead = min(pids(tmp_path, "started"))
    os.kill(dead, signal.SIGKILL)
    assert [answer(joined(path)) for path in paths] == ["in time"] * 6
    for path in paths:
        events = httpx.get(f"{path}/stream", headers={"Last-Event-ID": "-1"}, timeout=60).text
        assert parse_events(events)[-1].data["status"] == "success"
    wait_until(lambda: len(pids(tmp_path, "started")) == 3)
    paths = [start(gateway, "steady") for _ in range(4)]
    assert gateway.terminate() == 0
    with psycopg.connect(postgres_url) as connection:
        ended = dict(connection.execute("SELECT run_id::text, status FROM runs").fetchall())
    assert [ended[path.rpartition("/")[2]] for path in paths] == ["success"] * 4
    # Services start and stop once in each process.
    assert pids(tmp_path, "stopped") == pids(tmp_path, "started") - {dead}
