"""Jobs over HTTP: the envelope, what is refused, and who is served what."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from support.axonx_app import ticks
from support.axonx_service import TEXT, served

from axonx import BaseStep
from axonx.components.job import JobResponse

PUBLIC = {"requires_auth": False}
GREET = {"steps": [{"backend": "demo_step"}], **PUBLIC}


async def echo(step: BaseStep) -> None:
    step.response.answer = dict(step.context)


async def test_health_is_an_envelope(tmp_path: Path) -> None:
    async with served(tmp_path, {}) as service:
        response = await service.http.get("/health")
        assert response.status_code == 200
        assert response.json() == {"answer": {"running": True}, "success": True, "metadata": {}}


async def test_jobs_are_listed_with_their_schemas(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {
        "greet": {**GREET, "description": "Greets.", "parameters": TEXT},
        "hidden": {**GREET, "enable_serve": False},
        "private": {"steps": []},
    }
    async with served(tmp_path, jobs) as service:
        answer = (await service.http.get("/jobs")).json()["answer"]
    assert answer == {
        "items": [
            {
                "name": "greet",
                "description": "Greets.",
                "input_schema": TEXT,
                "output_schema": JobResponse.model_json_schema(),
            }
        ],
        "total": 1,
    }


async def test_a_call_answers_the_envelope_in_one_line(tmp_path: Path) -> None:
    async with served(tmp_path, {"greet": GREET}) as service:
        response = await service.call("greet", {"name": "Zoë"})
    assert response.status_code == 200
    assert response.text == '{"answer":"Hello, Zoë!","success":true,"metadata":{}}'
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"


async def test_a_failed_job_is_200_with_the_failure(tmp_path: Path) -> None:
    async def fail(step: BaseStep) -> None:
        step.response.metadata["at"] = 3
        raise OSError("disk")

    async with served(tmp_path, {"fail": fail}) as service:
        response = await service.call("fail")
    assert response.status_code == 200
    assert response.json() == {"answer": "OSError: disk", "success": False, "metadata": {"at": 3}}


async def test_an_answer_that_json_cannot_hold_is_a_failure(tmp_path: Path) -> None:
    async def odd(step: BaseStep) -> None:
        step.response.answer = object()

    async def surrogate(step: BaseStep) -> None:
        step.response.answer = "\ud800"

    async with served(tmp_path, {"odd": odd, "surrogate": surrogate}) as service:
        for name in ("odd", "surrogate"):
            response = await service.call(name)
            assert response.status_code == 200
            assert response.json()["success"] is False
            assert await service.events(name) == [("result", {**response.json(), "kind": "result"})]


@pytest.mark.parametrize("path", ["/jobs/{name}", "/jobs/{name}/events"])
async def test_what_is_wrong_with_a_call_is_said_before_it_begins(tmp_path: Path, path: str) -> None:
    jobs: dict[str, Any] = {
        "greet": {**GREET, "parameters": TEXT},
        "hidden": {**GREET, "enable_serve": False},
        "private": {"steps": []},
        "nested": {**GREET, "parameters": {"type": "object", "properties": {"text": {"enum": ["a"]}}}},
    }
    async with served(tmp_path, jobs) as service:

        async def post(name: str, content: bytes, kind: str = "application/json") -> httpx.Response:
            url = path.format(name=name)
            return await service.http.post(url, content=content, headers={"content-type": kind})

        for name in ("nope", "hidden", "private", "a%2Fb"):
            response = await post(name, b'{"arguments": {}}')
            assert response.status_code == 404, name
            assert isinstance(response.json()["detail"], str)
        assert (await post("nope", b"{}")).json() == {"detail": "Unknown job"}
        response = await post("greet", b'{"arguments": {}}')
        assert response.status_code == 422
        assert response.json() == {
            "detail": "Invalid arguments for job 'greet': 'text' is a required property"
        }
        surrogate = await post("nested", b'{"arguments": {"text": "\\ud800"}}')
        assert surrogate.status_code == 422
        assert isinstance(surrogate.json()["detail"], str)
        reserved = await post("greet", b'{"arguments": {"text": "x", "_axonx_argv": []}}')
        assert reserved.json() == {"detail": "Reserved Job argument: _axonx_argv"}
        malformed = [
            b"",
            b"{",
            b"[]",
            b"null",
            b'{"argument": {}}',
            b'{"arguments": [1]}',
            b'{"arguments": {}, "target": 1}',
            b'{"arguments": {}, "x\\ud800": NaN}',
        ]
        for content in malformed:
            response = await post("greet", content)
            assert response.status_code == 422, content
            assert isinstance(response.json()["detail"], list)
        assert (await post("greet", b'{"arguments": {"text": "x"}}', "text/plain")).status_code == 422


async def test_arguments_may_be_left_out_but_the_body_may_not(tmp_path: Path) -> None:
    async with served(tmp_path, {"greet": GREET}) as service:
        assert (await service.http.post("/jobs/greet", json={})).json()["answer"] == "Hello, AxonX!"
        assert (await service.http.post("/jobs/greet")).status_code == 422


async def test_a_target_needs_a_known_caller_and_a_configured_address(tmp_path: Path) -> None:
    jobs: dict[str, Any] = {"greet": GREET}
    async with served(tmp_path, jobs, targets=[{"address": "127.0.0.1:1"}]) as service:
        response = await service.call("greet", target="127.0.0.1:1")
        assert response.status_code == 422
        assert "set service.token" in response.json()["detail"]
    async with served(tmp_path, jobs, token="t") as service:
        service.http.headers["authorization"] = "Bearer t"
        for path in ("/jobs/greet", "/jobs/greet/events"):
            response = await service.http.post(path, json={"target": "127.0.0.1:1"})
            assert response.status_code == 422
            assert "AxonX target is not configured" in response.json()["detail"]


async def test_a_body_over_the_limit_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, {"echo": echo}, service={"max_body_bytes": 1000}) as service:
        assert (await service.call("echo", {"a": "x" * 900})).status_code == 200

        async def chunks() -> Any:
            for _ in range(15):
                yield b"x" * 100

        for content in (b"x" * 1001, chunks()):
            response = await service.http.post(
                "/jobs/echo", content=content, headers={"content-type": "application/json"}
            )
            assert response.status_code == 413
            assert "max_body_bytes" in response.json()["detail"]


async def test_a_client_that_leaves_cancels_the_job(tmp_path: Path) -> None:
    log: list[str] = []

    async def wait(step: BaseStep) -> None:
        log.append("begin")
        try:
            await asyncio.Event().wait()
        finally:
            log.append("cleaned up")

    async with served(tmp_path, {"wait": wait, "greet": GREET}) as service:
        host, port = service.address.removeprefix("http://").split(":")
        for path in ("/jobs/wait", "/jobs/wait/events"):
            log.clear()
            _, writer = await asyncio.open_connection(host, int(port))
            body = b'{"arguments": {}}'
            head = f"POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
            writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            async with asyncio.timeout(60):
                while not log:
                    await asyncio.sleep(0.005)
                assert log == ["begin"]
                writer.close()
                await writer.wait_closed()
                while len(log) < 2:
                    await asyncio.sleep(0.005)
            assert log == ["begin", "cleaned up"]
        await ticks()
        assert (await service.call("greet")).status_code == 200
        assert not service.app.context.jobs["wait"].running_calls


async def test_closing_ends_running_calls_with_a_failure(tmp_path: Path) -> None:
    begun = asyncio.Event()

    async def wait(step: BaseStep) -> None:
        begun.set()
        await asyncio.Event().wait()

    async with served(tmp_path, {"wait": wait}) as service:
        call = asyncio.create_task(service.call("wait"))
        await begun.wait()
        begun.clear()
        stream = asyncio.create_task(service.events("wait"))
        await begun.wait()
        await service.app.close()
        envelope = (await call).json()
        assert envelope["answer"] == "Application closed while job 'wait' was running"
        assert await stream == [("result", {**envelope, "kind": "result"})]
        with pytest.raises(httpx.ConnectError):
            await service.http.get("/health")


async def test_job_names_that_no_url_can_hold_are_refused(tmp_path: Path) -> None:
    for name in ("a/b", "..", "."):
        with pytest.raises(ValueError, match=rf"jobs.{name}: a Job of this name has no URL"):
            async with served(tmp_path, {name: GREET}):
                pass
        async with served(tmp_path, {name: {**GREET, "enable_serve": False}}):
            pass


@pytest.mark.parametrize("name", ["a b", "ä?#%", "events", "health", "a:b", "a.b\\c"])
async def test_other_names_are_reachable_when_they_are_quoted(tmp_path: Path, name: str) -> None:
    async with served(tmp_path, {name: echo}) as service:
        response = await service.call(quote(name, safe=""), {"a": 1})
        assert response.json()["answer"] == {"a": 1}


async def test_numbers_without_a_value_in_json_become_null(tmp_path: Path) -> None:
    async def answer(step: BaseStep) -> None:
        step.response.answer = [float("nan"), float("inf")]

    async with served(tmp_path, {"answer": answer}) as service:
        response = await service.call("answer")
        assert json.loads(response.text)["answer"] == [None, None]
        ((_, result),) = await service.events("answer")
        assert result["answer"] == [None, None]
