"""An update of a contributed hook that the graph could not apply or keep is left out, and ends no run."""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, NotRequired

import pytest
from deerflow_extension_api import AgentBuildContext, AgentScope, MiddlewarePlacement, Placement
from langchain.agents.middleware import AgentMiddleware
from langgraph.channels import UntrackedValue
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support.agents import agent, run
from support.extensions import installed
from support.hosts import answer, finished, scripted_host
from typing_extensions import TypedDict

from deerflow.agents.fold import fold
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.placement import collect_placements


class Plain(TypedDict):
    note: NotRequired[Any]


class Untracked(TypedDict):
    note: NotRequired[Annotated[Any, UntrackedValue]]


class Summed(TypedDict):
    note: NotRequired[Annotated[int, operator.add]]


class Listed(TypedDict):
    note: NotRequired[Annotated[list[Any], operator.add]]


def _changing(old: list[Any], new: list[Any]) -> list[Any]:
    old.extend(new)
    new.clear()
    return old


class Changed(TypedDict):
    note: NotRequired[Annotated[list[Any], _changing]]


class Odd:
    """Nothing that a checkpoint could hold."""


def _nested() -> list[Any]:
    value: list[Any] = []
    for _ in range(3000):
        value = [value]
    return value


def _middleware(schema: type, *updates: Callable[[], Any]) -> AgentMiddleware[Any, Any]:
    """A middleware that returns one update after the other, before each call of the model."""
    left = list(updates)

    async def abefore_model(self: Any, state: Any, runtime: Any) -> Any:
        return left.pop(0)() if left else None

    methods = {"state_schema": schema, "abefore_model": abefore_model}
    return type("Noting", (AgentMiddleware,), methods)()


def _contributing(*middlewares: AgentMiddleware[Any, Any]) -> LoadedExtensions:
    class Contributor:
        def contribute_middlewares(self, app_store: Any, ctx: Any) -> Any:
            lead = AgentScope.LEAD
            return [MiddlewarePlacement(one, Placement.STANDARD, lead) for one in middlewares]

    return LoadedExtensions(middleware_contributors=(("acme:install", Contributor()),))  # type: ignore[arg-type]


_CANNOT_BE_KEPT: dict[str, Callable[[], Any]] = {
    "a lock": lambda: {"note": threading.Lock()},
    "an object": lambda: {"note": Odd()},
    "deep inside": lambda: {"note": {"a": [{"b": threading.Lock()}]}},
    "a generator": lambda: {"note": (item for item in ())},
    "nested without end": lambda: {"note": _nested()},
    "in a command": lambda: Command(update={"note": Odd()}),
    "a structured response": lambda: {"structured_response": Odd()},
    "in a message": lambda: {
        "messages": [{"role": "user", "content": "x", "additional_kwargs": {"x": Odd()}}]
    },
}


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
@pytest.mark.parametrize("update", _CANNOT_BE_KEPT.values(), ids=_CANNOT_BE_KEPT)
async def test_what_a_checkpoint_cannot_hold_ends_no_run(
    tmp_path: Path, backend: str, update: Callable[[], Any]
) -> None:
    with installed(_contributing(_middleware(Plain, update))) as loaded:
        async with scripted_host(tmp_path, database={"backend": backend}) as host:
            finished_run = await finished(host, "hello")
    assert answer(finished_run) == "echo: hello"
    assert [message.type for message in finished_run.values["messages"]] == ["human", "ai"]
    [diagnostic] = loaded.diagnostics
    assert diagnostic.message.startswith("Noting.abefore_model failed and was skipped: its ")
    assert "cannot be kept in a checkpoint" in diagnostic.message


async def _notes(loaded: LoadedExtensions, **options: Any) -> Any:
    placements = collect_placements(loaded, AgentBuildContext(AgentScope.LEAD), hook_timeout_seconds=5)
    graph, _ = agent(fold(list(placements.standard)), **options)
    config = {"configurable": {"thread_id": "t"}} if options else None
    return (await run(graph, "async", config=config)).get("note")


async def test_without_checkpoints_any_object_may_be_state() -> None:
    odd = Odd()
    loaded = _contributing(_middleware(Plain, lambda: {"note": odd}))
    assert await _notes(loaded) is odd
    assert not loaded.diagnostics


async def test_what_is_not_tracked_may_be_any_object() -> None:
    loaded = _contributing(_middleware(Untracked, lambda: {"note": threading.Lock()}))
    await _notes(loaded, checkpointer=InMemorySaver())
    assert not loaded.diagnostics


@pytest.mark.parametrize("schemas", [(Summed, Listed), (Listed, Summed)])
async def test_two_extensions_that_want_different_things_of_one_key_end_no_run(schemas: Any) -> None:
    wanted = {Summed: 1, Listed: [1]}
    first, second = (
        _middleware(schema, lambda schema=schema: {"note": wanted[schema]}) for schema in schemas
    )
    loaded = _contributing(first, second)
    assert await _notes(loaded) == wanted[schemas[-1]], "the innermost middleware's key is the agent's"
    [diagnostic] = loaded.diagnostics
    assert "its note cannot be added to the state" in diagnostic.message


async def test_a_value_that_its_own_reducer_refuses_is_left_out() -> None:
    loaded = _contributing(_middleware(Summed, lambda: {"note": "text"}))
    assert await _notes(loaded) in (None, 0)
    [diagnostic] = loaded.diagnostics
    assert "its note cannot be added to the state" in diagnostic.message


async def test_reducers_that_change_what_they_are_given_are_applied_once() -> None:
    loaded = _contributing(
        _middleware(Changed, lambda: {"note": [1]}), _middleware(Changed, lambda: {"note": [2]})
    )
    assert await _notes(loaded) == [1, 2]
    assert not loaded.diagnostics


async def test_good_updates_apply_as_before() -> None:
    loaded = _contributing(_middleware(Summed, lambda: {"note": 2}), _middleware(Summed, lambda: {"note": 3}))
    assert await _notes(loaded, checkpointer=InMemorySaver()) == 5
    assert not loaded.diagnostics
