"""An application's own middleware, which changes what the model is asked."""

from __future__ import annotations

from typing import Any

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import BaseMessage, HumanMessage


class Marking(AgentMiddleware[Any, Any]):
    """Puts a word before what people say."""

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        return await handler(request.override(messages=[_marked(message) for message in request.messages]))


def _marked(message: BaseMessage) -> BaseMessage:
    if not isinstance(message, HumanMessage):
        return message
    return message.model_copy(update={"content": f"marked {message.text}"})
