"""`axonx exec`: one Task, in this process."""

from __future__ import annotations

import json
import signal
from typing import Any

import click

from axonx.application import Application
from axonx.cli.configuration import config_option, load_configuration, task_configuration
from axonx.cli.fields import FieldError, parse_fields
from axonx.errors import AxonXError
from axonx.task.catalogue import TASK_ARGUMENT, TaskCatalogue
from axonx.task.execute import TaskExecution, execute_task


@click.command("exec", context_settings={"ignore_unknown_options": True})
@click.argument("fields", nargs=-1, type=click.UNPROCESSED, metavar="[TASK] [--FIELD VALUE]...")
@config_option
def command(fields: tuple[str, ...], config_file: str | None) -> int:
    """Run TASK and print its outcome as one line of JSON; without TASK, list what can be run.

    Each --FIELD VALUE is a field of the Task's input, read as by `axonx run`. The exit status is the Task's.
    """
    app = Application(**task_configuration(load_configuration(config_file)))
    catalogue = TaskCatalogue(app.context.registry)
    if not fields:
        _list(catalogue)
        return 0
    name, rest = _task_of(fields)
    task_cls = catalogue.resolve(name)
    values = parse_fields(rest, task_cls.input_cls.model_json_schema())
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    execution = execute_task(
        task_cls,
        values,
        workspace_path=app.workspace_path,
        timezone=app.app_config.timezone,
        reg_name=name,
    )
    return _report(execution)


def _task_of(fields: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """The Task's name and its fields: the name comes first, or as `--task NAME`."""
    if not fields[0].startswith("-"):
        return fields[0], fields[1:]
    if fields[0] == f"--{TASK_ARGUMENT}" and len(fields) > 1:
        return fields[1], fields[2:]
    raise FieldError("the name of the Task comes first: axonx exec TASK --field VALUE")


def _list(catalogue: TaskCatalogue) -> None:
    for name in catalogue.names():
        try:
            task_cls = catalogue.resolve(name)
        except AxonXError as error:
            click.echo(f"{name}: {error}", err=True)
        else:
            click.echo(f"{name}\t{task_cls.__module__}.{task_cls.__qualname__}")


def _report(execution: TaskExecution) -> int:
    record = execution.metadata
    outcome: dict[str, Any] = {
        "task_id": record.task_id,
        "run_id": record.run_id,
        "state": record.state.value,
        "exit_code": record.exit_code,
        "output": execution.output,
        "error": record.error,
    }
    click.echo(json.dumps(outcome, ensure_ascii=False))
    if record.error:
        click.echo(f"Error: {' '.join(record.error.split())}", err=True)
    return execution.exit_code
