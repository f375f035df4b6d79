"""A hook that keeps the event loop for itself is named."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import (
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskLifecycleContributor,
)
from langchain.agents.middleware import AgentMiddleware
from support.extensions import installed
from support.hosts import answer, finished, scripted_host

from deerflow.extensions import LoadedExtensions, loop_blocks
from deerflow.extensions.loop_blocks import watched


class _Clock:
    """Time that passes where a hook says so, and nowhere else."""

    now = 0.0

    def __call__(self) -> float:
        return self.now

    def block(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Clock:
    clock = _Clock()
    monkeypatch.setattr(loop_blocks, "monotonic", clock)
    return clock


def _told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [message for message in caplog.messages if "blocked the event loop" in message]


async def test_each_piece_between_two_awaits_counts_by_itself(
    clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def hook() -> str:
        clock.block(0.9)
        await asyncio.sleep(0)
        clock.block(0.9)
        await asyncio.sleep(0)
        clock.block(4)
        return "done"

    assert await watched(hook(), "acme:install", "Watch.awrap_model_call") == "done"
    assert _told(caplog) == [
        "Extension acme:install: Watch.awrap_model_call blocked the event loop for 4.0 s"
    ]


async def test_what_is_waited_for_does_not_count(clock: _Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def hook() -> None:
        waiting = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(lambda: (clock.block(60), waiting.set_result(None)))
        await waiting

    await watched(hook(), "acme:install", "on_task_start")
    assert _told(caplog) == []


async def test_errors_and_cancellations_pass_through_both_ways(clock: _Clock) -> None:
    seen: list[str] = []

    async def fails() -> None:
        await asyncio.sleep(0)
        raise ValueError("mine")

    async def listens() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        return "never"

    with pytest.raises(ValueError, match="mine"):
        await watched(fails(), "s", "h")
    asyncio_task = asyncio.ensure_future(_through(listens()))
    await asyncio.sleep(0)
    asyncio_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio_task
    assert seen == ["cancelled"]


async def _through(inner: Any) -> Any:
    return await watched(inner, "s", "h")


async def test_middlewares_and_task_hooks_that_block_are_named_in_the_log(
    tmp_path: Path, clock: _Clock, caplog: pytest.LogCaptureFixture
) -> None:
    class Blocking(AgentMiddleware[Any, Any]):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            clock.block(4)
            return await handler(request)

        async def abefore_model(self, state: Any, runtime: Any) -> None:
            clock.block(2)

    class Contributor(MiddlewareContributor):
        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Any:
            return (MiddlewarePlacement(Blocking(), Placement.STANDARD),)

    class Hooks(TaskLifecycleContributor):
        async def on_task_start(self, *arguments: Any) -> None:
            clock.block(1.5)

    loaded = LoadedExtensions(
        middleware_contributors=(("acme:install", Contributor()),),
        task_lifecycle=(("ledger:install", Hooks()),),
    )
    with installed(loaded):
        async with scripted_host(tmp_path) as host:
            assert answer(await finished(host, "hello")) == "echo: hello"
    assert _told(caplog) == [
        "Extension ledger:install: on_task_start blocked the event loop for 1.5 s",
        "Extension acme:install: Blocking.abefore_model blocked the event loop for 2.0 s",
        "Extension acme:install: Blocking.awrap_model_call blocked the event loop for 4.0 s",
    ]
