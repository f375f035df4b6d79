"""An embedded deerflow as the agent of an AxonX application: `components.agent.<name>.backend: deerflow`."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from axonx import BaseAgentComponent, provider
from axonx.components.job import AgentMessageEvent
from axonx.components.job.schema import MAX_AGENT_DEPTH
from axonx.errors import NotRunningError
from deerflow.axonx_bridge.chat_events import ChatEvents
from deerflow.axonx_bridge.depth import chat_depth
from deerflow.cancellation import stop_task, uninterrupted
from deerflow.client import DeerFlowClient, StreamEvent
from deerflow.errors import DeerFlowError

STOP_GRACE_SECONDS = 5.0


class ChatFailedError(DeerFlowError, RuntimeError):
    """A chat that ended without an answer: it failed, was stopped, or waits for a person."""


@dataclass(frozen=True)
class Chat:
    """One turn: `session_id` is the thread, a UUID; `context` what a request may ask for."""

    prompt: str
    session_id: str
    agent_depth: int
    context: Mapping[str, Any]


@provider("deerflow")
class DeerflowAgent(BaseAgentComponent):
    """Owns an embedded client from start to close.

    `config` is what `DeerFlowClient` takes: a path, a mapping, or nothing for the usual search. Extensions
    are those of the process; `load_extensions` loads the configuration's own where no host around it has.
    """

    def __init__(
        self, config: str | dict[str, Any] | None = None, load_extensions: bool = False, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._config = config
        self._load_extensions = load_extensions
        self._client: DeerFlowClient | None = None

    async def _start(self) -> None:
        self._client = await asyncio.to_thread(
            DeerFlowClient, self._config, load_extensions=self._load_extensions
        )

    async def _close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    async def stream(
        self, prompt: str, *, session_id: str | None = None, agent_depth: int = 0
    ) -> AsyncIterator[AgentMessageEvent]:
        """The messages of one turn, as the built-in Step `agent_stream` asks for them."""
        events = ChatEvents(session_id or str(uuid4()))
        chat = Chat(prompt, events.session_id, agent_depth, {})
        async with aclosing(self.chat(chat, events)) as messages:
            async for message in messages:
                yield message

    async def chat(self, chat: Chat, events: ChatEvents) -> AsyncGenerator[AgentMessageEvent, None]:
        """The messages of one turn; `events` knows its answer at the end. Leaving early stops the run.

        Raises `ChatFailedError`, and `InvalidRequestError` for what cannot be asked for.
        """
        if self._client is None:
            raise NotRunningError(f"{self!r} is not started")
        if chat.agent_depth >= MAX_AGENT_DEPTH:
            raise ChatFailedError(f"Agent call chain is limited to {MAX_AGENT_DEPTH} nested turns.")
        stream = self._client.astream(chat.prompt, thread_id=chat.session_id, **chat.context)
        async with aclosing(stream):
            event: StreamEvent | None = await _first(stream, chat.agent_depth)
            while event is not None:
                for message in events.take(event):
                    yield message
                event = await anext(stream, None)
        if events.status != "success":
            raise ChatFailedError(events.failure)


async def _first(stream: AsyncGenerator[StreamEvent], agent_depth: int) -> StreamEvent | None:
    """The first event, asked for in a context of the chat's depth: with it the run begins."""
    context = contextvars.copy_context()
    context.run(chat_depth.set, agent_depth)
    asking = asyncio.create_task(_next(stream), name="begin a deerflow chat", context=context)
    try:
        return await asyncio.shield(asking)
    except asyncio.CancelledError:
        ending = stop_task(asking, grace_seconds=STOP_GRACE_SECONDS)
        await uninterrupted(ending, name="leave a deerflow chat that begins")
        raise


async def _next(stream: AsyncGenerator[StreamEvent]) -> StreamEvent | None:
    return await anext(stream, None)
