"""Servers that offer tools over the Model Context Protocol."""

from __future__ import annotations

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from deerflow.config.fields import Flag, OptionalText, Seconds, Section, Text, refusal

_OTHERS_FIELDS = {"stdio": ("url", "headers"), "http": ("command", "args", "env", "cwd")}


class McpServerConfig(Section):
    """One server: a program that is started (`stdio`), or one that is reached by its `url` (`http`)."""

    transport: Literal["stdio", "http"]
    enabled: Flag = True
    tool_prefix: OptionalText = None
    connect_timeout_seconds: Seconds = 20
    call_timeout_seconds: Seconds = 300
    command: OptionalText = None
    args: tuple[str, ...] = ()
    env: dict[Text, str] = Field(default_factory=dict)
    cwd: OptionalText = None
    url: OptionalText = None
    headers: dict[Text, str] = Field(default_factory=dict)

    @property
    def secrets(self) -> tuple[str, ...]:
        """What no message may show."""
        url = urlsplit(self.url or "")
        return tuple(
            str(value)
            for value in (*self.env.values(), *self.headers.values(), url.password, url.query)
            if value
        )

    @model_validator(mode="after")
    def _fields_fit_transport(self) -> Self:
        if self.transport == "stdio" and self.command is None:
            raise refusal("with transport 'stdio' the command that starts the server", field="command")
        if self.transport == "http" and not (self.url or "").startswith(("http://", "https://")):
            raise refusal("with transport 'http' a url such as https://host/mcp", field="url")
        foreign = [name for name in _OTHERS_FIELDS[self.transport] if getattr(self, name)]
        if foreign:
            raise refusal(f"nothing: transport {self.transport!r} has no such key", field=foreign[0])
        return self


class McpConfig(Section):
    """The servers by name. Where two offer a tool of one name, the first has it."""

    servers: dict[Text, McpServerConfig] = Field(default_factory=dict)

    @property
    def enabled_servers(self) -> dict[str, McpServerConfig]:
        return {name: server for name, server in self.servers.items() if server.enabled}
