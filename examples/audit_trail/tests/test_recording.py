"""What a host with the trail leaves in its database."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import canonical_hash
from sqlalchemy import create_engine, text
from sqlalchemy.exc import IntegrityError

from deerflow.extensions import ExtensionLoadError
from deerflow.testing import (
    BROKEN_TOOL,
    CANCELLATION,
    DELEGATION,
    LEAD,
    SHUTDOWN,
    Scenario,
    ScriptedHost,
    assert_undisturbed,
)

OpenHost = Callable[..., ScriptedHost]
USE = "audit_trail:install"


@pytest.fixture
def database(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'host.db'}"


@pytest.fixture
def open_host(deerflow_host: OpenHost, database: str) -> OpenHost:
    def open_one(config: dict[str, Any] | None = None, **sections: Any) -> ScriptedHost:
        return deerflow_host(USE, config, database={"backend": "sqlite", "url": database}, **sections)

    return open_one


def entries(host: ScriptedHost, **query: Any) -> list[dict[str, Any]]:
    parameters = "&".join(f"{name}={value}" for name, value in query.items())
    answer = host.request("GET", f"/audit/entries?{parameters}")
    assert answer.status == 200, answer.text
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


def told(entry: dict[str, Any], *names: str) -> tuple[Any, ...]:
    return (entry["event"], *(entry["detail"].get(name) for name in names))


def test_tasks_and_tool_calls_of_lead_and_subagents_stand_in_order(open_host: OpenHost) -> None:
    host = open_host()
    (run,) = host.play(DELEGATION)
    found = entries(host, run_id=run.run_id)
    assert told(found[0], "kind") == ("task_started", "lead")
    assert told(found[-1], "kind", "outcome") == ("task_stopped", "lead", "completed")
    subagents = [entry for entry in found if entry["task_id"] != run.run_id]
    assert {entry["task_id"] for entry in subagents} == {"call-1", "call-2"}
    assert sorted(told(entry, "tool") for entry in subagents if "tool" in entry["detail"]) == [
        ("tool_called", "working_tool"),
        ("tool_returned", "working_tool"),
    ]
    calls = [told(entry, "tool") for entry in found if entry["detail"].get("tool") == "task"]
    assert sorted(calls) == [("tool_called", "task")] * 2 + [("tool_returned", "task")] * 2
    assert host.problems == ()


def test_a_system_call_belongs_to_its_run(open_host: OpenHost) -> None:
    host = open_host()
    (run,) = host.play(LEAD)
    (title,) = [entry for entry in entries(host) if entry["event"] == "system_model_call"]
    assert (title["run_id"], title["detail"]["kind"], title["detail"]["error"]) == (run.run_id, "title", None)


def test_arguments_are_kept_as_digests_or_in_full(open_host: OpenHost) -> None:
    arguments = {"text": "use the broken tool"}
    for config, expected in (
        ({}, {"arguments_hash": canonical_hash(arguments)}),
        ({"arguments": "full"}, {"arguments": arguments}),
    ):
        host = open_host(config)
        (run,) = host.play(BROKEN_TOOL)
        called, returned = (
            entry["detail"] for entry in entries(host, run_id=run.run_id) if "tool" in entry["detail"]
        )
        assert called == {"tool": "broken_tool", "call": "call-4", "user": None, **expected}
        assert (returned["status"], returned["call"]) == ("error", "call-4")
        host.close()


def test_a_cancelled_run_is_told_as_aborted(open_host: OpenHost) -> None:
    host = open_host()
    (run,) = host.play(CANCELLATION)
    assert told(entries(host, run_id=run.run_id)[-1], "outcome") == ("task_stopped", "aborted")


def test_the_chain_goes_on_in_the_next_life_and_is_intact(open_host: OpenHost, caplog: Any) -> None:
    caplog.set_level("INFO")
    first = open_host({"key": "secret"})
    first.play(LEAD)
    count = len(entries(first))
    first.close()
    noted = [record.args for record in caplog.records if record.name == "audit_trail.service"][-1]
    second = open_host({"key": "secret"})
    second.play(LEAD)
    found = second.request("GET", f"/audit/verification?seq={noted[1]}&digest={noted[2]}").json()
    assert (found["intact"], found["entries"], found["noted"]) == (True, 2 * count, True)
    assert [entry["seq"] for entry in entries(second)] == list(range(1, 2 * count + 1))


def test_entries_come_in_pages(open_host: OpenHost) -> None:
    host = open_host()
    host.play(LEAD)
    everything = entries(host)
    first = host.request("GET", "/audit/entries?limit=2").json()
    assert first["items"] == everything[:2]
    rest = host.request("GET", f"/audit/entries?after={first['next_after']}").json()
    assert rest["items"] == everything[2:]


@pytest.mark.parametrize(
    ("tampering", "broken_at"),
    [
        ('UPDATE audit_entries SET detail = \'{"kind":"forged"}\' WHERE seq = 2', 2),
        ("DELETE FROM audit_entries WHERE seq = 2", 2),
        ("DELETE FROM audit_entries WHERE seq = (SELECT max(seq) FROM audit_entries)", -1),
        ("UPDATE audit_head SET digest = 'x'", -1),
    ],
)
def test_tampering_is_refused_by_the_database_or_shows(
    open_host: OpenHost, database: str, tampering: str, broken_at: int
) -> None:
    host = open_host()
    host.play(LEAD)
    engine = create_engine(database)
    if "audit_entries" in tampering.partition(" WHERE")[0]:
        with pytest.raises(IntegrityError, match="append-only"), engine.begin() as connection:
            connection.execute(text(tampering.replace(":", "\\:")))
    assert host.request("GET", "/audit/verification").json()["intact"]
    with engine.begin() as connection:
        for verb in ("update", "delete"):
            connection.execute(text(f"DROP TRIGGER audit_entries_no_{verb}"))
        connection.execute(text(tampering.replace(":", "\\:")))
    engine.dispose()
    found = host.request("GET", "/audit/verification").json()
    assert not found["intact"]
    assert found["broken_at"] == (broken_at if broken_at > 0 else found["entries"])


def test_without_a_database_the_operator_is_told_and_runs_go_on(deerflow_host: OpenHost) -> None:
    host = deerflow_host(USE)
    (run,) = host.play(LEAD)
    assert run.status == "success"
    assert host.request("GET", "/audit/entries").status == 503
    (diagnostic,) = host.diagnostics
    assert "set database.backend to sqlite or postgres" in diagnostic.message


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"arguments": "none"}, "choose 'hash' or 'full'"),
        ({"keys": "x"}, "allowed: key, arguments"),
        ({"key": 1}, "give a text"),
    ],
)
def test_a_wrong_option_is_refused_with_the_choices(
    deerflow_host: OpenHost, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(ExtensionLoadError, match=said):
        deerflow_host(USE, config)


@pytest.mark.parametrize("scenario", [DELEGATION, BROKEN_TOOL, SHUTDOWN], ids=str)
def test_no_run_is_disturbed(scenario: Scenario, database: str) -> None:
    assert_undisturbed(USE, scenario, database={"backend": "sqlite", "url": database})
