"""Gateways on the scripted model, driven in process."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import orjson
from fastapi import FastAPI

from deerflow.gateway.app import create_app
from deerflow.gateway.process.serve import GatewayServer, server_config
from deerflow.host import Host
from support.hosts import scripted_config

ASSISTANT = "lead_agent"
UNKNOWN_ID = "99999999-9999-4999-8999-999999999999"

SLOW = {"when": "^slow", "turns": [{"delay_seconds": 600, "text": "too late"}]}
FAILING = {"when": "^fail", "turns": [{"error": "the model broke"}]}
ASKING = {
    "when": "^ask",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "x"}, "id": "call-1"}]},
        {"text": "written: {tool_results}"},
    ],
}


@dataclass(frozen=True)
class Event:
    """One event as a client reads it."""

    name: str
    data: Any
    id: str | None


class GatewayClient(httpx.AsyncClient):
    """An HTTP client with short words for what tests do most."""

    app: FastAPI

    @property
    def host(self) -> Host:
        host: Host = self.app.state.host
        return host

    async def thread(self, **fields: Any) -> str:
        """Make a thread and return its id."""
        response = await self.post("/threads", json=fields)
        assert response.status_code == 200, response.text
        return str(response.json()["thread_id"])

    async def start(self, thread_id: str, text: str, **fields: Any) -> str:
        """Start a run in the background and return its id."""
        response = await self.post(f"/threads/{thread_id}/runs", json=said(text, **fields))
        assert response.status_code == 200, response.text
        return str(response.json()["run_id"])

    async def say(self, thread_id: str, text: str, **fields: Any) -> Any:
        """Run to the end and return what it came to."""
        response = await self.post(f"/threads/{thread_id}/runs/wait", json=said(text, **fields))
        assert response.status_code == 200, response.text
        return response.json()

    async def events(self, method: str, path: str, **options: Any) -> list[Event]:
        """All events of a stream that ends."""
        response = await self.request(method, path, **options)
        assert response.status_code == 200, response.text
        return parse_events(response.text)


@asynccontextmanager
async def serving(app: FastAPI) -> AsyncIterator[GatewayClient]:
    """A client of a started application."""
    async with app.router.lifespan_context(app):
        transport = httpx.ASGITransport(app)
        async with GatewayClient(transport=transport, base_url="http://gateway", timeout=30) as client:
            client.app = app
            yield client


@asynccontextmanager
async def gateway(
    home: Path, rules: Sequence[dict[str, Any]] = (), **sections: Any
) -> AsyncIterator[GatewayClient]:
    """A started Gateway whose runs get no time to finish at the end."""
    sections = {"shutdown": {"drain_seconds": 0.01}, **sections}
    async with serving(create_app(scripted_config(home, rules, **sections))) as client:
        yield client


def said(text: str, **fields: Any) -> dict[str, Any]:
    """The body of a run with one human message."""
    return {"assistant_id": ASSISTANT, "input": {"messages": [{"role": "user", "content": text}]}, **fields}


def answer(values: Mapping[str, Any]) -> str:
    """The text of the last message."""
    return str(values["messages"][-1]["content"])


def parse_events(text: str) -> list[Event]:
    """The events of a stream; comments are left out."""
    events = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            events.append(Event(fields["event"], orjson.loads(fields["data"]), fields.get("id")))
    return events


@dataclass(frozen=True)
class RunningServer:
    """A Gateway behind a real socket, in this process."""

    app: FastAPI
    url: str
    server: GatewayServer

    @property
    def host(self) -> Host:
        host: Host = self.app.state.host
        return host


@asynccontextmanager
async def running_server(app: FastAPI) -> AsyncIterator[RunningServer]:
    """Serve `app` on a free port of the loopback interface; shut down at the end."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    server = GatewayServer(server_config(app, "127.0.0.1", port))
    serving_task = asyncio.create_task(server.serve(sockets=[listener]))
    try:
        async with asyncio.timeout(20):
            while not server.started and not serving_task.done():
                await asyncio.sleep(0.01)
        yield RunningServer(app, f"http://127.0.0.1:{port}", server)
    finally:
        server.should_exit = True
        await serving_task
