"""The base of components that talk to an agent."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator

from axonx.components.base import BaseComponent
from axonx.components.job.events import AgentMessageEvent


class BaseAgentComponent(BaseComponent, ABC):
    """An agent that Jobs can ask, through the built-in Step `agent_stream` or directly."""

    component_type = "agent"

    @abstractmethod
    def stream(
        self, prompt: str, *, session_id: str | None = None, agent_depth: int = 0
    ) -> AsyncIterator[AgentMessageEvent]:
        """Yield the messages of one turn.

        `agent_depth` counts the turns around this one; an agent that calls Jobs passes `agent_depth + 1`
        on to those that declare it, as `system` value of the dispatcher.
        """
