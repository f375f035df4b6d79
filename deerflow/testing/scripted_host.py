"""A real host on the scripted model, for one extension, with a synchronous face."""

from __future__ import annotations

import asyncio
import importlib
import json as json_text
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from uuid import uuid4

from deerflow_extension_api import AgentAssemblyDescriptor, CompactionEvent, ExtensionData
from langchain_core.messages import AIMessage, HumanMessage

from deerflow.config import config_from
from deerflow.extensions import (
    Diagnostic,
    LoadedExtensions,
    get_loaded_extensions,
    set_loaded_extensions,
)
from deerflow.extensions.notification_loop import notification_loop
from deerflow.host import Host, HostOptions, open_host
from deerflow.loop_thread import LoopThread
from deerflow.runs.active import ActiveRun
from deerflow.runs.request import RunRequest
from deerflow.testing.loading import Extension, load_extension
from deerflow.testing.problem_log import ProblemLog
from deerflow.testing.scenarios import Scenario, scripted_sections
from deerflow.testing.seen import SeenRun, SeenSystemCall, Witness

if TYPE_CHECKING:
    from deerflow.testing.http_front import HttpFront

RUN_SECONDS: Final = 30.0

_STREAM_MODES: Final = ("values", "messages-tuple", "custom")


@dataclass(frozen=True)
class Limits:
    """How long an extension's code may take: one middleware hook, and all hooks of one notification."""

    hook_seconds: float = 10.0
    notification_seconds: float = 3.0


@dataclass(frozen=True)
class HttpAnswer:
    """What a contributed route answered."""

    status: int
    text: str

    def json(self) -> Any:
        """The body as JSON."""
        return json_text.loads(self.text)


class ScriptedHost:
    """A host with one extension, its services started; chats, and tells what was seen.

    `extension` is anything that `load_extension` takes, a set of extensions, or None for a host without any.
    `rules` of the scripted model come before those of the scenarios; without a match it echoes the message.
    Other keyword arguments are sections of the configuration. State is kept in memory, files in `home`, by
    default a temporary folder. While it is open, its set is the process-wide one. Close it, or use it as a
    context manager.
    """

    def __init__(
        self,
        extension: Extension | LoadedExtensions | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        home: Path | None = None,
        rules: Sequence[Mapping[str, Any]] = (),
        limits: Limits = Limits(),
        **sections: Any,
    ) -> None:
        self._witness = Witness()
        self._loaded = replace(
            self._witness.watch(_loaded(extension, config)),
            notification_budget_seconds=limits.notification_seconds,
        )
        self._limits = limits
        self._cleanup = ExitStack()
        if home is None:
            home = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="deerflow-")))
        values = scripted_sections(rules, sections, limits.hook_seconds)
        self._config = config_from(values).based_in(home)
        self._problems = self._cleanup.enter_context(ProblemLog())
        self._before = get_loaded_extensions()
        self._life = AsyncExitStack()
        self._front: HttpFront | None = None
        self._closed = False
        self._thread = LoopThread("scripted host")
        self._cleanup.callback(self._thread.close)
        try:
            self._host = self._thread.call(self._open())
        except BaseException:
            self._cleanup.close()
            raise

    @property
    def app_store(self) -> ExtensionData:
        """The store that every extension of this host shares."""
        return self._loaded.app_store

    @property
    def problems(self) -> tuple[str, ...]:
        """What the log says that extensions did wrong so far, one line each; empty for a well-behaved one."""
        return self._problems.lines

    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The problems of loading, middlewares, routers and services that an operator finds collected."""
        return tuple(self._loaded.diagnostics)

    @property
    def system_calls(self) -> tuple[SeenSystemCall, ...]:
        """The host's own model calls so far."""
        return tuple(self._witness.system_calls)

    @property
    def compactions(self) -> tuple[CompactionEvent, ...]:
        """The compactions so far."""
        return tuple(self._witness.compactions)

    @property
    def assemblies(self) -> tuple[AgentAssemblyDescriptor, ...]:
        """The agents that were assembled so far."""
        return tuple(self._witness.assemblies)

    def chat(self, message: str, *, thread_id: str | None = None, **context: Any) -> SeenRun:
        """Send a message, on a new thread unless one is given, and return the run when it has ended."""
        return self._thread.call(self._to_the_end(_asking(message, thread_id, context)))

    def resume(self, run: SeenRun, answer: Any, **context: Any) -> SeenRun:
        """Give the person's answer that an interrupted run waits for, and return the run that goes on."""
        request = RunRequest(
            thread_id=run.thread_id, command={"resume": answer}, context=context, stream_modes=_STREAM_MODES
        )
        return self._thread.call(self._to_the_end(request))

    def play(self, scenario: Scenario) -> tuple[SeenRun, ...]:
        """Play a scenario on a new thread and return its runs; none that the host is shut down in is left."""
        thread_id = str(uuid4())
        *earlier, last = scenario.messages
        runs = [self.chat(message, thread_id=thread_id, **scenario.context) for message in earlier]
        request = _asking(last, thread_id, scenario.context)
        if scenario.last_run == "ends":
            return (*runs, self._thread.call(self._to_the_end(request)))
        if scenario.last_run == "is cancelled":
            return (*runs, self._thread.call(self._cancelled(request)))
        run = self._thread.call(self._started(request))
        self.close()
        return (*runs, self._seen(run))

    def request(
        self, method: str, path: str, *, json: Any = None, headers: Mapping[str, str] | None = None
    ) -> HttpAnswer:
        """Send an HTTP request, as the local administrator, to the host's and the extension's routes."""
        return self._thread.call(self._requested(method, path, json, headers))

    def close(self) -> None:
        """Stop what is running and the services. Calling it again does nothing."""
        if not self._closed:
            self._closed = True
            try:
                self._thread.call(self._life.aclose())
            finally:
                self._cleanup.close()
                if get_loaded_extensions() is self._loaded:
                    set_loaded_extensions(self._before)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _open(self) -> Host:
        set_loaded_extensions(self._loaded)
        options = HostOptions(services_of=self._loaded, owns_notification_loop=True, drain_seconds=0.0)
        return await self._life.enter_async_context(open_host(self._config, options))

    async def _to_the_end(self, request: RunRequest) -> SeenRun:
        run = await self._start(request)
        return await self._ended(run)

    async def _cancelled(self, request: RunRequest) -> SeenRun:
        run = await self._started(request)
        run.stop("cancelled")
        return await self._ended(run)

    async def _started(self, request: RunRequest) -> ActiveRun:
        """Start a run and wait until its model is being asked."""
        self._witness.model_is_asked.clear()
        run = await self._start(request)
        either = {
            asyncio.create_task(self._witness.model_is_asked.wait()),
            asyncio.create_task(run.ended.wait()),
        }
        await asyncio.wait(either, timeout=RUN_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for waiting in either:
            waiting.cancel()
        return run

    async def _start(self, request: RunRequest) -> ActiveRun:
        set_loaded_extensions(self._loaded)  # another host may have been opened meanwhile
        return await self._host.runs.start(request)

    async def _ended(self, run: ActiveRun) -> SeenRun:
        await asyncio.wait_for(run.ended.wait(), RUN_SECONDS)
        loop = notification_loop(self._loaded)
        if loop is not None:  # nobody waits for some observers, but whoever asks what they saw
            await loop.drain(self._limits.notification_seconds + 1.0)
        return self._seen(run)

    def _seen(self, run: ActiveRun) -> SeenRun:
        ending = run.ending
        if ending is None:
            raise AssertionError(f"run {run.run_id} has not ended")
        messages = tuple(run.values.get("messages", ()))
        last = messages[-1] if messages else None
        return SeenRun(
            run_id=run.run_id,
            thread_id=run.thread_id,
            status=ending.status.value,
            answer=last.text if isinstance(last, AIMessage) else "",
            error=None if ending.error is None else ": ".join(ending.error),
            stop_reason=ending.stop_reason,
            messages=messages,
            events=tuple((event.name, event.data) for event in run.log.reader(0).available()),
            tasks=self._witness.tasks_of(run.run_id),
        )

    async def _requested(
        self, method: str, path: str, json: Any, headers: Mapping[str, str] | None
    ) -> HttpAnswer:
        if self._front is None:
            # Imported here: most tests send no request, and need neither FastAPI nor an HTTP client.
            module = importlib.import_module("deerflow.testing.http_front")
            self._front = module.HttpFront(self._host, self._loaded)
        return HttpAnswer(*await self._front.request(method, path, json, headers))


def _loaded(
    extension: Extension | LoadedExtensions | None, config: Mapping[str, Any] | None
) -> LoadedExtensions:
    if extension is None:
        return LoadedExtensions()
    if isinstance(extension, LoadedExtensions):
        return extension
    return load_extension(extension, config)


def _asking(message: str, thread_id: str | None, context: Mapping[str, Any]) -> RunRequest:
    return RunRequest(
        thread_id=thread_id or str(uuid4()),
        input={"messages": [HumanMessage(message, id=str(uuid4()))]},
        context=context,
        stream_modes=_STREAM_MODES,
        if_not_exists="create",
    )
