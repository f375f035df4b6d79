"""A run looks the same through every entry: artifacts, extra fields, failures and questions included."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

from support.gateways import GatewayClient, gateway
from support.hosts import scripted_config

from deerflow.client import DeerFlowClient

CONFIGURED = [{"use": f"support.tools:{name}"} for name in ("measured", "flaky", "ask", "search")]
CALLS = [
    {"name": "measured", "args": {"word": "abc"}, "id": "1"},
    {"name": "no_such_tool", "args": {}, "id": "2"},
    {"name": "search", "args": {"query": "q"}, "id": "3"},
    {"name": "ask", "args": {"question": "sure?"}, "id": "4"},
]
RULE = {"when": "^go", "turns": [{"tool_calls": CALLS}, {"text": "{tool_results}"}]}
# Made anew for each run.
RANDOM = {"id"}


def comparable(value: Any) -> Any:
    """The state without random ids."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key not in RANDOM}
    return [comparable(item) for item in value] if isinstance(value, list) else value


def seen(states: list[Any], interrupts: list[Any] | None = None) -> Any:
    """The last state, and every question that was asked on the way."""
    asked = interrupts or [each for state in states for each in state.get("__interrupt__", ())]
    last = {key: value for key, value in states[-1].items() if key != "__interrupt__"}
    return comparable([last, asked])


def by_client(home: Path) -> list[Any]:
    thread_id = str(uuid4())
    with DeerFlowClient(scripted_config(home, [RULE], tools=CONFIGURED)) as client:
        waiting = list(client.stream("go", thread_id=thread_id))
        ended = list(client.stream_resume("yes", thread_id=thread_id))
    return [
        seen([e.data for e in events if e.type == "values"], events[-1].data.get("interrupts"))
        for events in (waiting, ended)
    ]


def body(**fields: Any) -> dict[str, Any]:
    return {"assistant_id": "lead_agent", "stream_mode": ["values"], **fields}


GO = {"input": {"messages": [{"role": "user", "content": "go"}]}}
YES = {"command": {"resume": "yes"}}


async def by_wait(client: GatewayClient) -> list[Any]:
    thread_id = await client.thread()
    states = []
    for given in (GO, YES):
        response = await client.post(f"/threads/{thread_id}/runs/wait", json=body(**given))
        states.append(seen([response.json()]))
    return states


async def by_stream(client: GatewayClient) -> list[Any]:
    thread_id = await client.thread()
    states = []
    for given in (GO, YES):
        events = await client.events("POST", f"/threads/{thread_id}/runs/stream", json=body(**given))
        states.append(seen([event.data for event in events if event.name == "values"]))
    return states


async def test_the_client_the_wait_and_the_stream_show_the_same(tmp_path: Path) -> None:
    embedded = by_client(tmp_path / "embedded")
    async with gateway(tmp_path / "gateway", [RULE], tools=CONFIGURED) as client:
        assert await by_stream(client) == embedded
        assert await by_wait(client) == embedded
    (_, questions), (ended, _) = embedded
    assert [question["value"] for question in questions] == [{"question": "sure?"}]
    results = {message["tool_call_id"]: message for message in ended["messages"] if message["type"] == "tool"}
    assert results["1"]["artifact"] == {"length": 3, "parts": ["abc"]}
    assert [results[str(n)]["status"] for n in (1, 2, 3, 4)] == ["success", "error", "success", "success"]
    assert results["4"]["content"] == "answered: yes"


async def test_extra_fields_of_an_input_message_stay_with_it(tmp_path: Path) -> None:
    message = {
        "role": "user",
        "content": "hello",
        "name": "ann",
        "additional_kwargs": {"client": {"tab": 3}, "deerflow_content_kind": "memory"},
    }
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        await client.post(f"/threads/{thread_id}/runs/wait", json=body(input={"messages": [message]}))
        state = (await client.get(f"/threads/{thread_id}/state")).json()
    kept = state["values"]["messages"][0]
    assert kept["name"] == "ann"
    assert kept["additional_kwargs"] == {"client": {"tab": 3}}
