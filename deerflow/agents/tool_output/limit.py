"""Bound what any tool puts into the transcript."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ToolCallRequest
from langchain_core.messages import BaseMessage, ToolMessage, convert_to_messages
from langgraph.types import Command

from deerflow.agents.file_tools import WorkspaceFinder
from deerflow.agents.text import quoted
from deerflow.agents.tool_output.artifacts import is_small, why_left_out
from deerflow.agents.tool_output.cutting import Content, cleaned, cut, is_fitting
from deerflow.agents.tool_output.keeping import keep_output
from deerflow.agents.tool_output.limits import OutputLimits
from deerflow.agents.workspace.allowance import AbandonedError, Allowance
from deerflow.agents.workspace.worker import in_worker

logger = logging.getLogger(__name__)


class ToolOutputLimit(AgentMiddleware):
    """Cuts long texts of tool messages and makes them valid text, also those inside a `Command`.

    The whole is kept in a hidden folder of the workspace, and the cut text says where. Images and other
    payloads are counted, and go on whole or not at all. So does an artifact: in place of one that no
    checkpoint can hold stands `{"left_out": <why>}`. Status and other fields stay as they are.
    """

    def __init__(self, workspace_of: WorkspaceFinder, limits: OutputLimits | None = None) -> None:
        super().__init__()
        self._workspace_of = workspace_of
        self._limits = limits or OutputLimits()

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Any]) -> Any:
        """Call the tool and bound its result."""
        result = _of_this_call(handler(request), request)
        return result if self._is_fitting(result) else self._bounded(result, request, Allowance())

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Any]]
    ) -> Any:
        """Call the tool and bound its result, in a worker thread where there is anything to do."""
        result = _of_this_call(await handler(request), request)
        if self._is_fitting(result):
            return result
        return await in_worker(partial(self._bounded, result, request))

    def _is_fitting(self, result: Any) -> bool:
        is_plain = isinstance(result, ToolMessage) and is_small(result.artifact)
        return is_plain and is_fitting(result.content, self._limits)

    def _bounded(self, result: Any, request: ToolCallRequest, allowance: Allowance) -> Any:
        bound = partial(self._bounded_message, runtime=request.runtime, allowance=allowance)
        if isinstance(result, Command):
            return replace(result, update=_with_messages(result.update, bound))
        if isinstance(result, list):
            return [self._bounded(item, request, allowance) for item in result]
        return bound(result) if isinstance(result, BaseMessage) else result

    def _bounded_message(self, message: BaseMessage, *, runtime: Any, allowance: Allowance) -> BaseMessage:
        content: Content = cleaned(message.content)
        update: dict[str, Any] = {}
        if isinstance(message, ToolMessage):
            if not is_fitting(content, self._limits):
                content = cut(content, self._limits, self._kept(content, message, runtime, allowance))
            if reason := why_left_out(message.artifact, self._limits.artifact_bytes):
                logger.warning("tool call %s: its artifact is left out: %s", message.tool_call_id, reason)
                update["artifact"] = {"left_out": reason}
        if content != message.content:
            update["content"] = content
        return message.model_copy(update=update) if update else message

    def _kept(self, content: Content, message: ToolMessage, runtime: Any, allowance: Allowance) -> str:
        try:
            return keep_output(
                content,
                message.tool_call_id,
                workspace=self._workspace_of(runtime),
                max_characters=self._limits.kept_characters,
                allowance=allowance,
            )
        except AbandonedError:
            raise
        except Exception as error:  # noqa: BLE001 - the run goes on with the part that is shown
            logger.warning("the output of tool call %s is not kept: %s", message.tool_call_id, error)
            return f"the rest is not kept: {quoted(str(error))}"


def _of_this_call(result: Any, request: ToolCallRequest) -> Any:
    """The result under the id of its call: under any other one it would be nobody's, and lost."""
    if not isinstance(result, ToolMessage) or result.tool_call_id == request.tool_call["id"]:
        return result
    return result.model_copy(update={"tool_call_id": request.tool_call["id"]})


def _with_messages(update: Any, bound: Callable[[BaseMessage], BaseMessage]) -> Any:
    """Return the update of a `Command` with its messages bounded, in the form it had."""
    if isinstance(update, dict):
        return {
            key: _bounded_all(value, bound) if key == "messages" else value for key, value in update.items()
        }
    return _bounded_all(update, bound)


def _bounded_all(messages: Any, bound: Callable[[BaseMessage], BaseMessage]) -> Any:
    if isinstance(messages, BaseMessage):
        return bound(messages)
    if isinstance(messages, dict) and "tool" in (messages.get("role"), messages.get("type")):
        return bound(convert_to_messages([messages])[0])
    if type(messages) in (list, tuple):
        return type(messages)(_bounded_all(message, bound) for message in messages)
    return messages
