"""What clients send about assistants."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from deerflow.gateway.pages import Limit, Offset

Object = dict[str, Any]
Name = Annotated[str, Field(min_length=1, max_length=500)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class AssistantPatchBody(_Body):
    """What is to be changed of an assistant; metadata is merged key by key."""

    graph_id: str | None = None
    config: Object | None = None
    context: Object | None = None
    metadata: Object | None = None
    name: Name | None = None
    description: str | None = None


class AssistantBody(AssistantPatchBody):
    """A new assistant."""

    graph_id: str
    assistant_id: str | None = None
    if_exists: Literal["raise", "do_nothing"] | None = None


class AssistantFilterBody(_Body):
    """Which assistants are meant."""

    graph_id: str | None = None
    metadata: Object | None = None
    name: str | None = None


class AssistantSearchBody(AssistantFilterBody):
    """Which assistants to list, in which order, and how much of them."""

    limit: Limit = 10
    offset: Offset = 0
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[str] | None = None


class VersionsBody(_Body):
    """Which versions to list."""

    metadata: Object | None = None
    limit: Limit = 10
    offset: Offset = 0


class LatestBody(_Body):
    """Which version is to count."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
