"""Building a client takes its own time, and failing once is not for ever."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.axonx_service import served
from support.loop_clock import put_forward

from axonx.client.http import HttpClient

LIMIT_SECONDS = 60.0
DEMO = {"steps": [{"backend": "demo_step"}], "requires_auth": False}


class SlowToBuild(HttpClient):
    """Takes longer to be built than a call may take, by the clock of its loop."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._loop = asyncio.get_running_loop()

    def _build(self) -> httpx.AsyncClient:
        put_forward(self._loop, 1.1 * LIMIT_SECONDS)
        return super()._build()


class FailsOnce(HttpClient):
    failed = False

    def _build(self) -> httpx.AsyncClient:
        if not self.failed:
            self.failed = True
            raise OSError("no certificates")
        return super()._build()


async def test_the_limit_of_a_call_does_not_count_the_building_of_its_client(tmp_path: Path) -> None:
    async with served(tmp_path, {"demo": DEMO}) as far:
        async with SlowToBuild(address=far.address, timeout_seconds=LIMIT_SECONDS) as client:
            assert (await client.run_job("demo")).success


async def test_a_client_that_could_not_be_built_is_built_for_the_next_call(tmp_path: Path) -> None:
    async with served(tmp_path, {"demo": DEMO}) as far:
        client = FailsOnce(address=far.address)
        with pytest.raises(OSError, match="no certificates"):
            await client.start()
        async with client:
            assert (await client.run_job("demo")).success
