"""Spans as OpenTelemetry has them. Imported only where they are wanted: its SDK is an extra."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import contextmanager
from time import time_ns
from typing import Any, Final, TypeVar, cast

from langgraph.errors import GraphBubbleUp
from opentelemetry import context, propagate, trace
from opentelemetry.trace import SpanKind, Status, StatusCode

from deerflow.extensions.diagnostics import error_text, type_name
from deerflow.extensions.outcomes import HookOutcome
from deerflow.tracing import names
from deerflow.tracing.interface import Attributes, Span, SpanStart

logger = logging.getLogger(__name__)

# Where a context says whose spans it holds: several hosts of a process may trace.
_OWNER: Final = context.create_key("deerflow-tracing")
_END: Final = object()

T = TypeVar("T")


class OtelTracing:
    """Makes spans with `tracer`."""

    def __init__(self, tracer: trace.Tracer, *, with_content: bool) -> None:
        self.with_content = with_content
        self._tracer = tracer

    @contextmanager
    def span(self, start: SpanStart) -> Iterator[OtelSpan]:
        """As `Tracing.span`."""
        with self._begun(start) as span, self._current(span):
            yield span

    async def streamed(
        self, start: SpanStart, parts: AsyncGenerator[T], note_end: Callable[[Span], None]
    ) -> AsyncGenerator[T]:
        """As `Tracing.streamed`."""
        with self._begun(start) as span:
            try:
                while True:
                    with self._current(span):
                        part = await anext(parts, _END)
                    if part is _END:
                        break
                    yield cast(T, part)
            finally:
                with self._current(span):
                    await parts.aclose()
                note_end(span)

    def hook_ended(self, outcome: HookOutcome) -> None:
        """As `Tracing.hook_ended`."""
        if context.get_value(_OWNER) is not self:
            return
        now = time_ns()
        attributes: Attributes = {
            names.EXTENSION: outcome.source,
            names.HOOK: outcome.hook,
            names.HOOK_OWN_SECONDS: outcome.seconds,
        }
        began_at = now - int(outcome.span_seconds * 1e9)
        started = self._started(f"extension_hook {outcome.hook}", attributes, SpanKind.INTERNAL, began_at)
        span = OtelSpan(started, self.with_content)
        if outcome.failed:
            span.fail("hook_failed")
        span.end(now)

    @contextmanager
    def _begun(self, start: SpanStart) -> Iterator[OtelSpan]:
        kind = SpanKind.CLIENT if start.leaves_process else SpanKind.INTERNAL
        span = OtelSpan(self._started(start.name, start.attributes, kind), self.with_content)
        try:
            yield span
        except GraphBubbleUp:
            raise
        except BaseException as error:
            span.fail_with(error)
            raise
        finally:
            span.end()

    @contextmanager
    def _current(self, span: OtelSpan) -> Iterator[None]:
        token = context.attach(context.set_value(_OWNER, self, trace.set_span_in_context(span.inner)))
        try:
            yield
        finally:
            context.detach(token)

    def _started(
        self, name: str, attributes: Attributes, kind: SpanKind, began_at: int | None = None
    ) -> trace.Span:
        try:
            return self._tracer.start_span(
                _encodable(name), kind=kind, attributes=_known(attributes), start_time=began_at
            )
        except Exception:  # a sampler or processor of somebody's own
            logger.exception("a span could not be begun")
            return trace.INVALID_SPAN


class OtelSpan:
    """One span, which fails for itself alone."""

    def __init__(self, inner: trace.Span, with_content: bool) -> None:
        self.inner = inner
        self._with_content = with_content

    @property
    def is_recorded(self) -> bool:
        """As `Span.is_recorded`."""
        return self.inner.is_recording()

    def set(self, attributes: Attributes) -> None:
        """As `Span.set`."""
        self.inner.set_attributes(_known(attributes))

    def fail(self, kind: str, text: str = "") -> None:
        """As `Span.fail`."""
        self.inner.set_attribute(names.ERROR_TYPE, kind)
        self.inner.set_status(Status(StatusCode.ERROR, text if text and self._with_content else kind))

    def fail_with(self, error: BaseException) -> None:
        """Let it end as failed by `error`."""
        if isinstance(error, asyncio.CancelledError | GeneratorExit):  # whoever reads a stream may leave it
            self.fail("cancelled")
            return
        kind = type_name(error)
        self.fail(kind, f"{kind}: {error_text(error)}" if self._with_content else "")

    def end(self, now: int | None = None) -> None:
        """Hand it to whoever sends it."""
        try:
            self.inner.end(now)
        except Exception:  # a processor of somebody's own
            logger.exception("a span could not be ended")


@contextmanager
def within_trace_of(headers: Mapping[str, str]) -> Iterator[None]:
    """Let what begins in the block belong to the trace that `headers` name, as OTEL_PROPAGATORS reads them.

    Nothing happens where there is a span already: whoever instruments the server has read them.
    """
    if trace.get_current_span().get_span_context().is_valid:
        yield
        return
    token = context.attach(propagate.extract(dict(headers)))
    try:
        yield
    finally:
        context.detach(token)


def _known(attributes: Attributes) -> dict[str, Any]:
    return {name: _encodable(value) for name, value in attributes.items() if value is not None}


def _encodable(value: Any) -> Any:
    """A lone surrogate, which models and tools may bring, would cost the exporter the whole batch."""
    if isinstance(value, str) and not value.isascii():
        return value.encode("utf-8", "replace").decode("utf-8")
    return value
