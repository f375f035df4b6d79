"""Spans that a host made, kept in memory for tests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from deerflow.tracing import provider

TRACED = {"enabled": True}
WITH_CONTENT = {"enabled": True, "record_content": True}


class _Shared(InMemorySpanExporter):
    """Serves several hosts, and goes on when one of them ends."""

    def shutdown(self) -> None:
        pass


class Spans:
    """The finished spans; complete once the host has closed."""

    def __init__(self) -> None:
        self.exporter = _Shared()

    @property
    def all(self) -> Sequence[ReadableSpan]:
        return self.exporter.get_finished_spans()

    def named(self, name: str) -> list[ReadableSpan]:
        """Those of this name, by their beginning."""
        return sorted((s for s in self.all if s.name == name), key=lambda s: s.start_time or 0)

    def only(self, name: str) -> ReadableSpan:
        """The one of this name."""
        (span,) = self.named(name)
        return span

    def below(self, span: ReadableSpan | None) -> list[ReadableSpan]:
        """The children of a span, or those without a parent here, by their beginning."""
        known = {s.context.span_id for s in self.all if s.context}
        parent_id = span.context.span_id if span is not None and span.context else None
        return sorted(
            (s for s in self.all if _parent_id(s, known) == parent_id), key=lambda s: s.start_time or 0
        )

    def tree(self, span: ReadableSpan | None = None) -> list[Any]:
        """Names, each followed by the list of those below it, where there are any."""
        found: list[Any] = []
        for child in self.below(span):
            found.append(child.name)
            if inner := self.tree(child):
                found.append(inner)
        return found

    def texts(self) -> str:
        """Everything that the spans say, as one text."""
        return "\n".join(span.to_json() for span in self.all)


def _parent_id(span: ReadableSpan, known: set[int]) -> int | None:
    return span.parent.span_id if span.parent is not None and span.parent.span_id in known else None


def attributes_of(span: ReadableSpan) -> dict[str, Any]:
    """By name."""
    return dict(span.attributes or {})


def keep_spans(monkeypatch: pytest.MonkeyPatch, *more: SpanExporter) -> Spans:
    """Let every host that traces send its spans here instead, and to `more`."""
    spans = Spans()
    monkeypatch.setattr(provider, "exporters", lambda: [spans.exporter, *more])
    return spans
