"""Bare FastAPI around `create_agent`: one thread row, one run row, two updates, SSE of values."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiosqlite
from fastapi import FastAPI, Request
from fastapi.responses import StreamingResponse
from langchain.agents import create_agent
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

from deerflow.models import ScriptedChatModel

_TABLES = (
    "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "CREATE TABLE threads (id TEXT PRIMARY KEY, metadata TEXT);"
    "CREATE TABLE runs (id TEXT PRIMARY KEY, thread_id TEXT, status TEXT, body TEXT);"
)


@tool
def _noop() -> str:
    """Do nothing."""
    return ""


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    home = Path(os.environ["BENCH_HOME"])
    async with AsyncExitStack() as stack:
        saver = AsyncSqliteSaver.from_conn_string(str(home / "checkpoints.db"))
        saver = await stack.enter_async_context(saver)
        await saver.conn.execute("PRAGMA journal_mode=WAL")
        app.state.records = await stack.enter_async_context(aiosqlite.connect(home / "runs.db"))
        await app.state.records.executescript(_TABLES)
        model = ScriptedChatModel(rules=json.loads(os.environ["BENCH_RULES"]))
        app.state.graph = create_agent(model, [_noop], system_prompt="You are the lead.", checkpointer=saver)
        yield


app = FastAPI(lifespan=_lifespan)


@app.get("/ok")
def ok() -> dict[str, bool]:
    return {"ok": True}


@app.post("/threads/{thread_id}/runs/stream")
async def stream(thread_id: str, request: Request) -> StreamingResponse:
    body = await request.json()
    run_id = str(uuid4())
    records = app.state.records
    await records.execute("INSERT OR IGNORE INTO threads VALUES (?, ?)", (thread_id, "{}"))
    await records.execute(
        "INSERT INTO runs VALUES (?, ?, ?, ?)", (run_id, thread_id, "pending", json.dumps(body))
    )
    await records.commit()
    return StreamingResponse(_frames(run_id, thread_id, body), media_type="text/event-stream")


async def _frames(run_id: str, thread_id: str, body: dict[str, Any]) -> AsyncIterator[str]:
    await _move(run_id, "running")
    yield f"event: metadata\ndata: {json.dumps({'run_id': run_id})}\n\n"
    config = {"configurable": {"thread_id": thread_id}}
    async for state in app.state.graph.astream(
        body["input"], config, stream_mode="values", durability="async"
    ):
        dumped = {"messages": [message.model_dump() for message in state["messages"]]}
        yield f"event: values\ndata: {json.dumps(dumped)}\n\n"
    await _move(run_id, "success")
    yield "event: end\ndata: null\n\n"


async def _move(run_id: str, status: str) -> None:
    await app.state.records.execute("UPDATE runs SET status = ? WHERE id = ?", (status, run_id))
    await app.state.records.commit()
