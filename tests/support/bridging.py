"""Bridges to AxonX without a host around them, and calls of their tools as agents make them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from deerflow_extension_api import HostPolicySnapshot, TaskInfo
from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from axonx import Application
from axonx.components.job import BaseJob
from deerflow.agents.run_scope import RUN_SCOPE_KEY, Delegations, RunScope
from deerflow.agents.workspace import Workspace
from deerflow.axonx_bridge.offers import chosen_offers
from deerflow.axonx_bridge.options import read_options
from deerflow.axonx_bridge.running import BridgedApplication
from deerflow.axonx_bridge.tools import RUNTIME, build_tools
from deerflow.config import RequestOptions
from deerflow.extensions import LoadedExtensions

WAIT_SECONDS = 20


@dataclass
class Caller:
    """An agent that calls tools: what it was told, and whose files it has."""

    workspace: Workspace | None = None
    kind: Literal["lead", "subagent"] = "lead"
    events: list[dict[str, Any]] = field(default_factory=list)

    def runtime(self, call_id: str) -> ToolRuntime[Any, Any]:
        return ToolRuntime(
            state={},
            context={} if self.workspace is None else {RUN_SCOPE_KEY: self._scope(self.workspace)},
            config={},
            stream_writer=self.events.append,
            tool_call_id=call_id,
            store=None,
        )

    def told(self, kind: str, call_id: str = "call-1") -> list[dict[str, Any]]:
        """The events of one kind that came of one call."""
        return [e for e in self.events if e["type"] == kind and e["tool_call_id"] == call_id]

    def _scope(self, workspace: Workspace) -> RunScope:
        info = TaskInfo(task_id="task", run_id="run", thread_id="thread", kind=self.kind)
        return RunScope(
            snapshot=LoadedExtensions(),
            task_info=info,
            task_store=None,
            policy=HostPolicySnapshot(),
            options=RequestOptions(),
            workspace=workspace,
            delegations=Delegations(0),
        )


@dataclass(frozen=True)
class Bridge:
    """An application whose Jobs are tools."""

    application: Application
    bridged: BridgedApplication
    tools: Mapping[str, BaseTool]

    async def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        caller: Caller | None = None,
        call_id: str = "call-1",
    ) -> ToolMessage:
        """Call a tool as LangGraph's tool node does."""
        message = await self.tools[tool].ainvoke(_tool_call(tool, arguments, caller, call_id))
        assert isinstance(message, ToolMessage)
        return message

    def call_blocking(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        caller: Caller | None = None,
        call_id: str = "call-1",
    ) -> ToolMessage:
        """The same, from a thread."""
        message = self.tools[tool].invoke(_tool_call(tool, arguments, caller, call_id))
        assert isinstance(message, ToolMessage)
        return message

    @property
    def is_idle(self) -> bool:
        """Whether nothing is under way on either side."""
        return not self.bridged.pending and not any(
            map(_running_calls, self.application.context.jobs.values())
        )


def bridge(application: Application, **options: Any) -> Bridge:
    """A bridge that is not started; `options` are those of a record's config."""
    read = read_options({"application": {}, **options})
    bridged = BridgedApplication(application)
    tools = build_tools(chosen_offers(application, read), bridged, read)
    return Bridge(application, bridged, {tool.name: tool for tool in tools})


@asynccontextmanager
async def open_bridge(application: Application, **options: Any) -> AsyncIterator[Bridge]:
    """A started bridge; nothing may be under way when it is left."""
    opened = bridge(application, **options)
    await opened.bridged.start()
    try:
        yield opened
        await until(lambda: opened.is_idle)
    finally:
        await opened.bridged.stop()


async def until(condition: Any) -> None:
    """Wait until something is the case."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)


def workspace_in(folder: Path) -> Workspace:
    """A thread's workspace."""
    return Workspace(folder / "thread")


def _tool_call(
    tool: str, arguments: Mapping[str, Any] | None, caller: Caller | None, call_id: str
) -> dict[str, Any]:
    args = dict(arguments or {})
    if caller is not None:
        args[RUNTIME] = caller.runtime(call_id)
    return {"type": "tool_call", "name": tool, "args": args, "id": call_id}


def _running_calls(job: BaseJob) -> bool:
    return bool(job.running_calls)
