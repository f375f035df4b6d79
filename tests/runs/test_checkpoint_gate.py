"""A run that was stopped writes nothing more, and what it was writing is waited for."""

from __future__ import annotations

import asyncio
import math

import pytest

from deerflow.runs.checkpoint_gate import CheckpointGate
from deerflow.runs.hosts.presence import Presence
from deerflow.runs.record import RunClosedError


@pytest.fixture
def gate() -> CheckpointGate:
    return CheckpointGate(Presence(None, lease_seconds=math.inf))


async def test_closing_waits_for_every_write_that_was_begun(gate: CheckpointGate) -> None:
    async with gate.writing("other"), gate.writing("run"):
        async with gate.writing("run"):
            closing = [asyncio.create_task(gate.close("run")) for _ in range(2)]
            await asyncio.sleep(0)
            with pytest.raises(RunClosedError, match="run"):
                async with gate.writing("run"):
                    raise AssertionError("a closed run writes")
        await asyncio.sleep(0.01)
        assert not any(closed.done() for closed in closing)
    await asyncio.wait_for(asyncio.gather(*closing), 20)
    await asyncio.wait_for(gate.close("other"), 20)


async def test_a_write_that_fails_is_not_waited_for(gate: CheckpointGate) -> None:
    with pytest.raises(OSError, match="broken"):
        async with gate.writing("run"):
            raise OSError("broken")
    await asyncio.wait_for(gate.close("run"), 20)


async def test_a_run_that_came_back_writes_again(gate: CheckpointGate) -> None:
    await gate.close("run")
    gate.open("run")
    async with gate.writing("run"), gate.writing(None):
        pass
