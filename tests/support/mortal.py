"""Hosts in processes of their own, which tests kill."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from deerflow_extension_api import ExtensionData, TaskInfo, TaskLifecycleContributor
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool

from deerflow.config import AppConfig, config_from
from deerflow.extensions import LoadedExtensions, set_loaded_extensions
from deerflow.host import HostOptions, open_host
from deerflow.runs.request import RunRequest

# Forks of one server that has imported everything: a host is there in milliseconds.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["support.mortal", "support.replicas"])


@tool
async def fatal(marker: str) -> str:
    """Kill this process the first time that it is called with a marker."""
    path = Path(marker)
    if not await asyncio.to_thread(path.exists):
        await asyncio.to_thread(path.write_text, str(os.getpid()))
        os.kill(os.getpid(), signal.SIGKILL)
    return "survived"


@tool
async def stubborn(marker: str) -> str:
    """Kill this process each time that it is called, and count that."""
    path = Path(marker)
    calls = path.read_text() if path.exists() else ""
    path.write_text(calls + "x")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@tool
async def pass_gate(gate: str) -> str:
    """Wait until a file is there."""
    while not await asyncio.to_thread(Path(gate).exists):
        await asyncio.sleep(0.02)
    return "passed"


released: list[bool] = []
"""What `refuse` waits for."""


refusing: list[bool] = []
"""Whether `refuse` has begun."""


@tool
async def refuse() -> str:
    """Ignore being cancelled until released."""
    refusing.append(True)
    while not released:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)
    return "refused"


class _DiesAtStart(TaskLifecycleContributor):
    async def on_task_start(self, app_store: Any, task_store: ExtensionData, info: TaskInfo) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    async def on_task_stop(self, *arguments: Any) -> None:
        pass


DIES_AT_START = LoadedExtensions(task_lifecycle=(("dies:install", _DiesAtStart()),))


@contextmanager
def process(target: Any, *arguments: Any) -> Iterator[tuple[BaseProcess, Connection]]:
    """Call `target` with the end of a pipe and `arguments` in a process that is killed at the end."""
    ours, theirs = _processes.Pipe()
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parents[1]), *filter(None, [before])])
    try:
        child = _processes.Process(target=target, args=(theirs, *arguments), daemon=True)
        child.start()
    finally:
        os.environ.pop("PYTHONPATH") if before is None else os.environ.update(PYTHONPATH=before)
    theirs.close()
    try:
        yield child, ours
    finally:
        child.kill()
        child.join()
        child.close()
        ours.close()


def host(told: Connection, values: dict[str, Any], home: str, requests: Sequence[dict[str, Any]]) -> None:
    """Open a host, start runs, tell their ids and how they end, and wait to be killed."""
    asyncio.run(_host(told, config_from(values).based_in(Path(home)), requests))


def host_that_dies_at_task_start(*arguments: Any) -> None:
    """The same with an extension that kills the process when a run begins."""
    set_loaded_extensions(DIES_AT_START)
    host(*arguments)


async def _host(told: Connection, config: AppConfig, requests: Sequence[dict[str, Any]]) -> None:
    async with open_host(config, HostOptions(drain_seconds=0.0)) as opened:
        runs = []
        for fields in requests:
            runs.append(await opened.runs.start(RunRequest(if_not_exists="create", **fields)))
            told.send(runs[-1].run_id)
        for run in runs:
            await run.ended.wait()
            told.send(("ended", run.run_id, run.ending.stop_reason if run.ending else None))
        await asyncio.Event().wait()


def said(text: str) -> dict[str, Any]:
    """The input of a run with one human message."""
    return {"messages": [HumanMessage(text)]}
