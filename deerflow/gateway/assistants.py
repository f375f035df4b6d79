"""The one assistant of this host: the system's own, for its graph."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from deerflow.errors import InvalidRequestError, NotFoundError
from deerflow.runs.record import utc_now
from deerflow.runs.request import ASSISTANT_ID, GRAPH_ID

_STARTED_AT = utc_now()


def system_assistant() -> dict[str, Any]:
    """The assistant as clients see it."""
    return {
        "assistant_id": ASSISTANT_ID,
        "graph_id": GRAPH_ID,
        "name": GRAPH_ID,
        "description": None,
        "config": {},
        "context": {},
        "metadata": {"created_by": "system"},
        "version": 1,
        "created_at": _STARTED_AT,
        "updated_at": _STARTED_AT,
    }


def resolve_assistant(name: str) -> str:
    """The id of the assistant that `name` means: an id or a graph's name."""
    if name == GRAPH_ID:
        return ASSISTANT_ID
    try:
        assistant_id = str(UUID(name))
    except ValueError:
        raise InvalidRequestError(
            f"assistant_id: {name[:100]!r} is neither the UUID of an assistant nor a graph; "
            f"there is the graph {GRAPH_ID!r}"
        ) from None
    if assistant_id != ASSISTANT_ID:
        raise NotFoundError(f"there is no assistant {assistant_id}")
    return assistant_id
