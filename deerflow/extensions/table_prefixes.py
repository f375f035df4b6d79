"""Which database tables belong to extensions, so that a host migration never proposes to drop them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from deerflow.config import ExtensionSpec
from deerflow.extensions.errors import TablePrefixError

HOST_TABLES: Final = frozenset(
    {
        # the host's own metadata
        *("threads", "thread_ttls", "thread_leftovers", "runs", "run_events", "run_changes", "run_hosts"),
        *("users", "tokens", "login_sessions", "assistants", "assistant_versions", "alembic_version"),
        # LangGraph's checkpointers (SQLite and PostgreSQL)
        *("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations", "writes"),
        # LangGraph's stores
        *("store", "store_migrations", "store_vectors", "vector_migrations"),
    }
)
"""Every table that the host or LangGraph creates; a test of the database layer keeps it complete."""


@dataclass(frozen=True)
class TablePrefixes:
    """The prefixes of one loading, of disabled and failed entries too."""

    prefixes: tuple[str, ...] = ()

    def owns(self, table_name: str) -> bool:
        """Tell whether a table belongs to an extension, whatever the case of its letters."""
        return table_name.lower().startswith(tuple(prefix.lower() for prefix in self.prefixes))

    def including(self, spec: ExtensionSpec, host_tables: Iterable[str] = HOST_TABLES) -> TablePrefixes:
        """Return these and the prefix that `spec` declares; TablePrefixError where it covers host tables."""
        prefix = spec.table_prefix
        if prefix is None:
            return self
        hidden = sorted(name for name in host_tables if name.lower().startswith(prefix.lower()))
        if hidden:
            raise TablePrefixError(prefix, hidden, source=spec.use)
        return self if prefix in self.prefixes else TablePrefixes((*self.prefixes, prefix))

    @staticmethod
    def declared_by(
        specs: Iterable[ExtensionSpec], host_tables: Iterable[str] = HOST_TABLES
    ) -> TablePrefixes:
        """Return the prefixes of all records without importing any extension."""
        tables = frozenset(host_tables)
        declared = TablePrefixes()
        for spec in specs:
            declared = declared.including(spec, tables)
        return declared
