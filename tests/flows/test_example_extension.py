"""The example extension, installed as its users would, through all three entries."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from support.gateway_process import gateway_process
from support.hosts import DELEGATE_TWICE
from support.langgraph_dev import ROOT, langgraph_dev

_TOTALS = "Tool calls: 2 (task 2) in 3 tasks"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    target = tmp_path_factory.mktemp("installed")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    source = ROOT / "examples" / "tool_call_counter"
    subprocess.run([*pip, "--target", str(target), str(source)], check=True, timeout=120)
    yield target


def _config(report: str) -> dict[str, Any]:
    rules = [DELEGATE_TWICE, {"when": "", "turns": [{"text": "echo: {prompt}"}]}]
    return {
        "models": [{"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": rules}],
        "title": {"enabled": True, "model_name": "scripted"},
        "plugins": [{"use": "tool_call_counter:install", "required": True, "config": {"report": report}}],
    }


def _environment(installed: Path, home: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(installed), "DEER_FLOW_HOME": str(home)}


_EMBEDDED = """
import json, sys, tool_call_counter
from deerflow.client import DeerFlowClient
assert tool_call_counter.__file__.startswith(sys.argv[2]), tool_call_counter.__file__
with DeerFlowClient(json.loads(sys.argv[1]), load_extensions=True) as client:
    print(client.chat("delegate"))
"""


def test_embedded_client_reports_the_counts_when_it_closes(installed: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _EMBEDDED, json.dumps(_config("stdout")), str(installed)],
        env={**os.environ, **_environment(installed, tmp_path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == _TOTALS


async def test_gateway_serves_the_counts_and_reports_them_at_the_end(installed: Path, tmp_path: Path) -> None:
    environment = _environment(installed, tmp_path / "home")
    with gateway_process(tmp_path, _config("stdout"), environment=environment) as gateway:
        async with get_client(url=gateway.url) as client:
            message = {"messages": [{"role": "user", "content": "delegate"}]}
            thread = await client.threads.create()
            await client.runs.wait(thread["thread_id"], "lead_agent", input=message)
        counts = httpx.get(f"{gateway.url}/tool-calls", timeout=30).json()
        assert gateway.terminate() in (0, -signal.SIGTERM)
    assert counts["tool_calls"] == {"task": 2}
    assert counts["tasks"] == {"lead completed": 1, "subagent completed": 2}
    # Two agents were assembled; the title took one call of the host's own.
    assert counts["observed"] == {"assembly": 2, "system call title": 1}
    assert "Extension routers mounted: tool_call_counter:install -> /tool-calls" in gateway.log
    assert _TOTALS in gateway.log


async def test_langgraph_dev_counts_as_well(installed: Path, tmp_path: Path) -> None:
    environment = _environment(installed, tmp_path / "home")
    with langgraph_dev(tmp_path, _config("stdout"), environment=environment) as process:
        async with get_client(url=process.url) as client:
            message = {"messages": [{"role": "user", "content": "delegate"}]}
            await client.runs.wait(None, "lead_agent", input=message)
            assert httpx.get(f"{process.url}/tool-calls", timeout=30).status_code == 404
    assert _TOTALS in process.log
