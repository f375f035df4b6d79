"""What an extension does wrong while it is loaded, started, mounted or stopped costs no other anything."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.doors import GatewayDoor, Told, open_door
from support.hostile import CANCELS, FALSY, FAULTS, HANGS, IGNORES, PLAIN_FAULTS, RAISES, WRONG, Fault
from support.hostile_entries import JOURNAL
from support.hosts import scripted_config

from deerflow import host
from deerflow.extensions import get_loaded_extensions, reset_loaded_extensions, services

_TASKS = [
    "start lead before",
    "start lead after",
    "stop lead before completed",
    "stop lead after completed",
]
_USUAL = [
    "start service before",
    "start service after",
    *_TASKS,
    "stop service after",
    "stop service before",
]
_SAID = {RAISES: "broken on purpose", CANCELS: "CancelledError"}


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(host, "start_services", partial(services.start_services, stop_timeout_seconds=0.1))
    JOURNAL.clear()
    yield
    reset_loaded_extensions()


@pytest.fixture(params=[""])
def fault(request: pytest.FixtureRequest) -> Iterator[Fault]:
    fault = Fault(request.param)
    yield fault
    fault.released = True


def _each(*faults: str) -> Any:
    return pytest.mark.parametrize("fault", faults, indirect=True)


def _live(entry: str, home: Path, fault: Fault, where: str) -> list[tuple[str, str]]:
    """One life with one run, the broken entry between two healthy ones; what was reported of it."""
    use = "falsy_broken" if fault.name == FALSY else "broken"
    plugins = [
        {"use": "support.hostile_entries:healthy", "config": {"name": "before"}},
        {"use": f"support.hostile_entries:{use}", "config": {"fault": fault, "where": where}},
        {"use": "support.hostile_entries:healthy", "config": {"name": "after"}},
    ]
    config = scripted_config(home, plugins=plugins, shutdown={"drain_seconds": 0.01})
    with open_door(entry, config) as door:
        loaded = get_loaded_extensions()
        assert door.run("hello") == Told("success", "echo: hello")
        if isinstance(door, GatewayDoor):
            for name in ("before", "after"):
                assert door.get(f"/healthy/{name}") == (200, name)
    assert fault.calls > 0
    return [(entry.source, entry.message) for entry in loaded.diagnostics]


def _journal() -> list[str]:
    return [entry for entry in JOURNAL if "broken" not in entry]


@pytest.mark.parametrize("entry", ["gateway", "client"])
@_each(*PLAIN_FAULTS)
def test_install(tmp_path: Path, entry: str, fault: Fault) -> None:
    diagnostics = _live(entry, tmp_path, fault, "install")
    assert _journal() == _USUAL
    if fault.name == FALSY:
        assert diagnostics == []
        assert "start lead broken" in JOURNAL
        return
    ((source, message),) = diagnostics
    expected = "it returned a coroutine" if fault.name == WRONG else f"failed: {_SAID[fault.name]}"
    assert source == "support.hostile_entries:broken"
    assert message.startswith("install() ") and expected in message
    assert JOURNAL == _USUAL, "nothing of a failed install is left"


@pytest.mark.parametrize("entry", ["gateway", "client"])
@_each(*PLAIN_FAULTS)
def test_service_start(tmp_path: Path, entry: str, fault: Fault) -> None:
    diagnostics = _live(entry, tmp_path, fault, "start")
    assert _journal() == _USUAL
    expected = {
        RAISES: "service start() failed; continuing without it: broken on purpose",
        CANCELS: "service start() failed; continuing without it: CancelledError",
        WRONG: "service start() returned int, expected an awaitable; define it with async def",
    }
    messages = [message for _, message in diagnostics if "start()" in message]
    assert messages == [expected[name] for name in expected if name == fault.name]


@pytest.mark.parametrize("entry", ["gateway", "client"])
@_each(*FAULTS)
def test_service_stop(tmp_path: Path, entry: str, fault: Fault) -> None:
    diagnostics = _live(entry, tmp_path, fault, "stop")
    assert _journal() == _USUAL
    expected = {
        RAISES: "service stop() failed; continuing shutdown: broken on purpose",
        CANCELS: "service stop() failed; continuing shutdown: CancelledError",
        HANGS: "service stop() timed out after 0.1s; continuing shutdown",
        IGNORES: "service stop() timed out after 0.1s; continuing shutdown",
        WRONG: "service stop() returned int, expected an awaitable; define it with async def",
    }
    messages = [message for _, message in diagnostics if "stop()" in message]
    assert messages == [expected[name] for name in expected if name == fault.name]


@_each(*PLAIN_FAULTS)
def test_router(tmp_path: Path, fault: Fault) -> None:
    diagnostics = _live("gateway", tmp_path, fault, "routers")
    assert _journal() == _USUAL
    expected = {
        RAISES: "router could not be mounted: broken on purpose",
        CANCELS: "router could not be mounted: CancelledError",
        WRONG: "router rejected: a fastapi.APIRouter is needed, this is a int",
    }
    assert [message for _, message in diagnostics] == [
        expected[name] for name in expected if name == fault.name
    ]
