"""Spans of runs, model calls, tool calls, subagents and hooks of extensions, for OpenTelemetry.

The SDK is an extra: nothing here imports it before a configuration asks for spans. Without them there is no
`Tracing`, and nothing of a run is wrapped.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from typing import Any

from deerflow.config.schema import TracingConfig
from deerflow.errors import ConfigError
from deerflow.extensions.outcomes import listen_to_outcomes
from deerflow.tracing.interface import Span, SpanStart, Tracing

__all__ = ["Span", "SpanStart", "Tracing", "incoming_trace", "open_tracing"]


@asynccontextmanager
async def open_tracing(config: TracingConfig) -> AsyncIterator[Tracing | None]:
    """What makes spans, or `None` where the configuration wants none; what is left is sent at the end."""
    if not config.enabled:
        yield None
        return
    provider = await asyncio.to_thread(_module, "provider")
    async with provider.open_tracer(flush_seconds=config.flush_seconds) as tracer:
        tracing: Tracing = _module("otel").OtelTracing(tracer, with_content=config.record_content)
        release = listen_to_outcomes(tracing.hook_ended)
        try:
            yield tracing
        finally:
            release()


def incoming_trace() -> Callable[[Mapping[str, str]], AbstractContextManager[None]]:
    """What lets the runs that begin in a block belong to the trace that a request's headers name.

    Raises `ConfigError` where the extra is missing.
    """
    _module("provider")  # what is missing is said before anything starts
    within: Callable[[Mapping[str, str]], AbstractContextManager[None]] = _module("otel").within_trace_of
    return within


def _module(name: str) -> Any:
    try:
        return importlib.import_module(f"{__name__}.{name}")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"tracing.enabled: {error.name} is not installed; pip install 'deerflow[otel]', or set false"
        ) from error
