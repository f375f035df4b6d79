"""Runs that ended a moment ago."""

from __future__ import annotations

import time

import pytest

from deerflow.runs import recent
from deerflow.runs.ending import aborted
from deerflow.runs.events.log import EventLog
from deerflow.runs.recent import EndedRun, RecentRuns


def _ended(name: str, *, thread_id: str = "t", size_bytes: int = 10, age_seconds: float = 0.0) -> EndedRun:
    log = EventLog()
    log.publish("end", "x" * size_bytes)
    log.close()
    ended_at = time.monotonic() - age_seconds
    return EndedRun(name, thread_id, None, log, aborted("cancelled"), ended_at_seconds=ended_at)


def test_ended_run_is_found_until_it_or_its_thread_is_deleted() -> None:
    runs = RecentRuns()
    for name in ("a", "b"):
        runs.keep(_ended(name))
    runs.keep(_ended("c", thread_id="other"))
    runs.forget("a")
    runs.forget("never there")
    assert [runs.find(name) is not None for name in "abc"] == [False, True, True]
    runs.forget_thread("t")
    assert [runs.find(name) is not None for name in "abc"] == [False, False, True]


def test_only_the_newest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "KEPT_RUNS", 3)
    runs = RecentRuns()
    for name in "abcde":
        runs.keep(_ended(name))
    assert [runs.find(name) is not None for name in "abcde"] == [False, False, True, True, True]


def test_events_are_bounded_by_their_bytes_altogether(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent, "KEPT_BYTES", 1000)
    runs = RecentRuns()
    for name in "abc":
        runs.keep(_ended(name, size_bytes=400))
    assert [runs.find(name) is not None for name in "abc"] == [False, True, True]
    runs.keep(_ended("huge", size_bytes=5000))
    assert [runs.find(name) for name in ("b", "c", "huge")] == [None, None, None]
    runs.keep(_ended("d"))
    assert runs.find("d") is not None


def test_old_ones_make_room_for_new_ones() -> None:
    runs = RecentRuns()
    runs.keep(_ended("old", age_seconds=3600))
    runs.keep(_ended("new"))
    assert runs.find("old") is None
    assert runs.find("new") is not None
