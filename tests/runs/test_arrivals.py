"""Which runs are just being admitted."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from deerflow.runs.arrivals import Arrivals


async def test_an_id_that_is_asked_for_twice_arrives_until_both_are_answered() -> None:
    arrivals = Arrivals()
    with arrivals.arriving("one"):
        with arrivals.arriving("one"), arrivals.arriving("two"):
            assert set(arrivals) == {"one", "two"}
        assert set(arrivals) == {"one"}
    assert set(arrivals) == set()


async def test_the_end_of_the_last_arrival_is_waited_for() -> None:
    arrivals, stack = Arrivals(), ExitStack()
    await arrivals.over(60)
    for _ in range(2):
        stack.enter_context(arrivals.arriving("one"))
        stack.enter_context(arrivals.arriving("two"))
        over = asyncio.create_task(arrivals.over(60))
        await asyncio.sleep(0)
        with arrivals.arriving("three"):
            pass
        assert not over.done()
        stack.close()
        await over


async def test_what_arrives_for_too_long_is_waited_for_no_longer() -> None:
    arrivals = Arrivals()
    with arrivals.arriving("one"):
        await arrivals.over(0.001)
        assert set(arrivals) == {"one"}
