"""Contributed middlewares under test: isolated and folded, with what was reported about them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware

from deerflow.agents.fold import fold
from deerflow.extensions import hook_runs
from deerflow.extensions.isolation import IsolatedMiddleware, isolate

SOURCE = "acme:install"


@dataclass
class Reports:
    """What the host said about contributed middlewares."""

    messages: list[str] = field(default_factory=list)
    errors: list[BaseException | None] = field(default_factory=list)

    def __call__(self, source: str, message: str, *, error: BaseException | None = None) -> None:
        assert source == SOURCE
        self.messages.append(message)
        self.errors.append(error)


def isolated(
    *middlewares: AgentMiddleware,
    reports: Reports,
    limit_seconds: float = 60.0,
    inside: Sequence[AgentMiddleware] = (),
) -> list[AgentMiddleware]:
    """The middlewares as the host gives them to an agent, with its own ones `inside` of them."""
    return fold([*wrappers(*middlewares, reports=reports, limit_seconds=limit_seconds), *inside])


def wrappers(
    *middlewares: AgentMiddleware, reports: Reports, limit_seconds: float = 60.0, first: int = 0
) -> list[IsolatedMiddleware]:
    """The wrappers alone, numbered from `first` on."""
    return [
        isolate(SOURCE, middleware, name=f"ext_{n}", hook_timeout_seconds=limit_seconds, report=reports)
        for n, middleware in enumerate(middlewares, first)
    ]


def patient(monkeypatch: pytest.MonkeyPatch, hangs: Callable[[], bool] = lambda: False) -> list[float]:
    """Let a limit begin once its hook has news or hangs, however slow all is; the limits so far."""
    limits: list[float] = []
    wait, wait_on_loop = hook_runs.SyncThreadRun.settle, hook_runs._AsyncSettling.settle

    def settle(run: hook_runs.SyncThreadRun, limit_seconds: float) -> None:
        limits.append(limit_seconds)
        while not (run.has_news() or hangs()):
            time.sleep(0.001)
        wait(run, limit_seconds)

    async def settle_on_loop(run: hook_runs._AsyncSettling, limit_seconds: float) -> None:
        limits.append(limit_seconds)
        while not (run.has_news() or hangs()):
            await asyncio.sleep(0.001)
        await wait_on_loop(run, limit_seconds)

    monkeypatch.setattr(hook_runs.SyncThreadRun, "settle", settle)
    monkeypatch.setattr(hook_runs._AsyncSettling, "settle", settle_on_loop)
    return limits


class _Telling:
    """A generator that yields requests for a handler, one step after the other."""

    def __init__(self, story: Any) -> None:
        self.story = story
        self.move: Callable[[], Any] = lambda: next(story)
        self.asked: Any = None
        self.value: Any = None

    def goes_on(self) -> bool:
        try:
            self.asked = self.move()
        except StopIteration as end:
            self.value = end.value
            return False
        return True

    def take(self, result: Any) -> None:
        self.move = lambda: self.story.send(result)

    def fail(self, error: BaseException) -> None:
        self.move = lambda: self.story.throw(error)


def wrapping(kind: str, flavour: str, body: Callable[[Any], Any]) -> AgentMiddleware:
    """A middleware `Contributed` whose wrap hook `kind` follows `body`, a generator function.

    It gets the request, yields requests for the handler, is sent results, and returns the hook's own.
    `flavour` says which sides there are: `both`, `sync` or `async`.
    """

    def hook(self: AgentMiddleware, request: Any, handler: Any) -> Any:
        telling = _Telling(body(request))
        while telling.goes_on():
            try:
                telling.take(handler(telling.asked))
            except BaseException as error:
                telling.fail(error)
        return telling.value

    async def ahook(self: AgentMiddleware, request: Any, handler: Any) -> Any:
        await asyncio.sleep(0)
        telling = _Telling(body(request))
        while telling.goes_on():
            try:
                telling.take(await handler(telling.asked))
            except BaseException as error:
                telling.fail(error)
        return telling.value

    return contributed(flavour, {kind: hook}, {kind: ahook})


def node(where: str, flavour: str, body: Callable[[Any], Any]) -> AgentMiddleware:
    """A middleware `Contributed` whose node hook `where` returns `body(state)`."""

    def hook(self: AgentMiddleware, state: Any, runtime: Any) -> Any:
        return body(state)

    async def ahook(self: AgentMiddleware, state: Any, runtime: Any) -> Any:
        await asyncio.sleep(0)
        return body(state)

    return contributed(flavour, {where: hook}, {where: ahook})


def contributed(flavour: str, sync: dict[str, Any], by_async: dict[str, Any]) -> AgentMiddleware:
    """A middleware `Contributed` with the sides of this flavour."""
    sides = {} if flavour == "async" else dict(sync)
    if flavour != "sync":
        sides.update({f"a{name}": hook for name, hook in by_async.items()})
    return type("Contributed", (AgentMiddleware,), sides)()


def reported(kind: str, side: str, flavour: str) -> str:
    """The hook that a report names, when a run on `side` meets a hook of this flavour."""
    return f"a{kind}" if side == "async" and flavour != "sync" else kind


RUNS = [("sync", "both"), ("sync", "sync"), ("async", "both"), ("async", "async"), ("async", "sync")]
"""Sides of a run and flavours of a hook that runs there."""
