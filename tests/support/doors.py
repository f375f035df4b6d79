"""The two doors through which a run is asked for in one process: the Gateway and the embedded client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import uuid4

from deerflow.client import DeerFlowClient
from deerflow.config import AppConfig
from deerflow.gateway.app import create_app
from deerflow.loop_thread import LoopThread
from support.gateways import GatewayClient, answer, said, serving


@dataclass(frozen=True)
class Told:
    """What whoever asked for a run was told of it."""

    status: str
    answer: str


class Door(Protocol):
    """Runs to the end, one after the other."""

    def run(self, text: str) -> Told: ...


@dataclass(frozen=True)
class GatewayDoor:
    """HTTP requests to an application on a loop of its own."""

    thread: LoopThread
    client: GatewayClient

    def run(self, text: str) -> Told:
        return self.thread.call(self._run(str(uuid4()), said(text, if_not_exists="create")))

    def run_answering(self, text: str, value: Any, *, at_most: int = 8) -> tuple[Told, int]:
        """Run to the end, with the same answer to everything that a person is asked; how often that was."""
        thread_id, body = str(uuid4()), said(text, if_not_exists="create")
        for times in range(at_most + 1):
            told = self.thread.call(self._run(thread_id, body))
            if told.status != "interrupted":
                return told, times
            body = {"assistant_id": "lead_agent", "command": {"resume": value}}
        raise AssertionError(f"still asking after {at_most} answers: {told}")

    def get(self, path: str) -> tuple[int, str]:
        """Status and text of a path."""
        response = self.thread.call(self.client.get(path))
        return response.status_code, response.text

    async def _run(self, thread_id: str, body: dict[str, Any]) -> Told:
        response = await self.client.post(f"/threads/{thread_id}/runs/wait", json=body)
        assert response.status_code == 200, response.text
        (newest, *_) = (await self.client.get(f"/threads/{thread_id}/runs")).json()
        return Told(newest["status"], answer(response.json()))


@dataclass(frozen=True)
class ClientDoor:
    """An embedded client."""

    client: DeerFlowClient

    def run(self, text: str) -> Told:
        values: Any = None
        for event in self.client.stream(text):
            values = event.data if event.type == "values" else values
            last = event
        return Told(last.data["status"], answer(values))


@contextmanager
def open_door(kind: str, config: AppConfig) -> Iterator[Any]:
    """A `gateway` or a `client` whose loop is the one on which extensions are notified."""
    if kind == "client":
        with DeerFlowClient(config, load_extensions=True) as client:
            yield ClientDoor(client)
        return
    thread, stack = LoopThread("gateway under test"), AsyncExitStack()
    try:
        client = thread.call(stack.enter_async_context(serving(create_app(config))))
        yield GatewayDoor(thread, client)
    finally:
        thread.call(stack.aclose())
        thread.close()
