"""What a tool's result becomes on its way into the transcript."""

from __future__ import annotations

import json
import logging
import re
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain.tools import ToolRuntime
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.types import Command
from support.agents import SIDES, agent, run

from deerflow.agents.file_tools import build_file_tools
from deerflow.agents.tool_output import OutputLimits, ToolOutputLimit, keeping
from deerflow.agents.tool_output.artifacts import is_small, why_left_out
from deerflow.agents.tool_output.cutting import cut, is_fitting
from deerflow.agents.workspace import Workspace

LIMITS = OutputLimits(text_characters=2000, payload_characters=5000, blocks=10, kept_characters=100_000)
POINTER = re.compile(r"in '(\.outputs/[^']+)': read it with read_file, or search it with grep")


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty workspace."""
    return Workspace(tmp_path / "workspace")


async def _messages(
    workspace: Workspace,
    given: Any,
    *,
    side: str = "async",
    limits: OutputLimits = LIMITS,
    call_id: str = "call-1",
) -> list[AnyMessage]:
    """Return what one call of a tool adds that returns `given`, or what `given` makes of its runtime."""

    @tool
    def produce(runtime: ToolRuntime) -> Any:
        """Return something."""
        return given(runtime) if callable(given) else given

    turn = AIMessage("", tool_calls=[{"name": "produce", "args": {}, "id": call_id}])
    middleware = ToolOutputLimit(lambda runtime: workspace, limits)
    graph, _ = agent([middleware], turn, AIMessage("done"), tools=[produce])
    messages: list[AnyMessage] = (await run(graph, side))["messages"][2:-1]
    return messages


async def _result(workspace: Workspace, given: Any, **options: Any) -> ToolMessage:
    (message,) = await _messages(workspace, given, **options)
    assert isinstance(message, ToolMessage)
    return message


def _kept(workspace: Workspace, message: ToolMessage) -> str:
    pointer = POINTER.search(str(message.content))
    assert pointer
    return (workspace.root / pointer[1]).read_text()


@pytest.mark.parametrize("side", SIDES)
async def test_a_long_text_keeps_its_head_and_tail_and_the_whole_stays_in_a_file(
    workspace: Workspace, side: str
) -> None:
    text = "head" + "x" * 50_000 + "tail"
    message = await _result(workspace, text, side=side)
    content = str(message.content)
    assert len(content) == LIMITS.text_characters
    assert content.startswith("headx")
    assert content.endswith("xtail")
    notice = re.search(r"\n\[cut: (\d+) characters left out here; the whole is in .*\]\n", content)
    assert notice
    assert int(notice[1]) == len(text) - (len(content) - len(notice[0]))
    assert _kept(workspace, message) == text


@pytest.mark.parametrize("side", SIDES)
async def test_a_text_that_just_fits_goes_on_untouched(workspace: Workspace, side: str) -> None:
    text = "é" * LIMITS.text_characters
    assert (await _result(workspace, text, side=side)).content == text
    assert not workspace.root.exists()
    assert len((await _result(workspace, text + "é", side=side)).content) <= LIMITS.text_characters


async def test_20_megabytes_are_bounded_by_default(workspace: Workspace) -> None:
    message = await _result(workspace, "0123456789" * 2_000_001, limits=OutputLimits())
    assert len(message.content) <= 50_000
    assert "its first 20000000 characters are in" in message.content
    assert len(_kept(workspace, message)) == 20_000_000


async def test_300_000_lines_can_be_read_on_with_the_file_tools(workspace: Workspace) -> None:
    message = await _result(workspace, "".join(f"line {i}\n" for i in range(300_000)), limits=OutputLimits())
    pointer = POINTER.search(str(message.content))
    assert pointer
    read = [{"name": "read_file", "args": {"path": pointer[1], "offset": 299_999}, "id": "r"}]
    find = [{"name": "grep", "args": {"path": pointer[1], "pattern": "299999"}, "id": "g"}]
    turn = AIMessage("", tool_calls=[*read, *find])
    graph, _ = agent([], turn, AIMessage("done"), tools=build_file_tools(lambda runtime: workspace))
    results = (await run(graph, "async"))["messages"][2:4]
    assert [result.content for result in results] == ["line 299999\n", f"{pointer[1]}:300000: line 299999"]


@pytest.mark.parametrize("side", SIDES)
async def test_half_characters_and_nul_become_valid_text(workspace: Workspace, side: str) -> None:
    message = await _result(workspace, "a\ud835 \ud83d\ude00 \0", side=side)
    assert message.content == "a\ufffd \U0001f600 \ufffd"
    assert not workspace.root.exists()


async def test_a_long_text_that_is_not_valid_is_kept_as_valid(workspace: Workspace) -> None:
    message = await _result(workspace, "\ud835" * 3000)
    assert str(message.content).encode()
    assert _kept(workspace, message) == "\ufffd" * 3000


@pytest.mark.parametrize("side", SIDES)
async def test_other_fields_of_the_message_stay(workspace: Workspace, side: str) -> None:
    artifact = {"rows": ["\ud835"] * 5000}

    def produce(runtime: ToolRuntime) -> ToolMessage:
        return ToolMessage(
            "x" * 3000,
            tool_call_id=runtime.tool_call_id,
            id="own",
            status="error",
            artifact=artifact,
            additional_kwargs={"subagent_status": "failed"},
        )

    message = await _result(workspace, produce, side=side)
    assert len(message.content) <= LIMITS.text_characters
    assert (message.id, message.status, message.artifact) == ("own", "error", artifact)
    assert message.additional_kwargs == {"subagent_status": "failed"}


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    ("artifact", "said"),
    [
        (threading.Lock(), "the artifact of type lock cannot be stored: TypeError"),
        ({"rows": [object()]}, "the artifact of type dict cannot be stored: TypeError"),
        (10**40, "the artifact of type int cannot be stored: TypeError"),
        ("x" * 12_000, "the artifact of type str has 12003 bytes, and 11000 are the most"),
    ],
)
async def test_an_artifact_that_no_checkpoint_can_hold_is_left_out_visibly(
    workspace: Workspace, side: str, artifact: Any, said: str
) -> None:
    given = ToolMessage("short", tool_call_id="call-1", artifact=artifact)
    message = await _result(workspace, given, side=side, limits=replace(LIMITS, artifact_bytes=11_000))
    assert message.content == "short"
    assert message.artifact["left_out"].startswith(said)


@pytest.mark.parametrize(
    ("artifact", "small"),
    [
        (None, True),
        ({"rows": [1, 2.5, None, True, "x"], "more": {}}, True),
        (2**63, False),
        ([object()], False),
        ("x" * 20_000, False),
        ([[0]] * 200, False),
    ],
)
def test_short_json_needs_no_trial(artifact: Any, small: bool) -> None:
    assert is_small(artifact) is small
    assert not small or why_left_out(artifact, 100_000) is None


@pytest.mark.parametrize("side", SIDES)
async def test_a_result_under_another_id_belongs_to_its_call(workspace: Workspace, side: str) -> None:
    message = await _result(workspace, ToolMessage("found", tool_call_id="other"), side=side)
    assert (message.content, message.tool_call_id) == ("found", "call-1")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("form", ["message", "mapping"])
async def test_messages_inside_a_command_are_bounded(workspace: Workspace, side: str, form: str) -> None:
    def produce(runtime: ToolRuntime) -> Command[Any]:
        own: Any = ToolMessage("x" * 3000, tool_call_id=runtime.tool_call_id)
        if form == "mapping":
            more = {"role": "tool", "content": "y" * 3000, "tool_call_id": "other"}
            return Command(update={"messages": [own, more]})
        return Command(update={"messages": [own, HumanMessage("said\ud835" + "z" * 3000)]})

    first, second = await _messages(workspace, produce, side=side)
    assert len(first.content) <= LIMITS.text_characters
    if form == "mapping":
        assert isinstance(second, ToolMessage)
        assert len(second.content) <= LIMITS.text_characters
    else:
        assert second.content == "said\ufffd" + "z" * 3000


async def test_other_parts_of_a_command_go_on(workspace: Workspace) -> None:
    middleware = ToolOutputLimit(lambda runtime: workspace, LIMITS)
    command: Command[Any] = Command(
        graph=Command.PARENT,
        goto="next",
        update={"messages": [ToolMessage("x", tool_call_id="1")], "files": {"a": 1}},
    )
    request: Any = type("Request", (), {"runtime": None})()
    bounded = middleware.wrap_tool_call(request, lambda request: command)
    assert bounded == command
    pairs: Command[Any] = Command(
        update=[("messages", [ToolMessage("x" * 3000, tool_call_id="1")]), ("n", 1)]
    )
    bounded = middleware.wrap_tool_call(request, lambda request: pairs)
    assert bounded.update[1] == ("n", 1)
    assert len(bounded.update[0][1][0].content) <= LIMITS.text_characters


@pytest.mark.parametrize("side", SIDES)
async def test_each_of_several_results_is_bounded(workspace: Workspace, side: str) -> None:
    def produce(runtime: ToolRuntime) -> list[Any]:
        own = ToolMessage("x" * 3000, tool_call_id=runtime.tool_call_id)
        return [own, Command(update={"messages": [ToolMessage("y" * 3000, tool_call_id="other")]})]

    messages = await _messages(workspace, produce, side=side)
    assert len(messages) == 2
    assert all(len(message.content) <= LIMITS.text_characters for message in messages)


def _image(characters: int) -> dict[str, Any]:
    return {"type": "image", "base64": "A" * characters, "mime_type": "image/png"}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize("side", SIDES)
async def test_texts_of_a_multimodal_result_share_the_limit_and_images_stay_whole(
    workspace: Workspace, side: str
) -> None:
    blocks = [_text("a" * 1000), _image(4000), _text("Q" * 3000), _text("Q" * 10)]
    message = await _result(workspace, blocks, side=side)
    content: Any = message.content
    assert content[:2] == blocks[:2]
    assert len(content) == 3
    notice = re.search(r"\[cut: (\d+) characters", content[2]["text"])
    assert notice
    assert int(notice[1]) == 3010 - content[2]["text"].count("Q")
    assert sum(len(block.get("text", "")) for block in content) <= LIMITS.text_characters
    kept = next((workspace.root / ".outputs").iterdir())
    assert kept.suffix == ".json"
    assert json.loads(kept.read_text()) == blocks


async def test_a_payload_that_is_too_long_is_left_out_whole(workspace: Workspace) -> None:
    small, large = _image(100), _image(6000)
    message = await _result(workspace, [_text("look"), large, small])
    content: Any = message.content
    assert content[:2] == [_text("look"), small]
    assert content[2]["text"].startswith("[left out: 1 blocks with 60")
    assert POINTER.search(content[2]["text"])


async def test_invalid_text_deep_in_a_block_is_replaced(workspace: Workspace) -> None:
    message = await _result(
        workspace, [{"type": "json", "json": {"rows": [{"name": "\ud835"}], "n": 1, "b": None}}]
    )
    assert message.content == [{"type": "json", "json": {"rows": [{"name": "\ufffd"}], "n": 1, "b": None}}]


async def test_a_block_that_is_nested_without_end_does_not_end_the_run(workspace: Workspace) -> None:
    deep: dict[str, Any] = {"type": "json"}
    inner = deep
    for _ in range(400):
        inner["\ud835"] = {}
        inner = inner["\ud835"]
    message = await _result(workspace, [deep])
    shown = json.dumps(message.content, ensure_ascii=False)
    assert shown.encode()
    assert "[left out: nested too deep]" in shown


async def test_many_blocks_are_bounded_in_number(workspace: Workspace) -> None:
    message = await _result(workspace, [_text(str(i)) for i in range(100)])
    assert len(message.content) == LIMITS.blocks
    assert message.content[-1]["text"].startswith("[left out: 91 blocks")


BLOCKS = st.lists(
    st.integers(0, 4000).map(lambda n: _text("t" * n)) | st.integers(0, 6000).map(_image) | st.just("plain"),
    max_size=14,
)


@settings(max_examples=40)
@given(blocks=BLOCKS)
def test_whatever_blocks_there_are_the_limits_hold(blocks: list[Any]) -> None:
    bounded: Any = blocks if is_fitting(blocks, LIMITS) else cut(blocks, LIMITS, "p" * 250)
    assert is_fitting(bounded, LIMITS)
    assert all(block in blocks for block in bounded if "base64" in block)


@given(
    text=st.text(st.sampled_from("aé😀\n"), max_size=50),
    times=st.integers(1, 400),
    limit=st.integers(1000, 3000),
)
def test_whatever_text_there_is_the_limit_holds_and_the_count_is_right(
    text: str, times: int, limit: int
) -> None:
    whole = text * times
    bounded = str(cut(whole, OutputLimits(text_characters=limit), "p" * 250))
    assert len(bounded) <= limit
    notice = re.search(r"\n\[cut: (\d+) characters left out here; p+\]\n", bounded)
    if notice:
        assert int(notice[1]) + len(bounded) - len(notice[0]) == len(whole)
    else:
        assert bounded == whole


@pytest.mark.parametrize("call_id", ["../../etc/passwd", "/abs", "a\0b", "x" * 1000, "é\ud835", "."])
async def test_a_call_id_names_a_file_of_the_folder_only(
    workspace: Workspace, tmp_path: Path, call_id: str
) -> None:
    await _result(workspace, "x" * 3000, call_id=call_id)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.parent for path in files] == [workspace.root / ".outputs"]
    assert re.fullmatch(r"[\w-]{1,80}-[0-9a-f]{8}\.txt", files[0].name, re.ASCII)


async def test_a_call_id_that_comes_again_hides_no_earlier_output(workspace: Workspace) -> None:
    first = await _result(workspace, "x" * 3000)
    second = await _result(workspace, "y" * 3000)
    assert (_kept(workspace, first)[0], _kept(workspace, second)[0]) == ("x", "y")


async def test_kept_outputs_are_no_files_of_the_user(workspace: Workspace) -> None:
    await _result(workspace, "x" * 3000)
    assert list(workspace.entries(".")) == []


async def test_a_full_folder_keeps_no_more_and_the_run_goes_on(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeping, "MAX_FOLDER_BYTES", 5000)
    await _result(workspace, "x" * 3000)
    with caplog.at_level(logging.WARNING):
        message = await _result(workspace, "y" * 3000)
    assert "the rest is not kept: 'the folder of long outputs is full (5000 bytes)'" in message.content
    assert len(message.content) <= LIMITS.text_characters
    assert "the output of tool call call-1 is not kept" in caplog.text


async def test_without_a_workspace_the_cut_text_goes_on() -> None:
    def nowhere(runtime: Any) -> Workspace:
        raise LookupError("no thread")

    middleware = ToolOutputLimit(nowhere, LIMITS)
    request: Any = type("Request", (), {"runtime": None, "tool_call": {"id": "a"}})()
    message = middleware.wrap_tool_call(request, lambda request: ToolMessage("x" * 3000, tool_call_id="1"))
    assert "the rest is not kept: 'no thread'" in message.content


async def test_nothing_blocks_the_loop(workspace: Workspace) -> None:
    with blockbuster_ctx():
        message = await _result(workspace, "x" * 3000)
    assert _kept(workspace, message)


async def test_a_later_turn_with_the_stored_transcript_works(workspace: Workspace) -> None:
    message = await _result(workspace, "\ud835\0" + "x" * 3000)
    assert ToolMessage.model_validate_json(message.model_dump_json()) == message


def test_limits_leave_room_for_a_notice() -> None:
    with pytest.raises(ValueError, match="text_characters must be at least 1000"):
        OutputLimits(text_characters=999)
