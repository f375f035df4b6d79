"""Bridges in whole hosts: what reaches agents, clients and the operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from langgraph_sdk import get_client
from support.bridged_jobs import PROVIDERS, job
from support.bridging import until
from support.extensions import installed
from support.gateways import serving
from support.hosts import delegation, scripted_config
from support.langgraph_dev import ROOT, langgraph_dev

from deerflow.extensions import ExtensionLoadError, ExtensionSpec, LoadedExtensions, load_extensions
from deerflow.gateway.app import create_app
from deerflow.testing import ScriptedHost

USE = "deerflow.axonx_bridge:install"


def calling(tool: str, when: str = "^call$", **arguments: Any) -> dict[str, Any]:
    """A rule that calls a tool and says what it said."""
    call = {"name": tool, "args": arguments, "id": "call-1"}
    return {"when": when, "turns": [{"tool_calls": [call]}, {"text": "{tool_results}"}]}


def bridged(folder: Path, *names: str, **options: Any) -> dict[str, Any]:
    """The config of a bridge whose Jobs have one Step each, of the same name."""
    application = {"workspace_dir": str(folder), "jobs": {name: job(name) for name in names}}
    return {"application": application, "providers": PROVIDERS, **options}


def customs(run: Any) -> list[dict[str, Any]]:
    return [data for name, data in run.events if name == "custom"]


def test_the_lead_calls_a_job_and_its_clients_see_how_far_it_is(tmp_path: Path) -> None:
    config = bridged(tmp_path / "application", "shout")
    with ScriptedHost(USE, config, home=tmp_path, rules=[calling("shout", text="hey")]) as host:
        run = host.chat("call")
        assert run.answer == "HEY\n\nFile in the workspace: artifacts/shout.txt (3 bytes)"
        assert [event["type"] for event in customs(run)] == ["axonx_progress", "axonx_artifact"]
        assert {(event["job"], event["tool_call_id"]) for event in customs(run)} == {("shout", "call-1")}
        assert (tmp_path / "threads" / run.thread_id).exists()
        assert next(tmp_path.glob("threads/*/**/artifacts/shout.txt")).read_text() == "HEY"
        (assembly,) = host.assemblies
        assert [tool.source for tool in assembly.tools if tool.name == "shout"] == [USE]
        assert host.problems == ()


def test_a_subagents_job_tells_the_same_stream(tmp_path: Path) -> None:
    delegating = {
        "when": "^delegate it$",
        "turns": [{"tool_calls": [delegation("call", "task-1")]}, {"text": "{tool_results}"}],
    }
    rules = [calling("shout", text="hey"), delegating]
    with ScriptedHost(USE, bridged(tmp_path / "application", "shout"), rules=rules) as host:
        run = host.chat("delegate it")
    assert run.answer.startswith("Task Succeeded. Result: HEY")
    told = [event["custom"] for event in customs(run) if "custom" in event]
    assert [(event["type"], event["tool_call_id"]) for event in told] == [
        ("axonx_progress", "call-1"),
        ("axonx_artifact", "call-1"),
    ]
    assert {event["task_id"] for event in customs(run) if "custom" in event} == {"task-1"}


@pytest.mark.parametrize(("agents", "namespaces"), [(["lead"], {"lead"}), (["subagents"], {"subagent"})])
def test_tools_go_to_the_agents_that_are_named(
    tmp_path: Path, agents: list[str], namespaces: set[str]
) -> None:
    config = bridged(tmp_path, "shout", agents=agents)
    with ScriptedHost(USE, config) as host:
        host.chat("delegate")
        with_tool = {a.namespace for a in host.assemblies if any(tool.name == "shout" for tool in a.tools)}
        assert {assembly.namespace for assembly in host.assemblies} == {"lead", "subagent"}
    assert with_tool == namespaces


def test_a_huge_answer_is_cut_by_the_host_and_kept_in_a_file(tmp_path: Path) -> None:
    config = bridged(tmp_path / "application", "repeat")
    with ScriptedHost(USE, config, home=tmp_path, rules=[calling("repeat", text="abc")]) as host:
        run = host.chat("call")
    (result,) = [message for message in run.messages if message.type == "tool"]
    assert len(result.content) <= 50_000
    assert "[cut: " in result.content
    (kept,) = tmp_path.glob("threads/*/**/.outputs/*")
    assert kept.stat().st_size == 300_000


def test_two_bridges_stand_side_by_side(tmp_path: Path) -> None:
    specs = [
        ExtensionSpec(use=USE, config=bridged(tmp_path / "one", "shout", tool_prefix="one_")),
        ExtensionSpec(use=USE, config=bridged(tmp_path / "two", "shout", tool_prefix="two_")),
    ]
    loaded, diagnostics = load_extensions(specs)
    rules = [calling("one_shout", "^one$", text="a"), calling("two_shout", "^two$", text="b")]
    with ScriptedHost(loaded, rules=rules) as host:
        assert host.chat("one").answer.startswith("A")
        assert host.chat("two").answer.startswith("B")
        assert host.problems == ()
    assert diagnostics == []
    assert (tmp_path / "one" / "shout.txt").read_text() == "A"
    assert (tmp_path / "two" / "shout.txt").read_text() == "B"


def test_a_name_that_is_taken_is_a_diagnostic_and_the_first_owner_keeps_it(tmp_path: Path) -> None:
    one, two = bridged(tmp_path / "one", "shout"), bridged(tmp_path / "two", "shout")
    two["application"]["jobs"]["ls"] = job("shout")
    loaded, _ = load_extensions([ExtensionSpec(use=USE, config=config) for config in (one, two)])
    with ScriptedHost(loaded, rules=[calling("shout", text="a"), calling("ls", "^list$")]) as host:
        assert host.chat("call").answer.startswith("A")
        assert "artifacts" not in host.chat("list").answer
        assert [diagnostic.message for diagnostic in host.diagnostics] == [
            f"its tool 'shout' is left out: extension {USE} has one of this name",
            "its tool 'ls' is left out: the host has one of this name",
        ]
    assert not (tmp_path / "two" / "shout.txt").exists()


def test_what_is_wrong_with_a_bridge_is_told_where_it_is_loaded(tmp_path: Path) -> None:
    spec = ExtensionSpec(use=USE, config=bridged(tmp_path, "shout", jobs=["whisper"]))
    loaded, diagnostics = load_extensions([spec])
    reason = "config.jobs: 'whisper' is no Job of the application; configured: shout"
    assert [diagnostic.message for diagnostic in diagnostics] == [f"install() failed: {reason}"]
    assert (loaded.services, loaded.middleware_contributors) == ((), ())
    with pytest.raises(ExtensionLoadError, match="failed to install"):
        load_extensions([spec.model_copy(update={"required": True})])


def test_an_application_that_cannot_start_leaves_tools_that_say_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    config = bridged(tmp_path / "file", "shout")
    with ScriptedHost(USE, config, rules=[calling("shout", text="a")]) as host:
        run = host.chat("call")
        assert run.answer == "Job 'shout' failed: the AxonX application 'AxonX' is not running"
        assert "service start() failed; continuing without it" in host.diagnostics[0].message


@pytest.mark.parametrize("way", ["is stopped", "is shut down with its host"])
async def test_a_run_takes_its_job_with_it_when_it(tmp_path: Path, way: str) -> None:
    plugin = {"use": USE, "config": bridged(tmp_path / "application", "hold"), "required": True}
    sections = {"plugins": [plugin], "shutdown": {"drain_seconds": 0.01}}
    held = tmp_path / "application" / "held.txt"
    with installed(LoadedExtensions()):
        async with serving(create_app(scripted_config(tmp_path, [calling("hold")], **sections))) as client:
            run_id = await client.start(await client.thread(), "call")
            await until(lambda: held.exists() and held.read_text())
            assert held.read_text() == "under way"
            if way == "is stopped":
                await client.host.runs.stop(run_id)
                assert held.read_text() == "cleaned up"
    assert held.read_text() == "cleaned up"


async def test_langgraph_dev_serves_jobs_on_its_own_loops(tmp_path: Path) -> None:
    rules = [calling("shout", text="hey"), {"when": "", "turns": [{"text": "{prompt}"}]}]
    config = {
        "models": [{"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": rules}],
        "plugins": [{"use": USE, "config": bridged(tmp_path / "application", "shout"), "required": True}],
    }
    environment = {"PYTHONPATH": str(ROOT / "tests"), "DEER_FLOW_HOME": str(tmp_path / "home")}
    with langgraph_dev(tmp_path, config, environment=environment) as process:
        async with get_client(url=process.url) as client:
            message = {"messages": [{"role": "user", "content": "call"}]}
            thread_id = str(uuid4())
            parts = [
                part
                async for part in client.runs.stream(
                    thread_id,
                    "lead_agent",
                    input=message,
                    stream_mode=["values", "custom"],
                    if_not_exists="create",
                )
            ]
    answer = parts[-1].data["messages"][-1]["content"]
    assert answer == "HEY\n\nFile in the workspace: artifacts/shout.txt (3 bytes)"
    assert [part.data["type"] for part in parts if part.event == "custom"] == [
        "axonx_progress",
        "axonx_artifact",
    ]
