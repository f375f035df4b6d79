"""Tools of real MCP servers, one that the host starts and one that is reached over HTTP."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from deerflow_extension_api import AgentAssemblyDescriptor, AgentAssemblyObserver, ExtensionData
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool
from support.extensions import installed
from support.hosts import answer, delegation, finished, scripted_host, start
from support.loop_clock import put_forward
from support.mcp_servers import HttpServer, http_server, stdio
from support.ports import free_port

from deerflow.agents.mcp import life, open_mcp_tools
from deerflow.agents.mcp import servers as mcp_servers
from deerflow.agents.mcp.connection import McpServerError
from deerflow.config.mcp import McpConfig
from deerflow.errors import ConfigError
from deerflow.extensions import LoadedExtensions


@pytest.fixture(scope="module")
def shared() -> Iterator[HttpServer]:
    with http_server() as server:
        yield server


def servers(**configs: dict[str, Any]) -> McpConfig:
    return McpConfig.model_validate({"servers": configs})


async def said(tool: BaseTool, **arguments: Any) -> str:
    """The text of what a tool call gives."""
    call = {"name": tool.name, "args": arguments, "id": "call", "type": "tool_call"}
    message = await tool.ainvoke(call)
    assert isinstance(message, ToolMessage)
    return str(message.text)


class Toolset(dict[str, BaseTool]):
    """The tools of one server by name."""


def of(server: str, tools: Any) -> Toolset:
    return Toolset({owned.name: owned.tool for owned in tools if owned.owner.mcp_server == server})


class Descriptions(AgentAssemblyObserver):
    def __init__(self) -> None:
        self.seen: list[AgentAssemblyDescriptor] = []

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        self.seen.append(descriptor)


def using(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    asked = [{"name": name, "args": args} for name, args in calls]
    return {"when": "^use", "turns": [{"tool_calls": asked}, {"text": "{tool_results}"}]}


async def test_leads_and_subagents_use_the_tools_of_both_transports(
    tmp_path: Path, shared: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    sections: dict[str, Any] = {
        "tools": [{"use": "support.tools:search"}],
        "mcp": {
            "servers": {
                "local": stdio(env={"TOKEN": "from the configuration"}),
                "web": shared.config(headers={"Authorization": "Bearer secret"}, tool_prefix="web_"),
            }
        },
    }
    inner = {
        "when": "^inner",
        "turns": [using(("add", {"a": 2, "b": 3}))["turns"][0], {"text": "{tool_results}"}],
    }
    rule = using(
        ("add", {"a": 1, "b": 2}),
        ("environment", {"name": "TOKEN"}),
        ("web_headers", {}),
        ("fail", {}),
        ("search", {}),
        ("task", delegation("inner", "")["args"]),
    )
    observer = Descriptions()
    with installed(LoadedExtensions(agent_assembly_observers=(("observer:install", observer),))):
        async with scripted_host(tmp_path, [inner, rule], **sections) as host:
            run = await finished(host, "use")
    results = [message for message in run.values["messages"] if message.type == "tool"]
    assert [result.text for result in results] == [
        "3",
        "from the configuration",
        "Bearer secret",
        "Error executing tool fail: failed on purpose",
        "found  for nobody",
        "Task Succeeded. Result: 5",
    ]
    assert [result.status for result in results] == ["success"] * 3 + ["error"] + ["success"] * 2
    assert results[0].artifact == {"structured_content": {"result": 3}}
    described = {tool.name: tool for tool in observer.seen[0].tools}
    local, web, own = described["add"], described["web_add"], described["search"]
    assert (local.source, local.mcp_server, local.mcp_transport) == ("mcp", "local", "stdio")
    assert (web.source, web.mcp_server, web.mcp_transport) == ("mcp", "web", "http")
    assert (own.source, own.mcp_server, own.mcp_transport) == ("config", None, None)
    assert "odd name" not in described
    assert "MCP server 'local': its tool 'odd name' is left out: a tool's name is" in caplog.text
    assert "MCP server 'local': its tool 'search' is left out: tools[0] (support.tools:search)" in caplog.text


async def test_of_two_servers_the_first_has_the_name(
    tmp_path: Path, shared: HttpServer, caplog: pytest.LogCaptureFixture
) -> None:
    rule = using(("headers", {}))
    both = {
        "first": shared.config(headers={"Authorization": "first"}),
        "second": shared.config(headers={"Authorization": "second"}),
        "off": shared.config(enabled=False),
    }
    async with scripted_host(tmp_path, [rule], mcp={"servers": both}) as host:
        assert answer(await finished(host, "use")) == "first"
    assert (
        "MCP server 'second': its tool 'add' is left out: MCP server 'first' has one of this name"
        in caplog.text
    )
    assert "'off'" not in caplog.text


async def test_servers_that_cannot_be_reached_cost_their_tools_only(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "open-sesame"
    broken = {
        "missing": {"transport": "stdio", "command": f"/no/{secret}/program", "env": {"TOKEN": secret}},
        "silent": {"transport": "stdio", "command": "sleep", "args": ["60"], "connect_timeout_seconds": 0.5},
        "ends": {"transport": "stdio", "command": "true"},
        "away": {"transport": "http", "url": f"http://127.0.0.1:{free_port()}/mcp"},
    }
    async with scripted_host(tmp_path, mcp={"servers": {**broken, "well": stdio()}}) as host:
        assert answer(await finished(host, "hello")) == "echo: hello"
        names = {owned.owner.mcp_server for owned in host.assembler._tools}
    assert names == {"well"}
    warnings = [r.getMessage() for r in caplog.records if "missing until it can be reached" in r.getMessage()]
    assert sorted(warning.split("'")[1] for warning in warnings) == ["away", "ends", "missing", "silent"]
    assert secret not in caplog.text and "***" in caplog.text


async def test_a_server_that_comes_after_the_start_brings_its_tools(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(mcp_servers, "FIRST_PAUSE_SECONDS", 0.05)
    monkeypatch.setattr(mcp_servers, "LONGEST_PAUSE_SECONDS", 0.1)
    rule = using(("add", {"a": 1, "b": 2}), ("search", {}))
    port = free_port()
    late = {"transport": "http", "url": f"http://127.0.0.1:{port}/mcp"}
    never = {"transport": "stdio", "command": "true"}
    sections: dict[str, Any] = {
        "tools": [{"use": "support.tools:search"}],
        "mcp": {"servers": {"late": late, "never": never}},
    }
    async with scripted_host(tmp_path, [rule], **sections) as host:
        assert "add is not a valid tool" in answer(await finished(host, "use"))
        with http_server(port):
            async with asyncio.timeout(30):
                while "is not a valid tool" in (said_by_lead := answer(await finished(host, "use"))):
                    await asyncio.sleep(0.05)
    assert said_by_lead == "3\nfound  for nobody"
    assert caplog.text.count("MCP server 'never'") == 1
    assert "MCP server 'late': its tool 'search' is left out" in caplog.text


async def test_a_started_server_that_dies_is_started_again(tmp_path: Path) -> None:
    async with open_mcp_tools(servers(local=stdio())) as tools:
        local = of("local", tools)
        first = int(await said(local["process"]))
        lost = await asyncio.gather(
            said(local["wait"], seconds=30), said(local["die"]), return_exceptions=True
        )
        assert all(isinstance(error, McpServerError) for error in lost)
        assert "went away before it answered" in str(lost[0])
        second = int(await said(local["process"]))
        assert second != first
        os.kill(second, signal.SIGKILL)
        sums = await asyncio.gather(*(said(local["add"], a=n, b=n) for n in range(5)), return_exceptions=True)
        assert await said(local["add"], a=1, b=1) == "2"
    assert (
        len([each for each in sums if isinstance(each, str)])
        + len([each for each in sums if isinstance(each, McpServerError)])
        == 5
    )


async def waiting_in(server: Toolset, tmp_path: Path) -> asyncio.Task[str]:
    """A call that has reached its server, and waits there."""
    begun = tmp_path / "begun"
    call = asyncio.create_task(said(server["wait"], seconds=60, begun=str(begun)))
    while not begun.exists():
        await asyncio.sleep(0.005)
    return call


async def test_a_restarted_http_server_is_used_as_if_nothing_had_been(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with http_server() as server:
        async with open_mcp_tools(servers(web=server.config())) as tools:
            web = of("web", tools)
            assert await said(web["add"], a=1, b=1) == "2"
            # The connections from here on ask often; meanwhile, as in a host, the loop sees the old one end.
            monkeypatch.setattr(life, "PING_SECONDS", 0.05)
            await asyncio.to_thread(server.stop)
            await asyncio.to_thread(server.start)
            assert await said(web["add"], a=1, b=2) == "3"
            waiting = await waiting_in(web, tmp_path)
            server.stop()
            with pytest.raises(McpServerError, match="went away before it answered"):
                await asyncio.wait_for(waiting, 20)
            with pytest.raises(McpServerError, match="ConnectError"):
                await said(web["add"], a=1, b=1)
            server.start()
            assert await said(web["add"], a=2, b=2) == "4"


async def test_a_run_that_loses_its_server_goes_on(tmp_path: Path) -> None:
    rule = {
        "when": "^use",
        "turns": [
            {"tool_calls": [{"name": "die", "args": {}}]},
            {"tool_calls": [{"name": "add", "args": {"a": 1, "b": 2}}]},
            {"text": "{tool_results}"},
        ],
    }
    async with scripted_host(tmp_path, [rule], mcp={"servers": {"local": stdio()}}) as host:
        said_by_lead = answer(await finished(host, "use"))
    assert said_by_lead.startswith("die failed: McpServerError: MCP server 'local': it went away")
    assert said_by_lead.endswith("3")


async def test_a_stopped_run_leaves_the_connection_to_others(tmp_path: Path) -> None:
    slow = {"when": "^slow", "turns": [{"tool_calls": [{"name": "wait", "args": {"seconds": 60}}]}]}
    rule = using(("process", {}))
    async with scripted_host(tmp_path, [slow, rule], mcp={"servers": {"local": stdio()}}) as host:
        before = answer(await finished(host, "use"))
        run = await start(host, "slow", stream_modes=("updates",))
        async with asyncio.timeout(10):
            while not any(event.name == "updates" for event in run.log.after(0)):
                await asyncio.sleep(0.005)
        await host.runs.stop(run.run_id)
        assert answer(await finished(host, "use")) == before


async def test_nothing_is_left_when_the_connections_are_closed(tmp_path: Path, shared: HttpServer) -> None:
    before = asyncio.all_tasks()
    async with open_mcp_tools(servers(local=stdio(), web=shared.config())) as tools:
        local = of("local", tools)
        process = int(await said(local["process"]))
        waiting = await waiting_in(local, tmp_path)
    with pytest.raises(McpServerError):
        await waiting
    assert asyncio.all_tasks() - before == set()
    with pytest.raises(ProcessLookupError):
        os.kill(process, 0)
    with pytest.raises(McpServerError, match="is closed"):
        await said(local["process"])


async def test_a_call_takes_at_most_its_time(tmp_path: Path) -> None:
    async with open_mcp_tools(servers(local=stdio(call_timeout_seconds=60))) as tools:
        local = of("local", tools)
        waiting = await waiting_in(local, tmp_path)
        put_forward(asyncio.get_running_loop(), 60)
        with pytest.raises(McpServerError, match="Timed out"):
            await waiting
        assert await said(local["add"], a=1, b=1) == "2"


async def test_tools_may_be_called_from_threads_and_other_loops() -> None:
    async with open_mcp_tools(servers(local=stdio())) as tools:
        add = of("local", tools)["add"]
        blocking = await asyncio.to_thread(add.invoke, {"a": 1, "b": 2})
        other_loop = await asyncio.to_thread(asyncio.run, said(add, a=2, b=2))
    assert blocking[0]["text"] == "3"
    assert other_loop == "4"


_PLAIN = """
import os
from deerflow.agents import make_lead_agent
graph = make_lead_agent({})
print(graph.invoke({"messages": [("user", "use")]})["messages"][-1].text)
"""


def test_a_plain_graph_has_them_and_they_end_with_its_process(tmp_path: Path) -> None:
    model = {
        "name": "m",
        "use": "deerflow.models:ScriptedChatModel",
        "rules": [using(("add", {"a": 1, "b": 2}), ("process", {}))],
    }
    file = tmp_path / "config.yaml"
    away = {"transport": "stdio", "command": "/no/program"}
    file.write_text(yaml.safe_dump({"models": [model], "mcp": {"servers": {"local": stdio(), "away": away}}}))
    done = subprocess.run(
        [sys.executable, "-c", _PLAIN], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    total, process = done.stdout.split()
    assert total == "3"
    with pytest.raises(ProcessLookupError):
        os.kill(int(process), 0)


_IMPORTS = """
import asyncio, sys
from deerflow.config import config_from
from deerflow.host import open_host
async def main():
    async with open_host(config_from({"database": {"backend": "memory"}})):
        print([name for name in ("mcp", "langchain_mcp_adapters") if name in sys.modules])
asyncio.run(main())
"""


def test_without_servers_nothing_of_the_extra_is_imported(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _IMPORTS], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "[]\n"


async def test_servers_without_the_extra_are_refused_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "deerflow.agents.mcp.servers", raising=False)
    monkeypatch.setitem(sys.modules, "langchain_mcp_adapters.tools", None)
    with pytest.raises(ConfigError, match=r"pip install 'deerflow\[mcp\]'"):
        async with open_mcp_tools(servers(local=stdio())):
            pass
