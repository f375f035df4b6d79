"""What is known about each user, one item per fact in LangGraph's store."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from langgraph.store.base import BaseStore, PutOp

NAMESPACE: Final = "deerflow_memory"
"""The first label of every namespace used here: no client may read or write below it."""

MAX_FACT_CHARACTERS: Final = 300
_MAX_READ = 10_000


@dataclass(frozen=True)
class Fact:
    """One thing known about a user. `noted_at` sorts by time; equal `key`s mean the same fact.

    `item_key` is its place in the store, where it has one.
    """

    text: str
    noted_at: str
    item_key: str | None = field(default=None, compare=False)

    @property
    def key(self) -> str:
        return fact_key(self.text)

    @property
    def id(self) -> str:
        """Of this noting of the fact; another one has another."""
        return self.item_key or f"{self.key} {self.noted_at}"


def fact_key(text: str) -> str:
    """The same for texts that differ in case, white space or final punctuation only."""
    plain = " ".join(text.casefold().split()).rstrip(" .!;,")
    return hashlib.sha256(plain.encode("utf-8", "replace")).hexdigest()[:32]


class FactBook:
    """The facts about all users. Each noting is an item of its own, and whoever drops one has read it: what
    several hosts note at the same time is kept, and the same fact counts once."""

    def __init__(self, store: BaseStore, *, max_facts: int) -> None:
        self._store = store
        self._max_facts = max_facts

    async def read(self, user_id: str) -> list[Fact]:
        """The newest `max_facts` facts about a user, newest first."""
        newest: dict[str, Fact] = {}
        for fact in await self._read_all(user_id):
            newest.setdefault(fact.key, fact)
        return list(newest.values())[: self._max_facts]

    async def note(self, user_id: str, texts: Sequence[str], *, outdated: Collection[str] = ()) -> None:
        """Keep `texts`, of which later ones are newer, and drop those with an `outdated` id or too many.

        A fact that is known already becomes the newest in its new wording.
        """
        moment = datetime.now(UTC).isoformat(timespec="microseconds")
        cleaned = [" ".join(text.split())[:MAX_FACT_CHARACTERS].strip() for text in texts]
        new = [Fact(text, f"{moment} {place:04}") for place, text in enumerate(cleaned) if text]
        noted = {fact.key: fact for fact in new}
        known = await self._read_all(user_id)
        # Two hosts may have noted one fact at once: with the newer noting, which was read, the older goes.
        gone = {fact.key: fact.noted_at for fact in reversed(known) if fact.id in outdated}
        lasting = [fact for fact in reversed(known) if fact.noted_at > gone.get(fact.key, "")]
        wanted = {fact.key: fact for fact in lasting} | noted
        newest = sorted(wanted.values(), key=lambda fact: fact.noted_at, reverse=True)[: self._max_facts]
        kept = {fact.id for fact in newest}
        namespace = _namespace(user_id)
        written = [PutOp(namespace, fact.id, _value(fact)) for fact in noted.values() if fact.id in kept]
        dropped = [PutOp(namespace, fact.id, None) for fact in known if fact.id not in kept]
        if written or dropped:
            await self._store.abatch([*written, *dropped])

    async def _read_all(self, user_id: str) -> list[Fact]:
        items = await self._store.asearch(_namespace(user_id), limit=_MAX_READ)
        facts = [Fact(str(item.value["text"]), str(item.value["noted_at"]), item.key) for item in items]
        return sorted(facts, key=lambda fact: fact.noted_at, reverse=True)


def _value(fact: Fact) -> dict[str, Any]:
    return {"text": fact.text, "noted_at": fact.noted_at}


def _namespace(user_id: str) -> tuple[str, str]:
    # Stores search by prefix of the namespace's text, and labels have no periods: names of one length that
    # hold neither keep `ann` from being shown what belongs to `anna`.
    return NAMESPACE, hashlib.sha256(user_id.encode("utf-8", "replace")).hexdigest()
