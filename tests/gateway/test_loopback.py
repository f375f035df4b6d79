"""Without users only this machine is served."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from starlette.types import Receive, Scope, Send

from deerflow.gateway.auth.loopback import LoopbackOnly, is_loopback_name
from deerflow.gateway.responses import JsonResponse


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await JsonResponse("served")(scope, receive, send)


async def _status(server: str, **headers: str) -> int:
    """The answer to a request that arrived at the socket of `server`."""

    async def at_server(scope: Scope, receive: Receive, send: Send) -> None:
        await LoopbackOnly(_app)({**scope, "server": (server, 8001)}, receive, send)

    transport = httpx.ASGITransport(at_server)
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
        return (await client.get("/", headers={"host": "127.0.0.1:8001", **headers})).status_code


@pytest.mark.parametrize(
    ("server", "headers", "status"),
    [
        ("127.0.0.1", {}, 200),
        ("::1", {"host": "[::1]:8001"}, 200),
        ("::ffff:127.0.0.1", {"host": "localhost"}, 200),
        ("127.0.0.1", {"host": "LOCALHOST:8001"}, 200),
        ("127.0.0.1", {"host": "app.localhost:8001"}, 200),
        ("127.0.0.1", {"origin": "http://localhost:3000"}, 200),
        ("127.0.0.1", {"origin": "https://[::1]:3000"}, 200),
        ("192.168.0.7", {"host": "192.168.0.7:8001"}, 403),
        ("0.0.0.0", {}, 403),
        ("127.0.0.1", {"host": "evil.test"}, 403),
        ("127.0.0.1", {"host": "127.0.0.1.evil.test"}, 403),
        ("127.0.0.1", {"host": "localhost.evil.test:8001"}, 403),
        ("127.0.0.1", {"host": ""}, 403),
        ("127.0.0.1", {"origin": "http://evil.test"}, 403),
        ("127.0.0.1", {"origin": "http://localhost.evil.test"}, 403),
        ("127.0.0.1", {"origin": "null"}, 403),
        ("gateway", {"host": "gateway", "origin": "http://evil.test"}, 200),
    ],
)
async def test_requests_are_judged_by_socket_host_and_origin(
    server: str, headers: dict[str, Any], status: int
) -> None:
    assert await _status(server, **headers) == status


@pytest.mark.parametrize(
    ("name", "expected"),
    [("localhost", True), ("localhost.", True), ("127.9.9.9", True), ("::1", True), ("10.0.0.1", False),
     ("", False), ("local", False), ("notlocalhost", False)],
)  # fmt: skip
def test_names_of_this_machine(name: str, expected: bool) -> None:
    assert is_loopback_name(name) is expected
