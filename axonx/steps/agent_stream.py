"""Asking an agent component."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from axonx.components.agent import BaseAgentComponent
from axonx.components.job.events import AgentMessageEvent
from axonx.components.job.schema import AGENT_DEPTH, AGENT_DEPTH_SCHEMA
from axonx.components.registry import provider
from axonx.steps.base import BaseStep


@provider("agent_stream")
class AgentStreamStep(BaseStep):
    """Sends `context["prompt"]` to the agent and emits its messages; the answer is the text it wrote.

    `context["session_id"]`, where given, continues a session. Option `agent`: the component's name.
    """

    injected_parameters: ClassVar[Mapping[str, Mapping[str, Any]]] = {AGENT_DEPTH: AGENT_DEPTH_SCHEMA}

    def __init__(self, agent: str = "default", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._agent = agent

    async def execute(self) -> None:
        agent: BaseAgentComponent = self.get_component("agent", self._agent)
        texts: dict[str, str] = {}
        messages = agent.stream(
            self.context["prompt"],
            session_id=self.context.get("session_id"),
            agent_depth=self.context.get(AGENT_DEPTH, 0),
        )
        async for message in messages:
            _apply(message, texts)
            await self.emit(message)
        self.response.answer = "\n".join(texts.values())


def _apply(message: AgentMessageEvent, texts: dict[str, str]) -> None:
    """Keep the text blocks of the assistant up to date, by block, in order of appearance."""
    if message.role != "assistant":
        return
    for patch in message.presentation:
        if patch.block_type == "text" and patch.operation != "finish":
            before = texts.get(patch.block_id, "") if patch.operation == "append" else ""
            texts[patch.block_id] = before + patch.delta
