"""Applications that are served over real sockets."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from axonx import Application
from axonx.service.http import HttpService
from support.axonx_app import StepBody, step

TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Served:
    """A running service; `http` calls it without a token."""

    app: Application
    address: str
    http: httpx.AsyncClient

    async def call(self, job: str, arguments: dict[str, Any] | None = None, **extra: Any) -> httpx.Response:
        return await self.http.post(f"/jobs/{job}", json={"arguments": arguments or {}, **extra})

    async def events(self, job: str, arguments: dict[str, Any] | None = None) -> list[tuple[str, Any]]:
        """The frames of a stream as (event, data)."""
        response = await self.http.post(f"/jobs/{job}/events", json={"arguments": arguments or {}})
        assert response.status_code == 200, response.text
        return parse_frames(response.text)


def parse_frames(text: str) -> list[tuple[str, Any]]:
    """The frames of a stream as (event, data), comments left out; asserts the exact framing."""
    assert text.endswith("\n\n")
    frames = []
    for block in text.removesuffix("\n\n").split("\n\n"):
        if block.startswith(":"):
            continue
        event, data = block.split("\n")
        frames.append((event.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return frames


@asynccontextmanager
async def served(
    workspace: Path, jobs: dict[str, StepBody | dict[str, Any]], *, token: str | None = None, **config: Any
) -> AsyncIterator[Served]:
    """Serve Jobs on a free port; a function is the Step of a Job that everyone may call."""
    classes = [step(body, f"step_{name}") for name, body in jobs.items() if not isinstance(body, dict)]
    entries = {
        name: body
        if isinstance(body, dict)
        else {"steps": [{"backend": f"step_{name}"}], "requires_auth": False}
        for name, body in jobs.items()
    }
    service = {"backend": "http", "port": 0, "token": token, "mcp": False, **config.pop("service", {})}
    providers = (*classes, *config.pop("providers", ()))
    app = Application(providers=providers, workspace_dir=workspace, jobs=entries, service=service, **config)
    async with app:
        assert isinstance(app.context.service, HttpService)
        address = app.context.service.address
        async with httpx.AsyncClient(base_url=address, trust_env=False, timeout=60) as http:
            yield Served(app, address, http)
