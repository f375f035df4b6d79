"""Views of requests and results: equal to the real thing, and leading back to nothing."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields
from typing import Any

import pytest
from langchain.agents.middleware.types import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.prebuilt import ToolRuntime
from langgraph.prebuilt.tool_node import ToolCallRequest
from langgraph.types import Command
from pydantic import BaseModel
from support.agents import ListModel

from deerflow.extensions.detached import detached, detached_request, detached_result

MESSAGES = [
    SystemMessage("rules"),
    HumanMessage([{"type": "text", "text": "hi"}], additional_kwargs={"a": {"b": [1]}}, id="1"),
    AIMessage(
        "",
        tool_calls=[{"name": "t", "args": {"x": {"y": 1}}, "id": "c"}],
        usage_metadata={"input_tokens": 1, "output_tokens": 2, "total_tokens": 3},
    ),
    ToolMessage("r", tool_call_id="c", artifact={"rows": [1, 2]}, status="error"),
]


def containers(value: Any) -> set[int]:
    """The ids of everything changeable inside a value."""
    if isinstance(value, dict):
        return {id(value)}.union(*(containers(item) for item in value.values()))
    if isinstance(value, (list, tuple)):
        return {id(value)}.union(*(containers(item) for item in value))
    if isinstance(value, BaseModel):
        return {id(value), id(value.__pydantic_fields_set__)}.union(*map(containers, vars(value).values()))
    return set()


def test_messages_are_equal_and_share_nothing_that_can_be_changed() -> None:
    originals = deepcopy(MESSAGES)
    copies = detached(originals)
    assert copies == originals
    assert [type(copy) for copy in copies] == [type(message) for message in originals]
    assert not containers(originals) & containers(copies)
    for copy, message in zip(copies, originals, strict=True):
        assert copy.model_dump() == message.model_dump()
        assert copy.model_fields_set == message.model_fields_set


def test_fields_beyond_the_declared_ones_are_copied() -> None:
    message = HumanMessage("hi", own={"deep": [1]})
    copy = detached(message)
    copy.own["deep"].append(2)  # type: ignore[attr-defined]
    assert message.own == {"deep": [1]}  # type: ignore[attr-defined]


def test_a_value_that_contains_itself_is_copied_too() -> None:
    loop: dict[str, Any] = {}
    loop["self"] = loop
    copy = detached(loop)
    assert copy is not loop
    assert copy["self"] is copy


def test_objects_of_other_kinds_stay_the_same() -> None:
    class Opaque:
        pass

    opaque = Opaque()
    assert detached({"o": [opaque]})["o"][0] is opaque


def model_request() -> ModelRequest[Any]:
    messages = deepcopy(MESSAGES[1:])
    return ModelRequest(
        model=ListModel(turns=[]),
        messages=messages,
        system_message=SystemMessage("rules"),
        tools=[{"name": "raw", "args": {}}],
        tool_choice={"type": "any"},
        state={"messages": messages, "own": [1]},  # type: ignore[typeddict-unknown-key]
        model_settings={"stop": ["x"]},
    )


def test_a_model_request_reads_like_the_real_one() -> None:
    request = model_request()
    view = detached_request(request)
    assert isinstance(view, ModelRequest)
    for field in fields(ModelRequest):
        assert getattr(view, field.name) == getattr(request, field.name), field.name
    assert view.model is request.model
    assert view.system_prompt == "rules"


def test_nothing_changeable_of_a_model_request_is_shared() -> None:
    request = model_request()
    view = detached_request(request)
    for name in ("messages", "system_message", "tools", "tool_choice", "state", "model_settings"):
        assert not containers(getattr(view, name)) & containers(getattr(request, name)), name


def test_messages_of_a_request_and_its_state_stay_the_same_objects() -> None:
    view = detached_request(model_request())
    assert all(a is b for a, b in zip(view.messages, view.state["messages"], strict=True))


def test_nothing_is_copied_before_it_is_read() -> None:
    view = detached_request(model_request())
    assert "messages" not in vars(view)
    assert len(view.messages) == 3
    assert "messages" in vars(view)
    assert "state" not in vars(view)


def test_an_override_of_a_view_is_complete() -> None:
    request = model_request()
    changed = detached_request(request).override(system_message=None)
    assert changed.messages == request.messages
    assert changed.system_message is None
    assert request.system_message is not None


def test_a_view_has_no_attributes_of_its_own() -> None:
    view = detached_request(model_request())
    with pytest.raises(AttributeError, match="no_such"):
        view.no_such  # noqa: B018


def tool_request() -> ToolCallRequest:
    state = {"messages": deepcopy(MESSAGES)}
    runtime: ToolRuntime[Any, Any] = ToolRuntime(
        state=state,
        context={"store": object()},
        config={"configurable": {"thread_id": "t"}},
        stream_writer=print,
        tool_call_id="c",
        store=None,
    )
    call: Any = {"name": "t", "args": {"x": [1]}, "id": "c", "type": "tool_call"}
    return ToolCallRequest(tool_call=call, tool=None, state=state, runtime=runtime)


def test_a_tool_request_reads_like_the_real_one_and_shares_nothing_changeable() -> None:
    request = tool_request()
    view = detached_request(request)
    assert isinstance(view, ToolCallRequest)
    assert isinstance(view.runtime, ToolRuntime)
    assert (view.tool_call, view.tool, view.state) == (request.tool_call, None, request.state)
    assert view.runtime.config == request.runtime.config
    assert view.runtime.tool_call_id == "c"
    assert not containers(view.tool_call) & containers(request.tool_call)
    assert not containers(view.state) & containers(request.state)
    assert not containers(view.runtime.state) & containers(request.state)
    assert not containers(view.runtime.config) & containers(request.runtime.config)


def test_the_context_of_a_run_is_the_real_one() -> None:
    request = tool_request()
    view = detached_request(request)
    assert view.runtime.context is request.runtime.context


def test_an_override_of_a_tool_request_is_complete() -> None:
    request = tool_request()
    changed = detached_request(request).override(tool_call={**request.tool_call, "args": {}})
    assert (changed.tool_call["args"], changed.state) == ({}, request.state)
    assert request.tool_call["args"] == {"x": [1]}


def test_results_read_like_the_real_ones_and_share_nothing_changeable() -> None:
    class Answer(BaseModel):
        rows: list[int]

    response = ModelResponse(result=[MESSAGES[2]], structured_response=Answer(rows=[1]))
    view = detached_result(response)
    assert isinstance(view, ModelResponse)
    assert view.result == response.result
    assert view.structured_response == response.structured_response
    assert not containers(view.result) & containers(response.result)
    view.structured_response.rows.append(2)
    assert response.structured_response.rows == [1]  # type: ignore[union-attr]

    command = Command(update={"messages": [MESSAGES[3]]}, goto="end")
    shown = detached_result(command)
    assert shown == command
    assert not containers(shown.update) & containers(command.update)
    assert detached_result("text") == "text"
