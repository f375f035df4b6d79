"""`axonx tasks`: which Tasks there are, and what became of their runs."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import click

from axonx.application import Application
from axonx.cli.configuration import config_option, load_configuration, task_configuration
from axonx.cli.loop import run_in_loop
from axonx.components.job.events import LogEvent
from axonx.task.catalogue import TaskCatalogue
from axonx.task.identity import TaskType
from axonx.task.manager import BaseTaskManager
from axonx.task.metadata import TaskMetadata, TaskState, summary_of
from axonx.task.run_log import LARGEST_WINDOW_BYTES


@click.group("tasks")
def command() -> None:
    """List Tasks and their runs; read logs, cancel, delete."""


@command.command("list")
@config_option
def list_tasks(config_file: str | None) -> None:
    """The Tasks that can be run: name, type, where it comes from, description."""
    for info in _catalogue(config_file).usable(include_schemas=False):
        description = " ".join(info.description.split())
        click.echo("\t".join((info.name, info.task_type.value, info.plugin or info.source, description)))


@command.command("show")
@click.argument("name")
@config_option
def show(name: str, config_file: str | None) -> None:
    """One Task with the JSON Schemas of its input and output, as JSON."""
    click.echo(_catalogue(config_file).definition(name).model_dump_json(indent=2))


@command.command("runs")
@click.option("--state", type=click.Choice([state.value for state in TaskState]))
@click.option("--type", "task_type", type=click.Choice([kind.value for kind in TaskType]))
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each run.")
@config_option
def runs(state: str | None, task_type: str | None, as_json: bool, config_file: str | None) -> int:
    """The runs, oldest first: Task ID, state, when it was created, error."""

    async def print_runs(manager: BaseTaskManager) -> None:
        records = await manager.list_statuses(
            state=TaskState(state) if state else None, task_type=TaskType(task_type) if task_type else None
        )
        for record in records:
            click.echo(_json_line(record) if as_json else _tab_line(record))

    return _with_manager(config_file, print_runs)


@command.command("logs")
@click.argument("task_id")
@click.option("--follow", is_flag=True, help="Go on until the run has ended.")
@config_option
def logs(task_id: str, follow: bool, config_file: str | None) -> int:
    """The log of a Task's current run."""

    async def print_log(manager: BaseTaskManager) -> None:
        if follow:
            async for event in manager.stream(task_id):
                if isinstance(event, LogEvent):
                    click.echo(event.content, nl=False)
            return
        offset = 0
        while (window := await manager.read_log(task_id, offset, LARGEST_WINDOW_BYTES)).content:
            click.echo(window.content, nl=False)
            offset = window.next_offset

    return _with_manager(config_file, print_log)


@command.command("cancel")
@click.argument("task_id")
@config_option
def cancel(task_id: str, config_file: str | None) -> int:
    """End a Task's run; prints false when it had ended by itself."""

    async def cancel_run(manager: BaseTaskManager) -> None:
        click.echo("true" if await manager.cancel(task_id) else "false")

    return _with_manager(config_file, cancel_run)


@command.command("delete")
@click.argument("task_ids", nargs=-1, required=True, metavar="TASK_ID...")
@config_option
def delete(task_ids: tuple[str, ...], config_file: str | None) -> int:
    """Remove Tasks that have ended, with their files; all of them or, at an error, none."""

    async def delete_tasks(manager: BaseTaskManager) -> None:
        for task_id in await manager.delete(task_ids):
            click.echo(task_id)

    return _with_manager(config_file, delete_tasks)


def _catalogue(config_file: str | None) -> TaskCatalogue:
    app = Application(**task_configuration(load_configuration(config_file)))
    return TaskCatalogue(app.context.registry)


def _with_manager(config_file: str | None, work: Callable[[BaseTaskManager], Awaitable[None]]) -> int:
    app = Application(**task_configuration(load_configuration(config_file)))

    async def run() -> int:
        async with app:
            manager: Any = app.context.component("task_manager")
            await work(manager)
        return 0

    return run_in_loop(run())


def _json_line(record: TaskMetadata) -> str:
    return json.dumps(summary_of(record), ensure_ascii=False)


def _tab_line(record: TaskMetadata) -> str:
    error = " ".join(record.error.split())
    return "\t".join((record.task_id, record.state.value, record.created_at.isoformat(), error))
