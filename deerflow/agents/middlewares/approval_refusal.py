"""The wrap hook that refuses, inside a subagent, what would need a person's approval."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from typing import Any

from deerflow_extension_api import ContentKind, provenance_kwargs
from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import ToolMessage
from langgraph.types import Command


class ApprovalRefusal(AgentMiddleware[Any, Any]):
    """A subagent cannot wait for a person: such a call gets a failed result that says so."""

    def __init__(self, tool_names: Collection[str]) -> None:
        super().__init__()
        self._tool_names = frozenset(tool_names)

    def wrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], ToolMessage | Command[Any]],
    ) -> ToolMessage | Command[Any]:
        return self._refusal(request) or handler(request)

    async def awrap_tool_call(
        self,
        request: ToolCallRequest,
        handler: Callable[[ToolCallRequest], Awaitable[ToolMessage | Command[Any]]],
    ) -> ToolMessage | Command[Any]:
        return self._refusal(request) or await handler(request)

    def _refusal(self, request: ToolCallRequest) -> ToolMessage | None:
        name = request.tool_call["name"]
        if name not in self._tool_names:
            return None
        return ToolMessage(
            f"{name} needs a person's approval, which a subagent cannot get. "
            "Report what you would have done; the lead agent can ask.",
            tool_call_id=request.tool_call["id"] or "",
            name=name,
            status="error",
            additional_kwargs=provenance_kwargs(ContentKind.MIDDLEWARE_INJECTION, "approval_refusal"),
        )
