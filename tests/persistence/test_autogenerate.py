"""A proposed migration is about the host's tables, and about nothing that belongs to others."""

from __future__ import annotations

from pathlib import Path

import pytest
from sqlalchemy import text
from support.databases import sqlite_config

from deerflow.config import AppConfig
from deerflow.persistence import SchemaError, locate_database, open_checkpointer, open_database, open_store
from deerflow.persistence.autogenerate import autogenerate
from deerflow.persistence.engines import build_migration_engine
from deerflow.persistence.schema import HEAD_REVISION

EXTENSION_TABLES = (
    "CREATE TABLE acme_notes (id INTEGER PRIMARY KEY, word TEXT UNIQUE,"
    " thread_id TEXT REFERENCES threads (thread_id))",
    "CREATE INDEX word_index ON acme_notes (word)",
    "CREATE INDEX acme_notes_by_thread ON acme_notes (thread_id)",
    "CREATE TABLE acme_alembic_version (version_num VARCHAR(32) NOT NULL)",
    'CREATE TABLE "ACME_Loud" (id INTEGER PRIMARY KEY)',
    "CREATE TABLE beta_things (id INTEGER CHECK (id > 0))",
    # What an extension added to tables of the host:
    "CREATE INDEX acme_runs_by_error ON runs (error)",
    "CREATE UNIQUE INDEX acme_unique ON threads (thread_id, user_id)",
    "ALTER TABLE threads ADD COLUMN acme_colour TEXT",
)
POSTGRES_EXTRAS = (
    "CREATE SEQUENCE acme_numbers",
    "ALTER TABLE acme_notes ADD COLUMN number INTEGER DEFAULT nextval('acme_numbers')",
    "ALTER TABLE runs ADD CONSTRAINT acme_long_names CHECK (length(run_id) > 0)",
    "ALTER TABLE runs ADD CONSTRAINT acme_reference FOREIGN KEY (user_id) REFERENCES acme_notes (word)",
    "CREATE VIEW acme_view AS SELECT * FROM runs",
)
PREFIXES = ("Acme_", "beta_")


def change(config: AppConfig, *statements: str) -> None:
    engine = build_migration_engine(locate_database(config))
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
    engine.dispose()


async def make_everything(config: AppConfig) -> None:
    async with open_database(config), open_checkpointer(config), open_store(config):
        pass
    on_postgres = config.database.backend == "postgres"
    change(config, *EXTENSION_TABLES, *(POSTGRES_EXTRAS if on_postgres else ()))


def propose(config: AppConfig, directory: Path, prefixes: tuple[str, ...] = PREFIXES) -> tuple[str, str]:
    path = autogenerate(str(config.database.url), "what changed", directory, prefixes)
    body = path.read_text()
    upgrade, _, downgrade = body.partition("def upgrade() -> None:")[2].partition("def downgrade() -> None:")
    path.unlink()
    return upgrade, downgrade


async def test_nothing_is_proposed_for_what_belongs_to_others(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    await make_everything(lasting_config)
    for proposed in propose(lasting_config, tmp_path / "out"):
        assert "op." not in proposed
        assert "pass" in proposed


async def test_without_the_prefix_its_drop_would_be_proposed(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    await make_everything(lasting_config)
    upgrade, _ = propose(lasting_config, tmp_path / "out", ("acme_",))
    assert "op.drop_table('beta_things')" in upgrade
    assert "acme" not in upgrade.lower()


async def test_the_hosts_own_drops_and_additions_are_still_proposed(
    lasting_config: AppConfig, tmp_path: Path
) -> None:
    await make_everything(lasting_config)
    change(
        lasting_config,
        "CREATE TABLE forgotten (id INTEGER PRIMARY KEY)",
        "CREATE INDEX forgotten_index ON runs (stop_reason)",
        "DROP INDEX ix_runs_active",
        "ALTER TABLE run_events ADD COLUMN forgotten_column TEXT",
    )
    # A prefix may hide what nobody's model names, never what the host's does.
    upgrade, downgrade = propose(lasting_config, tmp_path / "out", (*PREFIXES, "ix_"))
    assert "op.drop_table('forgotten')" in upgrade
    assert "forgotten_index" in upgrade
    assert "drop_column('forgotten_column')" in upgrade
    assert "create_index('ix_runs_active'" in upgrade
    assert "acme" not in (upgrade + downgrade).lower()


async def test_the_file_stands_where_it_is_wanted_and_can_be_run(tmp_path: Path) -> None:
    config = sqlite_config(tmp_path / "deerflow.db")
    async with open_database(config):
        pass
    change(config, "CREATE TABLE forgotten (id INTEGER PRIMARY KEY)")
    path = autogenerate(str(config.database.url), "drop the forgotten", tmp_path / "out")
    assert path.parent == tmp_path / "out"
    assert "drop_the_forgotten" in path.name
    body = path.read_text()
    assert body.startswith('"""drop the forgotten"""')
    assert f"down_revision = '{HEAD_REVISION}'" in body
    compile(body, str(path), "exec")


def test_a_database_without_tables_is_refused(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'empty.db'}"
    with pytest.raises(SchemaError, match="not up to date"):
        autogenerate(url, "nothing", tmp_path / "out")
