"""What is kept of a run beside its state: collected while it streams, written in few transactions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping
from functools import partial
from typing import Any

from langchain_core.messages import BaseMessage

from deerflow.agents.authorship import added_messages
from deerflow.runs.record import NewRunEvent
from deerflow.runs.serialize import to_json_value
from deerflow.runs.stores import RunEventStore

logger = logging.getLogger(__name__)

FLUSH_SECONDS = 0.5

_EDGES = frozenset({"task_started", "task_completed", "task_failed", "task_cancelled", "task_timed_out"})


class EventRecorder:
    """Buffers the events of one run: written every `FLUSH_SECONDS`, the rest together with the end.

    `subagent_edges` holds `(execution id, event type)` of the beginnings and ends of subagents among them.
    """

    def __init__(
        self, store: RunEventStore, *, thread_id: str, run_id: str, host_id: str | None = None
    ) -> None:
        self._append = partial(store.append, thread_id, run_id, host_id=host_id)
        self._run_id = run_id
        self._pending: list[NewRunEvent] = []
        self._flusher: asyncio.Task[None] | None = None
        self.subagent_edges: set[tuple[str, str]] = set()

    def note(self, event_type: str, category: str, content: Any = None) -> None:
        """Keep one event; `content` is copied."""
        self._pending.append(NewRunEvent(event_type, category, to_json_value(content)))
        if self._flusher is None:
            self._flusher = asyncio.create_task(self._flush(), name=f"event flush of run {self._run_id}")

    def note_input(self, graph_input: Any, known_ids: Container[Any] = ()) -> None:
        """Keep the messages that the caller sent, but those that are known already."""
        messages = graph_input.get("messages") if isinstance(graph_input, Mapping) else None
        for message in messages if isinstance(messages, list) else ():
            kind = message.type if isinstance(message, BaseMessage) else "input"
            message_id = message.get("id") if isinstance(message, Mapping) else getattr(message, "id", None)
            if message_id not in known_ids:
                self.note(f"message.{kind}", "message", message)

    def note_update(self, update: Mapping[str, Any], state: Mapping[str, Any]) -> None:
        """Keep the messages that one step of the graph added to `state`; summaries are none of them."""

        def known_ids() -> set[str | None]:
            return {message.id for message in state.get("messages", ()) if isinstance(message, BaseMessage)}

        for node_update in update.values():
            for message in added_messages(node_update, known_ids):
                self.note(f"message.{message.type}", "message", message)

    def note_custom(self, payload: Any) -> None:
        """Keep what a tool or middleware sent; delegations are told apart by their type."""
        event_type = payload.get("type") if isinstance(payload, Mapping) else None
        if isinstance(event_type, str) and event_type.startswith("task_"):
            self.note(event_type, "delegation", payload)
            if event_type in _EDGES:
                self.subagent_edges.add((str(payload.get("execution_id")), event_type))
        else:
            self.note("custom", "custom", payload)

    async def rest(self) -> list[NewRunEvent]:
        """Stop flushing and hand over what is not written yet."""
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.wait({self._flusher})
        rest, self._pending = self._pending, []
        return rest

    async def _flush(self) -> None:
        while True:
            await asyncio.sleep(FLUSH_SECONDS)
            batch = list(self._pending)
            if not batch:
                continue
            # A write under way ends whole or not at all, so that the rest can be handed over without doubles.
            write = asyncio.ensure_future(self._append(batch))
            cancelled = await _settle(write)
            if not write.cancelled() and write.exception() is None:
                del self._pending[: len(batch)]
            else:
                logger.warning("events of run %s could not be written yet", self._run_id)
            if cancelled:
                raise asyncio.CancelledError


async def _settle(write: asyncio.Future[None]) -> bool:
    """Wait for a write although this task may be cancelled meanwhile; whether it was."""
    cancelled = False
    while not write.done():
        try:
            await asyncio.wait({write})
        except asyncio.CancelledError:
            cancelled = True
    return cancelled
