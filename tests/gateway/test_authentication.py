"""With users nobody passes unknown, whatever path they ask for and however they write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount
from support.gateways import said
from support.hosts import scripted_config
from support.users import users_app, users_gateway

from deerflow.errors import ConfigError
from deerflow.gateway.app import create_app
from deerflow.gateway.process.serve import check_bind_address

PUBLIC = ["/ok", "/info", "/health/live", "/health/ready"]
DOCUMENTATION = ["/docs", "/redoc", "/openapi.json"]
PROTECTED = ["/threads/search", "/threads", "/assistants/search", "/runs", "/auth/me", "/auth/logout", "/no"]
ODD_PATHS = [
    *("/ok/", "//ok", "/OK", "/ok%0A", "/ok%00", "/ok;x", "/ok/../threads/search", "/ok%2F..%2Fthreads"),
    *("/health", "/health/", "/health/live/", "/info%3F", "/auth/logout", "/auth//login"),
    *("/auth/login/", "/auth/login%2F..%2Fme", "/auth/login%20"),
    *("//threads/search", "/threads//search", "/%74hreads/search", "/threads%2Fsearch", "/threads/search/"),
]


async def test_public_paths_are_open_and_all_others_are_not(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = gateway.client()
        for path in PUBLIC:
            assert (await client.get(path)).status_code == 200, path
        for path in [*PROTECTED, *DOCUMENTATION, "/health", "/auth", "/metrics", "/"]:
            for method in ("GET", "POST", "DELETE", "OPTIONS"):
                response = await client.request(method, path)
                assert response.status_code == 401, (method, path)
                assert response.headers["www-authenticate"] == "Bearer"
                assert set(response.json()) == {"detail"}


async def test_documentation_is_public_where_that_is_configured(tmp_path: Path) -> None:
    async with users_gateway(tmp_path, auth={"public_docs": True}) as gateway:
        for path in DOCUMENTATION:
            assert (await gateway.client().get(path)).status_code == 200
        assert (await gateway.client().get("/docs/oauth2-redirect")).status_code == 401


async def test_odd_spelling_opens_nothing(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = gateway.client()
        for path in ODD_PATHS:
            url = httpx.URL("http://gateway").copy_with(raw_path=path.encode())
            for method in ("GET", "POST"):
                assert (await client.request(method, url, json={})).status_code == 401, path


@pytest.mark.parametrize("root_path", ["/v", "/api", "/ok", "/threads", "/auth/login", "/v/w"])
async def test_prefix_is_read_as_the_router_reads_it(tmp_path: Path, root_path: str) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice = await gateway.add("alice")
        stranger = gateway.client(transport={"root_path": root_path})
        known = gateway.client(alice, transport={"root_path": root_path})
        for path in PROTECTED:
            for written in (
                path,
                root_path + path,
                root_path + root_path + path,
                f"{root_path}x{path}",
                root_path,
            ):
                if written == "/auth/login":
                    continue
                assert (await stranger.post(written, json={})).status_code == 401, written
        assert (await stranger.get(f"{root_path}/ok")).status_code == 200
        assert (await stranger.get(f"{root_path}ok")).status_code == 401
        assert (await known.post(f"{root_path}/threads/search", json={})).json() == []


@pytest.mark.parametrize("mount", ["/v", "/ok", "/auth/login", "/auth"])
async def test_mounted_application_stays_closed(tmp_path: Path, mount: str) -> None:
    async with users_gateway(tmp_path) as gateway:
        alice = {"authorization": f"Bearer {await gateway.add('alice')}"}
        outer = Starlette(routes=[Mount("/outer", routes=[Mount(mount, app=gateway.app)])])
        prefix = f"/outer{mount}"
        transport = httpx.ASGITransport(outer)
        async with httpx.AsyncClient(transport=transport, base_url="http://gateway") as client:
            assert (await client.get(f"{prefix}/ok")).json() == {"ok": True}
            for path in [*PROTECTED, "/", "/ok/", "/ok/ok", f"{mount}/threads/search"]:
                assert (await client.post(prefix + path, json={})).status_code == 401, path
            found = await client.post(f"{prefix}/threads/search", json={}, headers=alice)
            assert found.json() == []


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer wrong", "bearer", "Basic YTpi", "Bearer {token}x", "Bearer {token} x",
     "Token {token}", "{token}", "Bearer é"],
)  # fmt: skip
async def test_what_is_no_token_of_a_user_is_refused(tmp_path: Path, header: str) -> None:
    async with users_gateway(tmp_path) as gateway:
        token = await gateway.add("alice")
        headers = {"Authorization": header.format(token=token).encode()}
        assert (await gateway.client().get("/auth/me", headers=headers)).status_code == 401


async def test_token_says_who_is_calling(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        token = await gateway.add("alice")
        for scheme in ("Bearer", "bearer", "BEARER"):
            headers = {"Authorization": f"{scheme} {token}"}
            me = (await gateway.client().get("/auth/me", headers=headers)).json()
            assert me == {"username": "alice", "is_admin": False, "roles": []}
        stateless = await gateway.client(token).post("/runs/wait", json=said("hello"))
        assert stateless.json()["messages"][-1]["content"] == "echo: hello"


async def test_administrators_token_has_rights_only_where_it_was_issued_with_them(
    tmp_path: Path,
) -> None:
    async with users_gateway(tmp_path) as gateway:
        plain = await gateway.add("root", admin=True)
        strong = await gateway.add("root", admin_token=True)
        for token, is_admin in ((plain, False), (strong, True)):
            assert (await gateway.client(token).get("/auth/me")).json()["is_admin"] is is_admin


async def test_revoked_tokens_and_users_are_refused_at_once(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        first, second = await gateway.add("alice"), await gateway.add("alice")
        (alice,) = await gateway.accounts.list()
        await gateway.accounts.revoke_token("alice", alice.tokens[0].token_id)
        assert [(await gateway.client(t).get("/auth/me")).status_code for t in (first, second)] == [401, 200]
        await gateway.accounts.revoke("alice")
        assert (await gateway.client(second).get("/auth/me")).status_code == 401
        third = await gateway.add("alice")
        assert [(await gateway.client(t).get("/auth/me")).status_code for t in (second, third)] == [401, 200]


async def test_before_its_start_the_application_lets_nobody_in(tmp_path: Path) -> None:
    app = users_app(tmp_path)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        assert (await client.get("/ok")).status_code == 200
        assert (await client.get("/threads")).status_code == 401
        assert (await client.get("/threads", headers={"authorization": "Bearer x"})).status_code == 503


async def test_web_sockets_are_refused(tmp_path: Path) -> None:
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = users_app(tmp_path)
    scope = {"type": "websocket", "path": "/threads", "headers": [], "subprotocols": [], "query_string": b""}
    await app(scope, receive, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_pages_of_configured_origins_may_call(tmp_path: Path) -> None:
    async with users_gateway(tmp_path, auth={"allowed_origins": ["https://ui.test:8443"]}) as gateway:
        alice = await gateway.user("alice")
        answers = {}
        for origin in (
            "https://ui.test:8443",
            "https://ui.test",
            "http://ui.test:8443",
            "http://localhost:3000",
        ):
            response = await alice.get("/auth/me", headers={"origin": origin})
            answers[origin] = response.headers.get("access-control-allow-origin")
        assert answers == {
            "https://ui.test:8443": "https://ui.test:8443",
            "https://ui.test": None,
            "http://ui.test:8443": None,
            "http://localhost:3000": "http://localhost:3000",
        }


def test_users_need_a_database_that_keeps_them(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"database\.backend"):
        create_app(scripted_config(tmp_path, auth={"mode": "users"}))


def test_users_may_be_served_anywhere(tmp_path: Path) -> None:
    config = users_app(tmp_path).state.config
    for address in ("0.0.0.0", "::", "192.168.0.7", "gateway.test"):
        check_bind_address(config, address)


async def test_other_hosts_names_are_served_with_users(tmp_path: Path) -> None:
    async with users_gateway(tmp_path) as gateway:
        client = gateway.client(base_url="http://93.184.216.34")
        response = await client.get(
            "/ok", headers={"host": "gateway.example", "origin": "https://ui.example"}
        )
        assert response.status_code == 200
