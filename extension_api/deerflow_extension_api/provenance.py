"""Where a message comes from that nobody typed: marks on messages which the host or an extension injects."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

MESSAGE_CONTENT_KIND_KEY: Final = "deerflow_content_kind"
MESSAGE_PRODUCER_KIND_KEY: Final = "deerflow_producer_kind"
MESSAGE_PRODUCER_ENTITY_ID_KEY: Final = "deerflow_producer_entity_id"

PROVENANCE_KEYS: Final = frozenset(
    {MESSAGE_CONTENT_KIND_KEY, MESSAGE_PRODUCER_KIND_KEY, MESSAGE_PRODUCER_ENTITY_ID_KEY}
)
"""Keys of `additional_kwargs`. The host strips them from every message that a caller sends."""


class ContentKind(StrEnum):
    """What an injected message holds."""

    MIDDLEWARE_INJECTION = "middleware_injection"
    MEMORY = "memory"
    DURABLE_CONTEXT = "durable_context"
    SKILL_BODY = "skill_body"
    IMAGE_PAYLOAD = "image_payload"


@dataclass(frozen=True)
class MessageProvenance:
    """What a message holds, which kind of part produced it, and which one of them."""

    content_kind: ContentKind
    producer_kind: str
    producer_entity_id: str | None = None


def provenance_kwargs(
    content_kind: ContentKind, producer_kind: str, *, producer_entity_id: str | None = None
) -> dict[str, str]:
    """Return the entries for a message's `additional_kwargs`, plain text only.

    Raises `ValueError` for an unknown `content_kind`, which `read_provenance` could not read back.
    """
    marks = {
        MESSAGE_CONTENT_KIND_KEY: ContentKind(content_kind).value,
        MESSAGE_PRODUCER_KIND_KEY: producer_kind,
    }
    if producer_entity_id is not None:
        marks[MESSAGE_PRODUCER_ENTITY_ID_KEY] = producer_entity_id
    return marks


def read_provenance(message: Any) -> MessageProvenance | None:
    """Return the provenance in `message.additional_kwargs`, `None` where it is absent or malformed."""
    try:
        marks = message.additional_kwargs
        content_kind = ContentKind(marks[MESSAGE_CONTENT_KIND_KEY])
        producer_kind = marks[MESSAGE_PRODUCER_KIND_KEY]
        entity_id = marks.get(MESSAGE_PRODUCER_ENTITY_ID_KEY)
    except Exception:  # noqa: BLE001 - anything may be handed in; what cannot be read carries no provenance
        return None
    if not isinstance(producer_kind, str) or not isinstance(entity_id, str | None):
        return None
    return MessageProvenance(content_kind, producer_kind, entity_id)
