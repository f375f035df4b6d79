"""What clients send about the items of their store."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from deerflow.gateway.bodies.not_offered import NotOffered
from deerflow.gateway.pages import Limit, Offset

MAX_LABELS = 20
MAX_KEY_CHARACTERS = 1000


def _checked_label(label: str) -> str:
    if "." in label or not _is_plain(label):
        raise ValueError("a label of a namespace has no periods and no control characters")
    return label


def _checked_key(key: str) -> str:
    if not _is_plain(key):
        raise ValueError("a key has no control characters")
    return key


def _is_plain(text: str) -> bool:
    return not any(character < " " or "\ud800" <= character <= "\udfff" for character in text)


Label = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_checked_label)]
Namespace = Annotated[list[Label], Field(min_length=1, max_length=MAX_LABELS)]
NamespacePart = Annotated[list[Label], Field(max_length=MAX_LABELS)]
Key = Annotated[str, Field(min_length=1, max_length=MAX_KEY_CHARACTERS), AfterValidator(_checked_key)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="ignore")


class ItemNameBody(_Body):
    """Which item is meant."""

    namespace: Namespace
    key: Key


class ItemBody(ItemNameBody):
    """An item to be kept. `index` has no meaning here: nothing is searched by meaning."""

    value: dict[str, Any]
    index: bool | list[str] | None = None
    ttl: NotOffered = None


class ItemSearchBody(_Body):
    """Which items to list. `query` chooses nothing here: nothing is searched by meaning."""

    namespace_prefix: NamespacePart | None = None
    filter: dict[str, Any] | None = None
    limit: Limit = 10
    offset: Offset = 0
    query: str | None = None
    refresh_ttl: bool | None = None


class NamespacesBody(_Body):
    """Which namespaces to list; deeper ones are cut off at `max_depth`."""

    prefix: NamespacePart | None = None
    suffix: NamespacePart | None = None
    max_depth: Annotated[int, Field(ge=1, le=MAX_LABELS)] | None = None
    limit: Limit = 100
    offset: Offset = 0
