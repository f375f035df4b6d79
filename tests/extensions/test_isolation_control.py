"""What goes through a wrapper untouched: interrupts, parent commands, cancellation, the process's end."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import ParentCommand
from langgraph.types import Command, interrupt
from support.agents import Counter, agent, calls, run, says, texts
from support.isolated import RUNS, Reports, isolated, node, reported, wrapping

from deerflow.extensions import hook_runs, isolation_hooks

runs = pytest.mark.parametrize(("side", "flavour"), RUNS)
THREAD = {"configurable": {"thread_id": "t"}}


@pytest.fixture(autouse=True)
def _time_to_clean_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a hook does when its run is cancelled is over in a moment, unless the machine stands still."""
    for module in (hook_runs, isolation_hooks):
        monkeypatch.setattr(module, "CANCEL_GRACE_SECONDS", 20.0)


@runs
@pytest.mark.parametrize("kind", ["wrap_model_call", "wrap_tool_call"])
async def test_a_hook_may_ask_a_person_before_its_handler(side: str, flavour: str, kind: str) -> None:
    answers: list[Any] = []

    def asking(request: Any) -> Any:
        answers.append(interrupt("go on?"))
        return (yield request)

    reports, counter = Reports(), Counter()
    graph, _ = agent(
        isolated(wrapping(kind, flavour, asking), reports=reports),
        calls("count"),
        says("done"),
        tools=[counter.tool],
        checkpointer=InMemorySaver(),
    )
    state, rounds = await run(graph, side, config=THREAD), 0
    while "__interrupt__" in state:
        assert [i.value for i in state["__interrupt__"]] == ["go on?"]
        rounds += 1
        state = await run(graph, side, Command(resume=f"yes {rounds}"), THREAD)
    assert answers == [f"yes {n + 1}" for n in range(rounds)]
    assert rounds == (2 if kind == "wrap_model_call" else 1)
    assert counter.count == 1
    assert texts(state["messages"])[2:] == ["counted", "done"]
    assert reports.messages == []


@runs
async def test_a_hook_may_ask_a_person_after_its_handler(side: str, flavour: str) -> None:
    def asking(request: Any) -> Any:
        response = yield request
        interrupt("is this right?")
        return response

    reports = Reports()
    graph, model = agent(
        isolated(wrapping("wrap_model_call", flavour, asking), reports=reports), checkpointer=InMemorySaver()
    )
    state = await run(graph, side, config=THREAD)
    assert [i.value for i in state["__interrupt__"]] == ["is this right?"]
    state = await run(graph, side, Command(resume="yes"), THREAD)
    assert texts(state["messages"]) == ["hello", "done"]
    assert len(model.seen) == 2  # LangGraph runs an interrupted node again from its beginning
    assert reports.messages == []


@runs
async def test_an_interrupt_of_the_tool_goes_through_a_hook_that_swallows_everything(
    side: str, flavour: str
) -> None:
    answers: list[Any] = []

    @tool
    def ask() -> str:
        """Ask."""
        answers.append(interrupt("from the tool"))
        return "answered"

    def swallowing(request: Any) -> Any:
        try:
            return (yield request)
        except BaseException:
            return None

    reports = Reports()
    graph, _ = agent(
        isolated(wrapping("wrap_tool_call", flavour, swallowing), reports=reports),
        calls("ask"),
        says("done"),
        tools=[ask],
        checkpointer=InMemorySaver(),
    )
    state = await run(graph, side, config=THREAD)
    assert [i.value for i in state["__interrupt__"]] == ["from the tool"]
    state = await run(graph, side, Command(resume="yes"), THREAD)
    assert answers == ["yes"]
    assert texts(state["messages"])[2:] == ["answered", "done"]
    assert reports.messages == []


@runs
async def test_a_command_to_the_parent_graph_goes_through(side: str, flavour: str) -> None:
    def leaving(state: Any) -> Any:
        raise ParentCommand(Command(graph=Command.PARENT, update={}))

    reports = Reports()
    graph, model = agent(isolated(node("before_model", flavour, leaving), reports=reports))
    with pytest.raises(ParentCommand):
        await run(graph, side)
    assert (model.seen, reports.messages) == ([], [])


@runs
async def test_control_flow_over_a_failed_handler_does_not_hide_the_failure(side: str, flavour: str) -> None:
    def asking(request: Any) -> Any:
        try:
            return (yield request)
        except ValueError:
            interrupt("try again?")

    reports = Reports()
    graph, _ = agent(
        isolated(wrapping("wrap_model_call", flavour, asking), reports=reports),
        ValueError("no model"),
        checkpointer=InMemorySaver(),
    )
    with pytest.raises(ValueError, match="no model"):
        await run(graph, side, config=THREAD)
    assert len(reports.messages) == 1


@runs
@pytest.mark.parametrize("place", ["before", "after", "node"])
async def test_a_cancelled_error_of_the_hooks_own_is_a_failure(side: str, flavour: str, place: str) -> None:
    def before(request: Any) -> Any:
        raise asyncio.CancelledError
        yield

    def after(request: Any) -> Any:
        yield request
        raise asyncio.CancelledError

    def in_node(state: Any) -> Any:
        raise asyncio.CancelledError

    kind = "after_model" if place == "node" else "wrap_model_call"
    body = {"before": before, "after": after}
    hook = node(kind, flavour, in_node) if place == "node" else wrapping(kind, flavour, body[place])
    reports = Reports()
    graph, model = agent(isolated(hook, reports=reports))
    assert texts((await run(graph, side))["messages"]) == ["hello", "done"]
    assert len(model.seen) == 1
    name = reported(kind, side, flavour)
    assert reports.messages == [f"Contributed.{name} failed and was skipped: CancelledError"]


async def test_a_hook_that_cancels_its_own_task_fails_alone() -> None:
    class Suicidal(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            current = asyncio.current_task()
            assert current is not None
            current.cancel()
            return await handler(request)

    reports = Reports()
    graph, model = agent(isolated(Suicidal(), reports=reports))
    assert texts((await run(graph, "async"))["messages"]) == ["hello", "done"]
    assert (len(model.seen), len(reports.messages)) == (1, 1)


@runs
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_the_end_of_the_process_goes_through(side: str, flavour: str, error: Any) -> None:
    def ending(request: Any) -> Any:
        raise error
        yield

    reports = Reports()
    [wrapper] = isolated(wrapping("wrap_model_call", flavour, ending), reports=reports)
    seen: list[type[BaseException]] = []

    async def caught() -> None:
        try:
            if side == "async":
                await wrapper.awrap_model_call(None, None)  # type: ignore[arg-type]
            else:
                wrapper.wrap_model_call(None, None)  # type: ignore[arg-type]
        except (KeyboardInterrupt, SystemExit) as ended:
            seen.append(type(ended))

    await caught()
    assert (seen, reports.messages) == ([error], [])


class Stuck(AgentMiddleware):
    """A host middleware inside of the hooks: the model call that does not end."""

    def __init__(self) -> None:
        self.entered = asyncio.Event()
        self.cancelled = False

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.entered.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


@pytest.mark.parametrize("flavour", ["both", "sync"])
async def test_cancelling_the_run_in_the_handler_reaches_the_model_and_the_hook(flavour: str) -> None:
    seen: list[type[BaseException]] = []
    ended = threading.Event()

    def looking(request: Any) -> Any:
        try:
            return (yield request)
        except BaseException as error:
            seen.append(type(error))
            raise
        finally:
            ended.set()

    reports, stuck = Reports(), Stuck()
    hook = wrapping("wrap_model_call", flavour, looking)
    graph, _ = agent(isolated(hook, reports=reports, inside=[stuck]))
    running = asyncio.create_task(run(graph, "async"))
    await asyncio.wait_for(stuck.entered.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(ended.wait, 30)
    assert stuck.cancelled
    assert seen == [asyncio.CancelledError]
    assert reports.messages == []


@pytest.mark.parametrize("swallow", [False, True])
async def test_a_hook_cannot_hold_up_or_swallow_the_cancellation_of_its_run(swallow: bool) -> None:
    entered = asyncio.Event()

    class Clinging(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            entered.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if not swallow:
                    raise
            return await handler(request)

    reports = Reports()
    graph, model = agent(isolated(Clinging(), reports=reports))
    running = asyncio.create_task(run(graph, "async"))
    await asyncio.wait_for(entered.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 30)
    assert (model.seen, reports.messages) == ([], [])


async def test_a_hook_has_a_moment_to_clean_up_when_its_run_is_cancelled() -> None:
    entered, cleaned = asyncio.Event(), []

    class Cleaning(AgentMiddleware):
        async def abefore_model(self, state: Any, runtime: Any) -> Any:
            entered.set()
            try:
                await asyncio.sleep(60)
            finally:
                await asyncio.sleep(0.02)
                cleaned.append(True)

    reports = Reports()
    graph, _ = agent(isolated(Cleaning(), reports=reports))
    running = asyncio.create_task(run(graph, "async"))
    await asyncio.wait_for(entered.wait(), 30)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cleaned == [True]
    assert reports.messages == []


@pytest.mark.parametrize("flavour", ["both", "sync"])
async def test_a_cancelled_error_that_the_handler_raised_itself_travels_on(flavour: str) -> None:
    failure = asyncio.CancelledError("from the model")

    async def handler(request: Any) -> Any:
        raise failure

    def looking(request: Any) -> Any:
        return (yield request)

    reports = Reports()
    [wrapper] = isolated(wrapping("wrap_model_call", flavour, looking), reports=reports)
    with pytest.raises(asyncio.CancelledError) as caught:
        await wrapper.awrap_model_call(None, handler)  # type: ignore[arg-type]
    assert caught.value is failure
    assert reports.messages == []
