"""The embedded client, from threads and from event loops."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from deerflow_extension_api import ExtensionService, TaskOutcome
from langchain.agents.middleware import AgentMiddleware
from support.extensions import Seen, installed, recording
from support.hosts import DELEGATE_TWICE, scripted_config

from deerflow.client import DeerFlowClient
from deerflow.errors import (
    InvalidRequestError,
    RunFailedError,
    RunInterruptedError,
    UnavailableError,
)
from deerflow.extensions import reset_loaded_extensions

_RULES: list[dict[str, Any]] = [
    DELEGATE_TWICE,
    {"when": "^slow", "turns": [{"delay_seconds": 30, "text": "never"}]},
    {"when": "^fail", "turns": [{"error": "the model is down"}]},
    {
        "when": "^unknown tool",
        "turns": [{"tool_calls": [{"name": "nope", "args": {}}]}, {"text": "{tool_results}"}],
    },
    {
        "when": "^unknown subagent",
        "turns": [
            {"tool_calls": [{"name": "task", "args": {"prompt": "x", "subagent_type": "nope"}}]},
            {"text": "{tool_results}"},
        ],
    },
    {
        "when": "^read",
        "turns": [
            {"tool_calls": [{"name": "read_file", "args": {"path": "../x"}}]},
            {"text": "{tool_results}"},
        ],
    },
    {
        "when": "^write",
        "turns": [
            {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "hi"}}]},
            {"text": "written"},
        ],
    },
]


@pytest.fixture
def client(tmp_path: Path) -> Iterator[DeerFlowClient]:
    with DeerFlowClient(scripted_config(tmp_path, _RULES)) as client:
        yield client


def test_chat_answers_and_a_second_turn_remembers_the_first(client: DeerFlowClient) -> None:
    thread_id = str(uuid4())
    assert client.chat("hello", thread_id=thread_id) == "echo: hello"
    events = list(client.stream("again", thread_id=thread_id))
    state = [event for event in events if event.type == "values"][-1].data
    assert [message["content"] for message in state["messages"]] == [
        "hello",
        "echo: hello",
        "again",
        "echo: again",
    ]


def test_stream_ends_with_the_status_and_usage_of_the_run(client: DeerFlowClient) -> None:
    events = list(client.stream("delegate"))
    assert [event.type for event in events].count("end") == 1
    end = events[-1]
    assert end.type == "end"
    assert set(end.data) == {"run_id", "thread_id", "status", "usage"}
    assert end.data["status"] == "success"
    assert end.data["usage"]["total_tokens"] > 0
    customs = [event.data for event in events if event.type == "custom"]
    assert sorted(data["type"] for data in customs) == sorted(
        ["task_started", "task_running", "task_completed"] * 2
    )
    assert {data["task_id"] for data in customs} == {"call-1", "call-2"}
    assert len({data["execution_id"] for data in customs}) == 2


def test_calls_without_a_thread_have_one_each(client: DeerFlowClient) -> None:
    first, second = [list(client.stream(text)) for text in ("one", "two")]
    assert first[-1].data["thread_id"] != second[-1].data["thread_id"]
    (state,) = [event.data for event in second if event.type == "values"][-1:]
    assert [message["content"] for message in state["messages"]] == ["two", "echo: two"]


def test_tokens_of_the_answer_stream_and_join_to_it(client: DeerFlowClient) -> None:
    chunks = [event.data[0] for event in client.stream("hello") if event.type == "messages-tuple"]
    text = "".join(chunk["content"] for chunk in chunks if chunk["type"] == "AIMessageChunk")
    assert text == "echo: hello"


def test_frames_of_subagents_never_pass_for_the_leads(client: DeerFlowClient) -> None:
    events = list(client.stream("delegate"))
    chunks = [event.data[0] for event in events if event.type == "messages-tuple"]
    texts = [chunk["content"] for chunk in chunks if chunk["type"] == "AIMessageChunk"]
    assert "".join(texts).startswith("joined: ")
    assert len({chunk["id"] for chunk in chunks if chunk["type"] == "AIMessageChunk"}) == 2


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("unknown tool", "nope"),
        ("unknown subagent", "Task failed. Error: unknown subagent_type 'nope'; known: general-purpose"),
        ("read", ".."),
    ],
)
def test_failing_calls_are_tool_results(client: DeerFlowClient, message: str, expected: str) -> None:
    assert expected in client.chat(message)


def test_a_model_that_raises_fails_the_run_and_the_client_lives_on(client: DeerFlowClient) -> None:
    with pytest.raises(RunFailedError, match="the model is down"):
        client.chat("fail")
    events = list(client.stream("fail"))
    assert events[-1].data["status"] == "error"
    assert "the model is down" in events[-1].data["error"]
    assert client.chat("hello") == "echo: hello"


@pytest.mark.parametrize("message", ["", "  \n", None, 3])
def test_an_empty_message_is_refused_before_a_run_exists(client: DeerFlowClient, message: Any) -> None:
    with pytest.raises(InvalidRequestError, match="empty"):
        client.chat(message)


def test_wrong_options_name_what_is_allowed(client: DeerFlowClient) -> None:
    with pytest.raises(InvalidRequestError, match=r"model_name.*'scripted'"):
        client.chat("hello", model_name="gpt-0")
    with pytest.raises(InvalidRequestError, match="max_total_subagents"):
        client.chat("hello", max_total_subagents=0)
    with pytest.raises(ValueError, match="is not a UUID"):
        client.chat("hello", thread_id="../x")
    assert client.chat("hello", unknown_key=1) == "echo: hello"


def test_a_megabyte_and_lone_surrogates_pass_through(client: DeerFlowClient) -> None:
    long = "word " * 200_000
    assert client.chat(long) == f"echo: {long}"
    thread_id = str(uuid4())
    assert client.chat("odd \ud835 text", thread_id=thread_id) == "echo: odd � text"
    assert client.chat("again", thread_id=thread_id) == "echo: again"


def test_files_of_a_thread_lie_in_its_workspace(client: DeerFlowClient, tmp_path: Path) -> None:
    thread_id = str(uuid4())
    assert client.chat("write", thread_id=thread_id) == "written"
    assert (tmp_path / "threads" / thread_id / "workspace" / "a.txt").read_text() == "hi"


def test_many_threads_chat_at_once(client: DeerFlowClient) -> None:
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(client.chat, [f"message {number}" for number in range(24)]))
    assert answers == [f"echo: message {number}" for number in range(24)]


async def test_both_faces_work_inside_a_running_loop(tmp_path: Path) -> None:
    async with DeerFlowClient(scripted_config(tmp_path, _RULES)) as client:
        assert client.chat("sync") == "echo: sync"
        answers = await asyncio.gather(*(client.achat(f"{number}") for number in range(5)))
        assert answers == [f"echo: {number}" for number in range(5)]
        types = [event.type async for event in client.astream("hello")]
        assert types[-1] == "end" and "values" in types


async def test_a_cancelled_achat_stops_its_run(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with DeerFlowClient(scripted_config(tmp_path, _RULES)) as client:
            chat = asyncio.create_task(client.achat("slow"))
            while not seen.model_stores:
                await asyncio.sleep(0.001)
            chat.cancel()
            with pytest.raises(asyncio.CancelledError):
                await chat
            while not seen.outcomes:
                await asyncio.sleep(0.001)
    assert list(seen.outcomes.values()) == [TaskOutcome.ABORTED]


def test_a_consumer_that_goes_away_stops_its_run(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)), DeerFlowClient(scripted_config(tmp_path, _RULES)) as client:
        events = client.stream("slow")
        next(events)
        events.close()
        assert list(seen.outcomes.values()) == [TaskOutcome.ABORTED]
        assert client.chat("hello") == "echo: hello"


async def test_an_async_consumer_that_goes_away_stops_its_run(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with DeerFlowClient(scripted_config(tmp_path, _RULES)) as client:
            events = client.astream("slow")
            await anext(events)
            await events.aclose()
            assert list(seen.outcomes.values()) == [TaskOutcome.ABORTED]


def test_closing_aborts_what_runs_and_ends_its_stream(tmp_path: Path) -> None:
    seen, before = Seen(), set(threading.enumerate())
    with installed(recording(seen)):
        client = DeerFlowClient(scripted_config(tmp_path, _RULES))
        events = client.stream("slow")
        next(events)
        client.close()
        client.close()
        assert list(seen.outcomes.values()) == [TaskOutcome.ABORTED]
        assert list(events)[-1].data["status"] == "interrupted"
    with pytest.raises(UnavailableError, match="closed"):
        client.chat("late")
    assert "deerflow client" not in {thread.name for thread in set(threading.enumerate()) - before}


def test_a_tool_that_needs_approval_raises_what_it_asks(client: DeerFlowClient) -> None:
    with pytest.raises(RunInterruptedError) as caught:
        client.chat("write", approve_tools=["write_file"])
    (interrupt,) = caught.value.interrupts
    assert interrupt["value"]["action_requests"][0]["name"] == "write_file"


def test_an_answer_that_no_checkpoint_holds_is_refused_before_a_run_exists(client: DeerFlowClient) -> None:
    with pytest.raises(RunInterruptedError) as caught:
        client.chat("write", approve_tools=["write_file"])
    thread_id = caught.value.thread_id
    huge = {"decisions": [{"type": "respond", "message": 2**70}]}
    for ask in (client.resume, client.stream_resume):
        with pytest.raises(InvalidRequestError, match=rf"\['message'\] is an integer beyond.*: {2**70}"):
            list(ask(huge, thread_id=thread_id))
    said = {"decisions": [{"type": "respond", "message": "done already"}]}
    assert client.resume(said, thread_id=thread_id) == "written"


class _Shouting(AgentMiddleware[Any, Any]):
    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        response = await handler(request)
        response.result = [
            message.model_copy(update={"content": message.text.upper()}) for message in response.result
        ]
        return response


def test_the_applications_own_middlewares_change_the_lead(tmp_path: Path) -> None:
    with DeerFlowClient(scripted_config(tmp_path), middlewares=[_Shouting()]) as client:
        assert client.chat("hello") == "ECHO: HELLO"


def test_sqlite_keeps_threads_from_one_client_to_the_next(tmp_path: Path) -> None:
    config = scripted_config(tmp_path, database={"backend": "sqlite"})
    thread_id = str(uuid4())
    with DeerFlowClient(config) as client:
        client.chat("first", thread_id=thread_id)
    with DeerFlowClient(config) as client:
        state = [event for event in client.stream("second", thread_id=thread_id) if event.type == "values"][
            -1
        ]
    assert [message["content"] for message in state.data["messages"]][:2] == ["first", "echo: first"]


_FORGETFUL = """
from deerflow.client import DeerFlowClient
client = DeerFlowClient({"database": {"backend": "sqlite"}})
print(client.chat("hello")[:5])
"""


def test_a_client_can_be_closed_while_a_service_starts_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    entered = threading.Event()

    class Hanging(ExtensionService):
        async def start(self, deps: Any) -> None:
            entered.set()
            await asyncio.Event().wait()

        async def stop(self) -> None:
            told.append("stop")

    module: Any = ModuleType("acme")
    module.install = lambda registry, config: registry.service(Hanging())
    monkeypatch.setitem(sys.modules, "acme", module)
    config = scripted_config(tmp_path, plugins=[{"use": "acme:install"}])
    with ThreadPoolExecutor(1) as callers, DeerFlowClient(config, load_extensions=True) as client:
        asked = callers.submit(client.chat, "hello")
        assert entered.wait(60)
        client.close()
        with pytest.raises(UnavailableError, match="was closed while it opened"):
            asked.result(60)
    reset_loaded_extensions()
    assert told == ["stop"]


def test_a_client_that_nobody_closes_does_not_keep_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORGETFUL],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
