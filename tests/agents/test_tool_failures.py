"""Whatever a tool raises is told to the model; only what belongs to the run ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.tools import BaseTool, ToolException, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command, interrupt
from support.agents import SIDES, agent, calls, run

from deerflow.agents.tool_output import ToolFailures
from deerflow.agents.tool_output.failures import MAX_FAILURE_CHARACTERS


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class NotThere(BaseException):
    pass


def _tool_that(act: Callable[[], Any]) -> BaseTool:
    @tool
    async def work(number: int = 0) -> str:
        """Work."""
        return str(act())

    @tool
    def work_sync(number: int = 0) -> str:
        """Work."""
        return str(act())

    work.func = work_sync.func
    return work


def _raising(error: BaseException) -> BaseTool:
    def act() -> None:
        raise error

    return _tool_that(act)


async def _result(side: str, worker: BaseTool, *names: str, **arguments: Any) -> ToolMessage:
    graph, _ = agent(
        [ToolFailures()], calls(*(names or ("work",)), **arguments), AIMessage("done"), tools=[worker]
    )
    messages = (await run(graph, side))["messages"]
    assert messages[-1].content == "done"
    (message,) = messages[2:-1]
    assert isinstance(message, ToolMessage)
    return message


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("bad value"), "work failed: ValueError: bad value"),
        (ToolException("try again"), "work failed: ToolException: try again"),
        (KeyError(), "work failed: KeyError"),
        (TimeoutError(), "work failed: TimeoutError"),
        (RecursionError("deep"), "work failed: RecursionError: deep"),
        (ValueError("half \ud835 nul \0"), "work failed: ValueError: half \ufffd nul \ufffd"),
        (Unspeakable(), "work failed: Unspeakable: (its text cannot be shown)"),
        (
            ExceptionGroup("in a group", [ExceptionGroup("inner", [OSError("disk full")])]),
            "work failed: OSError: disk full",
        ),
        (asyncio.CancelledError("own timeout"), "work failed: CancelledError: own timeout"),
        (asyncio.CancelledError(), "work failed: CancelledError"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_an_error_of_a_tool_becomes_a_result(side: str, error: BaseException, text: str) -> None:
    message = await _result(side, _raising(error))
    assert (message.status, message.content) == ("error", text)
    assert (message.name, message.tool_call_id) == ("work", "work-0")


@pytest.mark.parametrize("side", SIDES)
async def test_the_text_of_an_error_is_bounded(side: str) -> None:
    message = await _result(side, _raising(ValueError("x" * 1_000_000)))
    assert len(message.content) == MAX_FAILURE_CHARACTERS
    assert str(message.content).endswith("x… [cut]")


@pytest.mark.parametrize("side", SIDES)
async def test_an_unknown_tool_and_wrong_arguments_are_results_too(side: str) -> None:
    worker = _tool_that(lambda: "fine")
    unknown = await _result(side, worker, "wrok")
    assert unknown.status == "error"
    assert "wrok is not a valid tool, try one of [work]" in unknown.content
    wrong = await _result(side, worker, number="many")
    assert wrong.status == "error"
    assert "number: Input should be a valid integer" in wrong.content


@pytest.mark.parametrize("side", SIDES)
async def test_a_fault_of_an_inner_middleware_is_a_result_too(side: str) -> None:
    class Broken(AgentMiddleware):
        def wrap_tool_call(self, request: Any, handler: Any) -> Any:
            raise LookupError("inner")

        async def awrap_tool_call(self, request: Any, handler: Any) -> Any:
            raise LookupError("inner")

    graph, _ = agent([ToolFailures(), Broken()], calls("work"), AIMessage("done"), tools=[_tool_that(str)])
    message = (await run(graph, side))["messages"][2]
    assert (message.status, message.content) == ("error", "work failed: LookupError: inner")


@pytest.mark.parametrize("side", SIDES)
async def test_one_failure_beside_others_leaves_them_alone(side: str) -> None:
    outcomes = iter(["first", None, "third"])

    def act() -> str:
        outcome = next(outcomes)
        if outcome is None:
            raise ValueError("second")
        return outcome

    graph, _ = agent(
        [ToolFailures()], calls("work", "work", "work"), AIMessage("done"), tools=[_tool_that(act)]
    )
    messages = (await run(graph, side))["messages"][2:5]
    assert sorted(message.content for message in messages) == [
        "first",
        "third",
        "work failed: ValueError: second",
    ]


@pytest.mark.parametrize("side", SIDES)
async def test_an_interrupt_pauses_the_run_and_its_answer_reaches_the_tool(side: str) -> None:
    worker = _tool_that(lambda: interrupt("may I?"))
    graph, _ = agent(
        [ToolFailures()], calls("work"), AIMessage("done"), tools=[worker], checkpointer=InMemorySaver()
    )
    config = {"configurable": {"thread_id": "one"}}
    paused = await run(graph, side, config=config)
    assert paused["__interrupt__"][0].value == "may I?"
    resumed = await run(graph, side, Command(resume="yes"), config=config)
    assert resumed["messages"][2].content == "yes"


@pytest.mark.parametrize("side", SIDES)
async def test_an_answer_that_does_not_fit_its_interrupt_is_not_the_tools_failure(side: str) -> None:
    def act() -> Any:
        return interrupt("how many?", response_schema=int)

    graph, _ = agent(
        [ToolFailures()],
        calls("work"),
        AIMessage("done"),
        tools=[_tool_that(act)],
        checkpointer=InMemorySaver(),
    )
    config = {"configurable": {"thread_id": "one"}}
    await run(graph, side, config=config)
    with pytest.raises(Exception, match="int"):
        await run(graph, side, Command(resume="many"), config=config)


async def test_cancelling_the_run_cancels_it() -> None:
    started = asyncio.Event()

    @tool
    async def work() -> str:
        """Work without end."""
        started.set()
        await asyncio.Event().wait()
        return ""

    graph, model = agent([ToolFailures()], calls("work"), AIMessage("done"), tools=[work])
    asyncio_task = asyncio.create_task(run(graph, "async"))
    await started.wait()
    asyncio_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio_task
    assert len(model.seen) == 1


async def test_a_cancelled_call_ends_as_cancelled_and_not_with_a_result() -> None:
    async def endless(request: Any) -> Any:
        await asyncio.Event().wait()

    asyncio_task = asyncio.create_task(ToolFailures().awrap_tool_call(_request(), endless))
    await asyncio.sleep(0)
    asyncio_task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio_task


async def test_a_part_of_the_tool_that_was_cancelled_is_its_own_failure() -> None:
    @tool
    async def work() -> str:
        """Await something that is cancelled."""
        part = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        part.cancel()
        await part
        return ""

    assert (await _result("async", work)).content == "work failed: CancelledError"


async def test_what_is_no_exception_of_a_tool_goes_on() -> None:
    def failing(request: Any) -> Any:
        raise NotThere

    with pytest.raises(NotThere):
        ToolFailures().wrap_tool_call(_request(), failing)


def _request() -> Any:
    return type("Request", (), {"tool": None, "tool_call": {"name": "work", "id": "1", "args": {}}})()
