"""Requests and answers stay well-formed."""

from __future__ import annotations

import pytest
from deerflow_extension_api import ContentKind, read_provenance
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import ValidationError

from deerflow.agents.transcript import (
    GAVE_UP,
    MAX_ARGUMENT_DEPTH,
    MOST_UNREADABLE,
    UNFINISHED,
    UNREADABLE,
    WITHHELD,
    answer_in_place_of,
    repaired,
    well_formed,
)


def _call(call_id: str | None, name: str = "search") -> dict:
    return {"name": name, "args": {}, "id": call_id, "type": "tool_call"}


def _asks(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[_call(call_id) for call_id in ids])


def _result(call_id: str, text: str = "found") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id)


def _is_the_hosts(message: AnyMessage) -> bool:
    marks = read_provenance(message)
    return marks is not None and marks.content_kind is ContentKind.MIDDLEWARE_INJECTION


def test_a_conversation_in_order_is_left_as_it_is() -> None:
    messages = [HumanMessage("q"), _asks("a", "b"), _result("a"), _result("b"), AIMessage("done")]
    assert well_formed(SystemMessage("s"), messages) == (SystemMessage("s"), messages)


def test_calls_of_a_cancelled_turn_are_closed_on_the_next_turn() -> None:
    _, messages = well_formed(None, [HumanMessage("q"), _asks("a", "b"), _result("a"), HumanMessage("next")])
    assert [message.type for message in messages] == ["human", "ai", "tool", "tool", "human"]
    assert (messages[3].tool_call_id, messages[3].text, messages[3].status) == ("b", UNFINISHED, "error")
    assert [_is_the_hosts(message) for message in messages] == [False, False, False, True, False]


def test_results_follow_their_calls_in_the_order_of_the_calls() -> None:
    _, messages = well_formed(None, [_asks("a", "b"), HumanMessage("aside"), _result("b"), _result("a")])
    assert [getattr(message, "tool_call_id", None) for message in messages] == [None, "a", "b", None]


def test_results_without_a_call_and_second_results_are_left_out() -> None:
    _, messages = well_formed(None, [_result("x"), _asks("a"), _result("a", "1"), _result("a", "2")])
    assert [message.text for message in messages] == ["", "1"]


def test_an_id_that_a_later_turn_repeats_keeps_its_own_result() -> None:
    _, messages = well_formed(None, [_asks("a"), _result("a", "1"), _asks("a"), _result("a", "2")])
    assert [message.text for message in messages] == ["", "1", "", "2"]


def test_calls_with_unreadable_arguments_get_a_result_that_says_so() -> None:
    broken = {"name": "search", "args": "{", "id": "a", "error": None, "type": "invalid_tool_call"}
    _, messages = well_formed(None, [AIMessage("", invalid_tool_calls=[broken]), HumanMessage("next")])
    assert [message.type for message in messages] == ["ai", "tool", "human"]
    assert messages[1].text == UNREADABLE
    assert _is_the_hosts(messages[1])


def test_system_messages_in_mid_history_join_the_leading_one() -> None:
    system, messages = well_formed(SystemMessage("first"), [HumanMessage("q"), SystemMessage("second")])
    assert system is not None and system.text == "first\n\nsecond"
    assert messages == [HumanMessage("q")]


def test_answers_that_say_nothing_are_not_sent_again() -> None:
    _, messages = well_formed(None, [HumanMessage("q"), AIMessage(""), HumanMessage("next")])
    assert [message.text for message in messages] == ["q", "next"]


def _broken(call_id: str | None = "b", args: str = "{") -> dict:
    return {"name": "search", "args": args, "id": call_id, "error": None, "type": "invalid_tool_call"}


def test_missing_and_repeated_ids_of_one_answer_become_distinct() -> None:
    (answer,) = repaired(AIMessage("", tool_calls=[_call("a"), _call("a"), _call(None), _call("")]))
    ids = [call["id"] for call in answer.tool_calls]
    assert ids[0] == "a"
    assert len(set(ids)) == 4 and all(ids)


def test_an_answer_cut_for_safety_runs_nothing_and_says_why() -> None:
    filtered = {"finish_reason": "content_filter"}
    blocks = [{"type": "tool_use", "id": "a", "name": "search", "input": {}}]
    for content in ("", "  ", blocks):
        (answer,) = repaired(
            AIMessage(
                content,
                tool_calls=[_call("a")],
                invalid_tool_calls=[_broken()],
                response_metadata=filtered,
            )
        )
        assert (answer.tool_calls, answer.invalid_tool_calls, answer.content) == ([], [], WITHHELD)
        assert _is_the_hosts(answer)
    (answer,) = repaired(AIMessage("half a", tool_calls=[_call("a")], response_metadata=filtered))
    assert answer.content == "half a" and not _is_the_hosts(answer)


def test_an_answer_with_sound_calls_is_the_same_object() -> None:
    answer = _asks("a", "b")
    assert repaired(answer)[0] is answer


def test_unreadable_calls_are_answered_beside_those_that_run() -> None:
    answer, result, other = repaired(
        AIMessage("", tool_calls=[_call("a")], invalid_tool_calls=[_broken("a"), _broken(None)])
    )
    assert isinstance(answer, AIMessage)
    assert [call["args"] for call in answer.tool_calls] == [{}, {}, {}]
    assert answer.invalid_tool_calls == []
    ids = [call["id"] for call in answer.tool_calls]
    assert ids[0] == "a" and len(set(ids)) == 3
    assert [result.tool_call_id, other.tool_call_id] == ids[1:]
    assert (result.text, result.status, other.text) == (UNREADABLE, "error", UNREADABLE)


def test_what_no_checkpoint_can_hold_is_unreadable_and_what_just_fits_is_not() -> None:
    def nested(levels: int) -> dict:
        return {"a": nested(levels - 1)} if levels > 1 else {}

    fits = {"low": -(2**63), "high": 2**64 - 1, "deep": nested(MAX_ARGUMENT_DEPTH - 1), "text": "\U0001f600"}
    assert len(repaired(AIMessage("", tool_calls=[{**_call("a"), "args": fits}]))) == 1
    for odd in (
        {"low": -(2**63) - 1},
        {"high": [2**64]},
        {"deep": nested(MAX_ARGUMENT_DEPTH)},
        {"\ud835": 1},
        {"text": ["\ud835"]},
    ):
        answer, result = repaired(AIMessage("", tool_calls=[{**_call("a"), "args": odd}]))
        assert isinstance(answer, AIMessage) and answer.tool_calls[0]["args"] == {}
        assert (result.text, JsonPlusSerializer().dumps_typed(answer)[0]) == (UNREADABLE, "msgpack")
    JsonPlusSerializer().dumps_typed(AIMessage("", tool_calls=[{**_call("a"), "args": fits}]))


def test_only_an_answer_that_could_not_be_formed_for_its_arguments_is_replaced() -> None:
    odd = [_call("a"), {**_call("b"), "args": [1, 2]}, {**_call("c"), "args": "text"}]
    with pytest.raises(ValidationError) as refused:
        AIMessage("", tool_calls=odd)
    answer = answer_in_place_of(refused.value)
    assert answer is not None
    assert [call["args"] for call in answer.invalid_tool_calls] == ["'[1, 2]'", "'text'"]
    with pytest.raises(ValidationError) as other:
        AIMessage("", tool_calls=[{"name": 5, "args": [], "id": "a"}])
    assert answer_in_place_of(other.value) is None
    assert answer_in_place_of(ValueError("args")) is None


def test_a_model_that_never_sends_readable_calls_is_stopped() -> None:
    broken = AIMessage("", invalid_tool_calls=[_broken()])
    conversation: list = [HumanMessage("q")]
    while len(round_ := repaired(broken, earlier=conversation)) > 1:
        conversation += round_
    assert len(conversation) == 1 + 2 * MOST_UNREADABLE
    assert (round_[0].text, round_[0].tool_calls) == (GAVE_UP, [])
    well = [*conversation, _asks("x"), _result("x")]
    assert len(repaired(broken, earlier=well)) == 2


def test_half_characters_go_from_text_and_make_a_call_unreadable() -> None:
    odd = {"name": "search", "args": {"q": ["\ud835"]}, "id": "a", "type": "tool_call"}
    answer, result = repaired(AIMessage("odd \ud835 \0", tool_calls=[odd, _call("b")]))
    assert answer.content == "odd \ufffd \ufffd"
    assert [(call["id"], call["args"]) for call in answer.tool_calls] == [("b", {}), ("a", {})]
    assert (result.tool_call_id, result.text) == ("a", UNREADABLE)
