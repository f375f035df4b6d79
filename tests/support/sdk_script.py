"""One script of every verb of LangGraph's Python client, played on any server, with comparable answers."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterator
from contextlib import aclosing
from typing import Any

import httpx
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError

ASSISTANT = "lead_agent"
UNKNOWN_ID = "99999999-9999-4999-8999-999999999999"
OWN_ID = "11111111-2222-4333-8444-555555555555"

RULES: list[dict[str, Any]] = [
    {"when": "^slow", "turns": [{"delay_seconds": 600, "text": "too late"}]},
    {"when": "^fail", "turns": [{"error": "the model broke"}]},
    {
        "when": "^ask",
        "turns": [
            {
                "tool_calls": [
                    {"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "call-1"}
                ]
            },
            {"text": "written: {tool_results}"},
        ],
    },
    {"when": "", "turns": [{"text": "echo: {prompt}"}]},
]

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE)
_HASH = re.compile(r"\b[0-9a-f]{32}\b")
# How a stream is kept up and ended is not what it says.
_FRAMING = frozenset({"heartbeat", "end"})
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[.\d]*(Z|[+-]\d\d:\d\d)")


def said(text: str) -> dict[str, Any]:
    """A run's input."""
    return {"messages": [{"role": "user", "content": text}]}


class Play:
    """What a server answered, step by step, with its own ids and times left out."""

    def __init__(self, client: LangGraphClient) -> None:
        self.client = client
        self.answers: dict[str, Any] = {}
        self._names: dict[str, str] = {}

    def name(self, name: str, identifier: str) -> str:
        """Call an id by a name in all answers."""
        self._names[identifier] = f"<{name}>"
        return identifier

    async def step(self, name: str, call: Awaitable[Any]) -> Any:
        """Wait for one answer, note it, and return it as it is; an error is an answer, too."""
        try:
            answer = await call
        except APIStatusError as error:
            answer = {"error": error.status_code}
        except httpx.HTTPStatusError as error:
            answer = {"error": error.response.status_code}
        except Exception as error:
            answer = {"error": type(error).__name__}
        self.note(name, answer)
        return answer

    def note(self, name: str, answer: Any) -> None:
        """Note an answer without what differs from one playing to the next."""
        assert name not in self.answers, f"two steps are called {name}"
        self.answers[name] = self._comparable(answer)

    async def events(self, name: str, parts: Any) -> list[Any]:
        """Read a stream to its end, and note its events."""

        async def read() -> list[Any]:
            async with aclosing(parts) as stream:
                return [[part.event, part.data] async for part in stream if part.event not in _FRAMING]

        events: list[Any] = await self.step(name, read())
        return events

    def _comparable(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {self._text(str(key)): self._comparable(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._comparable(item) for item in value]
        return self._text(value) if isinstance(value, str) else value

    def _text(self, text: str) -> str:
        named = _UUID.sub(lambda found: self._names.get(found[0], "<id>"), text)
        return _TIME.sub("<time>", _HASH.sub("<id>", named))


def differences(ours: Any, theirs: Any, path: str = "") -> Iterator[str]:
    """Where two answers differ, as `step.key[].key: what`."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            where = f"{path}.{key}" if path else key
            if key not in theirs:
                yield f"{where}: only here"
            elif key not in ours:
                yield f"{where}: only there"
            else:
                yield from differences(ours[key], theirs[key], where)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for mine, other in zip(ours, theirs, strict=True):
            yield from differences(mine, other, f"{path}[]")
    elif ours != theirs:
        yield f"{path}: {_shown(ours)} here, {_shown(theirs)} there"


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return f"{len(value)} items"
    return f"{value!r}"[:60] if not isinstance(value, dict) else "an object"


async def play(client: LangGraphClient) -> dict[str, Any]:
    """Play the whole script; what the server answered to each step."""
    script = Play(client)
    await _assistants(script)
    await _threads(script)
    await _runs(script)
    await _streams(script)
    await _approvals(script)
    await _states(script)
    await _stateless_runs(script)
    await _store(script)
    return script.answers


async def _assistants(script: Play) -> None:
    step, client = script.step, script.client.assistants
    system = await step("assistants.search", client.search(graph_id=ASSISTANT))
    script.name("system assistant", system[0]["assistant_id"])
    await step("assistants.get", client.get(ASSISTANT))
    own = await step(
        "assistants.create",
        client.create(
            ASSISTANT, name="Quick", description="d", metadata={"a": 1},
            context={"subagent_enabled": False}, config={"recursion_limit": 40},
        ),
    )  # fmt: skip
    own_id = script.name("own assistant", own["assistant_id"])
    await step("assistants.create: with an id", client.create(ASSISTANT, assistant_id=OWN_ID))
    await step("assistants.create: again", client.create(ASSISTANT, assistant_id=OWN_ID))
    again = client.create(ASSISTANT, assistant_id=OWN_ID, if_exists="do_nothing")
    await step("assistants.create: again, do nothing", again)
    await step("assistants.create: unknown graph", client.create("nowhere"))
    await step("assistants.update", client.update(own_id, name="Quicker", metadata={"b": 2}))
    await step("assistants.update: context", client.update(own_id, context={"goal": "g"}))
    await step("assistants.get_versions", client.get_versions(own_id))
    await step("assistants.set_latest", client.set_latest(own_id, 1))
    await step("assistants.set_latest: unknown", client.set_latest(own_id, 99))
    await step("assistants.search: by metadata", client.search(metadata={"a": 1}))
    await step("assistants.search: by name", client.search(name="UNTITLED", select=["name", "graph_id"]))
    await step("assistants.search: sorted", client.search(sort_by="name", sort_order="asc", select=["name"]))
    await step("assistants.search: unknown graph", client.search(graph_id="nowhere"))
    await step("assistants.count", client.count(graph_id=ASSISTANT))
    graph = await client.get_graph(ASSISTANT)
    script.answers["assistants.get_graph"] = {key: sorted(map(str, graph[key])) for key in graph}
    await step("assistants.get_schemas", client.get_schemas(ASSISTANT))
    await step("assistants.get_subgraphs", client.get_subgraphs(ASSISTANT))
    await step("assistants.get: unknown", client.get(UNKNOWN_ID))
    await step("assistants.delete", client.delete(OWN_ID))
    await step("assistants.delete: again", client.delete(OWN_ID))


async def _threads(script: Play) -> None:
    step, client = script.step, script.client.threads
    created = await step("threads.create", client.create(metadata={"topic": "rivers"}))
    thread_id = script.name("first thread", created["thread_id"])
    await step("threads.create: with an id", client.create(thread_id=OWN_ID, metadata={"first": True}))
    await step("threads.create: again", client.create(thread_id=OWN_ID))
    await step("threads.create: again, do nothing", client.create(thread_id=OWN_ID, if_exists="do_nothing"))
    await step("threads.create: no uuid", client.create(thread_id="no-uuid"))
    await step("threads.get", client.get(thread_id))
    await step("threads.update", client.update(thread_id, metadata={"length": 3}))
    await step("threads.search", client.search(metadata={"topic": "rivers"}))
    await step(
        "threads.search: by id", client.search(ids=[OWN_ID], select=["thread_id", "metadata", "status"])
    )
    await step("threads.search: nothing", client.search(metadata={"topic": "seas"}))
    await step("threads.count", client.count(metadata={"topic": "rivers"}))
    await step("threads.get_state: empty", client.get_state(thread_id))
    await step("threads.get_history: empty", client.get_history(thread_id))
    await step("threads.get: unknown", client.get(UNKNOWN_ID))
    await step("threads.update: unknown", client.update(UNKNOWN_ID, metadata={}))
    await step("threads.get_state: unknown", client.get_state(UNKNOWN_ID))
    await step("threads.get_history: unknown", client.get_history(UNKNOWN_ID))
    await step("threads.copy: unknown", client.copy(UNKNOWN_ID))
    await step("threads.prune", client.prune([OWN_ID, UNKNOWN_ID]))
    await step("threads.delete: pruned", client.delete(OWN_ID))
    lasting = await step("threads.create: with ttl", client.create(ttl=60))
    lasting_id = script.name("thread with a ttl", lasting["thread_id"])
    keep_latest = {"ttl": 120, "strategy": "keep_latest"}
    await step("threads.update: with ttl", client.update(lasting_id, metadata={}, ttl=keep_latest))
    await step("threads.get: with ttl", client.get(lasting_id, include=["ttl"]))


async def _slow_run(script: Play, thread_id: str) -> str:
    """A run whose model is being asked."""
    run = await script.client.runs.create(thread_id, ASSISTANT, input=said("slow"))
    async with asyncio.timeout(60):
        while True:
            state: Any = await script.client.threads.get_state(thread_id)
            if state["next"] == ["model"] and state["values"]["messages"][-1]["content"] == "slow":
                return str(run["run_id"])
            await asyncio.sleep(0.05)


async def _new_thread(script: Play, name: str, **metadata: Any) -> str:
    return script.name(name, (await script.client.threads.create(metadata=metadata))["thread_id"])


async def _runs(script: Play) -> None:
    step, client = script.step, script.client.runs
    thread_id = await _new_thread(script, "thread of runs")
    await step("runs.wait", client.wait(thread_id, ASSISTANT, input=said("hello")))
    created = await step(
        "runs.create", client.create(thread_id, ASSISTANT, input=said("again"), metadata={"n": 2})
    )
    run_id = script.name("second run", created["run_id"])
    await step("runs.join", client.join(thread_id, run_id))
    await step("runs.get", client.get(thread_id, run_id))
    await step("runs.list", client.list(thread_id, limit=1, select=["run_id", "status"]))
    await step("runs.list: by status", client.list(thread_id, status="error"))
    await step("runs.cancel: finished", client.cancel(thread_id, run_id))
    await step("runs.wait: fails", client.wait(thread_id, ASSISTANT, input=said("fail"), raise_error=False))
    await step("threads.get: failed", script.client.threads.get(thread_id))
    slow_id = script.name("slow run", await _slow_run(script, thread_id))
    await step(
        "runs.wait: rejected", client.wait(thread_id, ASSISTANT, input=said("x"), multitask_strategy="reject")
    )
    await step("runs.cancel", client.cancel(thread_id, slow_id, wait=True))
    await step("runs.get: cancelled", client.get(thread_id, slow_id))
    await step("threads.get: cancelled", script.client.threads.get(thread_id))
    rolled_id = await _slow_run(script, thread_id)
    await step("runs.cancel: rollback", client.cancel(thread_id, rolled_id, wait=True, action="rollback"))
    await step("runs.get: rolled back", client.get(thread_id, rolled_id))
    await step("threads.get_state: rolled back", script.client.threads.get_state(thread_id))
    await step("threads.get: rolled back", script.client.threads.get(thread_id))
    await step("runs.delete", client.delete(thread_id, run_id))
    await step("runs.get: deleted", client.get(thread_id, run_id))
    await step("runs.get: unknown", client.get(thread_id, UNKNOWN_ID))
    await step("runs.cancel: unknown", client.cancel(thread_id, UNKNOWN_ID))
    await step("runs.wait: unknown thread", client.wait(UNKNOWN_ID, ASSISTANT, input=said("x")))
    await step("runs.wait: unknown assistant", client.wait(thread_id, UNKNOWN_ID, input=said("x")))
    await step("runs.wait: unknown graph", client.wait(thread_id, "nowhere", input=said("x")))


async def _streams(script: Play) -> None:
    client = script.client.runs
    thread_id = await _new_thread(script, "thread of streams")

    def stream(text: str, **options: Any) -> Any:
        return client.stream(thread_id, ASSISTANT, input=said(text), **options)

    await script.events("runs.stream", stream("hello"))
    await script.events("runs.stream: updates", stream("hello", stream_mode="updates"))
    await script.events("runs.stream: messages-tuple", stream("hi", stream_mode="messages-tuple"))
    await script.events("runs.stream: messages", stream("hi", stream_mode="messages"))
    await script.events("runs.stream: several", stream("hi", stream_mode=["updates", "custom", "tasks"]))
    await script.events("runs.stream: events", stream("ask", stream_mode="events"))
    await script.events("runs.stream: fails", stream("fail", stream_mode="updates"))
    await script.events("runs.stream: unknown mode", stream("hi", stream_mode="colours"))
    created = await client.create(
        thread_id, ASSISTANT, input=said("hello"), stream_mode="updates", stream_resumable=True
    )
    await client.join(thread_id, created["run_id"])
    joined = client.join_stream(thread_id, created["run_id"], last_event_id="-1")
    await script.events("runs.join_stream: from the start", joined)


async def _approvals(script: Play) -> None:
    step, client = script.step, script.client.runs
    thread_id = await _new_thread(script, "thread of approvals")
    context: Any = {"approve_tools": ["write_file"]}
    ask: Any = {"input": said("ask"), "context": context}
    await step("runs.wait: asks", client.wait(thread_id, ASSISTANT, **ask))
    await step("threads.get: asks", script.client.threads.get(thread_id))
    await step("threads.get_state: asks", script.client.threads.get_state(thread_id))
    await step(
        "threads.search: asks",
        script.client.threads.search(status="interrupted", select=["thread_id", "status"]),
    )
    answer: Any = {"command": {"resume": {"decisions": [{"type": "approve"}]}}, "context": context}
    await step("runs.wait: answered", client.wait(thread_id, ASSISTANT, **answer))
    await script.events(
        "runs.stream: asks", client.stream(thread_id, ASSISTANT, stream_mode=["values", "updates"], **ask)
    )


async def _states(script: Play) -> None:
    step, client = script.step, script.client.threads
    thread_id = await _new_thread(script, "thread of states", kind="states")
    await script.client.runs.wait(thread_id, ASSISTANT, input=said("hello"))
    await step("threads.get_state", client.get_state(thread_id))
    history = await step("threads.get_history", client.get_history(thread_id))
    await step("threads.get_state: at", client.get_state(thread_id, checkpoint=history[-1]["checkpoint"]))
    newest: Any = {"configurable": history[0]["checkpoint"]}
    before = client.get_history(thread_id, before=newest, limit=1)
    await step("threads.get_history: before", before)
    await step(
        "threads.get_history: by metadata", client.get_history(thread_id, metadata={"source": "input"})
    )
    note: Any = {"messages": [{"role": "user", "content": "by the way"}]}
    await step("threads.update_state", client.update_state(thread_id, note, as_node="model"))
    await step("threads.update_state: unknown node", client.update_state(thread_id, note, as_node="nowhere"))
    await step("threads.get_state: changed", client.get_state(thread_id))
    values: Any = {"nothing": "like this"}
    await step("threads.search: by values", client.search(values=values, metadata={"kind": "states"}))
    await step(
        "threads.search: extract",
        client.search(ids=[thread_id], select=["status"], extract={"last": "values.messages[-1].content"}),
    )
    copied = await step("threads.copy", client.copy(thread_id))
    await step("threads.get_state: copied", client.get_state(copied["thread_id"]))
    await step("threads.prune: keep latest", client.prune([thread_id], strategy="keep_latest"))
    pruned = await client.get_history(thread_id)
    script.answers["threads.get_history: pruned"] = len(pruned)
    await step("threads.delete", client.delete(thread_id))
    await step("threads.get: deleted", client.get(thread_id))


async def _stateless_runs(script: Play) -> None:
    step, client = script.step, script.client.runs
    await step("runs.wait: stateless", client.wait(None, ASSISTANT, input=said("hello")))
    await script.events("runs.stream: stateless", client.stream(None, ASSISTANT, input=said("hello")))
    batch: Any = [{"assistant_id": ASSISTANT, "input": said("slow")} for _ in range(2)]
    await step("runs.create_batch", client.create_batch(batch))
    await step("runs.cancel_many", client.cancel_many(status="all"))
    resume: Any = {"resume": "yes"}
    await step("runs.wait: stateless answer", client.wait(None, ASSISTANT, command=resume))


async def _store(script: Play) -> None:
    step, client = script.step, script.client.store
    namespace = ["notes", "2024"]
    await step("store.put_item", client.put_item(namespace, "a", {"n": 1, "text": "x"}))
    await step("store.put_item: second", client.put_item(["notes"], "b", {"n": 2}))
    await step("store.get_item", client.get_item(namespace, "a"))
    await step("store.get_item: unknown", client.get_item(namespace, "z"))
    await step("store.search_items", client.search_items(namespace))
    await step("store.search_items: filter", client.search_items(["notes"], filter={"n": 2}))
    await step("store.list_namespaces", client.list_namespaces(prefix=["notes"]))
    await step("store.list_namespaces: depth", client.list_namespaces(max_depth=1))
    await step("store.put_item: period", client.put_item(["a.b"], "a", {}))
    await step("store.delete_item", client.delete_item(namespace, "a"))
    await step("store.get_item: deleted", client.get_item(namespace, "a"))
