"""Which work of an Application the running code belongs to.

A context variable carries it, so that tasks started by a Step or a component belong to the same work.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from axonx.core.app_context import AppContext


class Work(Protocol):
    """One call of a Job, or the start and close of an Application; `parent` is what it runs inside."""

    app_context: AppContext | None
    parent: Work | None


current_work: ContextVar[Work | None] = ContextVar("axonx_current_work", default=None)


def current_chain(app_context: AppContext) -> list[Work]:
    """The work of this application that the caller runs inside, innermost first; may be empty."""
    chain = []
    work = current_work.get()
    while work is not None:
        if work.app_context is app_context:
            chain.append(work)
        work = work.parent
    return chain
