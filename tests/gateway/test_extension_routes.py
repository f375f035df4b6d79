"""Routers that extensions contribute."""

from __future__ import annotations

import logging
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from deerflow_extension_api import ExtensionRegistry, require_admin, resolve_principal
from fastapi import APIRouter, FastAPI, Request, WebSocket
from fastapi.routing import iter_route_contexts
from starlette.responses import PlainTextResponse
from starlette.routing import Route, Router
from support.gateways import serving
from support.hosts import scripted_config

from deerflow.extensions import LoadedExtensions
from deerflow.gateway.app import create_app
from deerflow.gateway.extension_routes import mount_extension_routers

Installs = dict[str, Sequence[Any]]


@pytest.fixture
def app_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., FastAPI]:
    """Make an application with extensions that contribute the given routers, by entry point."""

    def make(**routers: Sequence[Any]) -> FastAPI:
        module = ModuleType("acme")
        for name, contributed in routers.items():
            setattr(module, name, _install(contributed))
        monkeypatch.setitem(sys.modules, "acme", module)
        plugins = [{"use": f"acme:{name}"} for name in routers]
        return create_app(scripted_config(tmp_path, plugins=plugins))

    return make


def _install(routers: Sequence[Any]) -> Callable[..., None]:
    def install(registry: ExtensionRegistry, config: Any) -> None:
        registry.routers(routers)

    return install


def router_with(*paths: str, methods: Sequence[str] = ("GET",), **options: Any) -> APIRouter:
    """A router that answers each path with its own pattern."""
    router = APIRouter(**options)
    for path in paths:
        router.add_api_route(path, _saying(path), methods=list(methods))
    return router


def _saying(text: str) -> Callable[[], Any]:
    async def answer() -> PlainTextResponse:
        return PlainTextResponse(text)

    return answer


def diagnostics(app: FastAPI) -> list[tuple[str, str]]:
    return [(entry.source, entry.message) for entry in app.state.extension_diagnostics]


async def test_clean_routers_are_served_after_the_hosts_routes(
    app_with: Callable[..., FastAPI], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="deerflow.extensions"):
        app = app_with(
            audit=[router_with("/acme/audit", "/acme/audit/{entry}")], costs=[router_with("/acme/costs")]
        )
    lines = [record.getMessage() for record in caplog.records if "mounted" in record.getMessage()]
    assert lines == [
        "Extension routers mounted: acme:audit -> /acme/audit; acme:audit -> /acme/audit/{entry}; "
        "acme:costs -> /acme/costs"
    ]
    assert diagnostics(app) == []
    async with serving(app) as client:
        assert (await client.get("/acme/audit/7")).text == "/acme/audit/{entry}"
        assert (await client.get("/acme/costs")).text == "/acme/costs"
        assert (await client.get("/ok")).json() == {"ok": True}


@pytest.mark.parametrize(
    ("path", "methods", "holder"),
    [
        ("/threads/search", ["POST"], "POST /threads/search of the host"),
        ("/threads/{anything}", ["GET"], "GET /threads/{thread_id} of the host"),
        ("/threads/{anything:uuid}", ["GET"], "GET /threads/{thread_id} of the host"),
        ("/threads/mine", ["GET"], "GET /threads/{thread_id} of the host"),
        ("/threads/{a}/runs/{b}/cancel", ["GET", "POST"], "cancel of the host"),
        ("/runs/wait", ["POST"], "POST /runs/wait of the host"),
    ],
)
async def test_covered_route_rejects_its_whole_router_and_names_the_holder(
    app_with: Callable[..., FastAPI], path: str, methods: list[str], holder: str
) -> None:
    bad = router_with("/acme/before")
    bad.add_api_route(path, _saying("bad"), methods=methods)
    app = app_with(bad=[bad, router_with("/acme/second")], clean=[router_with("/acme/clean")])
    ((source, message),) = diagnostics(app)
    assert source == "acme:bad"
    assert message.startswith("router rejected: ")
    assert holder in message
    async with serving(app) as client:
        assert (await client.get("/acme/before")).status_code == 404
        assert (await client.get("/acme/second")).text == "/acme/second"
        assert (await client.get("/acme/clean")).text == "/acme/clean"
        assert (await client.post("/threads/search", json={})).json() == []


async def test_what_cannot_be_proven_to_be_covered_is_mounted(app_with: Callable[..., FastAPI]) -> None:
    app = app_with(
        one=[router_with("/acme/{x}/a")],
        two=[router_with("/acme/a/{x}", "/threads/{thread_id}/audit")],
        three=[router_with("/threads/{thread_id}", methods=["POST"])],
    )
    assert diagnostics(app) == []
    async with serving(app) as client:
        assert (await client.get("/acme/a/a")).text == "/acme/{x}/a"
        assert (await client.get("/acme/a/b")).text == "/acme/a/{x}"
        assert (await client.get("/threads/1/audit")).text == "/threads/{thread_id}/audit"


async def test_second_extension_cannot_take_the_firsts_route(app_with: Callable[..., FastAPI]) -> None:
    app = app_with(first=[router_with("/acme/{x}")], second=[router_with("/acme/costs")])
    ((source, message),) = diagnostics(app)
    assert source == "acme:second"
    assert "GET /acme/{x} of acme:first" in message


@pytest.mark.parametrize(
    "path",
    ["/ok", "/health/mine", "/info", "/auth/login", "/auth", "/docs", "/redoc/x", "/openapi.json", "/metrics",
     "/webhooks/github", "/{page}", "/{a}/{b}", "/{rest:path}", "/o{rest}"],
)  # fmt: skip
async def test_paths_that_can_reach_the_hosts_public_ones_are_reserved(
    app_with: Callable[..., FastAPI], path: str
) -> None:
    app = app_with(bad=[router_with("/acme/x", path)])
    ((_, message),) = diagnostics(app)
    assert "reserved for the host" in message or "already served by" in message
    async with serving(app) as client:
        assert (await client.get("/acme/x")).status_code == 404
        assert (await client.get("/ok")).json() == {"ok": True}


@asynccontextmanager
async def _lifespan(_: Any) -> AsyncIterator[None]:
    yield


async def _socket(websocket: WebSocket) -> None:
    await websocket.accept()


def _with_socket() -> APIRouter:
    router = router_with("/acme/x")
    router.add_api_websocket_route("/acme/socket", _socket)
    return router


def _with_mount() -> APIRouter:
    router = router_with("/acme/x")
    router.mount("/acme/app", FastAPI())
    return router


def _with_nested(inner: APIRouter) -> APIRouter:
    router = router_with("/acme/x")
    router.include_router(inner)
    return router


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (_with_socket, "WebSocket"),
        (_with_mount, "Mount"),
        (lambda: router_with("/acme/x", on_startup=[print]), "service"),
        (lambda: router_with("/acme/x", on_shutdown=[print]), "service"),
        (lambda: router_with("/acme/x", lifespan=_lifespan), "service"),
        (lambda: _with_nested(router_with("/acme/y", lifespan=_lifespan)), "service"),
        (lambda: _with_nested(_with_mount()), "Mount"),
        (lambda: _with_nested(_with_socket()), "WebSocket"),
        (lambda: Router([Route("/acme/x", _saying("x"))]), "APIRouter"),
        (lambda: FastAPI(), "APIRouter"),
        (lambda: "router", "APIRouter"),
    ],
)
async def test_what_would_not_work_is_rejected_at_load(
    app_with: Callable[..., FastAPI], make: Callable[[], Any], named: str
) -> None:
    app = app_with(bad=[make()], clean=[router_with("/acme/clean")])
    ((source, message),) = diagnostics(app)
    assert (source, named in message) == ("acme:bad", True)
    async with serving(app) as client:
        assert (await client.get("/acme/x")).status_code == 404
        assert (await client.get("/acme/clean")).status_code == 200


async def test_routers_that_include_clean_ones_are_mounted(app_with: Callable[..., FastAPI]) -> None:
    nested = _with_nested(_with_nested(router_with("/acme/inner", prefix="/deep")))
    nested.routes.pop(0)
    app = app_with(good=[nested])
    assert diagnostics(app) == []
    async with serving(app) as client:
        assert (await client.get("/deep/acme/inner")).text == "/acme/inner"


class _Broken(APIRouter):
    """A router that fails when it is looked at."""

    @property  # type: ignore[misc]
    def on_startup(self) -> Any:
        raise ValueError("no good")

    @on_startup.setter
    def on_startup(self, value: Any) -> None: ...


async def test_router_that_fails_itself_is_not_called_a_conflict(app_with: Callable[..., FastAPI]) -> None:
    app = app_with(bad=[_Broken()], clean=[router_with("/acme/clean")])
    assert diagnostics(app) == [("acme:bad", "router could not be mounted: no good")]
    async with serving(app) as client:
        assert (await client.get("/acme/clean")).status_code == 200


class _FailingLater(APIRouter):
    """A router whose routes can be read a few times only."""

    reads_left: int | None = None

    @property  # type: ignore[misc]
    def routes(self) -> Any:
        if self.reads_left is not None:
            self.reads_left -= 1
            if self.reads_left < 0:
                raise RuntimeError("no more")
        return self._own_routes

    @routes.setter
    def routes(self, value: Any) -> None:
        self._own_routes = value


def _mount_failing_after(reads: int) -> tuple[list[tuple[str, str]], list[str]]:
    """What is reported of a router that can be read so often, and which routes are left."""
    failing = _FailingLater()
    failing.add_api_route("/acme/x", _saying("x"), methods=["GET"])
    failing.reads_left = reads
    app = FastAPI(openapi_url=None)
    loaded = LoadedExtensions(routers=(("acme:bad", failing),))
    mount_extension_routers(app, loaded)
    failing.reads_left = None
    paths = [context.path or "" for context in iter_route_contexts(app.router.routes)]
    return [(entry.source, entry.message) for entry in loaded.diagnostics], paths


def test_router_that_fails_wherever_it_is_read_leaves_no_route() -> None:
    for reads in range(100):
        reported, paths = _mount_failing_after(reads)
        if paths == ["/acme/x"]:
            break
        assert (reported, paths) == ([("acme:bad", "router could not be mounted: no more")], [])
    assert 2 < reads < 99 and reported == []


async def test_contributed_routes_learn_who_calls_and_may_insist_on_an_administrator(
    app_with: Callable[..., FastAPI],
) -> None:
    router = APIRouter(prefix="/acme")

    @router.get("/me")
    async def me(request: Request) -> Any:
        principal = resolve_principal(request)
        require_admin(request)
        return {"user_id": principal and principal.user_id, "roles": principal and principal.roles}

    @router.get("/never")
    async def never() -> None:
        raise PermissionError("this endpoint requires an administrator account")

    @router.get("/bug")
    async def bug() -> None:
        raise RuntimeError("a secret: swordfish")

    app = app_with(acme=[router])
    async with serving(app) as client:
        assert (await client.get("/acme/me")).json() == {"user_id": "local", "roles": ["admin"]}
        forbidden = await client.get("/acme/never")
        assert (forbidden.status_code, "administrator" in forbidden.json()["detail"]) == (403, True)
        failed = await client.get("/acme/bug")
        assert failed.status_code == 500
        assert "swordfish" not in failed.text
