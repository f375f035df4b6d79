"""Contributed node hooks: their updates, jumps and interrupts apply; their failures do not end the run."""

from __future__ import annotations

import asyncio
import operator
from collections import Counter as Tally
from typing import Annotated, Any

import pytest
from langchain.agents.middleware import AgentMiddleware, AgentState, hook_config
from langchain_core.messages import HumanMessage, RemoveMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.types import Command, StreamWriter, interrupt
from support.agents import SIDES, agent, calls, run, says, texts
from support.isolated import RUNS, Reports, contributed, isolated, node, reported

runs = pytest.mark.parametrize(("side", "flavour"), RUNS)
WHERE = ["before_agent", "before_model", "after_model", "after_agent"]


class Notes(AgentState[Any]):
    notes: Annotated[list[str], operator.add]


@runs
@pytest.mark.parametrize("where", WHERE)
async def test_a_state_update_applies(side: str, flavour: str, where: str) -> None:
    reports = Reports()
    hook = node(where, flavour, lambda state: {"notes": [where], "messages": [HumanMessage(where)]})
    graph, _ = agent(isolated(hook, reports=reports), state_schema=Notes)
    state = await run(graph, side)
    assert state["notes"] == [where]
    assert sorted(texts(state["messages"])) == sorted(["hello", "done", where])
    assert reports.messages == []


@runs
async def test_a_command_applies(side: str, flavour: str) -> None:
    reports = Reports()
    hook = node("before_model", flavour, lambda state: Command(update={"notes": ["by command"]}))
    graph, _ = agent(isolated(hook, reports=reports), state_schema=Notes)
    assert (await run(graph, side))["notes"] == ["by command"]
    assert reports.messages == []


@runs
async def test_a_declared_jump_applies(side: str, flavour: str) -> None:
    @hook_config(can_jump_to=["end"])
    def hook(self: Any, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    @hook_config(can_jump_to=["end"])
    async def ahook(self: Any, state: Any, runtime: Any) -> Any:
        return {"jump_to": "end"}

    reports = Reports()
    jumping = contributed(flavour, {"before_model": hook}, {"before_model": ahook})
    graph, model = agent(isolated(jumping, reports=reports))
    assert texts((await run(graph, side))["messages"]) == ["hello"]
    assert model.seen == []
    assert reports.messages == []


@runs
async def test_an_undeclared_jump_is_ignored_as_in_langchain(side: str, flavour: str) -> None:
    reports = Reports()
    graph, model = agent(
        isolated(node("before_agent", flavour, lambda s: {"jump_to": "end"}), reports=reports)
    )
    await run(graph, side)
    assert len(model.seen) == 1


def raising(state: Any) -> Any:
    raise RuntimeError("boom")


@runs
@pytest.mark.parametrize("where", WHERE)
async def test_a_failure_is_reported_and_the_run_goes_on(side: str, flavour: str, where: str) -> None:
    reports = Reports()
    fine = node("before_model", flavour, lambda state: {"notes": ["fine"]})
    graph, _ = agent(isolated(node(where, flavour, raising), fine, reports=reports), state_schema=Notes)
    state = await run(graph, side)
    assert texts(state["messages"]) == ["hello", "done"]
    assert state["notes"] == ["fine"]
    name = reported(where, side, flavour)
    assert reports.messages == [f"Contributed.{name} failed and was skipped: boom"]
    assert isinstance(reports.errors[0], RuntimeError)


class Hostile:
    """Any look at it fails."""

    def __bool__(self) -> bool:
        raise SystemError("hostile")

    __eq__ = __len__ = __iter__ = __repr__ = __str__ = __hash__ = __bool__  # type: ignore[assignment]


class Unreadable(dict[str, Any]):
    def items(self) -> Any:
        raise ValueError("hostile")


@runs
@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("text", "it returned an object of type str; a node hook returns a dict, a Command or None"),
        ([Command()], "it returned an object of type list; a node hook returns a dict, a Command or None"),
        (False, "it returned an object of type bool; a node hook returns a dict, a Command or None"),
        (Hostile(), "it returned an object of type Hostile; a node hook returns a dict, a Command or None"),
        (
            {"messages": [RemoveMessage(id="no such message")]},
            "its messages cannot be added to the state: Attempting to delete a message with an ID",
        ),
        ({"messages": 5}, "its messages cannot be added to the state: "),
        (Command(update={"messages": [object()]}), "its messages cannot be added to the state: "),
        (Command(update=[("messages", 5)]), "its messages cannot be added to the state: "),
        (Command(update=["messages"]), "its update holds an object of type str, expected pairs"),
        (Command(goto=5), "its Command goes to an object of type int, expected a node's name"),
        (Unreadable(), "what it returned cannot be read: hostile"),
        ({"jump_to": Hostile()}, "its jump_to is an object of type Hostile, expected end, model or tools"),
    ],
)
async def test_a_wrong_update_is_reported_and_ignored(
    side: str, flavour: str, value: Any, problem: str
) -> None:
    reports = Reports()
    graph, _ = agent(isolated(node("before_model", flavour, lambda state: value), reports=reports))
    assert texts((await run(graph, side))["messages"]) == ["hello", "done"]
    [message] = reports.messages
    name = reported("before_model", side, flavour)
    assert message.startswith(f"Contributed.{name} failed and was skipped: {problem}")


@runs
async def test_an_interrupt_is_asked_and_answered(side: str, flavour: str) -> None:
    answers: list[Any] = []

    def asking(state: Any) -> Any:
        answers.append(interrupt("go on?"))
        return {"notes": [f"answered {answers[-1]}"]}

    reports = Reports()
    graph, model = agent(
        isolated(node("before_model", flavour, asking), reports=reports),
        checkpointer=InMemorySaver(),
        state_schema=Notes,
    )
    config = {"configurable": {"thread_id": "t"}}
    state = await run(graph, side, config=config)
    assert [i.value for i in state["__interrupt__"]] == ["go on?"]
    assert model.seen == []
    state = await run(graph, side, Command(resume="yes"), config)
    assert (answers, state["notes"]) == (["yes"], ["answered yes"])
    assert reports.messages == []


@runs
async def test_two_interrupts_get_each_its_own_answer(side: str, flavour: str) -> None:
    def asking(name: str) -> Any:
        return lambda state: {"notes": [f"{name} {interrupt(name)}"]}

    reports = Reports()
    hooks = [node("before_model", flavour, asking("first")), node("before_model", flavour, asking("second"))]
    graph, _ = agent(isolated(*hooks, reports=reports), checkpointer=InMemorySaver(), state_schema=Notes)
    config = {"configurable": {"thread_id": "t"}}
    state = await run(graph, side, config=config)
    assert [i.value for i in state["__interrupt__"]] == ["first"]
    state = await run(graph, side, Command(resume="one"), config)
    assert [i.value for i in state["__interrupt__"]] == ["second"]
    state = await run(graph, side, Command(resume="two"), config)
    assert state["notes"] == ["first one", "second two"]


@runs
async def test_what_langgraph_injects_reaches_the_hook_by_name(side: str, flavour: str) -> None:
    seen: dict[str, Any] = {}

    def hook(
        self: Any, state: Any, runtime: Any, *, config: RunnableConfig, store: BaseStore, writer: StreamWriter
    ) -> Any:
        seen.update(config=config["configurable"]["thread_id"], store=store, context=runtime.context)
        writer("written")

    async def ahook(
        self: Any, state: Any, runtime: Any, *, config: RunnableConfig, store: BaseStore, writer: StreamWriter
    ) -> Any:
        hook(self, state, runtime, config=config, store=store, writer=writer)

    reports, store = Reports(), InMemoryStore()
    both = contributed(flavour, {"before_model": hook}, {"before_model": ahook})
    graph, _ = agent(isolated(both, reports=reports), store=store)
    await run(graph, side, config={"configurable": {"thread_id": "t"}}, context={"user": "ada"})
    assert seen == {"config": "t", "store": store, "context": {"user": "ada"}}
    assert reports.messages == []


@runs
async def test_a_hook_that_wants_a_store_where_there_is_none_does_not_end_the_run(
    side: str, flavour: str
) -> None:
    def hook(self: Any, state: Any, *, store: BaseStore) -> Any:
        store.put(("n",), "k", {})

    async def ahook(self: Any, state: Any, *, store: BaseStore) -> Any:
        store.put(("n",), "k", {})

    reports = Reports()
    storing = contributed(flavour, {"before_agent": hook}, {"before_agent": ahook})
    graph, _ = agent(isolated(storing, reports=reports))
    assert texts((await run(graph, side))["messages"]) == ["hello", "done"]
    assert len(reports.messages) == 1


@runs
async def test_a_hook_with_a_signature_that_fits_nothing_is_reported(side: str, flavour: str) -> None:
    def hook(self: Any, state: Any, more: Any) -> Any:
        return None

    async def ahook(self: Any, state: Any, more: Any) -> Any:
        return None

    reports = Reports()
    odd = contributed(flavour, {"after_model": hook}, {"after_model": ahook})
    graph, _ = agent(isolated(odd, reports=reports))
    assert texts((await run(graph, side))["messages"]) == ["hello", "done"]
    assert "missing 1 required positional argument: 'more'" in reports.messages[0]


async def test_an_async_only_hook_is_left_out_of_synchronous_runs_and_said_so_once() -> None:
    reports = Reports()
    hook = node("before_model", "async", lambda state: {"notes": ["ran"]})
    graph, _ = agent(isolated(hook, reports=reports), calls("nothing"), says("done"), state_schema=Notes)
    for _ in range(2):
        assert (await run(graph, "sync")).get("notes", []) == []
    assert reports.messages == [
        "Contributed.abefore_model failed and was skipped: "
        "it has no synchronous side; define before_model as well"
    ]


@pytest.mark.parametrize("flavour", ["sync", "async"])
async def test_a_hundred_runs_on_one_instance_lose_nothing(flavour: str) -> None:
    tally: Tally[str] = Tally()

    def count(state: Any) -> None:
        tally[state["messages"][0].content] += len(state["messages"])

    reports = Reports()
    graph, _ = agent(isolated(node("after_model", flavour, count), reports=reports))
    await asyncio.gather(*(run(graph, "async", f"run {n}") for n in range(100)))
    assert tally == {f"run {n}": 2 for n in range(100)}
    assert reports.messages == []


@pytest.mark.parametrize("side", SIDES)
async def test_a_hook_without_a_context_gets_none(side: str) -> None:
    seen: list[Any] = []

    class Looking(AgentMiddleware):
        def before_model(self, state: Any, runtime: Any) -> Any:
            seen.append(runtime.context)

    reports = Reports()
    graph, _ = agent(isolated(Looking(), reports=reports))
    await run(graph, side)
    assert (seen, reports.messages) == ([None], [])
