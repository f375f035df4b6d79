"""The least that does the same work: bare `create_agent`, the same saver, as many run-record writes."""

from __future__ import annotations

import asyncio
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiosqlite
from langchain.agents import create_agent
from langchain.tools import ToolRuntime
from langchain_core.messages import HumanMessage
from langchain_core.tools import StructuredTool, tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.models import ScriptedChatModel

_STREAM_MODES = ["values", "messages", "custom"]


class BareHost:
    """A thread per run, one run row, two updates of it, and the agent's stream read to its end."""

    def __init__(self, home: Path, rules: list[dict[str, Any]]) -> None:
        self._home = home
        self._rules = rules
        self._runner = asyncio.Runner()
        self._exit = AsyncExitStack()
        self._runner.run(self._open())

    async def _open(self) -> None:
        saver = AsyncSqliteSaver.from_conn_string(str(self._home / "checkpoints.db"))
        self._saver = await self._exit.enter_async_context(saver)
        await self._saver.conn.execute("PRAGMA journal_mode=WAL")
        self._records = await self._exit.enter_async_context(aiosqlite.connect(self._home / "runs.db"))
        await self._records.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
            "CREATE TABLE threads (id TEXT PRIMARY KEY, metadata TEXT);"
            "CREATE TABLE runs (id TEXT PRIMARY KEY, thread_id TEXT, status TEXT, body TEXT);"
        )
        model = ScriptedChatModel(rules=self._rules)
        child = create_agent(model, [_noop], system_prompt="You are a subagent.")

        async def task(prompt: str, subagent_type: str, runtime: ToolRuntime[Any, Any]) -> str:
            state = await child.ainvoke({"messages": [HumanMessage(prompt)]})
            return str(state["messages"][-1].text)

        delegate = StructuredTool.from_function(coroutine=task, name="task", description="Delegate.")
        self._graph = create_agent(
            model, [_noop, delegate], system_prompt="You are the lead.", checkpointer=self._saver
        )

    def chat(self, message: str) -> str:
        """One run on a new thread."""
        return self._runner.run(self._chat(message))

    async def _chat(self, message: str) -> str:
        run_id, thread_id = str(uuid4()), str(uuid4())
        await self._records.execute("INSERT INTO threads VALUES (?, ?)", (thread_id, "{}"))
        body = json.dumps({"input": message})
        await self._records.execute(
            "INSERT INTO runs VALUES (?, ?, ?, ?)", (run_id, thread_id, "pending", body)
        )
        await self._records.commit()
        await self._move(run_id, "running")
        state: dict[str, Any] = {}
        stream = self._graph.astream(
            {"messages": [HumanMessage(message)]},
            {"configurable": {"thread_id": thread_id}},
            stream_mode=_STREAM_MODES,
            durability="async",
        )
        async for mode, chunk in stream:
            if mode == "values":
                state = chunk
        await self._move(run_id, "success")
        return str(state["messages"][-1].text)

    async def _move(self, run_id: str, status: str) -> None:
        await self._records.execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))
        await self._records.commit()

    def close(self) -> None:
        self._runner.run(self._exit.aclose())
        self._runner.close()


@tool
def _noop() -> str:
    """Do nothing."""
    return ""
