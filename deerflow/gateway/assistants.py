"""Assistants: a graph with wishes of its own. The system's one is everybody's, and nobody changes it."""

from __future__ import annotations

from typing import Any, cast
from uuid import UUID

from starlette.exceptions import HTTPException
from starlette.requests import Request

from deerflow.config import RequestOptions
from deerflow.config.request import parse_request_options
from deerflow.errors import InvalidRequestError, NotFoundError
from deerflow.gateway.bodies.options import without_reserved
from deerflow.gateway.current import host_of, visible_to
from deerflow.host import Host
from deerflow.persistence import Assistants
from deerflow.persistence.assistants import AssistantRecord
from deerflow.runs.record import utc_now
from deerflow.runs.request import ASSISTANT_ID, GRAPH_ID

Json = dict[str, Any]


async def system_assistant(host: Host) -> AssistantRecord:
    """The system's assistant, as the database has it; it is made with the database."""
    assistants = Assistants(host.database.transactions)
    now = utc_now()
    made = AssistantRecord(ASSISTANT_ID, now, now, name=GRAPH_ID, metadata={"created_by": "system"})
    await assistants.ensure(made)
    return await assistants.get(ASSISTANT_ID) or made


def assistants_of(request: Request) -> Assistants:
    """The assistants of the running host."""
    return Assistants(host_of(request).database.transactions)


async def assistant_of(request: Request, name: str) -> AssistantRecord:
    """The assistant that an id or a graph's name means; `NotFoundError` where it is not for this caller."""
    assistant_id = _assistant_id(name)
    if assistant_id == ASSISTANT_ID:  # what nearly every run names, and nobody changes
        return cast(AssistantRecord, request.app.state.system_assistant)
    assistant = await assistants_of(request).get(assistant_id, visible_to=visible_to(request))
    if assistant is None:
        raise NotFoundError(f"there is no assistant {assistant_id}")
    return assistant


async def changeable_assistant(request: Request, name: str) -> AssistantRecord:
    """The same where it can be changed; 403 for the system's."""
    assistant = await assistant_of(request, name)
    if assistant.assistant_id == ASSISTANT_ID:
        raise HTTPException(403, "the system's assistant cannot be changed; make one of your own")
    return assistant


def options_of(request: Request, assistant: AssistantRecord) -> RequestOptions:
    """What the assistant's runs begin with."""
    return parse_request_options(without_reserved(assistant.context), host_of(request).config)


def assistant_json(assistant: AssistantRecord) -> Json:
    """The assistant as clients see it: its context stands in both of LangGraph's places."""
    config = assistant.config | ({"configurable": assistant.context} if assistant.context else {})
    fields = {key: value for key, value in vars(assistant).items() if key != "user_id"}
    return {**fields, "config": config}


def check_graph(graph_id: str | None) -> None:
    """Refuse the name of a graph that is not served."""
    if graph_id not in (None, GRAPH_ID):
        raise NotFoundError(f"there is no graph {graph_id[:100]!r}; there is {GRAPH_ID!r}")


def _assistant_id(name: str) -> str:
    if name == GRAPH_ID:
        return ASSISTANT_ID
    try:
        return str(UUID(name))
    except ValueError:
        raise InvalidRequestError(
            f"assistant_id: {name[:100]!r} is neither the UUID of an assistant nor a graph; "
            f"there is the graph {GRAPH_ID!r}"
        ) from None
