"""Entries can be added, and neither changed nor removed: the database itself refuses it.

Whoever may change tables can take the triggers away; the chain then shows what was done.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"

_REFUSAL = "audit entries are append-only"


def upgrade() -> None:
    statements = _POSTGRES if op.get_bind().dialect.name == "postgresql" else _SQLITE
    for statement in statements:
        op.execute(statement)


_SQLITE = [
    f"""
    CREATE TRIGGER audit_entries_no_{verb} BEFORE {verb} ON audit_entries
    BEGIN SELECT RAISE(ABORT, '{_REFUSAL}'); END
    """
    for verb in ("update", "delete")
]

_POSTGRES = [
    f"""
    CREATE FUNCTION audit_refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN RAISE EXCEPTION '{_REFUSAL}'; END $$
    """,
    """
    CREATE TRIGGER audit_entries_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION audit_refuse_change()
    """,
]
