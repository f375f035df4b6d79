"""LangGraph's JavaScript client, in both of its protocols, against a Gateway with users."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gated_model import GatedChatModel
from support.gateway_process import gateway_process
from support.hosts import DELEGATE_TWICE
from support.langgraph_dev import langgraph_dev
from support.node import client_folder, run_script
from support.sdk_script import RULES

STUMBLING = {
    "when": "^stumble",
    "turns": [
        {"tool_calls": [{"name": "write_file", "args": {"path": "b.txt", "content": "x"}, "id": "call-1"}]},
        {"error": "the model broke"},
    ],
}
MODEL = {
    "name": "scripted",
    "use": "deerflow.models:ScriptedChatModel",
    "rules": [DELEGATE_TWICE, STUMBLING, *RULES],
}
CONFIG = {"models": [MODEL], "shutdown": {"drain_seconds": 0.2}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a Gateway, and a user's token."""
    client_folder()
    folder = tmp_path_factory.mktemp("gateway")
    with gateway_process(folder, {**CONFIG, "auth": {"mode": "users"}}) as process:
        add = [str(Path(sys.executable).with_name("deerflow")), "users", "add", "js"]
        token = subprocess.run(add, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout
        yield process.url, token.strip()


@pytest.fixture(scope="module")
def found(gateway: tuple[str, str]) -> Any:
    """What the script of every verb found."""
    return run_script(client_folder(), "verbs.mjs", *gateway)


@pytest.fixture(scope="module")
def newer(gateway: tuple[str, str]) -> Any:
    """What the script of the newer protocol found."""
    return run_script(client_folder(), "protocol.mjs", *gateway)


def test_assistants(found: Any) -> None:
    assert found["assistants"] == {
        "system": "system",
        "versions": [[2, "Quicker"], [1, "Quick"]],
        "latest": "Quick",
        "count": 1,
        "nodes": ["__end__", "__start__", "model", "tools"],
        "schemas": ["messages"],
        "subgraphs": {},
    }


def test_threads(found: Any) -> None:
    threads = found["threads"]
    assert {"topic": "rivers", "length": 3, "graph_id": "lead_agent"}.items() <= threads["metadata"].items()
    assert (threads["search"], threads["count"], threads["before"]) == (2, 2, 1)
    assert threads["state"] == threads["copy"] == "by the way"
    assert (threads["unknown"], threads["again"], threads["same"], threads["deleted"]) == (
        404,
        409,
        True,
        404,
    )


def test_runs(found: Any) -> None:
    runs = found["runs"]
    assert (runs["joined"], runs["status"], runs["cancelled"]) == ("echo: hello", "success", "interrupted")
    assert (runs["list"], runs["batch"], runs["deleted"], runs["refused"]) == (2, 1, 404, 422)
    assert runs["resumed"] == ["metadata", "values", "values", "end"]
    assert runs["failed"].endswith("the model broke")
    assert runs["stateless"] == "echo: hello"


def test_streams(found: Any) -> None:
    streams = found["streams"]
    assert streams["values"] == ["metadata", "values", "values", "end"]
    assert streams["updates"] == ["metadata", "updates", "end"]
    assert set(streams["tuples"]) == {"metadata", "messages", "end"}
    assert set(streams["several"]) == {"metadata", "values", "updates", "custom", "end"}
    assert streams["fails"] == ["metadata", "error", "end"]
    assert streams["created"] == ["string"]


def test_approvals(found: Any) -> None:
    approvals = found["approvals"]
    assert (approvals["asked"], approvals["status"]) == (1, "interrupted")
    assert approvals["answered"].startswith("written: ")


def test_store(found: Any) -> None:
    assert found["store"] == {
        "value": {"n": 1},
        "search": 1,
        "namespaces": [["notes", "js"]],
        "deleted": None,
    }


def test_newer_protocol_streams_messages_and_state(newer: Any) -> None:
    assert newer["chat"] == {
        "output": "echo: hello",
        "run": "string",
        "messages": [["echo: hello", 2]],
        "tools": [],
    }
    assert newer["conversation"] == {
        "lifecycle": ["running", "completed", "running", "completed"],
        "answers": [1, 2, 3, 4],
    }
    assert newer["joined"] == ["metadata", "updates", "metadata"]


def test_newer_protocol_streams_delegations(newer: Any) -> None:
    delegations = dict(newer["delegations"])
    assert delegations.pop("output").startswith("joined: Task Succeeded")
    assert delegations == {
        "started": 2,
        "finished": 2,
        "messages": 4,
        "namespaces": ["", "tools:call-1", "tools:call-2"],
        "rising": True,
        "ids": True,
    }


def test_newer_protocol_asks_and_is_answered(newer: Any) -> None:
    approvals = dict(newer["approvals"])
    assert approvals.pop("answer").startswith("written: created")
    assert approvals == {
        "interrupted": True,
        "asked": "write_file",
        "lifecycle": ["running", "interrupted", "running", "completed"],
        "tools": ["tool-started", "tool-finished"],
    }
    assert newer["failures"] == {
        "lifecycle": ["running", "failed"],
        "answer": "no_such_interrupt",
        "unknown": "unknown_command",
    }


@pytest.fixture(scope="module")
def hook(gateway: tuple[str, str]) -> Any:
    """What the script with the React hook found."""
    return run_script(client_folder(), "use_stream.mjs", *gateway)


def test_react_hook_chats_through_the_newer_protocol(hook: Any) -> None:
    assert hook == {
        "chat": {"messages": ["human", "ai"], "values": 2},
        "question": "write_file",
        "approved": {"interrupts": 0, "tools": ["write_file"]},
        "subagents": ["complete", "complete"],
        "error": "the model broke",
        "hydrated": [
            *("human", "ai", "human", "ai", "tool", "ai"),
            *("human", "ai", "tool", "tool", "ai", "human", "ai", "tool"),
        ],
    }


def test_newer_protocol_is_read_alike_from_langgraphs_server(newer: Any, hook: Any, tmp_path: Path) -> None:
    # That server may tell the end of a run that failed before it tells why; the hook then shows no reason.
    gate = tmp_path / "gate"
    gated = {"use": f"{GatedChatModel.__module__}:GatedChatModel", "held_words": ["broke"], "gate": str(gate)}
    environment = {"DEER_FLOW_HOME": str(tmp_path / "home"), "PYTHONPATH": str(Path(__file__).parents[1])}
    gate.touch()
    with langgraph_dev(tmp_path, {**CONFIG, "models": [MODEL | gated]}, environment=environment) as dev:
        theirs = [run_script(client_folder(), "protocol.mjs", dev.url)]
        gate.unlink()
        theirs.append(run_script(client_folder(), "use_stream.mjs", dev.url, "", str(gate)))
    assert [newer, hook] == [theirs[0], {"error": hook["error"]} | theirs[1]]
