"""The part of LangGraph's store that belongs to one user: nobody else's can be named from there."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from langgraph.store.base import BaseStore, Item

from deerflow.errors import InvalidRequestError
from deerflow.persistence.columns import dump_json, load_json

ROOT: Final = "deerflow_items"
_NO_USER: Final = "nobody"
_FILTER_KEY: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
_COMPARISONS: Final = frozenset({"$eq", "$ne", "$gt", "$gte", "$lt", "$lte"})

Json = dict[str, Any]
T = TypeVar("T")


class UserStore:
    """Items of `user_id`, under namespaces as the user knows them."""

    def __init__(self, store: BaseStore, user_id: str | None) -> None:
        self._store = store
        # Names have characters that labels cannot have; digests have no such, and are of one length.
        label = _NO_USER if user_id is None else hashlib.sha256(user_id.encode()).hexdigest()
        self._prefix = (ROOT, label)

    async def put(self, namespace: Sequence[str], key: str, value: Json) -> None:
        """Keep an item, whether there was one of this name or not."""
        await self._store.aput((*self._prefix, *namespace), key, load_json(dump_json(value)))

    async def get(self, namespace: Sequence[str], key: str) -> Json | None:
        item = await self._store.aget((*self._prefix, *namespace), key)
        return None if item is None else self._item_json(item)

    async def delete(self, namespace: Sequence[str], key: str) -> None:
        await self._store.adelete((*self._prefix, *namespace), key)

    async def search(
        self, prefix: Sequence[str], *, filter: Json | None, limit: int, offset: int
    ) -> list[Json]:
        """Items below a namespace whose values fit; the last changed ones first."""
        search = self._store.asearch(
            (*self._prefix, *prefix), filter=_checked_filter(filter), limit=limit, offset=offset
        )
        found = await _accepted(search)
        return [{**self._item_json(item), "score": item.score} for item in found]

    async def namespaces(
        self,
        *,
        prefix: Sequence[str],
        suffix: Sequence[str],
        max_depth: int | None,
        limit: int,
        offset: int,
    ) -> list[list[str]]:
        """The namespaces that have items, or had."""
        hidden = len(self._prefix)
        found = await self._store.alist_namespaces(
            prefix=(*self._prefix, *prefix),
            suffix=tuple(suffix) or None,
            max_depth=None if max_depth is None else max_depth + hidden,
            limit=limit,
            offset=offset,
        )
        return [list(namespace[hidden:]) for namespace in found]

    def _item_json(self, item: Item) -> Json:
        return {
            "namespace": list(item.namespace[len(self._prefix) :]),
            "key": item.key,
            "value": item.value,
            "created_at": _aware(item.created_at),
            "updated_at": _aware(item.updated_at),
        }


def _aware(moment: datetime) -> datetime:
    """LangGraph's store on SQLite leaves out that its times are UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment


def _checked_filter(given: Json | None) -> Json | None:
    """What means the same in every database: plain keys, plain values, and comparisons with them."""
    for key, value in (given or {}).items():
        wanted = list(value.values()) if isinstance(value, dict) else [value]
        if isinstance(value, dict) and not (value and value.keys() <= _COMPARISONS):
            raise InvalidRequestError(f"filter: {key[:100]!r} takes {', '.join(sorted(_COMPARISONS))}")
        if not _FILTER_KEY.fullmatch(key) or any(isinstance(item, list | dict) for item in wanted):
            raise InvalidRequestError(
                "filter: keys are letters, digits, _ and -; values are text, numbers, true, false or null"
            )
    return load_json(dump_json(given)) if given else None


async def _accepted(search: Awaitable[T]) -> T:
    try:
        return await search
    except (ValueError, TypeError, OverflowError) as error:  # such as an order between a text and a number
        raise InvalidRequestError(f"filter: {error}") from error
