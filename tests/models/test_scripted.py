"""The scripted model says what its rules say."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.agents import create_agent
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
)
from langchain_core.tools import tool
from pydantic import ValidationError

from deerflow.models import ScriptedChatModel, ScriptedModelError


def scripted(*turns: dict[str, Any], when: str = "", **options: Any) -> ScriptedChatModel:
    return ScriptedChatModel(rules=[{"when": when, "turns": list(turns)}], **options)


def joined(model: ScriptedChatModel, messages: Any) -> AIMessageChunk:
    chunks = list(model.stream(messages))
    whole = chunks[0]
    for chunk in chunks[1:]:
        whole = whole + chunk
    return whole


def calls(*names: str, **extra: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "args": {}} for name in names], **extra}


class TestRules:
    def test_first_rule_found_in_the_message_answers(self) -> None:
        model = ScriptedChatModel(
            rules=[
                {"when": "^b", "turns": [{"text": "one"}]},
                {"when": "b", "turns": [{"text": "two"}]},
                {"when": "", "turns": [{"text": "three"}]},
            ]
        )
        assert [model.invoke(text).text for text in ("abc", "bcd", "x")] == ["two", "one", "three"]

    def test_no_rule_says_so(self) -> None:
        assert scripted({"text": "x"}, when="y").invoke("what {prompt}").text == "No rule for: what {prompt}"

    def test_only_the_last_human_message_counts(self) -> None:
        model = scripted({"text": "found"}, when="old")
        messages = [HumanMessage("old"), AIMessage("a"), HumanMessage("new"), SystemMessage("old")]
        assert model.invoke(messages).text == "No rule for: new"

    def test_turns_follow_the_ai_messages_after_it_and_the_last_repeats(self) -> None:
        model = scripted({"text": "0"}, {"text": "1"}, {"text": "2"})
        messages: list[BaseMessage] = [HumanMessage("a"), AIMessage("x"), HumanMessage("b")]
        said = []
        for _ in range(5):
            messages.append(model.invoke(messages))
            said.append(messages[-1].text)
        assert said == ["0", "1", "2", "2", "2"]

    def test_nothing_is_remembered_between_calls(self) -> None:
        model = scripted({"text": "0"}, {"text": "1"})
        assert [model.invoke("a").text for _ in range(3)] == ["0", "0", "0"]

    def test_no_human_message_is_an_empty_prompt(self) -> None:
        assert scripted({"text": "<{prompt}>"}).invoke([SystemMessage("s")]).text == "<>"

    def test_error_is_raised_with_its_text(self) -> None:
        model = scripted({"error": "no {prompt}"})
        with pytest.raises(ScriptedModelError, match=r"^no luck$"):
            model.invoke("luck")
        with pytest.raises(ScriptedModelError, match=r"^no luck$"):
            list(model.stream("luck"))

    async def test_error_is_raised_in_async_calls_too(self) -> None:
        model = scripted({"error": "no"})
        with pytest.raises(ScriptedModelError):
            await model.ainvoke("x")
        with pytest.raises(ScriptedModelError):
            async for _ in model.astream("x"):
                pass


class TestSlots:
    def test_prompt_and_tool_results_are_put_in_everywhere_but_in_keys(self) -> None:
        args = {"{prompt}": ["{prompt}", {"x": "<{tool_results}>"}], "n": 5}
        model = scripted({"text": "{prompt}/{prompt}", "tool_calls": [{"name": "t", "args": args}]})
        history = [
            HumanMessage("hi"),
            AIMessage(""),
            ToolMessage("A", tool_call_id="1"),
            ToolMessage("B", tool_call_id="2"),
        ]
        message = model.invoke(history)
        assert message.text == "hi/hi"
        assert message.tool_calls[0]["args"] == {"{prompt}": ["hi", {"x": "<A\nB>"}], "n": 5}

    @pytest.mark.parametrize(
        "text", ["{", "}", "{}", "{0}", "{x!r}", "{{prompt}}", "{tool_results}", "%s", "\\1"]
    )
    def test_braces_in_rules_and_prompts_survive(self, text: str) -> None:
        assert scripted({"text": "{ {x} {prompt}"}).invoke(text).text == f"{{ {{x}} {text}"

    def test_results_of_earlier_turns_are_left_out(self) -> None:
        history = [HumanMessage("a"), ToolMessage("old", tool_call_id="1"), HumanMessage("b")]
        assert scripted({"text": "<{tool_results}>"}).invoke(history).text == "<>"

    def test_content_lists_are_read_by_their_texts(self) -> None:
        content = [
            "a",
            {"type": "text", "text": "b"},
            {"type": "image_url", "image_url": {"url": "x"}},
            {"text": None},
        ]
        result = ToolMessage([{"type": "text", "text": "r"}], tool_call_id="1")
        history = [HumanMessage(content), AIMessage(""), result]  # type: ignore[arg-type]
        assert scripted({"text": "{prompt} {tool_results}"}, when="^ab$").invoke(history).text == "ab r"

    @pytest.mark.parametrize("text", ["", "\ud835", "a\0b", "x" * 1_000_000, "a " * 1000], ids=len)
    def test_any_text_passes(self, text: str) -> None:
        model = scripted({"text": "{prompt}", "tool_calls": [{"name": "t", "args": {"a": "{prompt}"}}]})
        whole = joined(model, text)
        assert whole.content == model.invoke(text).content == text
        assert whole.tool_calls[0]["args"] == model.invoke(text).tool_calls[0]["args"] == {"a": text}


class TestToolCalls:
    def test_given_ids_are_kept_and_others_made(self) -> None:
        turn = {"tool_calls": [{"name": "a", "id": "mine"}, {"name": "a"}, {"name": "a", "args": {"x": 1}}]}
        message = scripted(turn).invoke("x")
        ids = [call["id"] for call in message.tool_calls]
        assert ids[0] == "mine"
        assert len(set(ids)) == 3
        assert [call["args"] for call in message.tool_calls] == [{}, {}, {"x": 1}]

    def test_made_ids_are_the_same_for_the_same_conversation_and_others_later(self) -> None:
        model = scripted(calls("a", "b"))
        messages: list[BaseMessage] = [HumanMessage("x")]
        first = model.invoke(messages)
        assert [c["id"] for c in model.invoke("x").tool_calls] == [c["id"] for c in first.tool_calls]
        messages += [first, *(ToolMessage("r", tool_call_id=c["id"]) for c in first.tool_calls)]
        second = model.invoke(messages)
        third = model.invoke([*messages, second, HumanMessage("x")])
        ids = [call["id"] for message in (first, second, third) for call in message.tool_calls]
        assert len(set(ids)) == 6

    def test_streamed_calls_are_those_of_the_whole_message(self) -> None:
        model = scripted(calls("a", "b", text="I call two"))
        whole, message = joined(model, "x"), model.invoke("x")
        assert whole.content == "I call two"
        assert whole.tool_calls == message.tool_calls
        assert all(len(chunk.tool_call_chunks) <= 1 for chunk in model.stream("x"))


class TestStream:
    @given(st.text(max_size=60))
    @settings(max_examples=80, deadline=None)
    def test_chunks_join_to_the_text(self, text: str) -> None:
        assert "".join(str(chunk.content) for chunk in scripted({"text": "{prompt}"}).stream(text)) == text

    def test_text_comes_token_by_token(self) -> None:
        parts = [chunk.content for chunk in scripted({"text": " go go\n\nhome "}).stream("x")]
        assert parts == [" ", "go ", "go\n\n", "home ", ""]

    async def test_async_stream_is_the_same(self) -> None:
        model = scripted(calls("a", text="one two"))
        parts = [chunk async for chunk in model.astream("x")]
        assert [c.content for c in parts] == [c.content for c in model.stream("x")]
        assert [c.tool_call_chunks for c in parts] == [c.tool_call_chunks for c in model.stream("x")]

    def test_usage_counts_words_and_comes_last(self) -> None:
        model = scripted({"text": "one two three"})
        messages = [SystemMessage("be so good"), HumanMessage("and answer")]
        usage = {"input_tokens": 5, "output_tokens": 3, "total_tokens": 8}
        assert model.invoke(messages).usage_metadata == usage
        chunks = list(model.stream(messages))
        assert [chunk.usage_metadata for chunk in chunks] == [None] * 3 + [usage]
        assert joined(model, messages).usage_metadata == usage

    def test_tool_calls_count_as_output(self) -> None:
        turn = {"tool_calls": [{"name": "a", "args": {"x": "two words"}}]}
        usage = scripted(turn).invoke("x").usage_metadata
        assert usage is not None
        assert usage["output_tokens"] == 4

    def test_model_and_reason_are_named(self) -> None:
        model = scripted({"text": "a"}, model_name="m1")
        expected = {"model_name": "m1", "finish_reason": "stop"}
        assert model.invoke("x").response_metadata.items() >= expected.items()
        assert joined(model, "x").response_metadata.items() >= expected.items()
        assert scripted(calls("a")).invoke("x").response_metadata["finish_reason"] == "tool_calls"


class TestDelays:
    async def test_delay_is_waited_for(self) -> None:
        model = scripted({"text": "a", "delay_seconds": 0.05})
        for call in (model.ainvoke, lambda text: asyncio.to_thread(model.invoke, text)):
            start = time.perf_counter()
            assert (await call("x")).text == "a"
            assert time.perf_counter() - start >= 0.05

    async def test_tokens_are_spaced(self) -> None:
        model = scripted({"text": "a b c"}, token_delay_seconds=0.02)
        start = time.perf_counter()
        first = [chunk async for chunk in model.astream("x")]
        assert time.perf_counter() - start >= 0.06
        assert [chunk.content for chunk in model.stream("x")] == [chunk.content for chunk in first]

    async def test_delay_leaves_the_loop_free_and_can_be_cancelled(self) -> None:
        model = scripted({"text": "a", "delay_seconds": 60})
        both = [
            asyncio.create_task(model.ainvoke("x")),
            asyncio.create_task(anext(aiter(model.astream("x")))),
        ]
        await asyncio.sleep(0.01)
        for asyncio_task in both:
            asyncio_task.cancel()
        assert all(
            isinstance(r, asyncio.CancelledError) for r in await asyncio.gather(*both, return_exceptions=True)
        )


class TestWrongRules:
    @pytest.mark.parametrize(
        ("rule", "place"),
        [
            ({"when": "(", "turns": [{"text": "a"}]}, "rules.1.when"),
            ({"when": "a"}, "rules.1.turns"),
            ({"when": "a", "turns": []}, "rules.1.turns"),
            ({"when": "a", "turns": [{}]}, "rules.1.turns.0"),
            ({"when": "a", "turns": [{"txt": "a"}]}, "rules.1.turns.0.txt"),
            ({"when": "a", "turns": [{"text": "a", "error": "b"}]}, "rules.1.turns.0"),
            ({"when": "a", "turns": [{"text": "a", "delay_seconds": -1}]}, "rules.1.turns.0.delay_seconds"),
            ({"when": "a", "turns": [{"tool_calls": [{"args": {}}]}]}, "rules.1.turns.0.tool_calls.0.name"),
            ({"wen": "a", "turns": [{"text": "a"}]}, "rules.1.wen"),
            ("a", "rules.1"),
        ],
    )
    def test_wrong_rules_are_named(self, rule: Any, place: str) -> None:
        with pytest.raises(ValidationError) as caught:
            ScriptedChatModel(rules=[{"when": "x", "turns": [{"text": "a"}]}, rule])
        assert place in [".".join(map(str, error["loc"])) for error in caught.value.errors()]

    @pytest.mark.parametrize("value", [-0.1, True, "1", float("nan"), float("inf")])
    def test_wrong_token_delay_is_refused(self, value: Any) -> None:
        with pytest.raises(ValidationError, match="token_delay_seconds"):
            ScriptedChatModel(token_delay_seconds=value)


@tool
def shout(text: str) -> str:
    """Say it louder."""
    return text.upper()


class TestInAnAgent:
    async def test_agent_calls_tools_in_both_worlds(self) -> None:
        turn = {"tool_calls": [{"name": "shout", "args": {"text": "{prompt}"}}] * 2}
        agent = create_agent(scripted(turn, {"text": "heard {tool_results}"}), [shout])
        state = {"messages": [HumanMessage("hey")]}
        assert agent.invoke(state)["messages"][-1].text == "heard HEY\nHEY"
        assert (await agent.ainvoke(state))["messages"][-1].text == "heard HEY\nHEY"

    async def test_agents_share_one_model_at_the_same_time(self) -> None:
        model = scripted(calls("shout"), {"text": "{prompt}"}, token_delay_seconds=0.001)
        agent = create_agent(model, [shout])
        runs = [agent.ainvoke({"messages": [HumanMessage(f"n{i}")]}) for i in range(10)]
        assert [r["messages"][-1].text for r in await asyncio.gather(*runs)] == [f"n{i}" for i in range(10)]

    def test_tools_of_every_kind_can_be_bound(self) -> None:
        def plain(x: int) -> int:
            """Plain."""
            return x

        tools = [shout, plain, {"type": "web_search"}, {"name": "n", "input_schema": {}}]
        bound = scripted({"text": "a"}).bind_tools(tools, tool_choice="any")  # type: ignore[arg-type]
        assert bound.invoke("x").text == "a"
        assert ScriptedChatModel().bind_tools(tools).invoke("x").text  # type: ignore[arg-type]
