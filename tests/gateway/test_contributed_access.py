"""Contributed routes stand behind the Gateway's authentication and its CSRF check, and cannot step out."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deerflow_extension_api import ExtensionRegistry, require_admin, resolve_principal
from fastapi import APIRouter, Request
from pwdlib import PasswordHash
from pwdlib.hashers.argon2 import Argon2Hasher
from support.users import UsersGateway, users_gateway

from deerflow.gateway.auth import passwords

PASSWORD = "correct horse battery"


def _router() -> APIRouter:
    router = APIRouter(prefix="/acme", dependencies=[])

    @router.get("/me")
    async def me(request: Request) -> Any:
        principal = resolve_principal(request)
        assert principal is not None
        return {"user_id": principal.user_id, "is_admin": principal.is_admin}

    @router.post("/note")
    async def note() -> Any:
        return {"noted": True}

    @router.get("/admin")
    async def admin(request: Request) -> Any:
        require_admin(request)
        return {"welcome": True}

    return router


@pytest.fixture(autouse=True)
def _acme(monkeypatch: pytest.MonkeyPatch) -> None:
    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.routers([_router()])

    module: Any = ModuleType("acme")
    module.install = install
    monkeypatch.setitem(sys.modules, "acme", module)
    monkeypatch.setattr(passwords, "_hashes", PasswordHash((Argon2Hasher(time_cost=1, memory_cost=64),)))


@asynccontextmanager
async def _gateway(home: Path) -> AsyncIterator[UsersGateway]:
    async with users_gateway(home, plugins=[{"use": "acme:install", "required": True}]) as gateway:
        assert gateway.app.state.extension_diagnostics == []
        yield gateway


async def test_nobody_who_is_unknown_reaches_a_contributed_route(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as gateway:
        stranger = gateway.client()
        for method, path in (("GET", "/acme/me"), ("POST", "/acme/note"), ("GET", "/acme/admin")):
            response = await stranger.request(method, path)
            assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


async def test_a_contributed_route_learns_who_calls(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as gateway:
        alice, root = await gateway.user("alice"), await gateway.admin("root")
        mine, roots = (await alice.get("/acme/me")).json(), (await root.get("/acme/me")).json()
        assert (mine["is_admin"], roots["is_admin"]) == (False, True)
        assert mine["user_id"] != roots["user_id"]
        refused = await alice.get("/acme/admin")
        assert refused.status_code == 403
        assert refused.json() == {"detail": "this endpoint requires an administrator account"}
        assert (await root.get("/acme/admin")).json() == {"welcome": True}


async def test_a_session_has_to_repeat_its_csrf_token_to_a_contributed_route(tmp_path: Path) -> None:
    async with _gateway(tmp_path) as gateway:
        await gateway.add("alice", password=PASSWORD)
        client = gateway.client()
        login = await client.post("/auth/login", json={"username": "alice", "password": PASSWORD})
        assert login.status_code == 200, login.text
        assert (await client.get("/acme/me")).status_code == 200
        assert (await client.post("/acme/note")).status_code == 403
        token = {"X-CSRF-Token": client.cookies["csrf_token"]}
        assert (await client.post("/acme/note", headers=token)).json() == {"noted": True}
