"""Show a chat as it goes: delegations as live lines on a terminal, as plain lines where piped."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from deerflow.client import StreamEvent

_ENDS = {
    "task_completed": ("done", "green"),
    "task_failed": ("failed", "red"),
    "task_cancelled": ("stopped", "yellow"),
    "task_timed_out": ("timed out", "red"),
}


@dataclass
class _Line:
    title: str
    state: str = "started"
    style: str = "cyan"
    began: float = field(default_factory=time.monotonic)
    ended: float | None = None

    def text(self) -> Text:
        seconds = (self.ended or time.monotonic()) - self.began
        return Text.assemble(
            ("  subagent ", "dim"), self.title, "  ", (self.state, self.style), f"  {seconds:.1f} s"
        )


class ChatDisplay:
    """Follows the events of one chat. `answer` is the last text of the lead agent."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(file=sys.stdout, highlight=False, soft_wrap=True)
        self._lines: dict[str, _Line] = {}
        self._live: Live | None = None
        self.answer = ""
        self.end: dict[str, Any] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Keep the lines alive on a terminal until the chat has ended."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=8, get_renderable=self._all) as self._live:
            yield
        self._live = None

    def follow(self, event: StreamEvent) -> None:
        """Take one event."""
        if event.type == "values":
            self.answer = _last_answer(event.data) or self.answer
        elif event.type == "custom" and isinstance(event.data, dict):
            self._delegation(event.data)
        elif event.type == "end":
            self.end = event.data

    def _delegation(self, data: dict[str, Any]) -> None:
        kind, execution_id = data.get("type"), str(data.get("execution_id"))
        if kind == "task_started":
            title = data.get("description") or data.get("subagent_type") or execution_id
            self._lines[execution_id] = _Line(str(title))
            self._plain(self._lines[execution_id])
        line = self._lines.get(execution_id)
        if line is None:
            return
        if kind == "task_running" and data.get("tools"):
            line.state = f"calls {', '.join(data['tools'])}"
            self._plain(line)
        elif kind in _ENDS:
            line.state, line.style = _ENDS[kind]
            line.ended = time.monotonic()
            self._plain(line)

    def _plain(self, line: _Line) -> None:
        if self._live is None:
            self._console.print(line.text())

    def _all(self) -> Text:
        return Text("\n").join(line.text() for line in self._lines.values())


def _last_answer(state: Any) -> str:
    messages = state.get("messages", []) if isinstance(state, dict) else []
    for message in reversed(messages):
        if message.get("type") == "ai" and not message.get("tool_calls"):
            return _text(message.get("content"))
        if message.get("type") == "human":
            break
    return ""


def _text(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(block.get("text", "") for block in content or [] if isinstance(block, dict))
