"""Tokens that one run (or one subagent) has used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Any


@dataclass
class UsageMeter:
    """Totals of input, output and all tokens, and of model turns; safe from any thread."""

    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    turns: int = 0
    stop_reason: str | None = None  # why the host ended the execution before its model did
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add_turn(self, usage: Mapping[str, Any] | None) -> None:
        """Count one model turn with LangChain's `usage_metadata` of its message, where there is one."""
        with self._lock:
            self.turns += 1
        self.add(usage)

    def add(self, usage: Mapping[str, Any] | None) -> None:
        """Add token counts; what is missing or no count is taken as zero."""
        if not usage:
            return
        spent_in, spent_out = _count(usage, "input_tokens"), _count(usage, "output_tokens")
        with self._lock:
            self.input_tokens += spent_in
            self.output_tokens += spent_out
            self.total_tokens += _count(usage, "total_tokens") or spent_in + spent_out

    def as_dict(self) -> dict[str, int]:
        """`{"input_tokens", "output_tokens", "total_tokens"}`."""
        with self._lock:
            return {
                "input_tokens": self.input_tokens,
                "output_tokens": self.output_tokens,
                "total_tokens": self.total_tokens,
            }


def _count(usage: Mapping[str, Any], key: str) -> int:
    value = usage.get(key, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0
