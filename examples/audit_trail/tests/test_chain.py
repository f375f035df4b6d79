"""Whatever is done to a stored chain shows."""

from __future__ import annotations

from dataclasses import replace

import pytest
from audit_trail.chain import Draft, Entry, Head, follows, sealed
from audit_trail.subject import Subject

DRAFTS = [
    Draft.now("task_started", Subject("run", "thread", f"task-{number}"), {"n": number})
    for number in range(4)
]


def is_intact(entries: list[Entry], key: bytes = b"") -> bool:
    head = Head()
    for entry in entries:
        if not follows(entry, head, key):
            return False
        head = Head(entry.seq, entry.digest)
    return True


@pytest.mark.parametrize("key", [b"", b"secret"])
def test_an_untouched_chain_is_intact_also_in_parts(key: bytes) -> None:
    first = sealed(DRAFTS[:2], Head(), key)
    rest = sealed(DRAFTS[2:], Head(first[-1].seq, first[-1].digest), key)
    assert [entry.seq for entry in first + rest] == [1, 2, 3, 4]
    assert is_intact(first + rest, key)
    assert first + rest == sealed(DRAFTS, Head(), key)


@pytest.mark.parametrize(
    "name", ["at", "event", "run_id", "thread_id", "task_id", "detail", "previous", "digest"]
)
def test_every_changed_value_shows(name: str) -> None:
    entries = sealed(DRAFTS, Head(), b"")
    entries[1] = replace(entries[1], **{name: "0" * 64})
    assert not is_intact(entries)


def test_what_is_left_out_put_in_or_moved_shows() -> None:
    entries = sealed(DRAFTS, Head(), b"")
    assert not is_intact(entries[:1] + entries[2:])
    assert not is_intact(entries[1:])
    assert not is_intact([entries[0], entries[0], *entries[1:]])
    assert not is_intact([entries[1], entries[0], *entries[2:]])


def test_a_chain_that_was_sealed_anew_shows_where_there_is_a_key() -> None:
    changed = [replace(DRAFTS[0], event="task_stopped"), *DRAFTS[1:]]
    assert is_intact(sealed(changed, Head(), b""), b"")
    assert not is_intact(sealed(changed, Head(), b"guessed"), b"secret")


def test_any_text_and_any_value_can_be_stored() -> None:
    subject = Subject("run\0", "thread\ud800", "😀")
    draft = Draft.now("tool_called", subject, {"args": {"x": float("nan")}, "text": "\udcff"})
    for text in vars(draft).values():
        assert "\0" not in text.encode().decode()
    assert draft.task_id == "😀"
    assert is_intact(sealed([draft], Head(), b""))
