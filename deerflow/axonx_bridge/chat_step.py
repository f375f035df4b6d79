"""A Step that asks deerflow: `steps: [{backend: deerflow_chat}]`."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import aclosing
from typing import Any, ClassVar
from uuid import uuid4

from axonx import BaseStep, provider
from axonx.components.job.schema import AGENT_DEPTH, AGENT_DEPTH_SCHEMA
from deerflow.axonx_bridge.chat_agent import Chat, DeerflowAgent
from deerflow.axonx_bridge.chat_events import ChatEvents


@provider("deerflow_chat")
class DeerflowChatStep(BaseStep):
    """Sends `context["prompt"]` and emits what the agent does and says; the answer is its last text.

    `context["session_id"]`, where given, is the thread to go on with; the metadata name the thread that was
    used. Options: `agent`, the name of a `DeerflowAgent` component; `context`, what a request may ask for
    (`model_name`, `agent_name`, ...).
    """

    injected_parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {AGENT_DEPTH: AGENT_DEPTH_SCHEMA}

    def __init__(
        self, agent: str = "default", context: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self._agent = agent
        self._asked_for = dict(context or {})

    async def execute(self) -> None:
        agent = self.get_component("agent", self._agent)
        if not isinstance(agent, DeerflowAgent):
            raise TypeError(
                f"components.agent.{self._agent}: a {type(agent).__name__} holds no deerflow chats; "
                "use the backend 'deerflow', or the Step agent_stream"
            )
        events = ChatEvents(self.context.get("session_id") or str(uuid4()))
        depth = self.context.get(AGENT_DEPTH, 0)
        chat = Chat(self.context["prompt"], events.session_id, depth, self._asked_for)
        self.response.metadata["session_id"] = events.session_id
        async with aclosing(agent.chat(chat, events)) as messages:
            async for message in messages:
                await self.emit(message)
        self.response.answer = events.answer
        self.response.metadata.update(run_id=events.run_id, usage=events.usage)
