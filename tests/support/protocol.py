"""Clients of LangGraph's streaming protocol, in process."""

from __future__ import annotations

from typing import Any

from support.gateways import ASSISTANT, Event, GatewayClient
from support.lasting import LastingStream, lasting

CHANNELS = [
    "lifecycle", "values", "messages", "tools", "updates", "custom", "input.requested", "tasks",
    "checkpoints",
]  # fmt: skip
ENDS = ("completed", "failed", "interrupted")
APPROVING = {"configurable": {"approve_tools": ["write_file"]}}


async def command(client: GatewayClient, thread_id: str, method: str, **params: Any) -> Any:
    """Send one command; the protocol's answer to it."""
    body = {"id": 7, "method": method, "params": params}
    response = await client.post(f"/threads/{thread_id}/commands", json=body)
    assert response.status_code == 200, response.text
    assert response.json()["id"] == 7
    return response.json()


async def begin(client: GatewayClient, thread_id: str, text: str, **params: Any) -> str:
    """Start a run by a command; its id."""
    messages = {"messages": [{"role": "user", "content": text}]}
    started = await command(client, thread_id, "run.start", assistant_id=ASSISTANT, input=messages, **params)
    assert started["type"] == "success", started
    return str(started["result"]["run_id"])


def following(client: GatewayClient, thread_id: str, channels: list[str] = CHANNELS, **body: Any) -> Any:
    """The events of a thread as they come."""
    return lasting(client, "POST", f"/threads/{thread_id}/stream/events", json={"channels": channels, **body})


def statuses(events: list[Event]) -> list[str]:
    """What became of the runs."""
    return [event.data["params"]["data"]["event"] for event in events if _is_of_root(event)]


def _is_of_root(event: Event) -> bool:
    return event.name == "lifecycle" and event.data["params"]["namespace"] == []


def ends(count: int) -> Any:
    """Whether so many runs have come to an end."""
    return lambda events: sum(status in ENDS for status in statuses(events)) >= count


def of(events: list[Event], method: str) -> list[Any]:
    """The data of a method's events."""
    return [event.data["params"]["data"] for event in events if event.name == method]


async def told(stream: LastingStream, count: int = 1) -> list[Event]:
    """The events until so many runs have ended."""
    events = await stream.until(ends(count))
    assert ends(count)(events), stream.body
    return events
