"""What a delegation costs beside a tool that calls a prebuilt agent, one at a time and sixteen at once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool

from deerflow.agents.lead import Assembler
from deerflow.config import RequestOptions, config_from
from deerflow.extensions import LoadedExtensions
from deerflow.models import ScriptedChatModel
from tests.bench.pairs import compare, show

AT_ONCE = (1, 16)
_STREAM_MODES = ["values", "messages", "custom"]


def _rules() -> list[dict[str, Any]]:
    call = {"name": "task", "args": {"prompt": "one", "subagent_type": "general-purpose"}}
    leads = [
        {"when": f"^delegate {count}$", "turns": [{"tool_calls": [call] * count}, {"text": "joined"}]}
        for count in AT_ONCE
    ]
    return [*leads, {"when": "", "turns": [{"text": "echo: {prompt}"}]}]


def _ours(home: Path) -> Any:
    """The lead's graph, whose `task` tool starts subagents."""
    model = {"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": _rules()}
    limits = {"max_running": max(AT_ONCE), "max_total_per_run": max(AT_ONCE)}
    config = config_from({"models": [model], "subagents": limits}).based_in(home)
    return Assembler(config).lead_now(LoadedExtensions(), RequestOptions()).graph


def _reference() -> Any:
    """An agent whose tool calls another one that was built before."""
    model = ScriptedChatModel(rules=_rules())
    child = create_agent(model, [], system_prompt="You are a subagent.")

    async def task(prompt: str, subagent_type: str) -> str:
        state = await child.ainvoke({"messages": [HumanMessage(prompt)]})
        return str(state["messages"][-1].text)

    tool = StructuredTool.from_function(coroutine=task, name="task", description="Delegate.")
    return create_agent(model, [tool], system_prompt="You are the lead.")


async def _run(graph: Any, count: int) -> None:
    given = {"messages": [HumanMessage(f"delegate {count}")]}
    async for mode, chunk in graph.astream(given, stream_mode=_STREAM_MODES):
        if mode == "values":
            state = chunk
    assert state["messages"][-1].text == "joined"
    assert len(state["messages"]) == count + 3


def run(rounds: int = 60) -> None:
    """Print one ratio for each number of delegations."""
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        ours, reference = _ours(Path(folder)), _reference()
        for count in AT_ONCE:
            pair = compare(
                lambda count=count: runner.run(_run(ours, count)),  # type: ignore[misc]
                lambda count=count: runner.run(_run(reference, count)),  # type: ignore[misc]
                rounds=rounds,
            )
            show(f"{count} delegations at once / a tool calling an agent", pair, "<= 2.5")
