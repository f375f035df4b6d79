"""Carry out the commands of LangGraph's streaming protocol."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from starlette.exceptions import HTTPException
from starlette.requests import Request

from deerflow.errors import ConflictError, InvalidRequestError, NotFoundError
from deerflow.gateway.assistants import assistant_of
from deerflow.gateway.bodies.runs import RunBody, run_request
from deerflow.gateway.current import host_of, run_owner, thread_of
from deerflow.gateway.following import find_run
from deerflow.gateway.protocol.bodies import (
    PROTOCOL_MODES,
    CommandError,
    GetTree,
    InputRespond,
    ProtocolCommandBody,
    parsed,
    start_body,
)
from deerflow.gateway.protocol.events import RunTranslator, lifecycle_of
from deerflow.runs.active import ActiveRun
from deerflow.runs.recent import EndedRun
from deerflow.runs.record import RunRecord, ThreadRecord
from deerflow.runs.request import GRAPH_ID, checked_id

Object = dict[str, Any]
Command = Callable[[Request, str, Object], Awaitable[Object]]

SETTLE_SECONDS: Final = 10.0
"""How long an answer waits for the run that asked to come to its end."""

_PAUSE_SECONDS: Final = 0.2


async def carry_out(request: Request, thread_id: str, body: ProtocolCommandBody) -> Object:
    """The protocol's answer to a command. A thread that is not for this caller is a `NotFoundError`."""
    command = _COMMANDS.get(body.method)
    try:
        if command is None:
            raise CommandError("unknown_command", f"Unknown protocol command: {body.method}")
        result = await command(request, checked_id(thread_id, "thread_id"), body.params or {})
    except CommandError as error:
        return {"type": "error", "id": body.id, "error": error.code, "message": str(error)}
    # 0: the events that were sent before are none of a command's business.
    return {"type": "success", "id": body.id, "result": result, "meta": {"applied_through_seq": 0}}


async def _run_start(request: Request, thread_id: str, params: Object) -> Object:
    owner = await run_owner(request, thread_id)
    given = params.get("input")
    is_answer = given is not None and not _is_state(given) and await _somebody_waits(request, thread_id)
    return await _start(request, thread_id, owner, start_body(params, is_answer=is_answer))


async def _input_respond(request: Request, thread_id: str, params: Object) -> Object:
    thread = await thread_of(request, thread_id)
    given = parsed(InputRespond, params)
    await _settle(request, thread)
    waiting = await _waiting_interrupts(request, await thread_of(request, thread_id))
    unknown = [interrupt_id for interrupt_id in given.answers if interrupt_id not in waiting]
    if unknown:
        raise CommandError("no_such_interrupt", f"Unknown or already answered interrupt: {unknown[0]}")
    assistant_id = str(thread.metadata.get("assistant_id") or GRAPH_ID)
    return await _start(request, thread_id, thread.user_id, given.run_body(assistant_id))


async def _get_tree(request: Request, thread_id: str, params: Object) -> Object:
    thread = await thread_of(request, thread_id)
    run = await _run_named(request, thread, parsed(GetTree, params).run_id)
    if isinstance(run, RunRecord):
        status = lifecycle_of(run.status)
        return {"tree": {"namespace": [], "status": status, "graph_name": GRAPH_ID}}
    created_at = run.record.created_at if isinstance(run, ActiveRun) else run.created_at
    translator = RunTranslator(run.run_id, created_at)
    position = 0
    while events := run.log.after(position):
        for event in events:
            translator.events(event)
        position = events[-1].id or position
        await asyncio.sleep(0)
    return {"tree": translator.namespaces.tree()}


_COMMANDS: Final[Mapping[str, Command]] = {
    "run.start": _run_start,
    "input.respond": _input_respond,
    "agent.getTree": _get_tree,
}


async def _start(request: Request, thread_id: str, owner: str | None, body: RunBody) -> Object:
    try:
        assistant = await assistant_of(request, body.assistant_id)
        asked = run_request(body, thread_id, owner, assistant)
        asked = replace(asked, stream_modes=PROTOCOL_MODES, stream_subgraphs=True)
        run = await host_of(request).runs.start(asked)
    except (InvalidRequestError, NotFoundError, ConflictError) as error:
        raise CommandError("invalid_argument", str(error)) from error
    except HTTPException as error:
        raise CommandError("invalid_argument", str(error.detail)) from error
    return {"run_id": run.run_id}


async def _settle(request: Request, thread: ThreadRecord) -> None:
    """Wait for runs of the thread to end: the one that asks tells so before its state is kept."""
    host = host_of(request)
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLE_SECONDS):
            while await host.database.stores.runs.list_active(thread_id=thread.thread_id):
                runs = host.runs.active_on(thread.thread_id)
                await (runs[0].ended.wait() if runs else asyncio.sleep(_PAUSE_SECONDS))
            return
    raise CommandError(
        "no_such_interrupt", f"thread {thread.thread_id} has a run under way; wait for its end"
    )


async def _somebody_waits(request: Request, thread_id: str) -> bool:
    try:
        await _settle(request, await thread_of(request, thread_id))
        return bool(await _waiting_interrupts(request, await thread_of(request, thread_id)))
    except NotFoundError:  # the run makes the thread
        return False


async def _waiting_interrupts(request: Request, thread: ThreadRecord) -> set[str]:
    state = await host_of(request).states.read(thread)
    return {interrupt.id for interrupt in state.interrupts}


async def _run_named(
    request: Request, thread: ThreadRecord, run_id: str | None
) -> ActiveRun | EndedRun | RunRecord:
    host = host_of(request)
    if run_id is not None:
        try:
            return await find_run(request, thread.thread_id, run_id)
        except (NotFoundError, InvalidRequestError) as error:
            raise CommandError("no_such_run", str(error)) from error
    active, ended = host.runs.active_on(thread.thread_id), host.runs.ended_on(thread.thread_id)
    if active or ended:
        return active[0] if active else ended[-1]
    for record in await host.database.stores.runs.list_by_thread(thread.thread_id, limit=1):
        return record
    raise CommandError("no_such_run", f"there is no run on thread {thread.thread_id}")


def _is_state(given: Any) -> bool:
    return isinstance(given, dict) and "messages" in given
