"""Chats with an embedded deerflow as Steps of Jobs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.bridging import Caller, open_bridge, until

from axonx import Application
from axonx.components.job import AgentMessageEvent, JobResponse, ResultEvent
from deerflow.axonx_bridge import DeerflowAgent, DeerflowChatStep
from deerflow.testing import ScriptedHost

ASK = {
    "description": "Ask deerflow.",
    "parameters": {
        "type": "object",
        "properties": {"prompt": {"type": "string"}, "session_id": {"type": "string"}},
        "required": ["prompt"],
        "additionalProperties": False,
    },
    "steps": [{"backend": "deerflow_chat"}],
}
RULES = [
    {"when": "^fail", "turns": [{"error": "the model broke"}]},
    {"when": "^slow", "turns": [{"delay_seconds": 60, "text": "never"}]},
    {
        "when": "^list",
        "turns": [
            {"text": "I look.", "tool_calls": [{"name": "ls", "args": {"path": "."}, "id": "call-1"}]},
            {"text": "It said {tool_results}"},
        ],
    },
    {"when": "", "turns": [{"text": "echo: {prompt}"}]},
]


def deerflow_config(rules: list[dict[str, Any]]) -> dict[str, Any]:
    model = {"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": rules}
    return {"models": [model], "database": {"backend": "memory"}}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path / "home"))


def configured(tmp_path: Path, **job: Any) -> dict[str, Any]:
    return {
        "workspace_dir": str(tmp_path / "application"),
        "components": {"agent": {"default": {"backend": "deerflow", "config": deerflow_config(RULES)}}},
        "jobs": {"ask": {**ASK, **job}},
    }


@asynccontextmanager
async def asking(tmp_path: Path, **job: Any) -> AsyncIterator[Application]:
    providers = (DeerflowAgent, DeerflowChatStep)
    async with Application(providers=providers, **configured(tmp_path, **job)) as application:
        yield application


async def events_of(application: Application, prompt: str) -> tuple[list[AgentMessageEvent], JobResponse]:
    messages: list[AgentMessageEvent] = []
    async with aclosing(application.stream_job("ask", {"prompt": prompt})) as events:
        async for event in events:
            if isinstance(event, ResultEvent):
                return messages, event
            assert isinstance(event, AgentMessageEvent)
            messages.append(event)
    raise AssertionError("no result")


async def test_the_answer_is_what_the_agent_says_last(tmp_path: Path) -> None:
    async with asking(tmp_path) as application:
        response = await application.run_job("ask", {"prompt": "hello"})
    assert (response.success, response.answer) == (True, "echo: hello")
    assert set(response.metadata) == {"session_id", "run_id", "usage"}
    assert response.metadata["usage"]["output_tokens"] > 0


async def test_text_comes_token_by_token_in_one_block(tmp_path: Path) -> None:
    async with asking(tmp_path) as application:
        messages, _ = await events_of(application, "one two")
    patches = [message.presentation[0] for message in messages]
    assert [patch.operation for patch in patches] == ["start", "append", "append", "finish"]
    assert "".join(patch.delta for patch in patches) == "echo: one two"
    assert len({patch.block_id for patch in patches}) == 1
    assert [message.sequence for message in messages] == [1, 2, 3, 4]
    assert {message.role for message in messages} == {"assistant"}


async def test_calls_of_tools_are_blocks_with_arguments_and_result(tmp_path: Path) -> None:
    async with asking(tmp_path) as application:
        messages, response = await events_of(application, "list")
    tools = [m.presentation[0] for m in messages if m.presentation[0].block_type == "tool"]
    assert [(patch.operation, patch.block_id) for patch in tools] == [
        ("start", "tool:call-1"),
        ("finish", "tool:call-1"),
    ]
    assert tools[0].payload == {"name": "ls", "args": {"path": "."}}
    assert tools[1].payload == {"name": "ls", "status": "success"}
    assert response.answer == f"It said {tools[1].delta}"
    operations = [m.presentation[0].operation for m in messages if m.presentation[0].block_type == "text"]
    assert operations.count("start") == operations.count("finish") == 2


async def test_a_session_goes_on_and_its_past_is_not_told_again(tmp_path: Path) -> None:
    session_id = str(uuid4())
    async with asking(tmp_path) as application:
        for prompt in ("first", "second"):
            response = await application.run_job("ask", {"prompt": prompt, "session_id": session_id})
            assert (response.answer, response.metadata["session_id"]) == (f"echo: {prompt}", session_id)
        messages: list[Any] = []
        arguments = {"prompt": "third", "session_id": session_id}
        async with aclosing(application.stream_job("ask", arguments)) as events:
            messages = [event async for event in events]
    assert "first" not in "".join(p.delta for m in messages[:-1] for p in m.presentation)


@pytest.mark.parametrize(
    ("prompt", "session_id", "answer"),
    [
        ("fail now", None, "ChatFailedError: the chat failed: ScriptedModelError: the model broke"),
        ("hello", "not a uuid", "InvalidRequestError: thread_id 'not a uuid' is not a UUID"),
        (" ", None, "InvalidRequestError: the message is empty; say what you want"),
    ],
)
async def test_a_chat_without_an_answer_is_a_failed_job(
    tmp_path: Path, prompt: str, session_id: str | None, answer: str
) -> None:
    arguments = {"prompt": prompt, **({"session_id": session_id} if session_id else {})}
    async with asking(tmp_path) as application:
        response = await application.run_job("ask", arguments)
    assert (response.success, response.answer) == (False, answer)


async def test_a_chat_that_waits_for_a_person_is_a_failed_job(tmp_path: Path) -> None:
    step = {"backend": "deerflow_chat", "context": {"approve_tools": ["ls"]}}
    async with asking(tmp_path, steps=[step]) as application:
        response = await application.run_job("ask", {"prompt": "list"})
    assert not response.success
    assert "the chat ended as interrupted" in response.answer


async def test_leaving_the_job_stops_the_chat(tmp_path: Path) -> None:
    session_id = str(uuid4())
    async with asking(tmp_path) as application:
        for turns_of_the_loop in (1, 30):  # while it begins, and later
            arguments = {"prompt": "slow", "session_id": session_id}
            call = asyncio.ensure_future(application.run_job("ask", arguments))
            await until(lambda: application.context.jobs["ask"].running_calls)
            for _ in range(turns_of_the_loop):
                await asyncio.sleep(0.002)
            call.cancel()
            await asyncio.wait({call})
            assert call.cancelled()
            # A run that went on would hold the thread for a minute.
            async with asyncio.timeout(30):
                response = await application.run_job("ask", {"prompt": "hello", "session_id": session_id})
            assert response.answer == "echo: hello"


async def test_the_built_in_step_for_agents_takes_it_as_well(tmp_path: Path) -> None:
    async with asking(tmp_path, steps=[{"backend": "agent_stream"}]) as application:
        response = await application.run_job("ask", {"prompt": "hello"})
    assert (response.success, response.answer) == (True, "echo: hello")


async def test_another_agent_component_is_refused_by_name(tmp_path: Path) -> None:
    step = {"backend": "deerflow_chat", "agent": "other"}
    async with asking(tmp_path, steps=[step]) as application:
        response = await application.run_job("ask", {"prompt": "hello"})
    assert not response.success
    assert "no component agent:other" in response.answer


async def test_the_chats_events_reach_the_stream_of_the_run_that_asked(tmp_path: Path) -> None:
    caller = Caller()
    application = Application(providers=(DeerflowAgent, DeerflowChatStep), **configured(tmp_path))
    async with open_bridge(application) as opened:
        message = await opened.call("ask", {"prompt": "hello"}, caller)
    assert message.content == "echo: hello"
    assert len(caller.told("axonx_agent_message")) == 3


def test_chats_inside_of_jobs_inside_of_chats_come_to_an_end(tmp_path: Path) -> None:
    """Lead, Job at depth 1, chat, Job at depth 2, chat, Job at depth 3: that one is refused."""
    deeper = {
        "when": "^deeper$",
        "turns": [
            {"tool_calls": [{"name": "ask", "args": {"prompt": "deeper"}}]},
            {"text": "[{tool_results}]"},
        ],
    }
    config = configured(tmp_path)
    config["components"]["agent"]["default"]["config"] = deerflow_config([deeper])
    with ScriptedHost("deerflow.axonx_bridge:install", {"application": config}, rules=[deeper]) as host:
        run = host.chat("deeper")
        assert run.status == "success"
        assert run.answer == "[[[Job 'ask' failed: Agent call chain is limited to 3 nested turns.]]]"
        # Depth belongs to a chat: the next one begins at the top.
        assert host.chat("deeper").answer == run.answer
        assert host.problems == ()
