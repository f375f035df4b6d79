"""`deerflow extensions stats` against a Gateway that runs, and against what is none."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from types import ModuleType
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from deerflow_extension_api import ExtensionRegistry, TaskLifecycleContributor
from fastapi import FastAPI
from support.gateways import RunningServer, said
from support.hosts import scripted_config
from support.ports import free_port
from support.server_thread import server_thread
from support.users import users_app

from deerflow.cli.extensions.stats import stats
from deerflow.cli.main import run
from deerflow.extensions import reset_loaded_extensions
from deerflow.gateway.app import create_app
from deerflow.gateway.auth.credentials import new_token
from deerflow.gateway.process.serve import DEFAULT_HOST, DEFAULT_PORT
from deerflow.kit import running
from deerflow.persistence import Accounts, open_database


class Broken(TaskLifecycleContributor):
    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        raise RuntimeError("no")


def install(registry: ExtensionRegistry, config: Any) -> None:
    registry.task_lifecycle(Broken())


@pytest.fixture(autouse=True)
def _acme(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    module: Any = ModuleType("acme")
    module.install = install
    monkeypatch.setitem(sys.modules, "acme", module)
    monkeypatch.delenv("DEER_FLOW_URL", raising=False)
    monkeypatch.delenv("DEER_FLOW_TOKEN", raising=False)
    yield
    reset_loaded_extensions()


@contextmanager
def gateway_with_acme(home: Path) -> Iterator[RunningServer]:
    with server_thread(create_app(scripted_config(home, plugins=[{"use": "acme:install"}]))) as server:
        yield server


@contextmanager
def something(status: int, body: bytes) -> Iterator[str]:
    """A server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            with suppress(ConnectionError):
                self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_hooks_are_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with gateway_with_acme(tmp_path) as server:
        assert run(["extensions", "stats", "--url", server.url]) == 0
        assert capsys.readouterr().out == "no hook of an extension has run yet\n"
        httpx.post(
            f"{server.url}/runs/wait", json=said("hello"), trust_env=False, timeout=60
        ).raise_for_status()
        assert run(["extensions", "stats", "--url", f"{server.url}/"]) == 0
        rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == ["EXTENSION", "HOOK", "CALLS", "FAILURES", "SECONDS", "MS/CALL"]
    assert sorted(row[:4] for row in rows[1:]) == [
        ["acme:install", "on_task_start", "1", "1"],
        ["acme:install", "on_task_stop", "1", "0"],
    ]


def test_they_are_json_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with gateway_with_acme(tmp_path) as server:
        httpx.post(
            f"{server.url}/runs/wait", json=said("hello"), trust_env=False, timeout=60
        ).raise_for_status()
        monkeypatch.setenv("DEER_FLOW_URL", server.url)
        assert run(["extensions", "stats", "--json"]) == 0
    hooks = json.loads(capsys.readouterr().out)["hooks"]
    assert {"extension": "acme:install", "hook": "on_task_start", "calls": 1, "failures": 1}.items() <= next(
        hook for hook in hooks if hook["hook"] == "on_task_start"
    ).items()
    assert all(hook["seconds"] > 0 for hook in hooks)
    assert hooks == sorted(hooks, key=lambda hook: -hook["seconds"])


def test_with_users_an_administrators_token_is_needed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    app = users_app(tmp_path)
    tokens = {name: asyncio.run(_token_of(app, name, admin=name == "root")) for name in ("ann", "root")}
    with server_thread(app) as server:
        url = ["--url", server.url]
        assert run(["extensions", "stats", *url]) == 1
        assert "has to know who asks; give an administrator's as DEER_FLOW_TOKEN" in capsys.readouterr().err
        assert run(["extensions", "stats", *url, "--token", "wrong"]) == 1
        error = capsys.readouterr().err
        assert "knows no such token" in error and "wrong" not in error
        monkeypatch.setenv("DEER_FLOW_TOKEN", tokens["ann"])
        assert run(["extensions", "stats", *url]) == 1
        assert "its numbers are the administrators'" in capsys.readouterr().err
        monkeypatch.setenv("DEER_FLOW_TOKEN", tokens["root"])
        assert run(["extensions", "stats", *url]) == 0
        assert capsys.readouterr().out == "no hook of an extension has run yet\n"


async def _token_of(app: FastAPI, name: str, *, admin: bool) -> str:
    """A token of a new user of an application that has not started."""
    token, kept = new_token(is_admin=admin)
    async with open_database(app.state.config) as database:
        accounts = Accounts(database.transactions)
        await accounts.add(name, kept, make_admin=admin, password_hash=None)
    return token


def test_where_no_gateway_answers_the_error_says_where_it_looked(
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = f"http://127.0.0.1:{free_port()}"
    assert run(["extensions", "stats", "--url", url]) == 1
    error = capsys.readouterr().err
    assert error.startswith(f"deerflow: no Gateway answers at {url} (") and "start it" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (404, b"", "has no metrics (status 404)"),
        (302, b"", "has no metrics (status 302)"),
        (200, b"<html> {", "sends no metrics that can be read"),
        (200, b"# nothing\n" * 2_000, "sends more than any Gateway has to tell"),
    ],
)
def test_what_is_no_gateway_is_named(
    status: int,
    body: bytes,
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(running, "MOST_BYTES", 10_000)
    with something(status, body) as url:
        assert run(["extensions", "stats", "--url", url]) == 1
    error = capsys.readouterr().err
    assert message in error and len(error.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--url", "127.0.0.1:8001"], "the address of a Gateway is needed"),
        (["--url", "http://ann:secret@host"], "no user name and no password"),
        (["--token", "a\nb"], "the token has characters that no token has"),
    ],
)
def test_wrong_use_is_said_without_secrets(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["extensions", "stats", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error and "secret" not in error


def test_the_default_is_where_serve_listens() -> None:
    help_text = CliRunner().invoke(stats, ["--help"]).output
    assert f"http://{DEFAULT_HOST}:{DEFAULT_PORT}" in help_text
