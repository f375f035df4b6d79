"""Starting the services of extensions with the host, and stopping them in reverse order."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import monotonic
from typing import Any, Final

from deerflow_extension_api import ExtensionRuntimeDeps

from deerflow.cancellation import keep_alive, uninterrupted
from deerflow.extensions.cancellation import drop_left_over_cancellation, running_task
from deerflow.extensions.diagnostics import DiagnosticLog, error_text, logger, report
from deerflow.extensions.hooks import call_async_hook
from deerflow.extensions.outcomes import record_outcome
from deerflow.extensions.snapshot import LoadedExtensions

STOP_TIMEOUT_SECONDS: Final = 30.0
START_WARNING_SECONDS: Final = 10.0


async def start_services(
    snapshot: LoadedExtensions,
    deps: ExtensionRuntimeDeps,
    *,
    warn_every_seconds: float = START_WARNING_SECONDS,
    stop_timeout_seconds: float = STOP_TIMEOUT_SECONDS,
) -> RunningServices:
    """Start every service in registration order, on this loop, and return what stops them.

    One that fails is reported and the next one starts; one that takes long is named in the log every
    `warn_every_seconds`. Where this call itself is cancelled, what was entered is stopped first.
    """
    services = RunningServices(snapshot.diagnostics, stop_timeout_seconds)
    try:
        for source, service in snapshot.services:
            await services.start(source, service, deps, warn_every_seconds)
    except BaseException:
        await services.stop()
        raise
    return services


class RunningServices:
    """The services whose `start` was entered."""

    def __init__(self, diagnostics: DiagnosticLog, stop_timeout_seconds: float) -> None:
        self._diagnostics = diagnostics
        self._stop_timeout_seconds = stop_timeout_seconds
        self._lives: list[_ServiceLife] = []
        self._stopping = asyncio.Lock()

    async def start(
        self, source: str, service: Any, deps: ExtensionRuntimeDeps, warn_every_seconds: float
    ) -> None:
        """Enter one service and wait, without limit, until its `start` has ended either way."""
        life = _ServiceLife(source, service, deps, self._diagnostics)
        self._lives.append(life)
        with _named_while_it_starts(source, warn_every_seconds):
            await asyncio.wait((life.started,))
        life.raise_fatal()

    async def stop(self) -> None:
        """Stop every entered service, the last one first, each within its own time.

        Every service is stopped even where this call is cancelled meanwhile. Calling it again does nothing.
        """
        stopped = await uninterrupted(self._stop_all(), name="extensions:stop services")
        for life in stopped:
            life.raise_fatal()

    async def _stop_all(self) -> list[_ServiceLife]:
        stopped: list[_ServiceLife] = []
        async with self._stopping:
            while self._lives:
                stopped.append(self._lives.pop())
                await stopped[-1].stop(self._stop_timeout_seconds)
        return stopped


@contextmanager
def _named_while_it_starts(source: str, every_seconds: float) -> Iterator[None]:
    """Warn from a thread: a start that blocks the event loop would hold up the loop's own timers."""
    over, entered = Event(), monotonic()

    def warn() -> None:
        while not over.wait(every_seconds):
            logger.warning(
                "Extension %s: service start() has been running for %.1fs; the host waits for it",
                *(source, monotonic() - entered),
            )

    Thread(target=warn, name=f"extensions:start of {source}", daemon=True).start()
    try:
        yield
    finally:
        over.set()


class _ServiceLife:
    """One service from `start` to `stop`, both in one asyncio task.

    What `start` opens may be bound to its task, as anyio's task groups are; only there can `stop` close it.
    """

    def __init__(
        self, source: str, service: Any, deps: ExtensionRuntimeDeps, diagnostics: DiagnosticLog
    ) -> None:
        loop = asyncio.get_running_loop()
        self.started: asyncio.Future[None] = loop.create_future()
        self._source = source
        self._service = service
        self._diagnostics = diagnostics
        self._stop_wanted = asyncio.Event()
        self._cancelled_by_host = False
        self._fatal: BaseException | None = None
        self._asyncio_task = loop.create_task(self._live(deps), name=f"extensions:service {source}")

    async def stop(self, timeout_seconds: float) -> None:
        """End the service, however far it has come; give it up when the time is over."""
        self._stop_wanted.set()
        if not self.started.done():
            self._cancelled_by_host = True
            self._asyncio_task.cancel()
        await asyncio.wait((self._asyncio_task,), timeout=timeout_seconds)
        if not self._asyncio_task.done():
            self._report(f"service stop() timed out after {timeout_seconds:.1f}s; continuing shutdown")
            record_outcome(self._source, "stop", timeout_seconds, failed=True)
            self._cancelled_by_host = True
            self._asyncio_task.cancel()
            keep_alive(self._asyncio_task)

    def raise_fatal(self) -> None:
        """Raise the KeyboardInterrupt or SystemExit that the service raised, once."""
        fatal, self._fatal = self._fatal, None
        if fatal is not None:
            raise fatal

    async def _live(self, deps: ExtensionRuntimeDeps) -> None:
        await self._call("start", "continuing without it", deps)
        self.started.set_result(None)
        await drop_left_over_cancellation()
        self._cancelled_by_host = False
        try:
            await self._stop_wanted.wait()
        except asyncio.CancelledError:  # such as an anyio task group, opened in start, whose child failed
            self._report("service was cancelled while it was running; stopping it")
        await self._call("stop", "continuing shutdown")

    async def _call(self, hook: str, consequence: str, *arguments: Any) -> None:
        started, failed = monotonic(), True
        try:
            complaint = await call_async_hook(self._service, hook, *arguments)
        except GeneratorExit as error:
            if running_task() is not self._asyncio_task:
                raise  # the loop throws this task away; awaiting anything now is an error
            self._contain(hook, consequence, error)
        except (KeyboardInterrupt, SystemExit) as error:
            self._fatal = error
        except BaseException as error:  # noqa: BLE001 - whatever a service raises stays with it
            self._contain(hook, consequence, error)
        else:
            failed = complaint is not None
            if failed:
                self._report(f"service {hook}() {complaint}")
        if not self._cancelled_by_host:
            record_outcome(self._source, hook, monotonic() - started, failed=failed)

    def _contain(self, hook: str, consequence: str, error: BaseException) -> None:
        text = error_text(error)
        if self._cancelled_by_host:
            logger.debug("Extension %s: service %s() ended late: %s", self._source, hook, text)
        else:
            self._report(f"service {hook}() failed; {consequence}: {text}", error)

    def _report(self, message: str, error: BaseException | None = None) -> None:
        report(self._diagnostics, "error", self._source, message, error=error)
