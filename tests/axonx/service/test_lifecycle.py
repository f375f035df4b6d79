"""A service starts, is restarted, cannot start, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import errno
import logging
import signal
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.axonx_app import recorder
from support.axonx_service import Served, served
from support.ports import free_port

from axonx import Application, BaseStep
from axonx.service.errors import ServiceStartError
from axonx.service.http import HttpService


def service_of(app: Application) -> HttpService:
    assert isinstance(app.context.service, HttpService)
    return app.context.service


async def test_a_port_in_use_closes_everything_that_was_started(tmp_path: Path) -> None:
    log: list[str] = []
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        app = Application(
            providers=(recorder(log),),
            workspace_dir=tmp_path,
            components={"recorder": {"a": {"backend": "recorder"}}},
            jobs={"j": {"steps": []}},
            schedules={"s": {"job": "j", "cron": "0 0 1 1 *"}},
            service={"backend": "http", "port": port},
        )
        before = asyncio.all_tasks()
        with pytest.raises(ServiceStartError, match=rf"cannot listen on 127.0.0.1:{port}: .*service.port"):
            await app.start()
        assert log == ["start a", "close a"]
        assert not app.is_started
        assert asyncio.all_tasks() <= before
    log.clear()
    async with app:  # the port is free now, so the same object starts
        async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
            assert (await http.get(f"http://127.0.0.1:{port}/health")).status_code == 200
    assert log == ["start a", "close a"]


async def test_a_closed_service_frees_its_port_and_starts_again(tmp_path: Path) -> None:
    port = free_port()
    app = Application(workspace_dir=tmp_path, service={"backend": "http", "port": port, "mcp": False})
    before = asyncio.all_tasks()
    for _ in range(2):
        async with app:
            async with httpx.AsyncClient(trust_env=False, timeout=60) as http:
                assert (await http.get(f"{service_of(app).address}/health")).status_code == 200
        with socket.create_server(("127.0.0.1", port)):
            pass
    assert asyncio.all_tasks() <= before
    with pytest.raises(RuntimeError, match="The service is not running"):
        _ = service_of(app).address


async def test_hosts_by_name_and_ipv6_are_served(tmp_path: Path) -> None:
    for host in ("localhost", "::1"):
        try:
            socket.create_server((host, 0), family=socket.AF_INET6 if ":" in host else socket.AF_INET).close()
        except OSError as error:
            if error.errno != errno.EADDRNOTAVAIL:
                raise
            continue
        async with served(tmp_path, {}, service={"host": host}) as service:
            assert (await service.http.get("/health")).status_code == 200


async def test_a_host_without_address_is_named(tmp_path: Path) -> None:
    app = Application(
        workspace_dir=tmp_path, service={"backend": "http", "host": "no.such.invalid", "token": "t"}
    )
    with pytest.raises(ServiceStartError, match=r"service: host 'no.such.invalid' has no address"):
        await app.start()


async def test_the_processs_signal_handlers_and_logging_stay_as_they_are(tmp_path: Path) -> None:
    handlers = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    names = ("", "uvicorn", "uvicorn.error", "uvicorn.access", "mcp")
    loggers = [
        (each, list(each.handlers), each.level, each.propagate) for each in map(logging.getLogger, names)
    ]
    async with served(tmp_path, {}) as service:
        await service.http.get("/health")
        assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == handlers
        for logger, had, level, propagate in loggers:
            assert (logger.handlers, logger.level, logger.propagate) == (had, level, propagate)


async def test_two_services_in_one_process_share_nothing(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {"j": {"steps": [], "requires_auth": False}}
    async with served(tmp_path / "1", jobs) as one, served(tmp_path / "2", {}) as two:
        assert one.address != two.address
        assert (await one.call("j")).status_code == 200
        assert (await two.call("j")).status_code == 404


async def test_a_job_that_ignores_cancellation_does_not_hold_up_the_close(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    go = asyncio.Event()
    begun = asyncio.Event()

    async def stubborn(step: BaseStep) -> None:
        begun.set()
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                pass

    async with served(
        tmp_path,
        {"stubborn": stubborn},
        service={"cleanup_timeout": 0.1},
        job_close_timeout_seconds=0.1,
    ) as service:
        call = asyncio.create_task(service.call("stubborn"))
        await begun.wait()
        await asyncio.wait_for(service.app.close(), 60)
        assert (await call).json()["success"] is False
        go.set()
    assert "ignored cancellation" in caplog.text


async def test_a_job_called_over_http_may_close_the_application(tmp_path: Path) -> None:
    services: list[Served] = []
    meanwhile: list[httpx.Response] = []

    async def leave(step: BaseStep) -> None:
        await services[0].app.close()
        meanwhile.append(await services[0].call("leave"))
        meanwhile.append(await services[0].http.get("/health"))
        step.response.answer = "bye"

    async with served(tmp_path, {"leave": leave}) as service:
        services.append(service)
        assert (await service.call("leave")).json()["answer"] == "bye"
        assert (meanwhile[0].status_code, meanwhile[0].json()) == (
            503,
            {"detail": "Application is not running"},
        )
        assert meanwhile[1].json()["answer"] == {"running": False}
        await asyncio.wait_for(service.app.close(), 60)
        assert not service.app.is_started


async def test_a_service_started_by_hand_needs_an_application() -> None:
    with pytest.raises(RuntimeError, match="A service offers the Jobs of an application"):
        HttpService()
