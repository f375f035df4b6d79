"""The application: its making, its life, and how it fails."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from deerflow_extension_api import EXTENSION_PRINCIPAL_RESOLVER_KEY, ExtensionRegistry, resolve_principal
from starlette.requests import Request
from support.gateways import answer, gateway, said, serving
from support.hosts import scripted_config

from deerflow.config import AppConfig
from deerflow.errors import ConfigError
from deerflow.extensions import ExtensionLoadError, get_loaded_extensions
from deerflow.gateway.app import create_app
from deerflow.gateway.body_limit import MAX_BODY_BYTES


class _Service:
    def __init__(self) -> None:
        self.calls: list[str] = []

    async def start(self, deps: Any) -> None:
        self.calls.append("start")

    async def stop(self) -> None:
        self.calls.append("stop")


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """An importable module with extensions: one that counts and serves, one that fails."""
    module: Any = ModuleType("acme")
    module.service = _Service()
    module.installs = 0

    def install(registry: ExtensionRegistry, config: Any) -> None:
        module.installs += 1
        registry.service(module.service)

    def refuse(registry: ExtensionRegistry, config: Any) -> None:
        raise RuntimeError("set ACME_KEY first")

    module.install, module.refuse = install, refuse
    monkeypatch.setitem(sys.modules, "acme", module)
    return module


def test_extensions_load_once_while_the_application_is_made(tmp_path: Path, acme: Any) -> None:
    config = scripted_config(tmp_path, plugins=[{"use": "acme:install"}, {"use": "acme:refuse"}])
    app = create_app(config)
    assert acme.installs == 1
    assert app.state.extensions is get_loaded_extensions()
    assert app.state.extension_diagnostics is app.state.extensions.diagnostics
    (entry,) = app.state.extension_diagnostics
    assert (entry.source, "ACME_KEY" in entry.message) == ("acme:refuse", True)


async def test_application_can_be_started_again_after_its_end(tmp_path: Path, acme: Any) -> None:
    config = scripted_config(
        tmp_path, database={"backend": "sqlite"}, plugins=[{"use": "acme:install"}]
    )  # fmt: skip
    app = create_app(config)
    async with serving(app) as client:
        thread_id = await client.thread()
        await client.say(thread_id, "one")
    async with serving(app) as client:
        assert len((await client.say(thread_id, "two"))["messages"]) == 4
    assert acme.installs == 1
    assert acme.service.calls == ["start", "stop", "start", "stop"]


def test_required_extension_that_fails_keeps_the_gateway_from_starting(tmp_path: Path, acme: Any) -> None:
    before = get_loaded_extensions()
    config = scripted_config(tmp_path, plugins=[{"use": "acme:refuse", "required": True}])
    with pytest.raises(ExtensionLoadError, match="required extension acme:refuse failed to install"):
        create_app(config)
    assert get_loaded_extensions() is before
    clean = create_app(scripted_config(tmp_path))
    assert clean.state.extension_diagnostics == []


def test_configuration_may_be_a_path_a_mapping_or_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("title: {enabled: false}\n")
    assert create_app(file).state.config.title.enabled is False
    assert create_app({"title": {"enabled": False}}).state.config.title.enabled is False
    monkeypatch.chdir(tmp_path)
    assert create_app().state.config.title.enabled is False
    file.unlink()
    assert create_app().state.config == AppConfig()


def test_invalid_configuration_stops_everything(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("plugins: [{use: 'a:b', requierd: true}]\n")
    with pytest.raises(ConfigError, match="requierd"):
        create_app(file)
    with pytest.raises(ConfigError, match="no such file"):
        create_app(tmp_path / "missing.yaml")


async def test_everyone_is_the_local_administrator(tmp_path: Path) -> None:
    app = create_app(scripted_config(tmp_path))
    request = Request({"type": "http", "app": app, "headers": []})
    principal = resolve_principal(request)
    assert principal is not None
    assert (principal.user_id, principal.is_admin, principal.roles) == ("local", True, ("admin",))
    assert callable(getattr(app.state, EXTENSION_PRINCIPAL_RESOLVER_KEY))


async def test_before_its_start_the_application_says_that_it_is_not_running(tmp_path: Path) -> None:
    app = create_app(scripted_config(tmp_path))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://gateway") as client:
        assert (await client.get("/ok")).status_code == 200
        assert (await client.get("/health/ready")).status_code == 503
        assert (await client.post("/threads", json={})).status_code == 503


async def test_info_says_what_is_on_offer(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        info = (await client.get("/info")).json()
        assert set(info) >= {"version", "langgraph_py_version", "flags", "host"}
        assert info["flags"]["assistants"] is True
        assert (await client.get("/health/ready")).json() == {"status": "ok"}
        assert (await client.get("/openapi.json")).json()["paths"]["/threads/search"]


@pytest.mark.parametrize(
    ("content", "status", "named"),
    [
        (b"{", 422, "JSON"),
        (b"", 422, "body"),
        (b"[]", 422, "body"),
        (b'{"a": NaN}', 422, "JSON"),
        (b'{"a": "\\ud835", "b": NaN}', 422, "JSON"),
        (b"\xff\xfe", 422, "JSON"),
        (b'{"metadata": ' + b"[" * 5000 + b"]" * 5000 + b"}", 422, "JSON"),
        (b'{"metadata": {"a": ' + b"[" * 101 + b"]" * 101 + b"}}", 422, "levels"),
        (b'{"a": "\\u0041", "metadata": ' + b"[" * 200000 + b"}", 422, "JSON"),
        (b" " * (MAX_BODY_BYTES + 1), 413, "bytes"),
    ],
)
async def test_body_that_cannot_be_used_is_refused_with_one_string(
    tmp_path: Path, content: bytes, status: int, named: str
) -> None:
    async with gateway(tmp_path) as client:
        headers = {"content-type": "application/json"}
        response = await client.post("/threads/search", content=content, headers=headers)
        assert response.status_code == status, response.text
        assert named in response.json()["detail"]


async def test_body_without_an_announced_length_is_bounded_too(tmp_path: Path) -> None:
    async def endless() -> Any:
        for _ in range(20):
            yield b" " * 1_000_000

    async with gateway(tmp_path) as client:
        headers = {"content-type": "application/json"}
        response = await client.post("/threads/search", content=endless(), headers=headers)
        assert response.status_code == 413
        assert isinstance(response.json()["detail"], str)


async def test_large_body_is_read(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread(metadata={"text": "x" * 1_000_000})
        assert len((await client.get(f"/threads/{thread_id}")).json()["metadata"]["text"]) == 1_000_000


@pytest.mark.parametrize("sent", [{}, {"content-type": "text/plain"}])
async def test_other_content_types_are_refused_with_the_one_that_is_needed(
    tmp_path: Path, sent: dict[str, str]
) -> None:
    async with gateway(tmp_path) as client:
        response = await client.post("/threads", content=b"{}", headers=sent)
        assert response.status_code == 422
        assert response.json()["detail"].startswith(
            "body: a JSON object is needed; send it with the header `Content-Type: application/json`"
        )


async def test_body_that_is_no_object_is_refused_with_what_is_needed(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for content in (b"", b"[]", b'"text"', b"null"):
            headers = {"content-type": "application/json"}
            response = await client.post("/threads/search", content=content, headers=headers)
            assert response.status_code == 422
            assert response.json() == {"detail": "body: a JSON object is needed"}


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nowhere", 404), ("PUT", "/threads", 405), ("GET", "/threads/", 404)],
)
async def test_unknown_paths_and_methods_are_errors_like_all_others(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with gateway(tmp_path) as client:
        response = await client.request(method, path)
        assert response.status_code == status
        assert isinstance(response.json()["detail"], str)


async def test_unexpected_error_is_logged_and_told_to_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def explode(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret: swordfish")

    async with gateway(tmp_path) as client:
        monkeypatch.setattr(client.host.database.stores.threads, "search", explode)
        with caplog.at_level(logging.ERROR):
            response = await client.post("/threads/search", json={})
        assert response.status_code == 500
        assert set(response.json()) == {"detail"}
        assert "swordfish" not in response.text
        assert "swordfish" in caplog.text


async def test_pages_from_this_machine_may_read_the_headers_that_clients_need(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        origin = {"origin": "http://localhost:3000"}
        asked = {**origin, "access-control-request-method": "POST"}
        preflight = await client.options("/threads", headers=asked)
        assert preflight.headers["access-control-allow-origin"] == "http://localhost:3000"
        response = await client.post("/runs/wait", json=said("hello"), headers=origin)
        assert "Content-Location" in response.headers["access-control-expose-headers"]
        assert answer(response.json()) == "echo: hello"
        foreign = await client.post("/runs/wait", json=said("hello"), headers={"origin": "http://evil.test"})
        assert "access-control-allow-origin" not in foreign.headers


async def test_model_that_is_not_there_is_warned_of_at_the_start_and_keeps_nobody_from_the_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    models = [
        {
            "name": "offline",
            "use": "deerflow.models:ScriptedChatModel",
            "rules": [{"turns": [{"text": "hi"}]}],
        },
        {"name": "gpt", "use": "not_there_at_all:Model"},
    ]
    async with gateway(tmp_path, models=models) as client:
        assert "models[1].use (model 'gpt'): 'not_there_at_all:Model' needs module" in caplog.text
        thread_id = await client.thread()
        assert answer(await client.say(thread_id, "hello")) == "hi"
        failed = await client.say(thread_id, "hello", context={"model_name": "gpt"})
        assert "pip install not-there-at-all" in failed["__error__"]["message"]
