"""What was taken out of a conversation when the host compacted it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from .state import ExtensionData


@dataclass(frozen=True)
class CompactionEvent:
    """One compaction.

    The hashes are `canonical_hash(message.content)` of each removed message, in conversation order, and of
    the message that took their place. `kept_message_count` counts the originals that survive, not the new
    one.
    """

    transform_kind: str
    transform_version: str
    source_content_hashes: tuple[str, ...]
    output_content_hash: str
    compacted_message_count: int
    kept_message_count: int


class ContextCompactionObserver(Protocol):
    """Learns of compactions: fire-and-forget, always with a detached `task_store`."""

    async def on_context_compacted(
        self, app_store: ExtensionData, task_store: ExtensionData, event: CompactionEvent
    ) -> None:
        """Take note of one compaction. A failed summary removes nothing and is no event."""
        return
