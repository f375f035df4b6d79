"""What tools and middlewares tell the stream is told alike by every way of streaming."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langchain.agents.middleware import AgentMiddleware
from support.gateways import gateway, parse_events, said
from support.hosts import scripted_config

from deerflow.client import DeerFlowClient

RULE = {
    "when": "^go",
    "turns": [{"tool_calls": [{"name": "tell", "args": {}, "id": f"call-{number}"}]} for number in range(2)]
    + [{"text": "done"}],
}
TOLD = ["model 1", "halfway", "model 3", "halfway", "model 5"]


class Telling(AgentMiddleware[Any, Any]):
    """Tells the stream of each model call, with how many messages it is made."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        request.runtime.stream_writer({"type": f"model {len(request.messages)}"})
        return await handler(request)


def _sections() -> dict[str, Any]:
    return {
        "tools": [{"use": "support.tools:tell"}],
        "extensions": {"middlewares": [f"{__name__}:Telling"]},
    }


async def test_events_of_tools_and_middlewares_come_in_order_over_http(tmp_path: Path) -> None:
    async with gateway(tmp_path, [RULE], **_sections()) as client:
        told = []
        for modes in ("custom", ["values", "custom", "messages-tuple"]):
            response = await client.post("/runs/stream", json=said("go", stream_mode=modes))
            events = parse_events(response.text)
            told.append([event.data["type"] for event in events if event.name == "custom"])
        assert told == [TOLD, TOLD]


def test_events_of_tools_and_middlewares_come_in_order_to_the_client(tmp_path: Path) -> None:
    with DeerFlowClient(scripted_config(tmp_path, [RULE], **_sections())) as client:
        events = list(client.stream("go"))
    assert [event.data["type"] for event in events if event.type == "custom"] == TOLD
