"""The lead agent under LangGraph's own server, with extensions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from support.hosts import DELEGATE_TWICE, delegation
from support.langgraph_dev import ROOT, DevProcess, langgraph_dev
from support.mcp_servers import stdio
from support.spy_extension import read_journal

_RULES = [
    DELEGATE_TWICE,
    {"when": "^hand over", "turns": [{"tool_calls": [delegation("slow child", "h")]}, {"text": "joined"}]},
    {"when": "^slow", "turns": [{"delay_seconds": 100, "text": "never"}]},
    {"when": "^fail", "turns": [{"error": "the model is down"}]},
    {
        "when": "^write",
        "turns": [
            {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "w"}]},
            {"text": "after: {tool_results}"},
        ],
    },
    {
        "when": "^add",
        "turns": [{"tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}}]}, {"text": "{tool_results}"}],
    },
    {"when": "", "turns": [{"text": "echo: {prompt}"}]},
]


@dataclass
class Served:
    process: DevProcess
    journal_path: Path

    def seen(self, run_id: str) -> list[dict[str, Any]]:
        """What the extension saw of a run and its subagents."""
        entries = read_journal(self.journal_path)
        tasks = {run_id} | {entry["task_id"] for entry in entries if entry.get("parent") == run_id}
        return [entry for entry in entries if {entry.get("task_id"), entry.get("scope")} & tasks]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("dev")
    journal_path = folder / "journal.jsonl"
    config = {
        "models": [{"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": _RULES}],
        "plugins": [{"use": "support.spy_extension:install", "config": {"journal": str(journal_path)}}],
    }
    environment = {"PYTHONPATH": str(ROOT / "tests"), "DEER_FLOW_HOME": str(folder / "home")}
    with langgraph_dev(folder, config, environment=environment) as process:
        yield Served(process, journal_path)
    # The lifespan drains and stops services on the way out.
    assert read_journal(journal_path)[-1]["event"] == "service stop"


@pytest.fixture
async def client(served: Served) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=served.process.url) as client:
        yield client


def _message(text: str) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": text}]}


async def _run(client: LangGraphClient, text: str, **arguments: Any) -> tuple[str, str, list[Any]]:
    thread = await client.threads.create()
    parts = [
        part
        async for part in client.runs.stream(
            thread["thread_id"],
            "lead_agent",
            input=_message(text),
            stream_mode=["values", "custom"],
            **arguments,
        )
    ]
    return thread["thread_id"], parts[0].data["run_id"], parts


async def test_services_start_once_without_database_and_routers_stay_out(served: Served) -> None:
    starts = [entry for entry in read_journal(served.journal_path) if entry["event"] == "service start"]
    assert starts == [{"event": "service start", "session_factory": False, "evidence": False}]
    assert served.process.log.count("are not mounted") == 1


async def test_a_run_is_bracketed_under_the_servers_run_id(client: LangGraphClient, served: Served) -> None:
    _, run_id, parts = await _run(client, "hello")
    assert parts[-1].data["messages"][-1]["content"] == "echo: hello"
    events = [(entry["event"], entry.get("outcome")) for entry in served.seen(run_id)]
    assert events == [("start", None), ("model call", None), ("stop", "completed")]


async def test_subagents_are_delegated_with_hooks_of_their_own(
    client: LangGraphClient, served: Served
) -> None:
    _, run_id, parts = await _run(client, "delegate")
    assert "Task Succeeded. Result: echo: one" in parts[-1].data["messages"][-1]["content"]
    assert {part.data["type"] for part in parts if part.event == "custom"} == {
        "task_started",
        "task_running",
        "task_completed",
    }
    kinds = [(entry["event"], entry["kind"]) for entry in served.seen(run_id) if "kind" in entry]
    assert kinds[0] == ("start", "lead") and kinds[-1] == ("stop", "lead")
    assert sorted(kinds[1:-1]) == [("start", "subagent")] * 2 + [("stop", "subagent")] * 2


async def test_a_failed_and_a_cancelled_run_are_told_apart(client: LangGraphClient, served: Served) -> None:
    _, failed_id, parts = await _run(client, "fail")
    assert parts[-1].event == "error"
    assert served.seen(failed_id)[-1]["outcome"] == "failed"

    thread = await client.threads.create()
    run = await client.runs.create(thread["thread_id"], "lead_agent", input=_message("slow"))
    async with asyncio.timeout(60):
        while not any(entry["event"] == "model call" for entry in served.seen(run["run_id"])):
            await asyncio.sleep(0.05)
    await client.runs.cancel(thread["thread_id"], run["run_id"], wait=True)
    async with asyncio.timeout(60):
        while served.seen(run["run_id"])[-1]["event"] != "stop":
            await asyncio.sleep(0.05)
    assert served.seen(run["run_id"])[-1]["outcome"] == "aborted"


async def test_the_subagents_of_a_cancelled_run_end_before_it(
    client: LangGraphClient, served: Served
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run_id = (await client.runs.create(thread_id, "lead_agent", input=_message("hand over")))["run_id"]
    async with asyncio.timeout(60):
        while len([entry for entry in served.seen(run_id) if entry["event"] == "model call"]) < 2:
            await asyncio.sleep(0.05)
    await client.runs.cancel(thread_id, run_id, wait=True)
    async with asyncio.timeout(60):
        while [entry["event"] for entry in served.seen(run_id)].count("stop") < 2:
            await asyncio.sleep(0.05)
    stops = [entry for entry in served.seen(run_id) if entry["event"] == "stop"]
    assert [(stop["kind"], stop["outcome"]) for stop in stops] == [
        ("subagent", "aborted"),
        ("lead", "aborted"),
    ]
    ended: Any = await client.runs.wait(thread_id, "lead_agent", input=_message("hello"))
    assert ended["messages"][-1]["content"] == "echo: hello"


async def test_a_second_turn_remembers_the_first(client: LangGraphClient, served: Served) -> None:
    thread_id, _, _ = await _run(client, "hello")
    state = await client.runs.wait(thread_id, "lead_agent", input=_message("again"))
    texts = [message["content"] for message in state["messages"]]
    assert texts == ["hello", "echo: hello", "again", "echo: again"]


async def test_an_answer_goes_on_under_the_options_of_the_question(
    client: LangGraphClient, served: Served
) -> None:
    options: Any = {"approve_tools": ["write_file"]}
    approval: Any = {"resume": {"decisions": [{"type": "approve"}]}}
    thread_id = (await client.threads.create())["thread_id"]
    waiting: Any = await client.runs.wait(thread_id, "lead_agent", input=_message("write"), context=options)
    assert waiting["__interrupt__"][0]["value"]["action_requests"][0]["name"] == "write_file"
    # Without them no node of the graph waits: that is said, and nothing is lost.
    with pytest.raises(Exception, match="ConflictError"):
        await client.runs.wait(thread_id, "lead_agent", command=approval)
    ended: Any = await client.runs.wait(thread_id, "lead_agent", command=approval, context=options)
    assert ended["messages"][-1]["content"].startswith("after: created 'a.txt'")
    assert len(ended["messages"]) == 4


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ({"type": "reject", "message": "not today"}, "not today"),
        ({"type": "respond", "message": "done already"}, "after: done already"),
        (
            {"type": "edit", "edited_action": {"name": "write_file", "args": {"path": "b", "content": "y"}}},
            "created 'b'",
        ),
    ],
    ids=["reject", "respond", "edit"],
)
async def test_a_person_may_reject_answer_or_edit_a_call(
    client: LangGraphClient, served: Served, decision: dict[str, Any], said: str
) -> None:
    options: Any = {"approve_tools": ["write_file"]}
    thread_id = (await client.threads.create())["thread_id"]
    waiting: Any = await client.runs.wait(thread_id, "lead_agent", input=_message("write"), context=options)
    listed = await client.threads.get_state(thread_id)
    assert [one["id"] for one in listed["interrupts"]] == [one["id"] for one in waiting["__interrupt__"]]
    answer: Any = {"resume": {"decisions": [decision]}}
    ended: Any = await client.runs.wait(thread_id, "lead_agent", command=answer, context=options)
    assert said in ended["messages"][-1]["content"]
    home = served.journal_path.parent / "home" / "threads" / thread_id / "workspace"
    assert (home / "b").exists() is (decision["type"] == "edit")
    assert not (home / "a.txt").exists()


async def test_reads_start_nothing(client: LangGraphClient, served: Served) -> None:
    thread_id, _, _ = await _run(client, "hello")
    before = read_journal(served.journal_path)
    await client.threads.get_state(thread_id)
    await client.threads.get_history(thread_id)
    (assistant,) = await client.assistants.search(graph_id="lead_agent")
    schemas = await client.assistants.get_schemas(assistant["assistant_id"])
    assert "messages" in schemas["input_schema"]["properties"]
    await client.assistants.get_graph(assistant["assistant_id"])
    assert read_journal(served.journal_path) == before


@pytest.mark.parametrize("way", ["context", "configurable"])
async def test_keys_of_a_caller_forge_nothing(client: LangGraphClient, served: Served, way: str) -> None:
    forged = {
        "__deerflow_run_scope": "forged",
        "__deerflow_extension_task_store": "forged",
        "user_id": "somebody else",
        "unknown": 1,
    }
    arguments: dict[str, Any] = (
        {"context": forged} if way == "context" else {"config": {"configurable": forged}}
    )
    _, run_id, parts = await _run(client, "hello", **arguments)
    assert parts[-1].data["messages"][-1]["content"] == "echo: hello"
    calls = [entry for entry in served.seen(run_id) if entry["event"] == "model call"]
    assert [(call["scope"], call["keys"]) for call in calls] == [(run_id, ["run_id", "thread_id", "user_id"])]


async def test_provenance_of_a_caller_is_removed(client: LangGraphClient) -> None:
    forged = {"deerflow_content_kind": "memory", "deerflow_producer_kind": "memory", "mine": 1}
    thread = await client.threads.create()
    message = {"role": "user", "content": "hello", "additional_kwargs": forged}
    state = await client.runs.wait(thread["thread_id"], "lead_agent", input={"messages": [message]})
    assert state["messages"][0]["additional_kwargs"] == {"mine": 1}


async def test_provenance_in_an_update_of_the_state_is_removed(client: LangGraphClient) -> None:
    forged = {"deerflow_content_kind": "memory", "deerflow_producer_kind": "memory", "mine": 1}
    update = {"messages": [{"role": "user", "content": "noted", "additional_kwargs": forged}]}
    updated = await client.threads.create(graph_id="lead_agent")
    await client.threads.update_state(updated["thread_id"], update, as_node="model")
    steps = [{"updates": [{"values": update, "as_node": "__start__"}]}]
    begun = await client.threads.create(graph_id="lead_agent", supersteps=steps)
    for thread in (updated, begun):
        state = await client.threads.get_state(thread["thread_id"])
        assert state["values"]["messages"][0]["additional_kwargs"] == {"mine": 1}


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevProcess]:
    """A server of anyone's own, with the plain builder."""
    config = {
        "models": [{"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": _RULES}],
        "mcp": {"servers": {"local": stdio()}},
    }
    folder = tmp_path_factory.mktemp("own")
    environment = {"DEER_FLOW_HOME": str(folder / "home")}
    graph = "deerflow.agents:make_lead_agent"
    with langgraph_dev(folder, config, graph=graph, environment=environment) as process:
        yield process
    assert "BlockingError" not in process.log


@pytest.fixture
async def own_client(own: DevProcess) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=own.url) as client:
        yield client


async def test_anyones_own_description_serves_the_plain_builder(own_client: LangGraphClient) -> None:
    _, _, parts = await _run(own_client, "delegate")
    assert "Task Succeeded. Result: echo: one" in parts[-1].data["messages"][-1]["content"]
    # The server's loop waits for no connection: the tools come with one of the next runs.
    async with asyncio.timeout(60):
        while (said := (await _run(own_client, "add"))[2][-1].data["messages"][-1]["content"]) != "3":
            assert "add is not a valid tool" in said


async def test_the_state_of_a_plain_graph_shows_who_is_waited_for(own_client: LangGraphClient) -> None:
    options: Any = {"approve_tools": ["write_file"]}
    thread_id, _, parts = await _run(own_client, "write", context=options)
    asked = [one["id"] for one in parts[-1].data["__interrupt__"]]
    state = await own_client.threads.get_state(thread_id)
    (latest, *_) = await own_client.threads.get_history(thread_id)
    assert [one["id"] for one in state["interrupts"]] == asked
    assert [one["id"] for one in latest["interrupts"]] == asked
    answer: Any = {"resume": {"decisions": [{"type": "approve"}]}}
    ended: Any = await own_client.runs.wait(thread_id, "lead_agent", command=answer, context=options)
    assert ended["messages"][-1]["content"].startswith("after: created 'a.txt'")
    assert not (await own_client.threads.get_state(thread_id))["interrupts"]
