"""Where spans go, as the OTEL_* variables say; and what happens to runs when they cannot go there."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import (
    ConsoleSpanExporter,
    SimpleSpanProcessor,
    SpanExporter,
    SpanExportResult,
)
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from support.hosts import answer, finished, scripted_host
from support.ports import free_port
from support.spans import TRACED, Spans, keep_spans

from deerflow.errors import ConfigError
from deerflow.tracing import provider


@contextmanager
def collector(status: int = 200) -> Iterator[tuple[str, list[bytes]]]:
    """A server that takes spans over HTTP: its address, and the bodies that it was sent."""
    bodies: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_spans_are_sent_as_otlp_by_the_end_of_the_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with collector() as (url, bodies):
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=test")
        async with scripted_host(tmp_path, tracing=TRACED) as host:
            await finished(host, "hello \ud83d")
    sent = [ExportTraceServiceRequest.FromString(body) for body in bodies]
    resources = [spans for request in sent for spans in request.resource_spans]
    names = {s.name for spans in resources for scope in spans.scope_spans for s in scope.spans}
    assert names == {"invoke_agent lead_agent", "chat scripted"}
    told = {a.key: a.value.string_value for spans in resources for a in spans.resource.attributes}
    assert told["service.name"] == "deerflow" and told["service.version"]
    assert told["deployment.environment"] == "test"


@pytest.mark.parametrize(
    "variables",
    [{"OTEL_SERVICE_NAME": "theirs"}, {"OTEL_RESOURCE_ATTRIBUTES": "service.name=theirs"}],
    ids=["name", "attributes"],
)
async def test_the_service_is_called_as_the_variables_say(
    variables: dict[str, str], spans: Spans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with scripted_host(tmp_path, tracing=TRACED) as host:
        await finished(host, "hello")
    assert {span.resource.attributes["service.name"] for span in spans.all} == {"theirs"}


@pytest.mark.parametrize(
    "variables",
    [{"OTEL_TRACES_SAMPLER": "always_off"}, {"OTEL_SDK_DISABLED": "true"}],
    ids=["off", "disabled"],
)
async def test_what_the_variables_turn_off_is_not_recorded(
    variables: dict[str, str], spans: Spans, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    async with scripted_host(tmp_path, tracing={**TRACED, "record_content": True}) as host:
        assert answer(await finished(host, "hello")) == "echo: hello"
    assert spans.all == ()


@pytest.mark.parametrize(
    ("named", "kinds"),
    [("none", []), ("console", [ConsoleSpanExporter]), ("none, console", [ConsoleSpanExporter])],
)
def test_exporters_are_those_that_the_variable_names(
    named: str, kinds: list[type], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", named)
    assert [type(exporter) for exporter in provider.exporters()] == kinds


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        (
            {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "there is no exporter 'otlp_proto_grpc' here; pip install opentelemetry-exporter-otlp-proto-grpc",
        ),
        (
            {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "pigeon"},
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL: 'pigeon' is not served; allowed: http/protobuf, grpc",
        ),
        (
            {"OTEL_TRACES_EXPORTER": "pigeon"},
            "no exporter 'pigeon' here; install its package, or name another",
        ),
    ],
)
async def test_what_cannot_be_had_is_named(
    variables: dict[str, str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError, match=message):
        async with scripted_host(tmp_path, tracing=TRACED):
            pass


async def test_an_application_with_spans_of_its_own_gets_these_among_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exporter, own = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: own)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "nonsense that nobody reads")
    async with scripted_host(tmp_path, tracing=TRACED) as host:
        await finished(host, "hello")
    own.get_tracer("theirs").start_span("later").end()
    names = [span.name for span in exporter.get_finished_spans()]
    assert names == ["chat scripted", "invoke_agent lead_agent", "later"], "it was left open"


class Failing(SpanExporter):
    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        raise RuntimeError("no")

    def shutdown(self) -> None:
        raise RuntimeError("no")


class Hanging(SpanExporter):
    def __init__(self) -> None:
        self.released = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.released.wait(60)
        return SpanExportResult.FAILURE


async def test_an_exporter_that_fails_disturbs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    spans = keep_spans(monkeypatch, Failing())
    async with scripted_host(tmp_path, tracing=TRACED) as host:
        assert answer(await finished(host, "hello")) == "echo: hello"
    assert spans.named("chat scripted"), "others get theirs"
    assert "the last spans could not be sent" in caplog.messages


async def test_a_collector_that_is_away_disturbs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    async with scripted_host(tmp_path, tracing={**TRACED, "flush_seconds": 0.5}) as host:
        assert answer(await finished(host, "hello")) == "echo: hello"
    # It tries again for as long as it may, and would say so in the log of the next test.
    for thread in [thread for thread in threading.enumerate() if thread.name == "deerflow-tracing"]:
        await asyncio.to_thread(thread.join, 30)


async def test_an_exporter_that_hangs_holds_up_the_end_no_longer_than_allowed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    hanging = Hanging()
    keep_spans(monkeypatch, hanging)
    try:
        async with scripted_host(tmp_path, tracing={**TRACED, "flush_seconds": 0.2}) as host:
            assert answer(await finished(host, "hello")) == "echo: hello"
            began = time.monotonic()
        assert time.monotonic() - began < 30
        assert "spans could not be sent within 0.2 s; what was left of them is lost" in caplog.messages
    finally:
        hanging.released.set()


class Hostile(SpanProcessor):
    def on_start(self, span: Any, parent_context: Any = None) -> None:
        raise RuntimeError("no")

    def on_end(self, span: Any) -> None:
        raise RuntimeError("no")


async def test_a_processor_of_the_application_that_fails_disturbs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    own = TracerProvider(shutdown_on_exit=False)
    own.add_span_processor(Hostile())
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: own)
    async with scripted_host(tmp_path, tracing=TRACED) as host:
        assert answer(await finished(host, "hello")) == "echo: hello"
    assert "a span could not be begun" in caplog.messages


async def test_the_end_of_a_host_that_is_cancelled_is_bounded_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = Hanging()
    keep_spans(monkeypatch, hanging)

    async def serve() -> None:
        async with scripted_host(tmp_path, tracing={**TRACED, "flush_seconds": 0.2}) as host:
            await finished(host, "hello")
            served.set()
            await asyncio.sleep(60)

    served = asyncio.Event()
    serving = asyncio.create_task(serve())
    try:
        await served.wait()
        serving.cancel()
        done, _ = await asyncio.wait({serving}, timeout=30)
        assert done and serving.cancelled()
    finally:
        hanging.released.set()
