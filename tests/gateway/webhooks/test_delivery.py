"""Ends of runs that are posted to those who asked for it."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.crashes import until
from support.gateways import ASKING, FAILING, SLOW, GatewayClient, gateway, said
from support.receiver import answering, receiving

from deerflow.config.webhooks import WebhooksConfig
from deerflow.gateway.webhooks import addresses as webhook_addresses
from deerflow.gateway.webhooks import delivery as webhooks
from deerflow.runs.active import ActiveRun
from deerflow.runs.request import RunRequest
from deerflow.runs.request_record import record_of, request_of


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhooks, "FIRST_DELAY_SECONDS", 0.01)


async def _waiting_run(client: GatewayClient, thread_id: str, webhook: str) -> None:
    context = {"approve_tools": ["write_file"]}
    await client.say(thread_id, "ask", context=context, webhook=webhook)


async def test_run_is_posted_at_its_end(tmp_path: Path) -> None:
    async with receiving() as receiver, gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello", webhook=f"{receiver.origin}/hook?token=secret")
        (call,) = await receiver.until(1)
        run = (await client.get(f"/threads/{thread_id}/runs/{run_id}")).json()
    assert call.line == "POST /hook?token=secret HTTP/1.1"
    assert call.headers["content-type"] == "application/json"
    assert call.headers["user-agent"].startswith("deerflow/")
    assert call.headers["host"] == receiver.origin.removeprefix("http://")
    assert {key: call.body[key] for key in ("run_id", "thread_id", "status", "metadata")} == {
        key: run[key] for key in ("run_id", "thread_id", "status", "metadata")
    }
    assert (run["status"], call.body["values"]["messages"][-1]["content"]) == ("success", "echo: hello")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("create", "/threads/{thread_id}/runs"),
        ("stream", "/threads/{thread_id}/runs/stream"),
        ("wait", "/threads/{thread_id}/runs/wait"),
        ("create", "/runs"),
        ("stream", "/runs/stream"),
        ("wait", "/runs/wait"),
        ("batch", "/runs/batch"),
    ],
)
async def test_every_way_to_start_a_run_takes_a_webhook(tmp_path: Path, method: str, path: str) -> None:
    async with receiving() as receiver, gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client:
        body: Any = said("hello", webhook=receiver.origin)
        path = path.format(thread_id=await client.thread())
        response = await client.post(path, json=[body] if method == "batch" else body)
        assert response.status_code == 200, response.text
        (call,) = await receiver.until(1)
    assert call.body["values"]["messages"][-1]["content"] == "echo: hello"


async def test_every_end_is_told(tmp_path: Path) -> None:
    rules = [FAILING, SLOW, ASKING]
    async with (
        receiving() as receiver,
        gateway(tmp_path, rules, webhooks={"allow": [receiver.origin]}) as client,
    ):
        thread_id = await client.thread()
        await client.say(thread_id, "fail", webhook=receiver.origin)
        await receiver.until(1)
        run_id = await client.start(thread_id, "slow", webhook=receiver.origin)
        await client.post(f"/threads/{thread_id}/runs/{run_id}/cancel?wait=1")
        await receiver.until(2)
        await _waiting_run(client, thread_id, receiver.origin)
        failed, stopped, asks = [call.body for call in await receiver.until(3)]
    assert failed["status"] == "error"
    assert failed["error"] == {"error": "ScriptedModelError", "message": "the model broke"}
    assert (stopped["status"], stopped["cancel_reason"]) == ("interrupted", "cancelled")
    assert (asks["status"], asks["cancel_reason"]) == ("interrupted", None)


async def test_what_fails_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    async with (
        receiving(503, 0, 429, 200) as receiver,
        gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client,
    ):
        await client.say(await client.thread(), "hello", webhook=receiver.origin)
        calls = await receiver.until(4)
    assert [call.body for call in calls] == [calls[0].body] * 4


@pytest.mark.parametrize("status", [404, 302])
async def test_refusals_and_redirects_are_final(
    tmp_path: Path, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with (
        receiving(status) as receiver,
        gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client,
    ):
        await client.say(await client.thread(), "hello", webhook=f"{receiver.origin}/hook?token=secret")
        await _logged(caplog, f"status {status}")
        assert len(receiver.calls) == 1
    assert "secret" not in caplog.text


async def _logged(caplog: pytest.LogCaptureFixture, text: str) -> None:
    async with asyncio.timeout(20):
        while text not in caplog.text:
            await asyncio.sleep(0.01)


async def test_tries_are_bounded_and_the_run_does_not_notice(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with receiving(500) as receiver:
        config = {"allow": [receiver.origin], "max_attempts": 2}
        async with gateway(tmp_path, webhooks=config) as client:
            thread_id = await client.thread()
            run_id = await client.start(thread_id, "hello", webhook=receiver.origin)
            await _logged(caplog, f"webhook of run {run_id} at {receiver.origin} failed: status 500")
            run = (await client.get(f"/threads/{thread_id}/runs/{run_id}")).json()
        assert (len(receiver.calls), run["status"]) == (2, "success")


async def test_receiver_that_never_answers_holds_nobody_up(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    silent = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{silent.getsockname()[1]}"
    config = {"allow": [origin], "timeout_seconds": 0.2, "max_attempts": 1}
    with silent:
        async with gateway(tmp_path, webhooks=config) as client:
            values = await client.say(await client.thread(), "hello", webhook=origin)
            await _logged(caplog, "failed: ")
    assert values["messages"][-1]["content"] == "echo: hello"


async def test_run_that_the_shutdown_stops_is_told_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 60.0)
    async with receiving() as receiver:
        async with gateway(tmp_path, [SLOW], webhooks={"allow": [receiver.origin]}) as client:
            thread_id = await client.thread()
            await client.start(thread_id, "slow", webhook=receiver.origin)
        (call,) = receiver.calls
    assert (call.body["status"], call.body["cancel_reason"]) == ("interrupted", "shutdown")


async def test_what_is_pending_at_the_end_is_given_up_in_time_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 0.1)
    silent = socket.create_server(("127.0.0.1", 0))
    origin = f"http://127.0.0.1:{silent.getsockname()[1]}"
    with silent:
        async with gateway(tmp_path, webhooks={"allow": [origin]}) as client:
            run_id = await client.start(await client.thread(), "hello", webhook=origin)
    assert f"webhook of run {run_id} was not delivered before the end" in caplog.text


def _pauses(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> list[int]:
    """Before which attempts a pause has begun; those at the end count as the first. They last so long."""
    begun: list[int] = []

    def delay_seconds(attempt: int) -> float:
        begun.append(attempt)
        return seconds[len(begun) - 1]

    monkeypatch.setattr(webhooks, "_delay_seconds", delay_seconds)
    monkeypatch.setattr(webhooks, "CLOSE_SECONDS", 60.0)
    return begun


async def test_what_waits_for_its_next_attempt_at_the_end_is_tried_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pauses = _pauses(monkeypatch, 3600)
    async with receiving(500, 200) as receiver:
        async with gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client:
            await client.start(await client.thread(), "hello", webhook=receiver.origin)
            await until(lambda: pauses)
        assert len(receiver.calls) == 2
    assert "webhook" not in caplog.text


async def test_what_fails_once_more_at_the_end_is_not_tried_without_a_pause(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses = _pauses(monkeypatch, 3600, 0.01)
    async with receiving(500) as receiver:
        async with gateway(tmp_path, webhooks={"allow": [receiver.origin], "max_attempts": 3}) as client:
            await client.start(await client.thread(), "hello", webhook=receiver.origin)
            await until(lambda: pauses)
        assert len(receiver.calls) == 3
    assert pauses == [1, 1]


async def _ended_run(tmp_path: Path, webhook: str) -> ActiveRun:
    async with gateway(tmp_path) as client:
        message = {"messages": [{"role": "user", "content": "hello"}]}
        thread_id = await client.thread()
        run = await client.host.runs.start(RunRequest(thread_id, input=message, webhook=webhook))
        await run.ended.wait()
    return run


async def test_an_end_that_comes_after_the_shutdown_is_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    origin = "https://hooks.example.com"
    async with webhooks.open_webhooks(WebhooksConfig(allow=[origin])) as closed:
        assert closed is not None
    run = await _ended_run(tmp_path, origin)
    closed.on_run_end(run)
    assert f"webhook of run {run.run_id} was not delivered before the end" in caplog.text


async def test_an_error_of_the_hosts_own_names_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(url: str, config: WebhooksConfig) -> Any:
        raise LookupError("nobody thought of this")

    async with receiving() as receiver, gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client:
        monkeypatch.setattr(webhooks, "resolve", broken)
        run_id = await client.start(await client.thread(), "hello", webhook=receiver.origin)
        await _logged(caplog, f"webhook of run {run_id} failed unexpectedly")


async def test_too_many_are_dropped_and_the_log_says_which(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhooks, "MOST_PENDING", 0)
    async with receiving() as receiver, gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client:
        thread_id = await client.thread()
        run_id = await client.start(thread_id, "hello", webhook=receiver.origin)
        await _logged(caplog, f"webhook of run {run_id} is dropped")
        assert receiver.calls == []


async def test_what_was_delivered_leaves_its_room_and_its_connection_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(webhooks, "CALLS_AT_ONCE", 1)
    async with receiving() as receiver, gateway(tmp_path, webhooks={"allow": [receiver.origin]}) as client:
        for count in range(1, 4):
            await client.say(await client.thread(), "hello", webhook=receiver.origin)
            calls = await receiver.until(count)
            # Room for one like it, and not for two.
            size_bytes = int(calls[0].headers["content-length"])
            monkeypatch.setattr(webhooks, "MOST_PENDING_BYTES", size_bytes * 3 // 2)
            async with asyncio.timeout(20):
                while any("webhook of run" in task.get_name() for task in asyncio.all_tasks()):
                    await asyncio.sleep(0.01)
    assert "webhook" not in caplog.text


@pytest.mark.parametrize("path", ["/threads/{thread_id}/runs", "/runs", "/runs/wait"])
async def test_without_the_operators_leave_no_address_is_taken(tmp_path: Path, path: str) -> None:
    async with gateway(tmp_path) as client:
        thread_id = await client.thread()
        response = await client.post(
            path.format(thread_id=thread_id), json=said("hello", webhook="https://hooks.example.com/?secret")
        )
        assert (await client.get(f"/threads/{thread_id}/runs")).json() == []
    assert response.status_code == 422
    assert "webhooks.allow" in response.json()["detail"] and "secret" not in response.json()["detail"]


class _Answering(httpx.AsyncBaseTransport):
    """Keeps what is sent."""

    def __init__(self) -> None:
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        return httpx.Response(200)


async def test_the_receivers_certificate_is_that_of_its_name_though_its_address_is_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await _ended_run(tmp_path, "https://hooks.example.com:8443/x")
    monkeypatch.setattr(webhook_addresses.socket, "getaddrinfo", answering("93.184.216.34"))
    config = WebhooksConfig(allow=["https://hooks.example.com:8443"], timeout_seconds=30)
    transport = _Answering()
    delivering = webhooks.Webhooks(config, transport)
    delivering.on_run_end(run)
    await delivering.close()
    (request,) = transport.requests
    assert str(request.url) == "https://93.184.216.34:8443/x"
    assert request.headers["host"] == "hooks.example.com:8443"
    assert request.extensions["sni_hostname"] == "hooks.example.com"
    assert set(request.extensions["timeout"].values()) == {30}


def test_webhook_is_kept_with_its_run_for_whoever_takes_it_up() -> None:
    request = RunRequest("00000000-0000-4000-8000-000000000000", webhook="https://hooks.example.com")
    assert request_of(record_of(request, host_id="h")).webhook == request.webhook
