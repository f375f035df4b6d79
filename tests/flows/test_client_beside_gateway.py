"""An embedded client in the process of a Gateway: one set, one run of its services, one loop."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.doors import Told, open_door
from support.gateways import serving
from support.hostile_entries import JOURNAL
from support.hosts import scripted_config

from deerflow.client import DeerFlowClient
from deerflow.extensions import get_loaded_extensions, reset_loaded_extensions
from deerflow.gateway.app import create_app

_ONE_RUN = ["start lead only", "stop lead only completed"]


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    JOURNAL.clear()
    reset_loaded_extensions()
    yield
    reset_loaded_extensions()


def _told() -> list[str]:
    return list(JOURNAL)


def _config(home: Path) -> Any:
    plugins = [{"use": "support.hostile_entries:healthy", "config": {"name": "only"}}]
    return scripted_config(home, plugins=plugins, shutdown={"drain_seconds": 0.01})


def test_a_client_that_loads_extensions_takes_those_of_the_gateway(tmp_path: Path) -> None:
    with open_door("gateway", _config(tmp_path / "a")) as door:
        loaded = get_loaded_extensions()
        with DeerFlowClient(_config(tmp_path / "b"), load_extensions=True) as client:
            assert client.chat("hello") == "echo: hello"
            assert get_loaded_extensions() is loaded
            assert _told() == ["start service only", *_ONE_RUN]
        assert door.run("still here") == Told("success", "echo: still here")
        assert _told() == ["start service only", *_ONE_RUN * 2], "closing the client stops no service"
    assert _told()[-1] == "stop service only"


def test_after_the_gateway_a_client_loads_its_own(tmp_path: Path) -> None:
    with open_door("gateway", _config(tmp_path / "a")):
        before = get_loaded_extensions()
    JOURNAL.clear()
    with DeerFlowClient(_config(tmp_path / "b"), load_extensions=True) as client:
        assert get_loaded_extensions() is not before
        client.chat("hello")
    assert _told() == ["start service only", *_ONE_RUN, "stop service only"]


def test_of_two_clients_the_first_runs_the_services(tmp_path: Path) -> None:
    with DeerFlowClient(_config(tmp_path / "a"), load_extensions=True) as first:
        first.chat("hello")
        with DeerFlowClient(_config(tmp_path / "b"), load_extensions=True) as second:
            second.chat("hello")
            assert _told() == ["start service only", *_ONE_RUN * 2]
        assert _told()[-1] != "stop service only"
    assert _told() == ["start service only", *_ONE_RUN * 2, "stop service only"]


async def test_a_gateway_finds_what_a_client_has_left_in_the_same_file(tmp_path: Path) -> None:
    config, thread_id = scripted_config(tmp_path, database={"backend": "sqlite"}), str(uuid4())
    async with DeerFlowClient(config) as client:
        await client.achat("hello", thread_id=thread_id)
    async with serving(create_app(config)) as gateway:
        state = (await gateway.get(f"/threads/{thread_id}/state")).json()
        assert [message["content"] for message in state["values"]["messages"]] == ["hello", "echo: hello"]
        (run,) = (await gateway.get(f"/threads/{thread_id}/runs")).json()
        assert run["status"] == "success"
