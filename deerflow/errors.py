"""Every error that the host raises on purpose, as one tree.

An error holds facts; its text says what failed, where, and the edit that fixes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class DeerFlowError(Exception):
    """Root of the host's errors."""


class ConfigError(DeerFlowError, ValueError):
    """The configuration cannot be used: one line per wrong field."""


class InvalidRequestError(DeerFlowError, ValueError):
    """A caller asked for something that is not on offer, or in a wrong form."""


class NotFoundError(DeerFlowError, LookupError):
    """A thread, run or assistant that does not exist, or not for this caller."""


class ConflictError(DeerFlowError):
    """The state of a thread or run does not allow what was asked."""


class UnavailableError(DeerFlowError):
    """The host is shutting down, or has no room left."""


class RunFailedError(DeerFlowError, RuntimeError):
    """A run ended in `error`; `error` is its text, `run_id` and `thread_id` say which."""

    def __init__(self, error: str, *, run_id: str, thread_id: str) -> None:
        super().__init__(f"run {run_id} on thread {thread_id} failed: {error}")
        self.error = error
        self.run_id = run_id
        self.thread_id = thread_id


class RunInterruptedError(DeerFlowError, RuntimeError):
    """A run waits for a person; `interrupts` holds what it asks, each `{"id", "value"}`."""

    def __init__(self, interrupts: Sequence[dict[str, Any]], *, run_id: str, thread_id: str) -> None:
        super().__init__(f"run {run_id} on thread {thread_id} waits for a person: resume it with an answer")
        self.interrupts = list(interrupts)
        self.run_id = run_id
        self.thread_id = thread_id
