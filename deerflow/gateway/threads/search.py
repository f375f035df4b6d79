"""Finding threads, also by what their states hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from langgraph.types import StateSnapshot

from deerflow.errors import InvalidRequestError
from deerflow.host import Host
from deerflow.persistence.containment import contains
from deerflow.runs.record import ThreadRecord
from deerflow.runs.serialize import to_json_value
from deerflow.runs.stores import ThreadQuery

# States are kept by LangGraph's savers, which no query looks into: they are read one by one.
MAX_STATES_READ: Final = 1000
_PAGE: Final = 50


@dataclass(frozen=True)
class FoundThread:
    """A thread, with its state where that was read."""

    thread: ThreadRecord
    state: StateSnapshot | None = None


@dataclass(frozen=True)
class FoundThreads:
    """One page, and how many there are in all."""

    page: list[FoundThread]
    total: int


async def find_threads(
    host: Host, query: ThreadQuery, values: Mapping[str, Any] | None, *, with_states: bool
) -> FoundThreads:
    """The threads that fit `query` and whose states contain `values`."""
    if values:
        found = await _with_values(host, query, values)
        return FoundThreads(found[query.offset : query.offset + query.limit], len(found))
    store = host.database.stores.threads
    threads = await store.search(query)
    states = await host.states.read_many(threads) if with_states else [None] * len(threads)
    return FoundThreads(list(map(FoundThread, threads, states)), await store.count(query))


async def count_threads(host: Host, query: ThreadQuery, values: Mapping[str, Any] | None) -> int:
    """How many threads fit."""
    if values:
        return len(await _with_values(host, query, values))
    return await host.database.stores.threads.count(query)


async def _with_values(host: Host, query: ThreadQuery, values: Mapping[str, Any]) -> list[FoundThread]:
    store = host.database.stores.threads
    candidates = await store.count(query)
    if candidates > MAX_STATES_READ:
        raise InvalidRequestError(
            f"values: the states of {candidates} threads would have to be read, and at most "
            f"{MAX_STATES_READ} are; narrow the search by metadata, status or ids"
        )
    found = []
    for offset in range(0, candidates, _PAGE):
        threads = await store.search(replace(query, limit=_PAGE, offset=offset))
        states = await host.states.read_many(threads)
        found += [
            FoundThread(thread, state)
            for thread, state in zip(threads, states, strict=True)
            if contains(to_json_value(state.values), values)
        ]
    return found
