"""Lines of the log say which request, thread and run they belong to."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.gateway_process import gateway_process
from support.gateways import FAILING, gateway, said

from deerflow.gateway.process.log_format import JsonLines, TextLines, configure_logging
from deerflow.log_ids import bearing_log_ids, log_ids


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    """What the host writes to its log, as JSON."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logging.getLogger("deerflow").addHandler(handler)
    yield stream
    logging.getLogger("deerflow").removeHandler(handler)


def _read(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_line_about_a_run_names_its_request_thread_and_run(tmp_path: Path, lines: io.StringIO) -> None:
    async with gateway(tmp_path, [FAILING]) as client:
        thread_id = await client.thread()
        response = await client.post(
            f"/threads/{thread_id}/runs", json=said("fail"), headers={"X-Request-ID": "my-request"}
        )
        run_id = response.json()["run_id"]
        await client.get(f"/threads/{thread_id}/runs/{run_id}/join")
        (line,) = (line for line in _read(lines) if line["level"] == "error")
        assert "the model broke" in line["message"]
        assert {"request_id": "my-request", "thread_id": thread_id, "run_id": run_id}.items() <= line.items()
        assert line["logger"].startswith("deerflow.")


async def test_ids_of_one_run_are_not_those_of_another(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        await client.say(await client.thread(), "hello")
        assert log_ids() == {}


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "\u00e9", "a\tb", 'a"b', "a,b", "a;b"])
async def test_unfit_request_id_is_replaced(tmp_path: Path, given: str) -> None:
    async with gateway(tmp_path) as client:
        response = await client.get("/ok", headers={"X-Request-ID": given.encode()})
        assert len(response.headers["x-request-id"]) == 32
        kept = await client.get("/ok", headers={"X-Request-ID": "trace/1:2=3+4._-"})
        assert kept.headers.get_list("x-request-id") == ["trace/1:2=3+4._-"]


async def test_every_answer_has_an_id_errors_too(tmp_path: Path) -> None:
    async with gateway(tmp_path) as client:
        for path in ("/ok", "/nowhere", "/threads/no-uuid"):
            assert (await client.get(path, headers={"X-Request-ID": "r"})).headers["x-request-id"] == "r"
        page = await client.get("/ok", headers={"origin": "http://localhost:3000"})
        assert "X-Request-ID" in page.headers["access-control-expose-headers"]


def _record(message: str = "half an emoji: \ud83d", **fields: Any) -> logging.LogRecord:
    record = logging.makeLogRecord({"name": "deerflow.x", "levelname": "WARNING", "msg": message})
    record.__dict__.update(fields)
    return record


def test_json_line_is_one_object_on_one_line_whatever_it_says() -> None:
    with bearing_log_ids(run_id="r"):
        for message in ('quotes " and\nnew lines', "half an emoji: \ud83d", "\x00"):
            line = JsonLines().format(_record(message))
            assert "\n" not in line
            assert set(json.loads(line)) == {"time", "level", "logger", "message", "run_id"}


def test_text_line_has_the_ids_before_the_traceback() -> None:
    with bearing_log_ids(run_id="r", request_id="q"):
        first, *rest = TextLines().format(_record("failed", exc_info=_exc_info())).splitlines()
    assert first.endswith("WARNING deerflow.x: failed [run_id=r request_id=q]")
    assert rest[0].startswith("Traceback")


def test_json_line_has_the_traceback_as_one_text() -> None:
    line = json.loads(JsonLines().format(_record("failed", exc_info=_exc_info())))
    assert line["traceback"].endswith("ValueError: no")


def _exc_info() -> Any:
    try:
        raise ValueError("no")
    except ValueError as error:
        return (ValueError, error, error.__traceback__)


def test_log_of_the_application_around_is_left_alone() -> None:
    handlers = list(logging.root.handlers)
    assert handlers, "pytest listens"
    configure_logging("json")
    assert logging.root.handlers == handlers


@contextmanager
def _unwritten_log() -> Iterator[None]:
    """The log of a process that nobody has configured yet."""
    root, of_httpx = logging.root, logging.getLogger("httpx")
    handlers, levels = root.handlers[:], (root.level, of_httpx.level)
    root.handlers.clear()
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(levels[0])
        of_httpx.setLevel(levels[1])


def test_addresses_of_calls_stay_out_of_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    transport = httpx.MockTransport(lambda request: httpx.Response(200))
    with _unwritten_log(), httpx.Client(transport=transport) as client:
        configure_logging("text")
        client.get("https://models.example/v1?key=secret")
        logging.getLogger("deerflow").info("written")
    written = capsys.readouterr().err
    assert "written" in written and "secret" not in written


def test_served_gateway_writes_json_where_that_is_configured(tmp_path: Path) -> None:
    with gateway_process(tmp_path, {"logging": {"format": "json"}}) as process:
        httpx.get(f"{process.url}/ok", timeout=30)
        process.terminate()
        parsed = [json.loads(line) for line in process.log.splitlines()]
        assert {"time", "level", "logger", "message"} <= parsed[0].keys()
