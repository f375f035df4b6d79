"""The `task` tool: parse, delegate, reply."""

from __future__ import annotations

from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool, StructuredTool

from deerflow.agents.prompt import catalogue_text
from deerflow.agents.scopeless import ScopeFinder
from deerflow.agents.subagents.delegate import Crew, Delegation, DelegationResult, delegate
from deerflow.agents.tool_sides import synchronous
from deerflow.agents.toolbox import TASK_TOOL_NAME

_CAPS = {"turn_capped": "turn budget", "token_capped": "token budget"}
_OPENINGS = {
    "failed": "Task failed.",
    "cancelled": "Task cancelled by user.",
    "timed_out": "Task timed out.",
}


def build_task_tool(crew: Crew, scopes: ScopeFinder) -> BaseTool:
    """The tool that hands a piece of work to a subagent; its description lists the types on offer."""

    async def task(
        prompt: str, subagent_type: str, runtime: ToolRuntime[Any, Any], description: str = ""
    ) -> ToolMessage:
        order = Delegation(
            prompt=prompt,
            subagent_type=subagent_type,
            description=description,
            tool_call_id=runtime.tool_call_id,
            parent=scopes.scope_of(runtime),
            emit=runtime.stream_writer,
        )
        return _reply(await delegate(order, crew), runtime.tool_call_id or "")

    return StructuredTool.from_function(
        func=synchronous(task),
        coroutine=task,
        name=TASK_TOOL_NAME,
        description=(
            "Hand one self-contained piece of work to a subagent and get its result. The subagent sees only "
            "`prompt`, shares your workspace, and cannot ask back. Several calls in one message run side by "
            f"side. Types:\n{catalogue_text(crew.catalogue)}"
        ),
    )


def _reply(result: DelegationResult, tool_call_id: str) -> ToolMessage:
    details: dict[str, Any] = {
        "subagent_status": result.status,
        "subagent_stop_reason": result.stop_reason,
        "subagent_error": result.error,
        "subagent_model_name": result.model_name,
        "subagent_token_usage": result.usage or None,
    }
    return ToolMessage(
        content=_text(result),
        tool_call_id=tool_call_id,
        name=TASK_TOOL_NAME,
        status="success" if result.status == "completed" else "error",
        additional_kwargs={key: value for key, value in details.items() if value is not None},
    )


def _text(result: DelegationResult) -> str:
    if result.status == "completed":
        cap = _CAPS.get(result.stop_reason or "")
        return f"Task Succeeded{f' (capped: {cap})' if cap else ''}. Result: {result.text}"
    opening = _OPENINGS[result.status]
    return f"{opening} Error: {result.error}" if result.error else opening
