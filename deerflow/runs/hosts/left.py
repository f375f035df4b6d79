"""Runs of which no record is left, as their thread was removed with their end: what hosts tell each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from deerflow.runs.recent import EndedRun
from deerflow.runs.record import RunRecord, RunStatus
from deerflow.runs.serialize import encode_json


@dataclass(frozen=True)
class LeftRun(RunRecord):
    """A run on a temporary thread, after its end: `values` is its last state, `interrupts` what it asks."""

    values: Mapping[str, Any] = field(default_factory=dict)
    interrupts: Sequence[Any] = ()


def encode_left(run: EndedRun | None) -> bytes | None:
    """What to keep of a run that has ended; None where its thread has it, or nobody is to have it."""
    if run is None or run.values is None or run.ending.stop_reason == "deleted":
        return None
    ending = run.ending
    return encode_json(
        {
            "thread_id": run.thread_id,
            "user_id": run.user_id,
            "status": ending.status,
            "error": None if ending.error is None else ": ".join(ending.error),
            "stop_reason": ending.stop_reason,
            "values": run.values,
            "interrupts": ending.interrupts,
        }
    )


def decode_left(run_id: str, payload: bytes) -> LeftRun:
    """The run that `encode_left` was given, at another host."""
    fields = orjson.loads(payload)
    return LeftRun(run_id, assistant_id="", **{**fields, "status": RunStatus(fields["status"])})
