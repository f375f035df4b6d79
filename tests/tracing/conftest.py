"""Spans in memory, and no variable of the environment that would send them anywhere."""

from __future__ import annotations

import os

import pytest
from support.spans import Spans, keep_spans


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    """What the hosts of a test record."""
    return keep_spans(monkeypatch)
