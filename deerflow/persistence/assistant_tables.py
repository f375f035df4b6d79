"""The tables of assistants and of all their versions."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Column, ForeignKey, Index, Integer, Table

from deerflow.persistence.columns import CleanText, JsonValue, UtcDateTime
from deerflow.persistence.tables import host_metadata

assistants: Final = Table(
    "assistants",
    host_metadata,
    Column("assistant_id", CleanText, primary_key=True),
    Column("user_id", CleanText),
    Column("graph_id", CleanText, nullable=False),
    Column("name", CleanText, nullable=False),
    Column("description", CleanText),
    Column("config", JsonValue, nullable=False),
    Column("context", JsonValue, nullable=False),
    Column("metadata", JsonValue(searchable=True), nullable=False),
    Column("version", Integer, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("updated_at", UtcDateTime, nullable=False),
    Index(None, "user_id", "created_at"),
)

assistant_versions: Final = Table(
    "assistant_versions",
    host_metadata,
    Column(
        "assistant_id",
        CleanText,
        ForeignKey("assistants.assistant_id", ondelete="CASCADE"),
        primary_key=True,
    ),
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("graph_id", CleanText, nullable=False),
    Column("name", CleanText, nullable=False),
    Column("description", CleanText),
    Column("config", JsonValue, nullable=False),
    Column("context", JsonValue, nullable=False),
    Column("metadata", JsonValue(searchable=True), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
)
