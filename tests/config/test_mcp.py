"""What the configuration may say of MCP servers, and what its errors must not say."""

from __future__ import annotations

from typing import Any

import pytest
from config.test_example import commented_block

from deerflow.config import config_from
from deerflow.errors import ConfigError

STDIO = {"transport": "stdio", "command": "serve"}
HTTP = {"transport": "http", "url": "https://host/mcp"}


def configured(server: Any) -> Any:
    return config_from({"mcp": {"servers": {"one": server}}}).mcp.servers["one"]


def refused(server: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        configured(server)
    return str(caught.value)


def test_the_commented_servers_are_valid(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("NOTES_TOKEN", "n")
    monkeypatch.setenv("SEARCH_TOKEN", "s")
    servers = config_from({"mcp": {"servers": commented_block("servers")}}).mcp.servers
    assert list(servers) == ["notes", "search"]
    assert servers["notes"].env == {"NOTES_TOKEN": "n"}
    assert servers["search"].headers == {"Authorization": "Bearer s"}
    assert caplog.messages == []


def test_variables_are_expanded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "${HOME}")
    assert configured({**STDIO, "env": {"A": "$TOKEN", "B": "$$HOME"}}).env == {"A": "${HOME}", "B": "$HOME"}


@pytest.mark.parametrize(
    ("server", "message"),
    [
        ({}, "mcp.servers.one.transport: is missing"),
        ({"transport": "carrier pigeon"}, "mcp.servers.one.transport: 'carrier pigeon' is not allowed"),
        ({"transport": "stdio"}, "mcp.servers.one.command: null is not allowed"),
        ({"transport": "http"}, "mcp.servers.one.url: null is not allowed"),
        ({"transport": "http", "url": "host/mcp"}, "mcp.servers.one.url: 'host/mcp' is not allowed"),
        ({**STDIO, "url": "https://host"}, "transport 'stdio' has no such key"),
        ({**HTTP, "args": ["x"]}, "mcp.servers.one.args: a list is not allowed"),
        (
            {**STDIO, "connect_timeout_seconds": 0},
            "mcp.servers.one.connect_timeout_seconds: 0 is not allowed",
        ),
    ],
)
def test_a_wrong_server_is_named_with_its_field(server: Any, message: str) -> None:
    assert message in refused(server)


@pytest.mark.parametrize(
    "server",
    [
        {**HTTP, "headers": {"X-Anything": 4711}},
        {**HTTP, "headers": {"X-Anything": ["4711"]}},
        {**STDIO, "env": {"ANYTHING": 4711}},
        {**STDIO, "headers": {"X-Anything": "4711"}},
        {"transport": "http", "url": "ftp://user:4711@host"},
    ],
)
def test_no_error_shows_a_secret(server: Any) -> None:
    assert "4711" not in refused(server)


def test_a_misspelt_key_is_told(caplog: pytest.LogCaptureFixture) -> None:
    configured({**STDIO, "enviroment": {}})
    assert "unknown key mcp.servers.one.enviroment is ignored" in caplog.text


def test_secrets_of_a_server_are_known_to_those_who_write_messages() -> None:
    server = configured({**HTTP, "url": "https://ann:pw@host/mcp?key=k1", "headers": {"A": "h1"}})
    assert server.secrets == ("h1", "pw", "key=k1")
