"""Jobs as MCP tools over streamable HTTP, called with the SDK's own client."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import httpx
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from support.axonx_service import TEXT, Served, served

from axonx import BaseStep, provider
from axonx.components.job import JobResponse

MCP = {"mcp": True}
ACCEPT = {"accept": "application/json, text/event-stream"}
CALL_WAIT = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "wait", "arguments": {}}}
GREET: dict[str, Any] = {"steps": [{"backend": "demo_step"}], "requires_auth": False}


@asynccontextmanager
async def session_of(service: Served, token: str = "") -> AsyncIterator[ClientSession]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    async with (
        httpx.AsyncClient(trust_env=False, headers=headers, timeout=60) as http,
        streamable_http_client(f"{service.address}/mcp", http_client=http) as (incoming, outgoing, _),
        ClientSession(incoming, outgoing) as session,
    ):
        await session.initialize()
        yield session


@provider("tenant_step")
class TenantStep(BaseStep):
    injected_parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {"tenant": {"type": "string"}}

    async def execute(self) -> None:
        self.response.answer = self.context.get("tenant", "nobody")


async def test_every_served_job_is_a_tool_with_its_schemas(tmp_path: Path) -> None:
    jobs = {
        "greet": {**GREET, "description": "Greets.", "parameters": TEXT},
        "tenant": {**GREET, "steps": [{"backend": "tenant_step"}]},
        "hidden": {**GREET, "enable_serve": False},
        "private": {"steps": []},
        "plain": {**GREET, "enable_stream": False},
    }
    async with served(tmp_path, jobs, service=MCP, providers=(TenantStep,)) as service:
        async with session_of(service) as session:
            tools = (await session.list_tools()).tools
    assert [tool.name for tool in tools] == ["greet", "tenant", "plain"]
    assert tools[0].description == "Greets."
    assert tools[0].inputSchema == TEXT
    assert tools[0].outputSchema == JobResponse.model_json_schema()
    assert "tenant" not in str(tools[1].inputSchema)


async def test_structured_content_is_the_envelope(tmp_path: Path) -> None:
    async def fail(step: BaseStep) -> None:
        step.response.metadata["at"] = 3
        raise OSError("disk")

    async with served(tmp_path, {"greet": GREET, "fail": fail}, service=MCP) as service:
        async with session_of(service) as session:
            good = await session.call_tool("greet", {"name": "Zoë"})
            bad = await session.call_tool("fail", {})
        for name, arguments, result in (("greet", {"name": "Zoë"}, good), ("fail", {}, bad)):
            response = await service.call(name, arguments)
            assert result.structuredContent == response.json()
            assert [block.text for block in result.content] == [response.text]  # type: ignore[union-attr]
            assert not result.isError
    assert bad.structuredContent == {"answer": "OSError: disk", "success": False, "metadata": {"at": 3}}


async def test_what_a_call_may_not_say_is_a_tool_error(tmp_path: Path) -> None:
    jobs = {
        "greet": {**GREET, "parameters": TEXT},
        "tenant": {**GREET, "steps": [{"backend": "tenant_step"}]},
        "private": {"steps": []},
    }
    async with served(tmp_path, jobs, service=MCP, providers=(TenantStep,)) as service:
        async with session_of(service) as session:
            for name, arguments, text in (
                ("greet", {}, "Invalid arguments for job 'greet': 'text' is a required property"),
                ("tenant", {"tenant": "x"}, "System-owned arguments cannot be supplied by callers: tenant"),
                ("private", {}, "Unknown job: 'private'"),
                ("nope", {}, "Unknown job: 'nope'"),
            ):
                result = await session.call_tool(name, arguments)
                assert result.isError
                assert result.content[0].text == text  # type: ignore[union-attr]
            assert not (await session.call_tool("tenant", {})).isError


async def test_the_token_guards_the_tools_too(tmp_path: Path) -> None:
    async with served(tmp_path, {"private": {"steps": []}}, token="s3cret", service=MCP) as service:
        assert (await service.http.post("/mcp", json={})).status_code == 401
        async with session_of(service, "s3cret") as session:
            assert [tool.name for tool in (await session.list_tools()).tools] == ["private"]
            assert not (await session.call_tool("private", {})).isError


async def test_a_foreign_host_is_refused_without_a_token(tmp_path: Path) -> None:
    async with served(tmp_path, {}, service=MCP) as service:
        response = await service.http.post("/mcp", json={}, headers={"host": "evil.example"})
        assert response.status_code == 403


async def test_calls_run_side_by_side(tmp_path: Path) -> None:
    together = asyncio.Barrier(3)

    async def meet(step: BaseStep) -> None:
        await together.wait()

    async with served(tmp_path, {"meet": meet}, service=MCP) as service, session_of(service) as session:
        results = await asyncio.gather(*(session.call_tool("meet", {}) for _ in range(3)))
    assert not any(result.isError for result in results)


async def test_a_client_that_leaves_cancels_the_job(tmp_path: Path) -> None:
    begun, cleaned = asyncio.Event(), asyncio.Event()

    async def wait(step: BaseStep) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()

    async with served(tmp_path, {"wait": wait}, service=MCP) as service:
        request = asyncio.create_task(service.http.post("/mcp", json=CALL_WAIT, headers=ACCEPT))
        async with asyncio.timeout(60):
            await begun.wait()
            request.cancel()
            await cleaned.wait()
        async with session_of(service) as session:
            assert (await session.list_tools()).tools


async def test_closing_ends_a_call_with_its_failure(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def wait(step: BaseStep) -> None:
        begun.set()
        await asyncio.Event().wait()

    before = asyncio.all_tasks()
    async with served(tmp_path, {"wait": wait}, service=MCP) as service:
        call = asyncio.create_task(service.http.post("/mcp", json=CALL_WAIT, headers=ACCEPT))
        await begun.wait()
        await service.app.close()
        result = (await call).json()["result"]
    assert result["structuredContent"]["answer"] == "Application closed while job 'wait' was running"
    assert asyncio.all_tasks() <= before


async def test_tools_can_be_switched_off(tmp_path: Path) -> None:
    async with served(tmp_path, {"greet": GREET}, service={"mcp": False}) as service:
        assert (await service.http.post("/mcp", json={})).status_code == 404


async def test_without_sessions_there_is_nothing_to_listen_to_or_to_end(tmp_path: Path) -> None:
    async with served(tmp_path, {}, service=MCP) as service:
        for method in ("GET", "DELETE"):
            assert (await service.http.request(method, "/mcp", headers=ACCEPT)).status_code == 405
