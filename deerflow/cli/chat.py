"""`deerflow chat`: talk to the configured lead agent."""

from __future__ import annotations

import sys
from uuid import uuid4

import click

from deerflow.cli.display import ChatDisplay
from deerflow.cli.log_lines import log_lines
from deerflow.client import DeerFlowClient
from deerflow.errors import RunFailedError


@click.command(short_help="Talk to the lead agent.")
@click.argument("message", required=False)
@click.option("--thread", "thread_id", help="Go on with this thread (a UUID); default a new one.")
@click.option("--config", "config_path", type=click.Path(), help="The configuration file.")
def command(message: str | None, thread_id: str | None, config_path: str | None) -> None:
    """Send MESSAGE (or standard input) and print the answer; without either, ask line by line."""
    thread_id = thread_id or str(uuid4())
    with log_lines(), DeerFlowClient(config_path, load_extensions=True) as client:
        if message is not None:
            _turn(client, message, thread_id)
        elif not sys.stdin.isatty():
            _turn(client, sys.stdin.read(), thread_id)
        else:
            _conversation(client, thread_id)


def _conversation(client: DeerFlowClient, thread_id: str) -> None:
    click.echo(f"thread {thread_id}; an empty line ends the conversation")
    while message := click.prompt("you", default="", show_default=False):
        try:
            _turn(client, message, thread_id)
        except RunFailedError as error:
            click.echo(str(error), err=True)


def _turn(client: DeerFlowClient, message: str, thread_id: str) -> None:
    display = ChatDisplay()
    with display.running():
        for event in client.stream(message, thread_id=thread_id):
            display.follow(event)
    end = display.end
    if end.get("status") == "error":
        raise RunFailedError(end.get("error", "no reason given"), run_id=end["run_id"], thread_id=thread_id)
    click.echo(display.answer)
    if end.get("status") == "interrupted":
        click.echo(
            f"thread {thread_id} waits for a person: answer through DeerFlowClient.resume or the Gateway",
            err=True,
        )
