"""Which request, thread and run a line of the log belongs to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_NONE: Mapping[str, str] = MappingProxyType({})
# For the log alone: what a run does never depends on it.
_ids: ContextVar[Mapping[str, str]] = ContextVar("deerflow_log_ids", default=_NONE)


@contextmanager
def bearing_log_ids(**ids: str) -> Iterator[None]:
    """Let every line bear `ids` that is written in the block, or by asyncio tasks that are started there."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def log_ids() -> Mapping[str, str]:
    """The ids of whatever is going on here, such as `request_id`, `thread_id` and `run_id`."""
    return _ids.get()
