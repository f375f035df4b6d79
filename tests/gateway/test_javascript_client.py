"""LangGraph's JavaScript client against a Gateway with users."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.gateway_process import gateway_process
from support.hosts import DELEGATE_TWICE
from support.node import client_folder, run_script
from support.sdk_script import RULES


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What the script of every verb found."""
    installed = client_folder()
    folder = tmp_path_factory.mktemp("gateway")
    model = {
        "name": "scripted",
        "use": "deerflow.models:ScriptedChatModel",
        "rules": [DELEGATE_TWICE, *RULES],
    }
    config = {"models": [model], "auth": {"mode": "users"}, "shutdown": {"drain_seconds": 0.2}}
    with gateway_process(folder, config) as gateway:
        add = [str(Path(sys.executable).with_name("deerflow")), "users", "add", "js"]
        token = subprocess.run(add, cwd=folder, capture_output=True, text=True, check=True, timeout=60).stdout
        return run_script(installed, "verbs.mjs", gateway.url, token.strip())


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
