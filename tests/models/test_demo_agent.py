"""The offline demo agent, at work with real agents and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import BaseTool, tool

from deerflow.agents.file_tools import build_file_tools
from deerflow.agents.workspace import Workspace
from deerflow.models import ScriptedChatModel

FILES = {
    "a1.md": "# Top\nHello there. More.",
    "long.md": "# Long\nText here.\n" + "words\n" * 3000,
    "wide.md": "# Wide " + "x" * 60_000,
    "empty.md": "",
}


@pytest.fixture
def read_file(tmp_path: Path) -> BaseTool:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    workspace = Workspace(tmp_path)
    return next(tool for tool in build_file_tools(lambda runtime: workspace) if tool.name == "read_file")


@pytest.fixture
def task(read_file: BaseTool) -> BaseTool:
    @tool
    def task(prompt: str, subagent_type: str, description: str = "") -> str:
        """Start a subagent."""
        assert subagent_type == "general-purpose"
        return f"Task Succeeded. Result: {ask(prompt, read_file)}"

    return task


def ask(prompt: str, *tools: BaseTool) -> str:
    agent = create_agent(ScriptedChatModel(), list(tools))
    return agent.invoke({"messages": [HumanMessage(prompt)]})["messages"][-1].text


def first_message(prompt: str, *tools: Any) -> AIMessage:
    return ScriptedChatModel().bind_tools(tools).invoke(prompt)


def after(prompt: str, name: str, args: dict[str, Any], result: str, **extra: Any) -> str:
    call = AIMessage("", tool_calls=[{"name": name, "args": args, "id": "1"}])
    history = [HumanMessage(prompt), call, ToolMessage(result, tool_call_id="1", name=name, **extra)]
    return ScriptedChatModel().invoke(history).text


def test_lead_delegates_one_subagent_per_file_in_one_message(task: BaseTool, read_file: BaseTool) -> None:
    message = first_message("Compare a1.md, 'my notes.md' and a1.md", task, read_file)
    assert [call["name"] for call in message.tool_calls] == ["task", "task"]
    assert [call["args"]["subagent_type"] for call in message.tool_calls] == ["general-purpose"] * 2
    assert '"a1.md"' in message.tool_calls[0]["args"]["prompt"]
    assert '"my notes.md"' in message.tool_calls[1]["args"]["prompt"]
    assert len({call["id"] for call in message.tool_calls}) == 2


@pytest.mark.parametrize("name", ["a1.md", "my notes.md", "报告.md", 'say "x".md', "it's.md", "docs/x.md"])
def test_subagent_reads_the_file_that_its_prompt_names(
    name: str, task: BaseTool, read_file: BaseTool
) -> None:
    quote = "`" if '"' in name else '"'
    (delegation,) = first_message(f"outline {quote}{name}{quote}", task).tool_calls
    (reading,) = first_message(delegation["args"]["prompt"], read_file).tool_calls
    assert (reading["name"], reading["args"]) == ("read_file", {"path": name})


def test_lead_joins_the_reports_of_its_subagents(task: BaseTool, read_file: BaseTool) -> None:
    reports = ask("outline a1.md, none.md and empty.md", task, read_file).split("\n\n")
    assert reports[0] == "a1.md: 1 heading, 5 words\n- Top: Hello there."
    assert reports[1].startswith("none.md: could not be read. ")
    assert reports[2] == "empty.md: 0 headings, 0 words\n- (empty)"
    assert len(reports) == 3


@pytest.mark.parametrize("name", ["long.md", "wide.md"])
def test_part_of_a_file_is_reported_as_such(read_file: BaseTool, name: str) -> None:
    report = ask(f"outline {name}", read_file)
    assert "(of a part only: the file is longer than one read shows)" in report.splitlines()[0]
    assert "cut" not in report


def test_without_delegation_the_agent_reads_by_itself(read_file: BaseTool) -> None:
    assert ask("outline a1.md", read_file).startswith("a1.md: 1 heading, 5 words")


def test_without_tools_it_says_that_it_cannot() -> None:
    text = ScriptedChatModel().invoke("outline a1.md and b1.md").text
    assert text == "I cannot read a1.md, b1.md: neither `task` nor `read_file` is at hand here."


def test_message_without_files_is_told_what_can_be_done(task: BaseTool, read_file: BaseTool) -> None:
    text = first_message("How are you?", task, read_file).text
    assert "offline demo agent" in text
    assert "README.md" in text


def test_failed_read_is_reported() -> None:
    text = after("outline a1.md", "read_file", {"path": "a1.md"}, "Error: no such file", status="error")
    assert text == "a1.md: could not be read. Error: no such file"


@pytest.mark.parametrize("result", ["Task failed. Error: boom", "Task timed out.", "Task cancelled by user."])
def test_failed_subagent_is_reported(result: str) -> None:
    args = {"prompt": "x", "description": "Outline a1.md"}
    assert after("outline a1.md", "task", args, result) == f"a1.md: no report. {result}"


def test_capped_subagent_is_reported_as_such() -> None:
    result = "Task Succeeded (capped: turn budget). Result: half"
    assert after("outline a1.md", "task", {"description": "Outline a1.md"}, result) == (
        "half\n(stopped early: turn budget)"
    )


def test_subagent_without_a_word_is_no_report() -> None:
    text = after("outline a1.md", "task", {"description": "Outline a1.md"}, "Task Succeeded. Result: ")
    assert text == "a1.md: the subagent said nothing."


def test_ordinary_last_lines_are_no_cut() -> None:
    text = after("outline a1.md", "read_file", {"path": "a1.md"}, "# A\nWe cut costs. It was truncated")
    assert "part only" not in text


def test_more_files_than_a_run_may_delegate_are_named(task: BaseTool) -> None:
    names = [f"f{i:02}.md" for i in range(52)]
    message = first_message(" ".join(names), task)
    assert len(message.tool_calls) == 50
    results = [ToolMessage("Task Succeeded. Result: ok", tool_call_id=c["id"]) for c in message.tool_calls]
    text = ScriptedChatModel().invoke([HumanMessage(" ".join(names)), message, *results]).text
    assert text.endswith("Not read, because 50 files are the most at once: f50.md, f51.md")


def test_next_message_starts_anew(task: BaseTool) -> None:
    history = [HumanMessage("outline a1.md"), AIMessage("a1.md: ..."), HumanMessage("and b1.md")]
    message = ScriptedChatModel().bind_tools([task]).invoke(history)
    assert [call["args"]["description"] for call in message.tool_calls] == ["Outline b1.md"]
