"""Where spans go: to the application's own provider, or to one made from the OTEL_* variables."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from importlib.metadata import entry_points, version
from typing import Final

from opentelemetry import trace
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter

from deerflow.errors import ConfigError

logger = logging.getLogger(__name__)

_EXPORTERS: Final = "opentelemetry_traces_exporter"
_PACKAGES: Final = {
    "otlp_proto_http": "opentelemetry-exporter-otlp-proto-http",
    "otlp_proto_grpc": "opentelemetry-exporter-otlp-proto-grpc",
}
_PROTOCOLS: Final = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}
_PROTOCOL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


@asynccontextmanager
async def open_tracer(*, flush_seconds: float) -> AsyncIterator[trace.Tracer]:
    """A tracer. What it has not sent at the end is sent within `flush_seconds`, or lost.

    Where the application has a provider of its own, that one is used and left alone. Raises `ConfigError`
    where the variables name what cannot be had.
    """
    present = trace.get_tracer_provider()
    if not isinstance(present, trace.ProxyTracerProvider):
        yield present.get_tracer("deerflow", version("deerflow"))
        return
    provider = await asyncio.to_thread(_build)
    try:
        yield provider.get_tracer("deerflow", version("deerflow"))
    finally:
        if not await _done_within(provider.shutdown, flush_seconds):
            logger.warning(
                "spans could not be sent within %.1f s; what was left of them is lost", flush_seconds
            )


def exporters() -> list[SpanExporter]:
    """Those that OTEL_TRACES_EXPORTER names: `otlp` without it, none for `none`."""
    named = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    return [_exporter(name) for name in _names_in(named)]


def _build() -> TracerProvider:
    # Whoever ends the host ends it; at the exit of the process nobody waits for it a second time.
    provider = TracerProvider(resource=_resource(), shutdown_on_exit=False)
    for exporter in exporters():
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _resource() -> Resource:
    found = Resource.create({SERVICE_VERSION: version("deerflow")})
    if str(found.attributes.get(SERVICE_NAME, "unknown_service")).startswith("unknown_service"):
        return found.merge(Resource({SERVICE_NAME: "deerflow"}))
    return found


def _names_in(text: str) -> Iterator[str]:
    for part in text.split(","):
        name = part.strip()
        if name == "otlp":
            yield _otlp_of_protocol()
        elif name and name != "none":
            yield name


def _otlp_of_protocol() -> str:
    variable = next((name for name in _PROTOCOL_VARIABLES if os.environ.get(name)), None)
    if variable is None:
        return "otlp_proto_http"
    protocol = os.environ[variable].strip()
    if protocol not in _PROTOCOLS:
        raise ConfigError(f"{variable}: {protocol!r} is not served; allowed: {', '.join(_PROTOCOLS)}")
    return _PROTOCOLS[protocol]


def _exporter(name: str) -> SpanExporter:
    found = next(iter(entry_points(group=_EXPORTERS, name=name)), None)
    if found is None:
        package = _PACKAGES.get(name)
        advice = f"pip install {package}" if package else "install its package, or name another"
        raise ConfigError(f"OTEL_TRACES_EXPORTER: there is no exporter {name!r} here; {advice}")
    try:
        exporter: SpanExporter = found.load()()
    except (
        Exception
    ) as error:  # it reads variables of its own, and says what is wrong with them in its own way
        raise ConfigError(
            f"OTEL_TRACES_EXPORTER: exporter {name!r} cannot be made: {type(error).__name__}: {error}"
        ) from error
    return exporter


async def _done_within(work: Callable[[], object], seconds: float) -> bool:
    """Whether it ended in time. Not on the loop's own threads: whoever closes the loop waits for those."""
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()

    def run() -> None:
        try:
            work()
        except Exception:
            logger.exception("the last spans could not be sent")
        finally:
            try:
                loop.call_soon_threadsafe(ended.set)
            except RuntimeError:
                pass  # the loop is closed: nobody waits

    threading.Thread(target=run, name="deerflow-tracing", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            await ended.wait()
    except TimeoutError:
        return False
    return True
