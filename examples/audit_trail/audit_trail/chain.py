"""Entries, each sealed with a digest of itself and of the one before it."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Self

from deerflow_extension_api import canonical_json

from audit_trail.subject import Subject

FIRST_LINK = "0" * 64
"""Stands where the first entry names its predecessor."""


@dataclass(frozen=True)
class Draft:
    """What happened, before it has a place in the chain. `detail` is canonical JSON, `at` ISO 8601 in UTC."""

    at: str
    event: str
    run_id: str
    thread_id: str
    task_id: str
    detail: str

    @classmethod
    def now(cls, event: str, subject: Subject, detail: Mapping[str, Any]) -> Self:
        """A draft of what happens now, in text that every database takes."""
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        ids = map(_storable, (subject.run_id, subject.thread_id, subject.task_id))
        return cls(at, event, *ids, _storable(_json(detail)))


@dataclass(frozen=True)
class Entry(Draft):
    """A draft in its place: `seq` counts from 1 without gaps."""

    seq: int
    previous: str
    digest: str


@dataclass(frozen=True)
class Head:
    """The newest place of the chain; `seq` is 0 before the first entry."""

    seq: int = 0
    digest: str = FIRST_LINK


def sealed(drafts: Iterable[Draft], head: Head, key: bytes) -> list[Entry]:
    """The drafts as the entries that follow `head`, in order."""
    entries = []
    for draft in drafts:
        seq, previous = head.seq + 1, head.digest
        head = Head(seq, _digest(draft, seq, previous, key))
        entries.append(Entry(**vars(draft), seq=seq, previous=previous, digest=head.digest))
    return entries


def follows(entry: Entry, head: Head, key: bytes) -> bool:
    """Whether an entry is what was once written after `head`: nothing changed, left out or put between."""
    in_place = entry.seq == head.seq + 1 and entry.previous == head.digest
    return in_place and hmac.compare_digest(entry.digest, _digest(entry, entry.seq, head.digest, key))


def _digest(draft: Draft, seq: int, previous: str, key: bytes) -> str:
    parts = [seq, previous, draft.at, draft.event, draft.run_id, draft.thread_id, draft.task_id, draft.detail]
    content = canonical_json(parts).encode()
    if key:
        return hmac.new(key, content, hashlib.sha256).hexdigest()
    return hashlib.sha256(content).hexdigest()


def _json(detail: Mapping[str, Any]) -> str:
    try:
        return canonical_json(dict(detail))
    except (TypeError, ValueError):  # a tool was called with what JSON cannot hold
        return canonical_json({key: repr(value) for key, value in detail.items()})


def _storable(text: str) -> str:
    """`text` without NUL, and without halves of characters, which UTF-8 cannot hold."""
    whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return whole.replace("\0", "\ufffd")
