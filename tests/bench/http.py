"""A run over HTTP beside a bare FastAPI application that does the same: one by one, and 16 at once."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import httpx

from tests.bench.pairs import Pair, compare, show

_RULES = [{"when": "", "turns": [{"text": "echo: {prompt}"}]}]
_BODY = {
    "assistant_id": "lead_agent",
    "input": {"messages": [{"role": "user", "content": "hello"}]},
    "stream_mode": ["values"],
    "if_not_exists": "create",
}


def run(rounds: int = 60) -> None:
    """Print latency, throughput and start ratios."""
    with _served("tests.bench.our_app:app") as ours, _served("tests.bench.bare_app:app") as bare:
        with httpx.Client(timeout=30) as client:
            pair = compare(lambda: _one(client, ours), lambda: _one(client, bare), rounds=rounds)
        show("HTTP run on a new thread / bare FastAPI", pair, "<= 1.5")
        pairs = [(asyncio.run(many(ours)), asyncio.run(many(bare))) for _ in range(5)]
    ratios = sorted(a / b for a, b in pairs)
    ours_rate, bare_rate = (sorted(column)[2] for column in zip(*pairs, strict=True))
    print(
        f"{'runs per second, 16 at once / bare FastAPI':<58} {ours_rate:8.1f} /s  {bare_rate:8.1f} /s  "
        f"{ratios[2]:5.2f}x  (aim >= 0.75)"
    )
    show("process start to the first /ok / import langchain.agents", _start_pair(), "-")


def _one(client: httpx.Client, url: str) -> None:
    response = client.post(f"{url}/threads/{uuid4()}/runs/stream", json=_BODY)
    assert response.status_code == 200 and "echo: hello" in response.text, response.text


async def many(url: str, *, at_once: int = 16, total: int = 160) -> float:
    """Runs per second of so many clients."""
    async with httpx.AsyncClient(timeout=60) as client:
        slots = asyncio.Semaphore(at_once)

        async def one() -> None:
            async with slots:
                response = await client.post(f"{url}/threads/{uuid4()}/runs/stream", json=_BODY)
                assert "echo: hello" in response.text

        began = time.perf_counter()
        await asyncio.gather(*(one() for _ in range(total)))
        return total / (time.perf_counter() - began)


def _start_pair() -> Pair:
    return compare(
        lambda: _start_and_stop(),
        lambda: subprocess.run([sys.executable, "-c", "import langchain.agents"], check=True),
        rounds=5,
        warmup=1,
    )


def _start_and_stop() -> None:
    with _served("tests.bench.our_app:app"):
        pass


@contextmanager
def _served(target: str) -> Iterator[str]:
    with tempfile.TemporaryDirectory() as home:
        port = free_port()
        environment = {**os.environ, "BENCH_HOME": home, "BENCH_RULES": json.dumps(_RULES)}
        command = [sys.executable, "-m", "uvicorn", target, "--port", str(port), "--log-level", "warning"]
        process = subprocess.Popen([*command, "--no-access-log"], env=environment)
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_up(url, process)
            yield url
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def free_port() -> int:
    """A port of loopback that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_until_up(url: str, process: subprocess.Popen[bytes], *, seconds: float = 60) -> None:
    """Return once the server answers; raises where it ends before."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/ok").status_code == 200:
                return
        except httpx.TransportError:
            time.sleep(0.02)
    raise RuntimeError(f"{url} did not come up")
