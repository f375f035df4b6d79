"""How many subagents run at once, and who is next."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from deerflow.agents.subagents.capacity import CapacityFullError, QueueTimeoutError, SubagentCapacity
from deerflow.config import SubagentsConfig


def _capacity(**settings: object) -> SubagentCapacity:
    return SubagentCapacity(SubagentsConfig.model_validate(settings))


async def test_no_more_than_max_running_hold_a_slot() -> None:
    capacity = _capacity(max_running=3)
    peak = 0

    async def work() -> None:
        nonlocal peak
        async with capacity.slot("thread"):
            peak = max(peak, capacity.running)
            await asyncio.sleep(0)

    await asyncio.gather(*(work() for _ in range(30)))
    assert peak == 3
    assert (capacity.running, capacity.queued) == (0, 0)


async def test_another_threads_single_delegation_is_next_in_turn() -> None:
    capacity = _capacity(max_running=1)
    order: list[str] = []

    async def work(lane: str) -> None:
        async with capacity.slot(lane):
            order.append(lane)
            await asyncio.sleep(0.001)

    busy = [asyncio.create_task(work("busy")) for _ in range(6)]
    await asyncio.sleep(0)
    single = asyncio.create_task(work("single"))
    await asyncio.gather(*busy, single)
    assert order.index("single") <= 2


async def test_reject_refuses_at_once_when_every_slot_is_taken() -> None:
    capacity = _capacity(max_running=1, admission="reject")
    async with capacity.slot("a"):
        with pytest.raises(CapacityFullError, match="max_running"):
            async with capacity.slot("b"):
                pass
    async with capacity.slot("b"):
        assert capacity.running == 1


async def test_a_full_queue_refuses_and_names_the_setting() -> None:
    capacity = _capacity(max_running=1, max_queued=1)
    async with capacity.slot("a"):
        waiting = asyncio.create_task(_hold(capacity, "b"))
        await asyncio.sleep(0)
        with pytest.raises(CapacityFullError, match="max_queued"):
            async with capacity.slot("c"):
                pass
    await waiting


async def _hold(capacity: SubagentCapacity, lane: str) -> None:
    async with capacity.slot(lane):
        await asyncio.sleep(0)


async def test_waiting_ends_at_the_queue_timeout() -> None:
    capacity = _capacity(max_running=1, queue_timeout_seconds=0.02)
    async with capacity.slot("a"):
        with pytest.raises(QueueTimeoutError, match="queue_timeout_seconds"):
            async with capacity.slot("b"):
                pass
    assert (capacity.running, capacity.queued) == (0, 0)


async def test_cancelled_waiters_leave_no_slot_and_no_place_behind() -> None:
    capacity = _capacity(max_running=2, max_queued=500)
    rng = random.Random(7)
    tasks = [asyncio.create_task(_hold(capacity, f"lane {n % 5}")) for n in range(200)]
    while any(not task.done() for task in tasks):
        rng.choice(tasks).cancel()
        await asyncio.sleep(0)
    assert (capacity.running, capacity.queued) == (0, 0)


async def test_slots_serve_several_event_loops() -> None:
    capacity = _capacity(max_running=1)

    def in_a_thread() -> None:
        asyncio.run(_hold(capacity, "other loop"))

    async with AsyncExitStack() as held:
        await held.enter_async_context(capacity.slot("here"))
        other = asyncio.create_task(asyncio.to_thread(in_a_thread))
        while not capacity.queued:
            await asyncio.sleep(0.001)
    await other
    assert (capacity.running, capacity.queued) == (0, 0)
