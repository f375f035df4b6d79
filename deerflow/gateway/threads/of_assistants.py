"""The threads that ran on an assistant last."""

from __future__ import annotations

from starlette.requests import Request

from deerflow.gateway.current import host_of, visible_to
from deerflow.persistence.assistants import AssistantRecord
from deerflow.runs.stores import ThreadQuery

_PAGE = 100


async def remove_threads_of(request: Request, assistant: AssistantRecord) -> None:
    """Remove them, as far as the caller may see them."""
    host = host_of(request)
    query = ThreadQuery(
        user_id=visible_to(request), metadata={"assistant_id": assistant.assistant_id}, limit=_PAGE
    )
    while threads := await host.database.stores.threads.search(query):
        for thread in threads:
            await host.runs.remove(thread.thread_id)
