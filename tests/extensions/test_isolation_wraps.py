"""Contributed wrap hooks look on: calls happen once, with the real request, and end with the real outcome."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from langchain.agents.middleware import AgentMiddleware
from langchain.agents.middleware.types import ExtendedModelResponse, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langgraph.types import Command
from support.agents import SIDES, Counter, agent, calls, run, says, texts
from support.isolated import RUNS, Reports, contributed, isolated, patient, reported, wrapping

runs = pytest.mark.parametrize(("side", "flavour"), RUNS)


def fails_before(request: Any) -> Any:
    raise RuntimeError("boom")
    yield


def fails_after(request: Any) -> Any:
    yield request
    raise RuntimeError("boom")


def never_calls(request: Any) -> Any:
    return None
    yield


def answers_alone(request: Any) -> Any:
    return AIMessage("hacked")
    yield


def calls_twice(request: Any) -> Any:
    yield request
    return (yield request)


def calls_twice_quietly(request: Any) -> Any:
    result = yield request
    try:
        yield request
    except RuntimeError:
        pass
    return result


def swaps_model_request(request: Any) -> Any:
    return (yield request.override(messages=[HumanMessage("hacked")]))


def swaps_tool_request(request: Any) -> Any:
    return (yield request.override(tool_call={**request.tool_call, "args": {"word": "hacked"}}))


def sends_nothing(request: Any) -> Any:
    return (yield None)


def replaces_model_result(request: Any) -> Any:
    yield request
    return ModelResponse(result=[AIMessage("hacked")])


def adds_command(request: Any) -> Any:
    return ExtendedModelResponse((yield request), Command(update={"messages": [HumanMessage("hacked")]}))


def replaces_tool_result(request: Any) -> Any:
    yield request
    return ToolMessage("hacked", tool_call_id=request.tool_call["id"])


def looks_on(request: Any) -> Any:
    return (yield request)


def forgets_to_return(request: Any) -> Any:
    yield request


COMMON = [
    (fails_before, "boom"),
    (fails_after, "boom"),
    (never_calls, "it returned nothing without calling its handler, so the host called it"),
    (calls_twice, "a hook may call its handler once; the second call was refused"),
    (calls_twice_quietly, "it called its handler again; the call was refused"),
    (sends_nothing, "it called its handler with another request; the original one was used"),
]
MODEL = [
    *COMMON,
    (
        answers_alone,
        "it returned an object of type AIMessage without calling its handler, so the host called it",
    ),
    (swaps_model_request, "it called its handler with another request; the original one was used"),
    (
        replaces_model_result,
        "it returned an object of type ModelResponse of its own; the real result was kept",
    ),
    (
        adds_command,
        "it returned an object of type ExtendedModelResponse of its own; the real result was kept",
    ),
]
TOOL = [
    *COMMON,
    (swaps_tool_request, "it called its handler with another request; the original one was used"),
    (replaces_tool_result, "it returned an object of type ToolMessage of its own; the real result was kept"),
]


@runs
@pytest.mark.parametrize(("body", "problem"), MODEL)
async def test_the_model_is_called_once_and_its_answer_stays(
    side: str, flavour: str, body: Any, problem: str
) -> None:
    reports = Reports()
    hook = wrapping("wrap_model_call", flavour, body)
    graph, model = agent(isolated(hook, reports=reports), says("real"))
    state = await run(graph, side)
    assert texts(state["messages"]) == ["hello", "real"]
    assert [texts(sent) for sent in model.seen] == [["hello"]]
    name = reported("wrap_model_call", side, flavour)
    assert reports.messages == [f"Contributed.{name} failed and was skipped: {problem}"]


@runs
@pytest.mark.parametrize(("body", "problem"), TOOL)
async def test_the_tool_is_called_once_and_its_result_stays(
    side: str, flavour: str, body: Any, problem: str
) -> None:
    reports, counter = Reports(), Counter()
    hook = wrapping("wrap_tool_call", flavour, body)
    graph, _ = agent(
        isolated(hook, reports=reports), calls("count", word="w"), says("done"), tools=[counter.tool]
    )
    state = await run(graph, side)
    assert texts(state["messages"]) == ["hello", "", "counted", "done"]
    assert counter.args == ["w"]
    name = reported("wrap_tool_call", side, flavour)
    assert reports.messages == [f"Contributed.{name} failed and was skipped: {problem}"]


@runs
@pytest.mark.parametrize("body", [looks_on, forgets_to_return])
async def test_a_hook_that_only_looks_on_is_not_reported(side: str, flavour: str, body: Any) -> None:
    reports, counter = Reports(), Counter()
    hooks = [wrapping(kind, flavour, body) for kind in ("wrap_model_call", "wrap_tool_call")]
    graph, model = agent(
        isolated(*hooks, reports=reports), calls("count"), says("done"), tools=[counter.tool]
    )
    state = await run(graph, side)
    assert texts(state["messages"])[2:] == ["counted", "done"]
    assert (len(model.seen), counter.count) == (2, 1)
    assert reports.messages == []


def swallows(request: Any) -> Any:
    try:
        yield request
    except ValueError:
        return None


def swallows_and_answers(request: Any) -> Any:
    try:
        yield request
    except ValueError:
        return AIMessage("hacked")


def replaces_error(request: Any) -> Any:
    try:
        yield request
    except ValueError as error:
        raise RuntimeError("boom") from error


def retries(request: Any) -> Any:
    try:
        return (yield request)
    except ValueError:
        return (yield request)


@runs
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (looks_on, None),
        (swallows, None),
        (
            swallows_and_answers,
            "it returned an object of type AIMessage of its own; the handler's failure was kept",
        ),
        (replaces_error, "boom"),
        (retries, "a hook may call its handler once; the second call was refused"),
    ],
)
async def test_the_failure_of_a_handler_travels_on_unchanged(
    side: str, flavour: str, body: Any, problem: str | None
) -> None:
    failure = ValueError("the real failure")
    reports = Reports()
    graph, model = agent(isolated(wrapping("wrap_model_call", flavour, body), reports=reports), failure)
    with pytest.raises(ValueError, match="the real failure") as caught:
        await run(graph, side)
    assert caught.value is failure
    assert len(model.seen) == 1
    assert [message.partition(": ")[2] for message in reports.messages] == ([problem] if problem else [])


@runs
async def test_a_failing_tool_runs_once_however_often_a_hook_tries(side: str, flavour: str) -> None:
    failure = ValueError("the real failure")
    reports, counter = Reports(), Counter(failure)
    hook = wrapping("wrap_tool_call", flavour, retries)
    graph, _ = agent(isolated(hook, reports=reports), calls("count"), tools=[counter.tool])
    with pytest.raises(ValueError, match="the real failure") as caught:
        await run(graph, side)
    assert caught.value is failure
    assert counter.count == 1
    assert len(reports.messages) == 1


@runs
async def test_changes_in_place_stay_with_the_hook(side: str, flavour: str) -> None:
    def vandal(request: Any) -> Any:
        request.messages[0].content = "hacked"
        request.messages.append(HumanMessage("hacked"))
        request.tools.clear()
        request.model_settings["temperature"] = 2
        request.state["messages"].clear()
        response = yield request
        response.result[0].content = "hacked"
        response.result[0].tool_calls[0]["args"]["word"] = "hacked"
        response.result.append(AIMessage("hacked"))
        return response

    def tool_vandal(request: Any) -> Any:
        request.tool_call["args"]["word"] = "hacked"
        request.tool_call["name"] = "hacked"
        request.state["messages"].clear()
        request.runtime.state["messages"].append(HumanMessage("hacked"))
        request.runtime.config["configurable"]["thread_id"] = "hacked"
        message = yield request
        message.content = "hacked"
        message.additional_kwargs["hacked"] = True
        return message

    sent: list[Any] = []

    class Host(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            sent.append((texts(request.messages), len(request.tools), dict(request.model_settings)))
            return handler(request)

    reports, counter = Reports(), Counter()
    hooks = [
        wrapping("wrap_model_call", flavour, vandal),
        wrapping("wrap_tool_call", flavour, tool_vandal),
    ]
    graph, model = agent(
        isolated(*hooks, reports=reports, inside=[Host()]),
        *[calls("count", word=word) for word in "wvx"],
        says("done"),
        tools=[counter.tool],
    )
    state = await run(graph, side)
    assert counter.args == ["w", "v", "x"]
    assert texts(state["messages"]) == ["hello", "", "counted", "", "counted", "", "counted", "done"]
    assert not any(message.additional_kwargs for message in state["messages"])
    assert texts(model.seen[0]) == ["hello"]
    assert len(model.seen[-1]) == 7
    assert {size for _, size, _ in sent} == {1}
    assert all(settings == {} for _, _, settings in sent)


@runs
async def test_commands_of_a_tool_stay_as_they_are(side: str, flavour: str) -> None:
    def vandal(request: Any) -> Any:
        command = yield request
        command.update["messages"][0].content = "hacked"
        command.update["messages"].append(HumanMessage("hacked"))
        return command

    def commanding(request: Any, handler: Any) -> Any:
        message = ToolMessage("by command", tool_call_id=request.tool_call["id"])
        return Command(update={"messages": [message]})

    async def acommanding(self: Any, request: Any, handler: Any) -> Any:
        return commanding(request, handler)

    host = contributed(
        "both", {"wrap_tool_call": lambda self, r, h: commanding(r, h)}, {"wrap_tool_call": acommanding}
    )
    reports, counter = Reports(), Counter()
    hooks = isolated(wrapping("wrap_tool_call", flavour, vandal), reports=reports, inside=[host])
    graph, _ = agent(hooks, calls("count"), says("done"), tools=[counter.tool])
    state = await run(graph, side)
    assert texts(state["messages"]) == ["hello", "", "by command", "done"]
    assert reports.messages == []


async def test_ten_hooks_each_do_their_worst_and_the_run_goes_on() -> None:
    bodies = [body for body, _ in MODEL]
    reports = Reports()
    hooks = [wrapping("wrap_model_call", "both", body) for body in bodies]
    graph, model = agent(isolated(*hooks, reports=reports), says("real"))
    for side in SIDES:
        state = await run(graph, side)
        assert texts(state["messages"]) == ["hello", "real"]
    assert len(model.seen) == 2
    assert len(reports.messages) == 2 * len(bodies)


@pytest.mark.parametrize("side", SIDES)
async def test_a_hook_with_the_other_side_only_is_passed_by_or_used(side: str) -> None:
    reports, seen = Reports(), []

    def look(request: Any) -> Any:
        seen.append(type(request).__name__)
        return (yield request)

    flavour = "sync" if side == "async" else "async"
    hooks = [wrapping(kind, flavour, look) for kind in ("wrap_model_call", "wrap_tool_call")]
    counter = Counter()
    graph, _ = agent(isolated(*hooks, reports=reports), calls("count"), says("done"), tools=[counter.tool])
    state = await run(graph, side)
    assert texts(state["messages"])[2:] == ["counted", "done"]
    assert reports.messages == []
    assert len(seen) == (3 if side == "async" else 0)


async def test_parallel_tool_calls_keep_apart() -> None:
    reports, counter, ids = Reports(), Counter(), []

    def look(request: Any) -> Any:
        message = yield request
        ids.append((request.tool_call["id"], message.tool_call_id))
        return message

    for flavour in ("sync", "async"):
        counter.args.clear()
        ids.clear()
        graph, _ = agent(
            isolated(wrapping("wrap_tool_call", flavour, look), reports=reports),
            calls(*["count"] * 30),
            says("done"),
            tools=[counter.tool],
        )
        await run(graph, "async")
        assert sorted(ids) == sorted((f"count-{i}", f"count-{i}") for i in range(30))
    assert reports.messages == []


async def test_a_hook_that_leaves_before_its_handler_ends_does_not_cut_it_short() -> None:
    left = asyncio.Event()

    class Impatient(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            try:
                async with asyncio.timeout(0.01):
                    return await handler(request)
            finally:
                left.set()

    class Slow(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            await left.wait()
            return await handler(request)

    reports = Reports()
    graph, model = agent(isolated(Impatient(), reports=reports, inside=[Slow()]), says("real"))
    state = await run(graph, "async")
    assert texts(state["messages"]) == ["hello", "real"]
    assert len(model.seen) == 1
    assert reports.messages == ["Impatient.awrap_model_call failed and was skipped: TimeoutError"]


async def test_a_handler_may_be_called_from_a_task_that_the_hook_started() -> None:
    class Grouping(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            response, _ = await asyncio.gather(handler(request), asyncio.sleep(0))
            return response

    reports = Reports()
    graph, model = agent(isolated(Grouping(), reports=reports), says("real"))
    assert texts((await run(graph, "async"))["messages"]) == ["hello", "real"]
    assert (len(model.seen), reports.messages) == (1, [])


async def test_a_hook_declared_async_under_a_synchronous_name_is_reported() -> None:
    class Mistaken(AgentMiddleware):
        async def wrap_model_call(self, request: Any, handler: Any) -> Any:
            return await handler(request)

    reports = Reports()
    graph, _ = agent(isolated(Mistaken(), reports=reports), says("real"))
    assert texts((await run(graph, "async"))["messages"]) == ["hello", "real"]
    assert reports.messages == [
        "Mistaken.wrap_model_call failed and was skipped: "
        "it returned a coroutine without calling its handler, so the host called it"
    ]


async def test_an_error_whose_text_cannot_be_read_is_named_by_its_type() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise SystemError("no text")

    class Silent(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            raise Mute

    reports = Reports()
    graph, _ = agent(isolated(Silent(), reports=reports), says("real"))
    await run(graph, "async")
    assert reports.messages == ["Silent.awrap_model_call failed and was skipped: Mute"]
    assert isinstance(reports.errors[0], Mute)


async def test_time_in_the_handler_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(AgentMiddleware):
        def wrap_model_call(self, request: Any, handler: Any) -> Any:
            time.sleep(0.1)
            return handler(request)

    reports, limits = Reports(), patient(monkeypatch)
    hooks = [wrapping("wrap_model_call", flavour, looks_on) for flavour in ("sync", "both")]
    stack = isolated(*hooks, reports=reports, limit_seconds=0.05, inside=[Slow()])
    graph, _ = agent(stack, says("real"))
    for side in SIDES:
        await run(graph, side)
    assert reports.messages == []
    assert limits == [0.05] * 8, "each hook has all of it before its handler, and all of it after"


@runs
async def test_tokens_stream_through_contributed_hooks(side: str, flavour: str) -> None:
    reports = Reports()
    hook = wrapping("wrap_model_call", flavour, looks_on)
    graph, _ = agent(isolated(hook, reports=reports), says("streamed"))
    given = {"messages": [("user", "hello")]}
    if side == "async":
        parts = [part async for part in graph.astream(given, stream_mode="messages")]
    else:
        parts = await asyncio.to_thread(lambda: list(graph.stream(given, stream_mode="messages")))
    assert texts([message for message, _ in parts]) == ["streamed"]
