"""LangGraph's own client against a Gateway in a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError
from support.gateways import ASKING, FAILING, SLOW, UNKNOWN_ID
from support.hosts import DELEGATE_TWICE
from support.ports import free_port

ASSISTANT = "lead_agent"
_SERVE = (
    "import sys; from deerflow.gateway.process.serve import serve; serve(sys.argv[1], port=int(sys.argv[2]))"
)


def _said(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


class Process:
    """A Gateway in a process of its own."""

    def __init__(self, folder: Path) -> None:
        echo = {"when": "", "turns": [{"text": "echo: {prompt}"}]}
        model = {
            "name": "scripted",
            "use": "deerflow.models:ScriptedChatModel",
            "rules": [SLOW, FAILING, ASKING, DELEGATE_TWICE, echo],
        }
        config = {"models": [model], "shutdown": {"drain_seconds": 0.2}}
        (folder / "config.yaml").write_text(yaml.safe_dump(config))
        self._folder = folder
        self._port = free_port()
        self.url = f"http://127.0.0.1:{self._port}"
        self.popen: subprocess.Popen[str]

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.popen = subprocess.Popen(
            [sys.executable, "-c", _SERVE, str(self._folder / "config.yaml"), str(self._port)],
            env={**os.environ, "DEER_FLOW_HOME": str(self._folder / "home"), "PYTHONWARNINGS": "error"},
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.popen.poll() is None:
            try:
                if httpx.get(f"{self.url}/health/ready").status_code == 200:
                    return
            except httpx.TransportError:
                time.sleep(0.05)
        raise AssertionError(f"the Gateway did not start: {self.stop()}")

    def stop(self) -> str:
        """Stop it and return what it wrote to its log."""
        self.popen.send_signal(signal.SIGTERM)
        _, log = self.popen.communicate(timeout=30)
        return log


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    started = Process(tmp_path_factory.mktemp("gateway"))
    started.start()
    yield started
    started.stop()


@pytest.fixture
async def client(process: Process, anyio_backend: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=process.url, api_key=None) as opened:
        yield opened


async def _stream(client: LangGraphClient, text: str, **options: Any) -> list[Any]:
    thread = await client.threads.create()
    parts = client.runs.stream(thread["thread_id"], ASSISTANT, input=_said(text), **options)
    return [part async for part in parts]


async def test_stream_with_the_clients_defaults(client: LangGraphClient) -> None:
    created: list[Any] = []
    parts = await _stream(client, "hello", on_run_created=created.append)
    assert [part.event for part in parts] == ["metadata", "values", "values", "end"]
    assert parts[2].data["messages"][-1]["content"] == "echo: hello"
    assert created[0]["run_id"] == parts[0].data["run_id"]


async def test_stream_in_several_modes(client: LangGraphClient) -> None:
    modes: list[Any] = ["values", "updates", "messages-tuple", "custom"]
    parts = await _stream(client, "delegate", stream_mode=modes, stream_subgraphs=True)
    names = {part.event.split("|")[0] for part in parts}
    assert names == {"metadata", "values", "updates", "messages", "custom", "end"}
    done = [part.data for part in parts if part.event == "custom" and part.data["type"] == "task_completed"]
    assert {item["task_id"] for item in done} == {"call-1", "call-2"}
    states = [part.data for part in parts if part.event == "values"]
    assert states[-1]["messages"][-1]["content"].startswith("joined:")


async def test_stream_of_events(client: LangGraphClient) -> None:
    parts = await _stream(client, "ask", stream_mode=["events", "values"])
    assert {part.event for part in parts} == {"metadata", "events", "values", "end"}
    events = [part.data for part in parts if part.event == "events"]
    texts = [
        event["data"]["chunk"]["content"] for event in events if event["event"] == "on_chat_model_stream"
    ]
    (tool,) = [event for event in events if event["event"] == "on_tool_end"]
    assert tool["name"] == "write_file"
    assert "".join(texts).endswith("written: " + tool["data"]["output"]["content"])


async def test_second_version_of_the_stream_format(client: LangGraphClient) -> None:
    parts = await _stream(client, "hello", version="v2", stream_mode=["values", "messages-tuple"])
    assert {part["type"] for part in parts} == {"metadata", "values", "messages"}


async def test_wait_remembers_the_first_turn(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create(metadata={"topic": "rivers"}))["thread_id"]
    await client.runs.wait(thread_id, ASSISTANT, input=_said("one"))
    values: Any = await client.runs.wait(thread_id, ASSISTANT, input=_said("two"))
    assert [message["content"] for message in values["messages"]][-2:] == ["two", "echo: two"]
    found = await client.threads.search(metadata={"topic": "rivers"})
    assert [thread["thread_id"] for thread in found] == [thread_id]
    assert await client.threads.count(metadata={"topic": "rivers"}) == 1


async def test_create_join_and_cancel(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, ASSISTANT, input=_said("hello"))
    joined: Any = await client.runs.join(thread_id, run["run_id"])
    assert joined["messages"][-1]["content"] == "echo: hello"
    slow = await client.runs.create(thread_id, ASSISTANT, input=_said("slow"))
    await client.runs.cancel(thread_id, slow["run_id"], wait=True)
    await client.runs.cancel(thread_id, slow["run_id"])
    assert (await client.runs.get(thread_id, slow["run_id"]))["status"] == "interrupted"
    with pytest.raises(ConflictError, match="success"):
        await client.runs.cancel(thread_id, run["run_id"])
    assert [item["run_id"] for item in await client.runs.list(thread_id)] == [slow["run_id"], run["run_id"]]
    await client.runs.delete(thread_id, run["run_id"])
    assert len(await client.runs.list(thread_id)) == 1


async def test_joining_a_stream(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, ASSISTANT, input=_said("hello"))
    await client.runs.join(thread_id, run["run_id"])
    parts = client.runs.join_stream(thread_id, run["run_id"], last_event_id="-1")
    assert [part.event async for part in parts] == ["metadata", "values", "values", "end"]
    live = client.runs.join_stream(thread_id, run["run_id"], stream_mode=["values"])
    assert [part.event async for part in live] == ["end"]


async def test_interrupt_and_resume(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    context: Any = {"approve_tools": ["write_file"]}
    asked: Any = await client.runs.wait(thread_id, ASSISTANT, input=_said("ask"), context=context)
    assert asked["__interrupt__"]
    state = await client.threads.get_state(thread_id)
    assert (len(state["interrupts"]), len(state["tasks"])) == (1, 1)
    resumed: Any = await client.runs.wait(
        thread_id,
        ASSISTANT,
        command={"resume": {"decisions": [{"type": "approve"}]}, "goto": [], "update": None},
        context=context,
    )
    assert resumed["messages"][-1]["content"].startswith("written")


async def test_failures_are_exceptions_with_their_text(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    with pytest.raises(Exception, match="the model broke"):
        await client.runs.wait(thread_id, ASSISTANT, input=_said("fail"))
    with pytest.raises(NotFoundError, match=UNKNOWN_ID):
        await client.threads.get(UNKNOWN_ID)
    with pytest.raises(UnprocessableEntityError, match="model_name"):
        wrong: Any = {"model_name": "gpt-99"}
        await client.runs.create(thread_id, ASSISTANT, input=_said("x"), context=wrong)
    with pytest.raises(ConflictError):
        await client.threads.create(thread_id=thread_id)


async def test_stateless_runs(client: LangGraphClient) -> None:
    before = await client.threads.count()
    values: Any = await client.runs.wait(None, ASSISTANT, input=_said("hello"))
    assert values["messages"][-1]["content"] == "echo: hello"
    parts = [part.event async for part in client.runs.stream(None, ASSISTANT, input=_said("hello"))]
    assert parts[-1] == "end"
    batch = await client.runs.create_batch(
        [{"assistant_id": ASSISTANT, "input": _said("slow")} for _ in range(2)]  # type: ignore[typeddict-item]
    )
    await client.runs.cancel_many(status="all")
    async with asyncio.timeout(60):
        while await client.threads.count() != before:
            await asyncio.sleep(0.02)
    assert len(batch) == 2


async def test_states_history_and_copies(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    empty = await client.threads.get_state(thread_id)
    assert (empty["values"], empty["next"]) == ({}, [])
    await client.runs.wait(thread_id, ASSISTANT, input=_said("hello"))
    history = await client.threads.get_history(thread_id)
    assert history[0]["values"]["messages"][-1]["content"] == "echo: hello"  # type: ignore[call-overload]
    at: Any = await client.threads.get_state(thread_id, checkpoint=history[-1]["checkpoint"])
    assert at["checkpoint"] == history[-1]["checkpoint"]
    await client.threads.update_state(
        thread_id, {"messages": [{"role": "user", "content": "by the way"}]}, as_node="model"
    )
    changed: Any = await client.threads.get_state(thread_id)
    assert changed["values"]["messages"][-1]["content"] == "by the way"
    await client.threads.copy(thread_id)
    assert await client.threads.update(thread_id, metadata={"a": 1}, return_minimal=True) is None
    await client.threads.delete(thread_id)
    with pytest.raises(NotFoundError):
        await client.threads.get_state(thread_id)


async def test_assistants(client: LangGraphClient) -> None:
    (assistant,) = await client.assistants.search(graph_id=ASSISTANT)
    assert assistant["metadata"] == {"created_by": "system"}
    assert (await client.assistants.get(assistant["assistant_id"]))["graph_id"] == ASSISTANT
    graph: Any = await client.assistants.get_graph(ASSISTANT, xray=True)
    assert {"id": "model", "type": "runnable"}.items() <= next(
        node for node in graph["nodes"] if node["id"] == "model"
    ).items()
    schemas = await client.assistants.get_schemas(ASSISTANT)
    assert "messages" in (schemas["input_schema"] or {})["properties"]
    assert "model_name" in str(schemas["context_schema"])
    assert await client.assistants.get_subgraphs(ASSISTANT) == {}
    assert await client.assistants.count() == 1


async def test_terminated_process_ends_streams_and_leaves_no_run_behind(tmp_path: Path) -> None:
    process = Process(tmp_path)
    process.start()
    async with get_client(url=process.url, api_key=None) as client:
        thread_id = (await client.threads.create())["thread_id"]
        parts = aiter(client.runs.stream(thread_id, ASSISTANT, input=_said("slow")))
        events = [await anext(parts), await anext(parts)]
        log = asyncio.create_task(asyncio.to_thread(process.stop))
        events += [part async for part in parts]
        assert [events[-1].event, events[-1].data["status"]] == ["end", "interrupted"]
        assert "Traceback" not in await log
    process.start()
    async with get_client(url=process.url, api_key=None) as client:
        (run,) = await client.runs.list(thread_id)
        assert run["status"] == "interrupted"
        values: Any = await client.runs.wait(thread_id, ASSISTANT, input=_said("hello"))
        assert values["messages"][-1]["content"] == "echo: hello"
    process.stop()
