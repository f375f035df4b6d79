"""What is counted, and where it is kept."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from threading import Lock


@dataclass
class TaskToolCalls:
    """The calls of one task, by tool. Parallel tool calls come from several threads: hence the lock."""

    _calls: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def count(self, tool: str) -> None:
        with self._lock:
            self._calls[tool] += 1

    def snapshot(self) -> Counter[str]:
        with self._lock:
            return Counter(self._calls)


@dataclass
class Totals:
    """Everything counted since the process began; kept in the app store."""

    tool_calls: Counter[str] = field(default_factory=Counter)
    tasks: Counter[str] = field(default_factory=Counter)
    observed: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock, repr=False)

    def add_task(self, kind: str, outcome: str, calls: Counter[str]) -> None:
        with self._lock:
            self.tool_calls.update(calls)
            self.tasks[f"{kind} {outcome}"] += 1

    def observe(self, what: str) -> None:
        with self._lock:
            self.observed[what] += 1

    def as_dict(self) -> dict[str, dict[str, int]]:
        with self._lock:
            return {
                "tool_calls": dict(self.tool_calls),
                "tasks": dict(self.tasks),
                "observed": dict(self.observed),
            }
