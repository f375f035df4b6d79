"""`deerflow demo`: one offline run over real files, with delegations and the example extension."""

from __future__ import annotations

import importlib.util
import tempfile
from pathlib import Path

import click

from deerflow.cli.display import ChatDisplay
from deerflow.cli.log_lines import log_lines
from deerflow.client import DeerFlowClient
from deerflow.config import config_from
from deerflow.errors import RunFailedError

_EXAMPLE = "tool_call_counter"


@click.command(short_help="Outline files offline, one subagent each.")
@click.argument("files", nargs=-1, type=click.Path(exists=True, dir_okay=False, path_type=Path))
def command(files: tuple[Path, ...]) -> None:
    """Let the lead agent hand each FILE to a subagent that outlines it. Offline; no key, no network."""
    mounts = _mounts(files or tuple(path for path in (Path("README.md"),) if path.is_file()))
    if not mounts:
        raise click.UsageError("no file given and no README.md here; name the files to outline")
    prompt = "Outline these files, each in a subagent: " + ", ".join(f'"{name}"' for name in mounts)
    display = ChatDisplay()
    with tempfile.TemporaryDirectory(prefix="deerflow-demo-") as home:
        with log_lines(), _client(Path(home), mounts) as client:
            click.echo(f"lead agent  {prompt}")
            with display.running():
                for event in client.stream(prompt):
                    display.follow(event)
            if display.end.get("status") != "success":
                ids = {"run_id": display.end["run_id"], "thread_id": display.end["thread_id"]}
                raise RunFailedError(display.end.get("error", "it was stopped"), **ids)
            click.echo(f"\n{display.answer}\n")


def _mounts(files: tuple[Path, ...]) -> dict[str, Path]:
    """Names in the workspace: a file's own, or with its folder where two would be called the same."""
    names = [path.name for path in files]
    mounts: dict[str, Path] = {}
    for path in files:
        name = path.name if names.count(path.name) == 1 else "/".join(path.resolve().parts[-2:])
        mounts[name] = path.resolve()
    return mounts


def _client(home: Path, mounts: dict[str, Path]) -> DeerFlowClient:
    example_is_there = importlib.util.find_spec(_EXAMPLE) is not None
    plugins = [{"use": f"{_EXAMPLE}:install", "config": {"report": "stdout"}}] if example_is_there else []
    config = {
        "models": [{"name": "offline", "use": "deerflow.models:ScriptedChatModel"}],
        "subagents": {"max_total_per_run": 50, "max_running": 8},
        "database": {"backend": "memory"},
        "plugins": plugins,
    }
    return DeerFlowClient(config_from(config).based_in(home), load_extensions=True, mounts=mounts)
