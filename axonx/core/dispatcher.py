"""Finds the Job that a call names, here or at another service."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from axonx.components.job.base import BaseJob, EventStream, run_job, stream_job
from axonx.components.job.response import JobResponse
from axonx.core.remote import RemoteCalls
from axonx.errors import NotRunningError, StreamingNotSupportedError, UnknownJobError

if TYPE_CHECKING:
    from axonx.core.app_context import AppContext


class Dispatcher:
    """Runs Jobs by name. `system` values come from the framework, never from a caller.

    Raises `NotRunningError` (a `RuntimeError`), `UnknownJobError`, `InvalidArgumentsError` and `TargetError`
    (each a `ValueError`) before a call exists; what fails later is its response.
    """

    def __init__(self, app_context: AppContext) -> None:
        self._app_context = app_context
        self.accepting = False
        self.remote = RemoteCalls(app_context)

    async def run(
        self,
        name: str,
        arguments: Any = None,
        *,
        system: Mapping[str, Any] | None = None,
        target: str | None = None,
    ) -> JobResponse:
        """Run to the end and return the response."""
        if target is not None:
            self._check_accepting()
            return await self.remote.run(target, name, arguments)
        return await run_job(self._job(name), arguments, system)

    def stream(
        self,
        name: str,
        arguments: Any = None,
        *,
        system: Mapping[str, Any] | None = None,
        target: str | None = None,
    ) -> EventStream:
        """EventStream and, last, one ResultEvent; nothing runs before the first `anext`."""
        if target is not None:
            self._check_accepting()
            return self.remote.stream(target, name, arguments)
        job = self._job(name)
        if not job.enable_stream:
            raise StreamingNotSupportedError(f"Job {name!r} does not support streaming")
        return stream_job(job, arguments, system)

    def _job(self, name: str) -> BaseJob:
        self._check_accepting()
        job = self._app_context.jobs.get(name)
        if job is None:
            known = ", ".join(self._app_context.jobs) or "none"
            reason = self._app_context.unusable_jobs.get(name) or f"configured: {known}"
            raise UnknownJobError(f"Unknown job: {name!r} ({reason})")
        return job

    def _check_accepting(self) -> None:
        if not self.accepting:
            raise NotRunningError("Application is not running")
