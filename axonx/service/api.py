"""The HTTP interface of an Application's Jobs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.responses import Response

from axonx import __version__
from axonx.components.job.catalog import JobCatalog
from axonx.components.job.response import JobResponse
from axonx.errors import (
    InvalidArgumentsError,
    NotRunningError,
    StreamingNotSupportedError,
    TargetError,
    UnknownJobError,
)
from axonx.service.connection import run_while_connected
from axonx.service.responses import detail, envelope
from axonx.service.sse import EventStreamResponse

if TYPE_CHECKING:
    from axonx.components.job.base import BaseJob
    from axonx.core.app_context import AppContext

_UNKNOWN_JOB = "Unknown job"

_STATUS: Mapping[type[Exception], int] = {
    InvalidArgumentsError: 422,
    TargetError: 422,
    StreamingNotSupportedError: 404,
    NotRunningError: 503,
}


class JobCall(BaseModel):
    """The body of a call; `target` sends it on to another service that is configured under `targets`."""

    model_config = ConfigDict(extra="forbid")

    arguments: dict[str, Any] = Field(default_factory=dict)
    target: str | None = None


class JobsApi:
    """The endpoints; the Jobs are those that the service offers."""

    def __init__(
        self,
        context: AppContext,
        jobs: Mapping[str, BaseJob],
        *,
        with_targets: bool,
        keep_alive_seconds: float,
    ) -> None:
        self._dispatcher = context.dispatcher
        self._jobs = jobs
        self._with_targets = with_targets
        self._keep_alive_seconds = keep_alive_seconds
        self._catalog = JobCatalog.of(jobs.values()).model_dump(mode="json")

    async def health(self) -> Response:
        """Whether the application takes calls."""
        return envelope(JobResponse(answer={"running": self._dispatcher.accepting}))

    async def list_jobs(self) -> Response:
        """The Jobs with the JSON Schemas of their arguments and of the envelope."""
        return envelope(JobResponse(answer=self._catalog))

    async def call_job(self, name: str, call: JobCall, request: Request) -> Response:
        """Run a Job to its end; 200 also when it fails. Leaving cancels it."""
        self._check(name, call)
        work = self._dispatcher.run(name, call.arguments, target=call.target)
        response = await run_while_connected(request.receive, work)
        return Response(status_code=204) if response is None else envelope(response)

    async def stream_job(self, name: str, call: JobCall) -> Response:
        """The Job's events and, last, its result, as server-sent events. Leaving cancels it."""
        self._check(name, call)
        events = self._dispatcher.stream(name, call.arguments, target=call.target)
        return EventStreamResponse(events, self._keep_alive_seconds)

    def _check(self, name: str, call: JobCall) -> None:
        if call.target is None:
            if name not in self._jobs:
                raise UnknownJobError(_UNKNOWN_JOB)
        elif not self._with_targets:
            raise TargetError("target is for callers that are known: set service.token")


def build_api(title: str, api: JobsApi) -> FastAPI:
    """The application for the server, without who may use it."""
    app = FastAPI(title=title, version=__version__)
    app.add_api_route("/health", api.health, methods=["GET"], response_model=JobResponse)
    app.add_api_route("/jobs", api.list_jobs, methods=["GET"], response_model=JobResponse)
    app.add_api_route("/jobs/{name}", api.call_job, methods=["POST"], response_model=JobResponse)
    app.add_api_route(
        "/jobs/{name}/events",
        api.stream_job,
        methods=["POST"],
        response_class=Response,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(UnknownJobError, _unknown_job)
    for kind in _STATUS:
        app.add_exception_handler(kind, _refused)
    return app


async def _malformed(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    problems = [{key: problem[key] for key in ("type", "loc", "msg")} for problem in error.errors()]
    return detail(422, problems)


async def _unknown_job(request: Request, error: Exception) -> Response:
    return detail(404, _UNKNOWN_JOB)


async def _refused(request: Request, error: Exception) -> Response:
    status = next(code for kind, code in _STATUS.items() if isinstance(error, kind))
    return detail(status, str(error))
