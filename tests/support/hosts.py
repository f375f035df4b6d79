"""Real hosts on the scripted model, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

from langchain_core.messages import HumanMessage

from deerflow.config import AppConfig, config_from
from deerflow.host import Host, HostOptions, open_host
from deerflow.runs.active import ActiveRun
from deerflow.runs.request import RunRequest


def delegation(prompt: str, call_id: str) -> dict[str, Any]:
    """A call of the `task` tool, for a rule of the scripted model."""
    args = {"prompt": prompt, "subagent_type": "general-purpose"}
    return {"name": "task", "args": args, "id": call_id}


DELEGATE_TWICE = {
    "when": "^delegate",
    "turns": [
        {"tool_calls": [delegation("one", "call-1"), delegation("two", "call-2")]},
        {"text": "joined: {tool_results}"},
    ],
}


def scripted_config(home: Path, rules: Sequence[dict[str, Any]] = (), **sections: Any) -> AppConfig:
    """An offline configuration; without other rules the model echoes the prompt."""
    model = {
        "name": "scripted",
        "use": "deerflow.models:ScriptedChatModel",
        "rules": [*rules, {"when": "", "turns": [{"text": "echo: {prompt}"}]}],
    }
    values = {"models": [model], "database": {"backend": "memory"}, **sections}
    return config_from(values).based_in(home)


@asynccontextmanager
async def scripted_host(
    home: Path, rules: Sequence[dict[str, Any]] = (), options: HostOptions | None = None, **sections: Any
) -> AsyncIterator[Host]:
    """An open host; its runs get no time to finish at the end."""
    options = options or HostOptions(drain_seconds=0.0)
    async with open_host(scripted_config(home, rules, **sections), options) as host:
        yield host


async def start(host: Host, text: str, **fields: Any) -> ActiveRun:
    """Start a run with one human message, on a new thread unless one is given."""
    fields.setdefault("thread_id", str(uuid4()))
    fields.setdefault("if_not_exists", "create")
    return await host.runs.start(RunRequest(input={"messages": [HumanMessage(text)]}, **fields))


async def finished(host: Host, text: str, **fields: Any) -> ActiveRun:
    """Start a run and wait for its end."""
    run = await start(host, text, **fields)
    await asyncio.wait_for(run.ended.wait(), 20)
    return run


def answer(run: ActiveRun) -> str:
    """The text of the run's last message."""
    return str(run.values["messages"][-1].text)
