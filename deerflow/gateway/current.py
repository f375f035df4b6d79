"""What a route needs of the running application: its host, and for whom it acts."""

from __future__ import annotations

from typing import cast

from starlette.requests import HTTPConnection, Request

from deerflow.errors import NotFoundError, UnavailableError
from deerflow.gateway.auth.identity import Identity
from deerflow.host import Host
from deerflow.persistence import Accounts
from deerflow.runs.record import RunRecord, ThreadRecord
from deerflow.runs.request import checked_id


def host_of(request: HTTPConnection) -> Host:
    """The running host; `UnavailableError` before the start and after the end."""
    host = getattr(request.app.state, "host", None)
    if host is None:
        raise UnavailableError("the host is not running: start the application's lifespan")
    return cast(Host, host)


def accounts_of(request: HTTPConnection) -> Accounts:
    """The users of the running host."""
    return Accounts(host_of(request).database.transactions)


def owner_of(request: HTTPConnection) -> str | None:
    """The owner of what this request makes; None: there are no owners."""
    return _identity_of(request).owner_of(request)


def visible_to(request: HTTPConnection) -> str | None:
    """Whose things this request may see and change; None: everyone's."""
    return _identity_of(request).visible_to(request)


async def thread_of(request: Request, thread_id: str) -> ThreadRecord:
    """The thread; `NotFoundError` where there is none, or not for this caller."""
    thread_id = checked_id(thread_id, "thread_id")
    threads = host_of(request).database.stores.threads
    thread = await threads.get(thread_id, user_id=visible_to(request))
    if thread is None:
        raise NotFoundError(f"there is no thread {thread_id}")
    return thread


async def run_owner(request: Request, thread_id: str) -> str | None:
    """Who owns what runs on a thread: its owner, also where an administrator starts it.

    A stranger learns here that there is no such thread, before anything is stopped for the new run.
    """
    thread = await host_of(request).database.stores.threads.get(thread_id)
    if thread is None:
        return owner_of(request)
    if visible_to(request) not in (None, thread.user_id):
        raise NotFoundError(f"there is no thread {thread_id}")
    return thread.user_id


async def run_of(request: Request, thread_id: str, run_id: str) -> RunRecord:
    """The run on its thread; `NotFoundError` where there is none, or not for this caller."""
    await thread_of(request, thread_id)
    thread_id, run_id = checked_id(thread_id, "thread_id"), checked_id(run_id, "run_id")
    run = await host_of(request).database.stores.runs.get(run_id, thread_id=thread_id)
    if run is None:
        raise NotFoundError(f"there is no run {run_id} on thread {thread_id}")
    return run


def _identity_of(request: HTTPConnection) -> Identity:
    return cast(Identity, request.app.state.identity)
