"""The tables of users, of their tokens, and of the sessions that they opened with a password.

Of every secret there is a digest only: whoever reads the database can act as nobody.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Boolean, Column, ForeignKey, Index, Table

from deerflow.persistence.columns import CleanText, UtcDateTime
from deerflow.persistence.tables import host_metadata

users: Final = Table(
    "users",
    host_metadata,
    Column("name", CleanText, primary_key=True),
    Column("is_admin", Boolean, nullable=False),
    Column("password_hash", CleanText),
    Column("created_at", UtcDateTime, nullable=False),
    # A user who was turned away stays as a row, for what the user owned keeps its owner.
    Column("revoked_at", UtcDateTime),
)

tokens: Final = Table(
    "tokens",
    host_metadata,
    Column("token_hash", CleanText, primary_key=True),
    Column("token_id", CleanText, nullable=False),
    Column("user_name", CleanText, ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("is_admin", Boolean, nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Index(None, "user_name", "created_at"),
    Index("uq_tokens_token_id", "token_id", unique=True),
)

login_sessions: Final = Table(
    "login_sessions",
    host_metadata,
    Column("session_hash", CleanText, primary_key=True),
    Column("user_name", CleanText, ForeignKey("users.name", ondelete="CASCADE"), nullable=False),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False),
    Index(None, "user_name"),
    Index(None, "expires_at"),
)
