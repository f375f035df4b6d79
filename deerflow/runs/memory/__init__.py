"""Facts about a user: read from what was said, kept across threads, shown to the lead."""

from deerflow.runs.memory.service import Conversation, FlushReport, MemoryService

__all__ = ["Conversation", "FlushReport", "MemoryService"]
