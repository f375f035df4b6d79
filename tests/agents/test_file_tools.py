"""The file tools as an agent meets them: on both sides, with failures that end no run."""

from __future__ import annotations

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import pytest
from blockbuster import blockbuster_ctx
from langchain_core.messages import AIMessage, ToolMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from support.agents import SIDES, agent, run

from deerflow.agents.file_tools import build_file_tools
from deerflow.agents.workspace import Workspace
from deerflow.agents.workspace.allowance import Allowance


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """A workspace with one file of its own and one that is mounted."""
    shown = tmp_path / "host.md"
    shown.write_text("# Shown\n")
    made = Workspace(tmp_path / "workspace", {"SHOWN.md": shown})
    made.write("notes.txt", b"one\ntwo\n")
    return made


def _turn(*wanted: tuple[str, dict[str, Any]]) -> AIMessage:
    calls = [{"name": name, "args": args, "id": f"call-{i}"} for i, (name, args) in enumerate(wanted)]
    return AIMessage("", tool_calls=calls)


async def _results(
    workspace_of: Any, *wanted: tuple[str, dict[str, Any]], side: str = "async", middlewares: Any = ()
) -> list[ToolMessage]:
    tools = build_file_tools(workspace_of)
    graph, _ = agent(middlewares, _turn(*wanted), AIMessage("done"), tools=tools)
    state = await run(graph, side)
    assert state["messages"][-1].content == "done"
    return [message for message in state["messages"] if isinstance(message, ToolMessage)]


@pytest.mark.parametrize("side", SIDES)
async def test_every_tool_works_on_both_sides(workspace: Workspace, side: str) -> None:
    workspace.write("other.txt", b"one two")
    results = await _results(
        lambda runtime: workspace,
        ("ls", {}),
        ("read_file", {"path": "notes.txt", "offset": 1}),
        ("write_file", {"path": "new/a.md", "content": "# A\n"}),
        ("edit_file", {"path": "other.txt", "old_string": "two", "new_string": "2"}),
        ("glob", {"pattern": "n*.txt"}),
        ("grep", {"pattern": "^# s", "ignore_case": True}),
        side=side,
    )
    assert [result.status for result in results] == ["success"] * 6
    assert "SHOWN.md (8 bytes, read-only)" in results[0].content
    assert [result.content for result in results[1:]] == [
        "two\n",
        "created 'new/a.md' with 4 characters",
        "replaced 1 occurrence in 'other.txt'",
        "notes.txt",
        "SHOWN.md:1: # Shown",
    ]
    assert (workspace.root / "other.txt").read_text() == "one 2"


@pytest.mark.parametrize("side", SIDES)
async def test_failures_are_results_that_say_what_to_do(workspace: Workspace, side: str) -> None:
    results = await _results(
        lambda runtime: workspace,
        ("read_file", {"path": "../secret"}),
        ("read_file", {"path": "note.txt"}),
        ("write_file", {"path": "SHOWN.md", "content": "mine"}),
        ("edit_file", {"path": "notes.txt", "old_string": "x", "new_string": "y"}),
        ("grep", {"pattern": "(?=x)"}),
        ("ls", {"path": "notes.txt"}),
        side=side,
    )
    assert [result.status for result in results] == ["error"] * 6
    hints = [
        "without '..'",
        "did you mean 'notes.txt'?",
        "write to another name",
        "read the file again",
        "RE2",
        "file",
    ]
    for result, hint in zip(results, hints, strict=True):
        assert hint in result.content


@pytest.mark.parametrize("side", SIDES)
async def test_wrong_arguments_are_named_one_by_one_and_nothing_runs(workspace: Workspace, side: str) -> None:
    results = await _results(
        lambda runtime: workspace,
        ("read_file", {"path": "notes.txt", "offset": -1, "limit": "many"}),
        ("write_file", {"path": "a.txt", "content": "half \ud835"}),
        ("write_file", {"content": "x" * 100_000}),
        side=side,
    )
    assert [result.status for result in results] == ["error"] * 3
    first, second, third = (str(result.content) for result in results)
    assert first.startswith("read_file did nothing, its arguments are wrong:\n- offset: ")
    assert "\n- limit: " in first
    assert "content: Value error, holds half a character" in second
    assert third == "write_file did nothing, its arguments are wrong:\n- path: Field required"
    assert [entry.name for entry in workspace.entries(".")] == ["SHOWN.md", "notes.txt"]


async def test_halves_of_a_character_that_arrive_side_by_side_are_joined(workspace: Workspace) -> None:
    content = json.loads('"\\ud83d\\ude00"').encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    (result,) = await _results(
        lambda runtime: workspace, ("write_file", {"path": "a.txt", "content": "\ud83d" + "\ude00"})
    )
    assert result.status == "success"
    assert (workspace.root / "a.txt").read_text() == content


@pytest.mark.parametrize("side", SIDES)
async def test_a_workspace_that_cannot_be_found_fails_the_call_only(side: str) -> None:
    def nowhere(runtime: Any) -> Workspace:
        raise ValueError("no thread")

    (result,) = await _results(nowhere, ("ls", {}), side=side)
    assert (result.status, result.content) == ("error", "ls failed: ValueError: no thread")


async def test_the_workspace_is_that_of_the_call(tmp_path: Path) -> None:
    def own(runtime: Any) -> Workspace:
        return Workspace(tmp_path / runtime.tool_call_id)

    await _results(own, *[("write_file", {"path": "a.txt", "content": str(i)}) for i in range(3)])
    assert [(tmp_path / f"call-{i}" / "a.txt").read_text() for i in range(3)] == ["0", "1", "2"]


async def test_nothing_blocks_the_loop(workspace: Workspace) -> None:
    with blockbuster_ctx():
        results = await _results(
            lambda runtime: workspace,
            ("ls", {}),
            ("read_file", {"path": "notes.txt"}),
            ("write_file", {"path": "b/c.txt", "content": "x"}),
            ("edit_file", {"path": "notes.txt", "old_string": "one", "new_string": "1"}),
            ("glob", {"pattern": "**"}),
            ("grep", {"pattern": "one"}),
        )
    assert {result.status for result in results} == {"success"}


async def test_a_cancelled_run_leaves_no_part_of_a_file(workspace: Workspace, monkeypatch: Any) -> None:
    entered, leave = threading.Event(), threading.Event()
    check = Allowance.check

    def slow_check(allowance: Allowance) -> None:
        entered.set()
        leave.wait(60)
        check(allowance)

    monkeypatch.setattr(Allowance, "check", slow_check)
    asyncio_task = asyncio.create_task(
        _results(lambda runtime: workspace, ("write_file", {"path": "notes.txt", "content": "x" * 1_000_000}))
    )
    await asyncio.to_thread(entered.wait, 60)
    asyncio_task.cancel()
    await asyncio.sleep(0)
    leave.set()
    with pytest.raises(asyncio.CancelledError):
        await asyncio_task
    assert [path.name for path in workspace.root.iterdir()] == ["notes.txt"]
    assert (workspace.root / "notes.txt").read_text() == "one\ntwo\n"


def test_schemas_name_what_a_model_may_pass_and_nothing_of_the_host() -> None:
    described = {
        tool.name: convert_to_openai_tool(tool)["function"]["parameters"]
        for tool in build_file_tools(_unused)
    }
    assert {name: sorted(schema["properties"]) for name, schema in described.items()} == {
        "ls": ["path"],
        "read_file": ["column", "limit", "offset", "path"],
        "write_file": ["content", "path"],
        "edit_file": ["new_string", "old_string", "path", "replace_all"],
        "glob": ["path", "pattern"],
        "grep": ["glob", "ignore_case", "literal", "path", "pattern"],
    }
    assert all(tool.description for tool in build_file_tools(_unused))


def test_building_the_tools_again_builds_no_schema_again() -> None:
    first, second = build_file_tools(_unused), build_file_tools(_unused)
    for one, other in zip(first, second, strict=True):
        assert one is not other
        assert one.tool_call_schema is other.tool_call_schema


def _unused(runtime: Any) -> Workspace:
    raise AssertionError("not called")
