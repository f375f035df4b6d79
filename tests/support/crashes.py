"""What tests of crashes share: hosts that come back, and records as a dead host leaves them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from sqlalchemy import text

from deerflow.config import AppConfig, config_from
from deerflow.host import Host
from deerflow.runs.record import ACTIVE_STATUSES, RunRecord, ThreadStatus

LEASE_SECONDS = 1.0


def lasting_values(
    config: AppConfig, rules: Iterable[dict[str, Any]] = (), **sections: Any
) -> dict[str, Any]:
    """The configuration of hosts on the database of `config`, as plain values."""
    model = {
        "name": "scripted",
        "use": "deerflow.models:ScriptedChatModel",
        "rules": [*rules, {"when": "", "turns": [{"text": "echo: {prompt}"}]}],
    }
    return {
        "models": [model],
        "database": {"backend": config.database.backend, "url": config.database.url},
        "runs": {"lease_seconds": LEASE_SECONDS},
        **sections,
    }


def lasting(values: dict[str, Any], home: Path) -> AppConfig:
    """The same as a configuration."""
    return config_from(values).based_in(home)


async def until(condition: Callable[[], Any], *, seconds: float = 60.0) -> None:
    """Wait for a condition, which may be asynchronous, and need the start of a process."""
    async with asyncio.timeout(seconds):
        while True:
            met = condition()
            if asyncio.iscoroutine(met):
                met = await met
            if met:
                return
            await asyncio.sleep(0.005)


async def settled(host: Host) -> None:
    """Wait until nothing is under way, and no thread is busy."""

    async def quiet() -> bool:
        return not await host.database.stores.runs.list_active()

    await until(quiet, seconds=60.0)


async def leave_under_way(
    host: Host, run_id: str, *, status: str = "running", taken_up_here: bool = False, **columns: Any
) -> None:
    """Make a run that has ended look as if its host had died right before it could write that down.

    Unless it is to be taken up here, this host takes up nothing any more, and is left to be closed.
    """
    if not taken_up_here:
        host.runs.stop_accepting()
    values = {"status": status, "host_id": str(uuid4()), "stop_reason": None, "error": None, **columns}
    changes = ", ".join(f"{name} = :{name}" for name in values)
    statements = [
        (f"UPDATE runs SET {changes} WHERE run_id = :run", {**values, "run": run_id}),
        (
            "UPDATE threads SET status = :busy"
            " WHERE thread_id = (SELECT thread_id FROM runs WHERE run_id = :run)",
            {"busy": ThreadStatus.BUSY.value, "run": run_id},
        ),
    ]
    for statement, parameters in statements:
        await host.database.transactions.write(
            lambda connection, s=statement, p=parameters: connection.execute(text(s), p).rowcount
        )


async def let_leases_end(host: Host) -> None:
    """Let the leases of all other hosts be over, as if their time had passed; on SQLite there are none."""
    if host.database.engine.dialect.name == "postgresql":
        statement = "UPDATE run_hosts SET lease_until = now() - interval '1 second' WHERE host_id != :own"
        own = {"own": host.runs._parts.host_id}
        await host.database.transactions.write(lambda connection: connection.execute(text(statement), own))


async def ended(host: Host, run_id: str) -> RunRecord:
    """The record of a run, once it has ended."""
    found: list[RunRecord] = []

    async def is_over() -> bool:
        record = await host.database.stores.runs.get(run_id)
        assert record is not None
        found[:] = [record]
        return record.status not in ACTIVE_STATUSES and host.runs.find(run_id) is None

    await until(is_over)
    return found[0]


async def messages_on(host: Host, thread_id: str) -> list[tuple[str, str]]:
    """The thread's messages: type and text."""
    thread = await host.database.stores.threads.get(thread_id)
    assert thread is not None
    state = await host.states.read(thread)
    return [(message.type, str(message.text)) for message in state.values.get("messages") or ()]


async def event_types(host: Host, record: RunRecord) -> list[str]:
    """The types of a run's events, in order."""
    kept = await host.database.stores.events.list(record.thread_id, record.run_id)
    return [stored.event.event_type for stored in kept]
