"""`axonx serve` as a process of its own, and calls at it."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from support.axonx_plugins import install
from support.ports import free_port

PATIENCE_SECONDS = 60
COMMAND = [sys.executable, "-m", "axonx.cli", "serve"]
CONFIG: dict[str, Any] = {
    "app_name": "Test",
    "jobs": {
        "greet": {"steps": [{"backend": "demo_step"}], "requires_auth": False},
        "private": {"steps": [{"backend": "demo_step"}]},
    },
    "service": {"backend": "http", "port": 1, "mcp": False},
}


@contextmanager
def serving(
    directory: Path, *options: str, **environment: str
) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A serving process and its address; killed if it is still there."""
    (directory / "axonx.yaml").write_text(yaml.safe_dump(CONFIG))
    process = subprocess.Popen(
        [*COMMAND, "--port", "0", *options],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stderr is not None
        yield process, _address(process)
    finally:
        process.kill()
        process.communicate()


def _address(process: subprocess.Popen[str]) -> str:
    assert process.stderr is not None
    for line in process.stderr:
        if found := re.fullmatch(r"Test: serving at (http://\S+)\n", line):
            return found[1]
    raise AssertionError("it did not start")


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, trust_env=False, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_service_with_status_0(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path) as (process, address):
        assert get(f"{address}/health").json()["answer"] == {"running": True}
        process.send_signal(number)
        assert process.wait(PATIENCE_SECONDS) == 0


def test_the_command_line_overrides_address_and_token(tmp_path: Path) -> None:
    with serving(tmp_path, "--host", "127.0.0.2", AXONX_TOKEN="s3cret") as (_, address):
        assert address.startswith("http://127.0.0.2:")
        assert get(f"{address}/jobs").status_code == 401
        items = get(f"{address}/jobs", authorization="Bearer s3cret").json()["answer"]["items"]
        assert [item["name"] for item in items] == ["greet", "private"]


def test_a_job_of_a_service_is_run_from_the_command_line(tmp_path: Path, cli: Any) -> None:
    with serving(tmp_path, "--token", "s3cret", "--port", str(free_port())) as (_, address):
        target = ("--target", address, "--token", "s3cret")
        outcome = cli("run", "greet", *target, "--name", "Zoë", "--client-timeout", "60")
        assert (outcome.status, outcome.out) == (0, '{"answer":"Hello, Zoë!","success":true,"metadata":{}}\n')
        lines = cli("run", "greet", *target, "--stream").out.splitlines()
        assert [json.loads(line)["kind"] for line in lines] == ["progress", "progress", "result"]
        unknown = cli("run", "nope", *target)
        assert (unknown.status, unknown.err) == (2, "Error: UnknownJobError: Unknown job: 'nope'\n")
        refused = cli("run", "greet", "--target", address, "--token", "wrong")
        assert refused.status == 1
        assert "refused the token" in refused.err
    gone = cli("run", "greet", *target)
    assert gone.status == 1
    assert gone.err.startswith(f"Error: RemoteCallError: {address}: ConnectError")


def test_a_port_in_use_is_status_1_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*COMMAND, "--port", port],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"Error: ServiceStartError: service: cannot listen on 127.0.0.1:{port}"
    )
    assert "Traceback" not in done.stderr


def stdio(directory: Path) -> StdioServerParameters:
    (directory / "axonx.yaml").write_text(yaml.safe_dump(CONFIG))
    return StdioServerParameters(command=COMMAND[0], args=[*COMMAND[1:], "--mcp-stdio"], cwd=directory)


async def test_jobs_are_tools_over_standard_input_and_output(tmp_path: Path) -> None:
    async with (
        stdio_client(stdio(tmp_path)) as (incoming, outgoing),
        ClientSession(incoming, outgoing) as session,
    ):
        info = await session.initialize()
        assert info.serverInfo.name == "Test"
        assert [tool.name for tool in (await session.list_tools()).tools] == ["greet", "private"]
        result = await session.call_tool("private", {"name": "Zoë"})
        assert result.structuredContent == {"answer": "Hello, Zoë!", "success": True, "metadata": {}}
        assert (await session.call_tool("nope", {})).isError


PRINTING_JOB = """
from axonx import BaseJob
from axonx.components.job import ResultEvent

class Printing(BaseJob):
    async def stream(self, arguments, system):
        print("not a message of the protocol", flush=True)
        yield ResultEvent(answer="printed")
"""


async def test_what_a_job_prints_does_not_disturb_the_tools(tmp_path: Path) -> None:
    install(
        tmp_path / "site",
        "printing",
        "components: {job: {printing: '{package}.mod:Printing'}}",
        mod=PRINTING_JOB,
    )
    parameters = stdio(tmp_path)
    (tmp_path / "axonx.yaml").write_text(yaml.safe_dump({"jobs": {"print": {"backend": "printing"}}}))
    parameters.env = {"PYTHONPATH": str(tmp_path / "site")}
    with (tmp_path / "errors.txt").open("w+") as errors:
        async with (
            stdio_client(parameters, errlog=errors) as (incoming, outgoing),
            ClientSession(incoming, outgoing) as session,
        ):
            await session.initialize()
            result = await session.call_tool("print", {})
        assert result.structuredContent is not None
        assert result.structuredContent["answer"] == "printed"
        errors.seek(0)
        assert "not a message of the protocol" in errors.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, None])
def test_the_end_of_the_input_or_a_signal_ends_the_tools(
    tmp_path: Path, number: signal.Signals | None
) -> None:
    parameters = stdio(tmp_path)
    process = subprocess.Popen(
        [parameters.command, *parameters.args], cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    killer = threading.Timer(PATIENCE_SECONDS, process.kill)
    killer.start()
    try:
        assert process.stdin is not None
        assert process.stdout is not None
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        process.stdin.write(json.dumps(ping).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["id"] == 1
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait() == 0
    finally:
        killer.cancel()
        process.kill()
        process.stdout.close()
        if not process.stdin.closed:
            process.stdin.close()
