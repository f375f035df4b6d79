"""`axonx run`: one Job, here or at another service."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from axonx.application import Application
from axonx.cli.configuration import config_option, load_configuration
from axonx.cli.fields import parse_fields
from axonx.cli.loop import run_in_loop
from axonx.components.job.base import EventStream
from axonx.components.job.events import ResultEvent
from axonx.components.job.response import JobResponse
from axonx.service.envelope import envelope_json

if TYPE_CHECKING:
    from axonx.client.base import BaseClient


@dataclass(frozen=True)
class Request:
    """What the command line asks for."""

    job: str
    fields: Sequence[str]
    stream: bool


@click.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("job")
@click.argument("fields", nargs=-1, type=click.UNPROCESSED, metavar="[--FIELD VALUE]...")
@config_option
@click.option("--stream", is_flag=True, help="Print every event as a line of JSON.")
@click.option("--target", metavar="URL", help="Call the Job of the service at this address instead.")
@click.option("--token", envvar="AXONX_TOKEN", help="Bearer token of the service.")
@click.option("--client-timeout", type=float, metavar="SECONDS", help="Longest time for a call at a service.")
def command(
    job: str,
    fields: tuple[str, ...],
    config_file: str | None,
    stream: bool,
    target: str | None,
    token: str | None,
    client_timeout: float | None,
) -> int:
    """Run JOB and print its envelope: one line of JSON with answer, success and metadata.

    Each --FIELD VALUE is an argument of the Job: --limits.depth 3 nests, values are read as JSON where they
    are null, true, false, a number, or JSON itself, else as text. Write --field=VALUE where a value begins
    with "--", and put "--" before fields that are named like an option of this command.
    """
    if job.startswith("-"):
        raise click.UsageError("the name of the Job comes first: axonx run JOB --field VALUE")
    request = Request(job, fields, stream)
    if target is None:
        return run_in_loop(_run_here(request, load_configuration(config_file)))
    # The client is imported for calls that need it.
    client = importlib.import_module("axonx.client.http").HttpClient(
        address=target, token=token, timeout_seconds=client_timeout
    )
    return run_in_loop(_run_there(request, client))


async def _run_here(request: Request, config: dict[str, Any]) -> int:
    # One call needs no port and no clock.
    parts = {key: value for key, value in config.items() if key not in ("service", "schedules")}
    app = Application(**parts)
    known = app.context.jobs.get(request.job)
    arguments = parse_fields(request.fields, known.parameters if known is not None else None)
    async with app:
        if request.stream:
            return await _print_events(app.stream_job(request.job, arguments))
        return _print_response(await app.run_job(request.job, arguments))


async def _run_there(request: Request, client: BaseClient) -> int:
    arguments = parse_fields(request.fields)
    async with client:
        if request.stream:
            return await _print_events(client.stream_job(request.job, arguments))
        return _print_response(await client.run_job(request.job, arguments))


async def _print_events(stream: EventStream) -> int:
    status = 1
    async with aclosing(stream) as events:
        async for event in events:
            click.echo(event.model_dump_json())
            if isinstance(event, ResultEvent):
                status = _say_failure(event)
    return status


def _print_response(response: JobResponse) -> int:
    click.echo(envelope_json(response))
    return _say_failure(response)


def _say_failure(response: JobResponse) -> int:
    if response.success:
        return 0
    click.echo(f"Error: {' '.join(str(response.answer).split())}", err=True)
    return 1
