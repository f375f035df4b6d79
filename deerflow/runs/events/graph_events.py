"""The stream mode `events`: what a graph, its nodes, chat models and tools begin with, stream and end with.

The form is that of LangChain's `astream_events`, but nothing is shown that `values`, `updates` and `messages`
do not show: of states the visible part, of prompts the messages that the state holds, of tools what the model
asked and what the state got. What else runs inside is nobody's to see, and no chat model tagged `nostream`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.messages import BaseMessage, ToolCall, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, LLMResult
from langgraph.constants import TAG_HIDDEN, TAG_NOSTREAM
from langgraph.types import Command

from deerflow.runs.events.visible_state import VisibleState, tool_calls_in

Json = dict[str, Any]
Namespace = tuple[str, ...]
Write = Callable[[Namespace, str, Any], None]


@dataclass
class _Call:
    """Something under way that is shown. `base` is what all of its events have, `given` its visible input."""

    run_id: UUID
    kind: str
    base: Json
    namespace: Namespace
    node: _Call | None
    given: Any = None
    tool_call_id: str | None = None
    tools_done: list[_Call] = field(default_factory=list)


class GraphEvents(BaseCallbackHandler):
    """Follows one run of a graph by its callbacks, on whichever thread they come.

    `write` takes namespace, mode and event; it is called on the event loop that this was made on.
    """

    run_inline = True  # in step with the graph

    def __init__(self, run_id: str, visible_keys: Collection[str], write: Write) -> None:
        self._run_id = run_id
        self._visible = VisibleState(visible_keys)
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._thread_id = threading.get_ident()
        # By LangChain's run ids. For what is not shown stands the nearest that is, around it.
        self._calls: dict[UUID, _Call] = {}
        self._has_begun = False

    def on_chain_start(self, serialized: Any, inputs: Any, **about: Any) -> None:
        """The graph begins, one of its nodes, or something inside of a node."""
        is_node = about.get("name") == (about.get("metadata") or {}).get("langgraph_node")
        call = self._begin("chain", serialized, about, shown=is_node or not self._has_begun)
        self._has_begun = True
        if call is not None:
            call.node = call if is_node else None
            call.given = self._visible.given(inputs)
            self._tell(call, "start", {"input": call.given})

    def on_chain_end(self, outputs: Any, **about: Any) -> None:
        """It has ended, and with a node the tools that it ran: only now it is known what came of them."""
        call = self._end(about)
        if call is None:
            return
        output = self._visible.written(outputs)
        if call.node is None:
            self._tell(call, "end", {"output": output})
            return
        results = {message.tool_call_id: message for message in _tool_messages(output)}
        for tool in call.tools_done:
            self._tell(tool, "end", {"output": results.get(tool.tool_call_id or ""), "input": tool.given})
        self._tell(call, "stream", {"chunk": output})
        self._tell(call, "end", {"output": output, "input": call.given})

    def on_chain_error(self, error: BaseException, **about: Any) -> None:
        """It has failed or waits for a person: other events say so."""
        self._end(about)

    def on_chat_model_start(self, serialized: Any, messages: list[list[BaseMessage]], **about: Any) -> None:
        """A chat model is asked."""
        shown = TAG_NOSTREAM not in (about.get("tags") or ())
        call = self._begin("chat_model", serialized, about, shown=shown)
        if call is not None:
            state = call.node.given if call.node is not None else None
            call.given = {"messages": [_as_held(prompt, state) for prompt in messages]}
            self._tell(call, "start", {"input": call.given})

    def on_llm_new_token(self, token: Any, *, chunk: Any = None, **about: Any) -> None:
        """A piece of its answer has come."""
        call = self._own(about)
        if call is not None and isinstance(chunk, ChatGenerationChunk):
            self._tell(call, "stream", {"chunk": chunk.message})

    def on_llm_end(self, response: LLMResult, **about: Any) -> None:
        """The whole of it has."""
        call = self._end(about)
        if call is not None:
            first = next((answer for answers in response.generations for answer in answers), None)
            self._tell(call, "end", {"output": getattr(first, "message", None), "input": call.given})

    def on_llm_error(self, error: BaseException, **about: Any) -> None:
        """The model has failed: it is asked again, or the run fails."""
        self._end(about)

    def on_tool_start(self, serialized: Any, input_str: str, **about: Any) -> None:
        """A tool begins, with what the model asked: hooks may have put more into its arguments."""
        asked = self._asked(about)
        call = self._begin("tool", serialized, about, shown=asked is not None)
        if call is None or asked is None or call.node is None:
            return
        # The tool's own tags and metadata are those of whoever made it.
        call.base |= {"tags": [], "metadata": call.node.base["metadata"]}
        call.tool_call_id, call.given = asked["id"], asked["args"]
        self._tell(call, "start", {"input": call.given})

    def on_tool_end(self, output: Any, **about: Any) -> None:
        """A tool has ended. Hooks may change its result, so that is told with the end of its node."""
        call = self._end(about)
        if call is not None and call.node is not None:
            call.node.tools_done.append(call)

    def on_tool_error(self, error: BaseException, **about: Any) -> None:
        """A tool has failed. What its error says is told as far as the state is told it."""
        call = self._end(about)
        if call is not None:
            data = {"error": type(error).__name__, "input": call.given, "tool_call_id": call.tool_call_id}
            self._tell(call, "error", data)

    def on_retriever_start(self, serialized: Any, query: str, **about: Any) -> None:
        """Something inside of a tool or hook."""
        self._begin("retriever", serialized, about, shown=False)

    def on_custom_event(self, name: str, data: Any, **about: Any) -> None:
        """A tool or hook tells something, as coming from what is shown around it."""
        call = self._calls.get(about["run_id"])
        if call is not None:
            self._send(call, {**call.base, "event": "on_custom_event", "name": name, "data": data})

    def _begin(self, kind: str, serialized: Any, about: Mapping[str, Any], *, shown: bool) -> _Call | None:
        """What begins, where it is to be shown. All but the graph lies in something that is."""
        above = self._calls.get(about.get("parent_run_id") or about["run_id"])
        tags = about.get("tags") or []
        if above is None and self._has_begun:
            return None
        if above is not None and (not shown or TAG_HIDDEN in tags):
            self._calls[about["run_id"]] = above
            return None
        metadata = about.get("metadata") or {}
        base = {
            "name": about.get("name") or _name_in(serialized),
            "run_id": self._run_id if above is None else str(about["run_id"]),
            "tags": tags,
            "metadata": metadata,
            "parent_ids": [] if above is None else [*above.base["parent_ids"], above.base["run_id"]],
        }
        node = None if above is None else above.node
        call = _Call(about["run_id"], kind, base, _namespace_in(metadata), node)
        self._calls[call.run_id] = call
        return call

    def _own(self, about: Mapping[str, Any]) -> _Call | None:
        call = self._calls.get(about["run_id"])
        return call if call is not None and call.run_id == about["run_id"] else None

    def _end(self, about: Mapping[str, Any]) -> _Call | None:
        call = self._own(about)
        self._calls.pop(about["run_id"], None)
        return call

    def _asked(self, about: Mapping[str, Any]) -> ToolCall | None:
        """The call of the model's that a tool carries out."""
        above = self._calls.get(about.get("parent_run_id") or about["run_id"])
        given = None if above is None or above.node is None else above.node.given
        calls = (call for call in tool_calls_in(given) if call["id"] == about.get("tool_call_id"))
        return next(calls, None)

    def _tell(self, call: _Call, step: str, data: Json) -> None:
        self._send(call, {"event": f"on_{call.kind}_{step}", "data": data, **call.base})

    def _send(self, call: _Call, event: Json) -> None:
        if threading.get_ident() == self._thread_id:
            self._write(call.namespace, "events", event)
        else:
            self._loop.call_soon_threadsafe(self._write, call.namespace, "events", event)


def _name_in(serialized: Any) -> str:
    described = serialized or {}
    return str(described.get("name") or (described.get("id") or ["Unnamed"])[-1])


def _namespace_in(metadata: Mapping[str, Any]) -> Namespace:
    """The namespace of the graph in which something runs; that of its node is one longer."""
    return tuple(metadata.get("langgraph_checkpoint_ns", "").split("|"))[:-1]


def _as_held(prompt: list[BaseMessage], state: Any) -> list[BaseMessage]:
    """The messages that the model is sent exactly as the state holds them: the rest is of hosts and hooks."""
    messages = state.get("messages") if isinstance(state, Mapping) else None
    held = {message.id: message for message in messages or () if isinstance(message, BaseMessage)}
    return [message for message in prompt if message.id is not None and held.get(message.id) == message]


def _tool_messages(output: Any) -> Iterator[ToolMessage]:
    """The results of tools in what a node gave."""
    if isinstance(output, Command):
        yield from _tool_messages(output.update)
    elif isinstance(output, Mapping):
        yield from _tool_messages(output.get("messages"))
    elif isinstance(output, ToolMessage):
        yield output
    elif isinstance(output, list | tuple):
        for part in output:
            yield from _tool_messages(part)
