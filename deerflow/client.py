"""The embedded client: chats through the same run path as the Gateway, without HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from langchain.agents.middleware import AgentMiddleware
from langchain_core.messages import AIMessage, HumanMessage

from deerflow.cancellation import uninterrupted
from deerflow.config import AppConfig, config_from
from deerflow.errors import InvalidRequestError, RunFailedError, RunInterruptedError, UnavailableError
from deerflow.extensions import LoadedExtensions
from deerflow.extensions.once import claim_services, load_once
from deerflow.host import Host, HostOptions, open_host
from deerflow.loop_thread import LoopClosedError, LoopThread
from deerflow.runs.active import ActiveRun
from deerflow.runs.answers import check_answer
from deerflow.runs.events.log import RunEvent
from deerflow.runs.record import RunStatus
from deerflow.runs.request import RunRequest

_STREAM_MODES = ("values", "messages-tuple", "custom")
_EVENT_TYPES = {"values": "values", "messages": "messages-tuple", "custom": "custom", "end": "end"}


@dataclass(frozen=True)
class StreamEvent:
    """One event of a chat.

    `values`: the state; `messages-tuple`: `[message chunk, metadata]`; `custom`: what a tool sent;
    `end`: `{"run_id", "thread_id", "status", "usage"}`, with `error` where the run failed, and with
    `interrupts`, each `{"id", "value"}`, where it waits for a person.
    """

    type: str
    data: Any = field(default=None)


class DeerFlowClient:
    """Runs chats in this process.

    `config` is an `AppConfig`, a path, a mapping, or `None` for the usual search. `middlewares` are the
    application's own, for the lead agent. Extensions are those of the process-wide set; with
    `load_extensions` the configuration's plugins are loaded into it, once per process, and their services
    run until `close`. `mounts` are files or folders shown read-only in every workspace, by name.

    Every method may be called from any thread and inside a running event loop. Close the client, or use it
    as a context manager: runs under way then end as stopped.
    """

    def __init__(
        self,
        config: AppConfig | str | Path | Mapping[str, Any] | None = None,
        *,
        middlewares: Sequence[AgentMiddleware[Any, Any]] = (),
        load_extensions: bool = False,
        mounts: Mapping[str, Path] | None = None,
    ) -> None:
        self._config = config_from(config)
        self._middlewares = tuple(middlewares)
        self._mounts = dict(mounts or {})
        self._loaded: LoadedExtensions | None = load_once(self._config.plugins) if load_extensions else None
        self._thread = LoopThread("deerflow client")
        self._closed = False
        self._exit = AsyncExitStack()
        self._opening: asyncio.Task[Host] | None = None

    def chat(self, message: str, *, thread_id: str | None = None, **context: Any) -> str:
        """Send a message and return the answer's text; without `thread_id` on a new thread.

        Raises `RunFailedError`, `RunInterruptedError` (a person has to answer first: see `resume`), or
        `InvalidRequestError`.
        """
        return self._open_thread().call(self._run_to_end(_said(message, thread_id, context)))

    async def achat(self, message: str, *, thread_id: str | None = None, **context: Any) -> str:
        """`chat` for async callers."""
        request = _said(message, thread_id, context)
        return await asyncio.wrap_future(self._open_thread().submit(self._run_to_end(request)))

    def resume(self, answer: Any, *, thread_id: str, **context: Any) -> str:
        """Answer what the thread waits for, and return the text of what the run then comes to.

        For tools that need approval `answer` is `{"decisions": [...]}`: one decision for each of the
        interrupt's `action_requests`, in their order. A decision is `{"type": "approve"}`,
        `{"type": "reject", "message": ...}`, `{"type": "edit", "edited_action": {"name", "args"}}`, or
        `{"type": "respond", "message": ...}`, which the model gets instead of the tool's result. A tool that
        asks by itself gets `answer` as it is. Where several things wait, it maps interrupt ids to answers.

        Options that are not given are those of the run that asked. Raises what `chat` raises;
        `InvalidRequestError` also for an answer that no checkpoint can hold.
        """
        return self._open_thread().call(self._run_to_end(_answered(answer, thread_id, context)))

    async def aresume(self, answer: Any, *, thread_id: str, **context: Any) -> str:
        """`resume` for async callers."""
        request = _answered(answer, thread_id, context)
        return await asyncio.wrap_future(self._open_thread().submit(self._run_to_end(request)))

    def stream(self, message: str, *, thread_id: str | None = None, **context: Any) -> Iterator[StreamEvent]:
        """Send a message and yield events as they come, `end` last. Leaving early stops the run."""
        return self._events(_said(message, thread_id, context))

    def astream(
        self, message: str, *, thread_id: str | None = None, **context: Any
    ) -> AsyncGenerator[StreamEvent]:
        """`stream` for async callers."""
        return self._aevents(_said(message, thread_id, context))

    def stream_resume(self, answer: Any, *, thread_id: str, **context: Any) -> Iterator[StreamEvent]:
        """Answer as `resume` does, and yield events as `stream` does."""
        return self._events(_answered(answer, thread_id, context))

    def astream_resume(self, answer: Any, *, thread_id: str, **context: Any) -> AsyncGenerator[StreamEvent]:
        """`stream_resume` for async callers."""
        return self._aevents(_answered(answer, thread_id, context))

    def close(self) -> None:
        """Stop what is running, stop services, close the database. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            self._thread.call(self._shut())
            self._thread.close()

    async def aclose(self) -> None:
        """`close` for async callers."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _open_thread(self) -> LoopThread:
        if self._closed:
            raise UnavailableError("this client is closed; make a new one")
        return self._thread

    def _events(self, request: RunRequest) -> Iterator[StreamEvent]:
        thread = self._open_thread()
        reader = _Reader(thread.call(self._start(replace(request, stream_modes=_STREAM_MODES))))
        try:
            while not reader.ended:
                try:
                    events = thread.call(reader.next_events())
                except LoopClosedError:
                    events = reader.left_events()
                yield from events
        finally:
            with suppress(LoopClosedError):
                thread.call(reader.leave())

    async def _aevents(self, request: RunRequest) -> AsyncGenerator[StreamEvent]:
        thread = self._open_thread()
        start = thread.submit(self._start(replace(request, stream_modes=_STREAM_MODES)))
        reader = _Reader(await asyncio.wrap_future(start))
        try:
            while not reader.ended:
                try:
                    events = await asyncio.wrap_future(thread.submit(reader.next_events()))
                except LoopClosedError:
                    events = reader.left_events()
                for event in events:
                    yield event
        finally:
            with suppress(LoopClosedError):
                leaving = asyncio.wrap_future(thread.submit(reader.leave()))
                await uninterrupted(_result(leaving), name=f"leave run {reader.run.run_id}")

    async def _run_to_end(self, request: RunRequest) -> str:
        run = await self._start(request)
        try:
            await run.ended.wait()
        except asyncio.CancelledError:
            run.stop("disconnected")
            await uninterrupted(_ended(run), name=f"stop run {run.run_id}")
            raise
        return _answer(run)

    async def _start(self, request: RunRequest) -> ActiveRun:
        host = await self._host()
        return await host.runs.start(request)

    async def _host(self) -> Host:
        if self._opening is None:
            self._opening = asyncio.create_task(self._open(), name="open the client's host")
        try:
            return await asyncio.shield(self._opening)
        except asyncio.CancelledError:
            if self._opening.cancelled():
                raise UnavailableError("this client was closed while it opened; make a new one") from None
            raise

    async def _open(self) -> Host:
        options = HostOptions(
            services_of=claim_services(self._loaded, self._exit) if self._loaded is not None else None,
            owns_notification_loop=self._loaded is not None,
            middlewares=self._middlewares,
            mounts=self._mounts,
            drain_seconds=0.0,
        )
        return await self._exit.enter_async_context(open_host(self._config, options))

    async def _shut(self) -> None:
        if self._opening is not None:
            self._opening.cancel()  # a service may start for ever
            await asyncio.wait({self._opening})
        await self._exit.aclose()


def _said(message: str, thread_id: str | None, context: Mapping[str, Any]) -> RunRequest:
    if not isinstance(message, str) or not message.strip():
        raise InvalidRequestError("the message is empty; say what you want")
    return RunRequest(
        thread_id=str(uuid4()) if thread_id is None else thread_id,
        input={"messages": [HumanMessage(message, id=str(uuid4()))]},
        context=context,
        stream_modes=(),
        if_not_exists="create",
    )


def _answered(answer: Any, thread_id: str, context: Mapping[str, Any]) -> RunRequest:
    check_answer(answer)
    return RunRequest(thread_id=thread_id, command={"resume": answer}, context=context, stream_modes=())


class _Reader:
    """Follows one run's events for one consumer. What is left may be read when the loop has ended."""

    def __init__(self, run: ActiveRun) -> None:
        self.run = run
        self.ended = False
        self._events = run.log.reader(0)

    async def next_events(self) -> list[StreamEvent]:
        """Wait for events; the list may be empty where nothing came that a client is told of."""
        return self._told(await self._events.next())

    def left_events(self) -> list[StreamEvent]:
        """What is there without waiting."""
        return self._told(self._events.available() or None)

    async def leave(self) -> None:
        """Stop the run where it is still under way, and wait for its end."""
        self.run.stop("disconnected")
        await self.run.ended.wait()

    def _told(self, batch: list[RunEvent] | None) -> list[StreamEvent]:
        self.ended = batch is None
        named = ((_EVENT_TYPES.get(event.name), event) for event in batch or ())
        return [StreamEvent(kind, event.data) for kind, event in named if kind is not None]


async def _ended(run: ActiveRun) -> None:
    await run.ended.wait()


async def _result(future: asyncio.Future[Any]) -> Any:
    return await future


def _answer(run: ActiveRun) -> str:
    ending = run.ending
    if ending is None or ending.status is not RunStatus.SUCCESS:
        ids = {"run_id": run.run_id, "thread_id": run.thread_id}
        if ending is not None and ending.interrupts:
            raise RunInterruptedError(ending.interrupts, **ids)
        if ending is not None and ending.error is not None:
            raise RunFailedError(": ".join(ending.error), **ids)
        raise RunFailedError(f"stopped ({(ending and ending.stop_reason) or 'unknown reason'})", **ids)
    messages = run.values.get("messages") or []
    return next((m.text for m in reversed(messages) if isinstance(m, AIMessage)), "")
