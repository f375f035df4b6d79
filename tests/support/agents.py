"""Small agents for tests of middlewares: a chat model that follows a list, and both ways to run a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import tool
from pydantic import PrivateAttr

SIDES = ("sync", "async")


class ListModel(BaseChatModel):
    """Answers with one turn after another, the last one forever. `seen` holds what each call was sent."""

    turns: list[Any]
    _seen: list[list[AnyMessage]] = PrivateAttr(default_factory=list)

    @property
    def seen(self) -> list[list[AnyMessage]]:
        return self._seen

    @property
    def _llm_type(self) -> str:
        return "list"

    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    def _generate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        turn = self.turns[min(len(self._seen), len(self.turns) - 1)]
        self._seen.append(list(messages))
        if isinstance(turn, BaseException):
            raise turn
        return ChatResult(generations=[ChatGeneration(message=turn.model_copy(deep=True))])

    async def _agenerate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        await asyncio.sleep(0)
        return self._generate(messages)


def says(text: str) -> AIMessage:
    """A turn of the model."""
    return AIMessage(text)


def calls(*names: str, **args: Any) -> AIMessage:
    """A turn that calls these tools side by side; ids are the names and a number."""
    return AIMessage(
        "",
        tool_calls=[{"name": name, "args": dict(args), "id": f"{name}-{i}"} for i, name in enumerate(names)],
    )


def agent(
    middlewares: Sequence[AgentMiddleware], *turns: Any, tools: Sequence[Any] = (), **options: Any
) -> tuple[Any, ListModel]:
    """A graph with these middlewares, and its model."""
    model = ListModel(turns=list(turns) or [says("done")])
    return create_agent(model, list(tools), middleware=list(middlewares), **options), model


async def run(graph: Any, side: str, given: Any = "hello", config: Any = None, **options: Any) -> Any:
    """Run a graph on one side; a text is the user's message."""
    state = {"messages": [("user", given)]} if isinstance(given, str) else given
    if side == "async":
        return await graph.ainvoke(state, config, **options)
    return await asyncio.to_thread(graph.invoke, state, config, **options)


def shape(messages: Sequence[AnyMessage]) -> list[Any]:
    """What counts of messages, without their random ids."""
    return [
        (
            m.type,
            m.content,
            [c["name"] for c in getattr(m, "tool_calls", [])],
            getattr(m, "tool_call_id", None),
        )
        for m in messages
    ]


def texts(messages: Sequence[AnyMessage]) -> list[Any]:
    """The contents of messages."""
    return [message.content for message in messages]


class Counter:
    """A tool with a side effect that is counted."""

    def __init__(self, result: Any = "counted") -> None:
        self.count = 0
        self.args: list[str] = []

        @tool
        def count(word: str = "") -> str:
            """Count this call."""
            self.count += 1
            self.args.append(word)
            if isinstance(result, BaseException):
                raise result
            return str(result)

        self.tool = count


__all__ = ["SIDES", "Counter", "ListModel", "ToolMessage", "agent", "calls", "run", "says", "shape", "texts"]
