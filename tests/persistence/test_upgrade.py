"""What earlier releases left is brought to this one, with everything in it."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path

import pytest
from alembic import command
from sqlalchemy import MetaData, Table, inspect, text
from support.databases import change, connected, sqlite_config
from support.records import start_run

from deerflow.config import AppConfig, config_from
from deerflow.persistence import (
    SchemaError,
    locate_database,
    open_database,
    upgrade_database,
)
from deerflow.persistence.locks import prepare_sqlite_file
from deerflow.persistence.schema import HEAD_REVISION
from deerflow.persistence.upgrade import alembic_config
from deerflow.runs.thread_ttl import ThreadExpiry, ThreadTtl


def test_explicit_upgrade_says_what_it_did(lasting_config: AppConfig) -> None:
    location = locate_database(lasting_config)
    assert upgrade_database(location) == (None, HEAD_REVISION)
    assert upgrade_database(location) == (HEAD_REVISION, HEAD_REVISION)


OLD_THREAD = """
INSERT INTO threads (thread_id, created_at, updated_at, metadata, config, status)
VALUES ('t', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{}', '{}', 'busy')
"""
OLD_RUN = """
INSERT INTO runs (
    run_id, thread_id, assistant_id, status, created_at, updated_at, metadata, kwargs, multitask_strategy,
    change_seq
)
VALUES (
    'r', 't', 'a', 'running', '2026-01-01T00:00:00+00:00', '2026-01-01T00:00:00+00:00', '{}', '{}', 'enqueue',
    1
)
"""

OLDER = """
revision = "0000"
down_revision = None
branch_labels = None
depends_on = None
"""


@pytest.fixture
def older_release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A release before the first: the present first migration follows an empty one, called 0000."""
    migrations = tmp_path / "migrations"
    versions = migrations / "versions"
    versions.mkdir(parents=True)
    source = Path(sys.modules["deerflow.persistence.upgrade"].__file__ or "").parent / "migrations"
    (migrations / "env.py").write_text((source / "env.py").read_text())
    (versions / "0000.py").write_text(OLDER)
    for path in (source / "versions").glob("*.py"):
        body = path.read_text().replace("down_revision = None", 'down_revision = "0000"')
        (versions / path.name).write_text(body)
    monkeypatch.setattr("deerflow.persistence.upgrade.MIGRATIONS", migrations)
    return "0000"


def make_old(config: AppConfig, revision: str) -> None:
    change(
        config,
        "CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)",
        f"INSERT INTO alembic_version VALUES ('{revision}')",
    )


async def test_an_old_sqlite_file_is_upgraded_by_the_first_of_several(
    tmp_path: Path, older_release: str
) -> None:
    config = sqlite_config(tmp_path / "old.db")
    make_old(config, older_release)

    async def open_and_use() -> None:
        async with open_database(config) as database:
            await start_run(database)

    await asyncio.gather(*(open_and_use() for _ in range(4)))
    with connected(config) as engine, engine.connect() as connection:
        assert connection.execute(text("SELECT version_num FROM alembic_version")).scalars().all() == [
            HEAD_REVISION
        ]


@pytest.mark.postgres
async def test_an_old_postgres_database_waits_for_the_command(postgres_url: str, older_release: str) -> None:
    config = config_from({"database": {"backend": "postgres", "url": postgres_url}})
    make_old(config, older_release)
    with pytest.raises(SchemaError, match="deerflow db upgrade"):
        async with open_database(config):
            pass
    assert upgrade_database(locate_database(config)) == ("0000", HEAD_REVISION)
    async with open_database(config) as database:
        await start_run(database)


def test_runs_of_the_first_release_come_to_have_no_host(lasting_config: AppConfig) -> None:
    location = locate_database(lasting_config)
    if location.path is not None:
        prepare_sqlite_file(location.path)
    with connected(lasting_config) as engine, engine.begin() as connection:
        command.upgrade(alembic_config(connection), "0001")
        connection.execute(text(OLD_THREAD))
        connection.execute(text(OLD_RUN))
    assert upgrade_database(location) == ("0001", HEAD_REVISION)
    with connected(lasting_config) as engine, engine.begin() as connection:
        (run,) = connection.execute(text("SELECT status, host_id, attempt, stop_requested FROM runs"))
        assert tuple(run) == ("running", None, 0, None)
        command.downgrade(alembic_config(connection), "0001")
        assert "run_hosts" not in inspect(connection).get_table_names()


async def test_threads_of_every_earlier_release_last_for_ever_and_may_come_to_expire(
    lasting_config: AppConfig,
) -> None:
    location = locate_database(lasting_config)
    if location.path is not None:
        prepare_sqlite_file(location.path)
    for revision in ("0001", "0002", "0003", "0004"):
        with connected(lasting_config) as engine, engine.begin() as connection:
            command.upgrade(alembic_config(connection), revision)
            connection.execute(text(OLD_THREAD))
        assert upgrade_database(location) == (revision, HEAD_REVISION)
        async with open_database(lasting_config) as database:
            threads, ttls = database.stores.threads, database.stores.ttls
            assert await ttls.get("t") is None
            changed = await threads.merge_metadata("t", {}, ttl=ThreadTtl(60))
            expiry = ThreadExpiry(ThreadTtl(60), changed.updated_at + timedelta(hours=1))
            assert await ttls.get("t") == expiry
        with connected(lasting_config) as engine, engine.begin() as connection:
            command.downgrade(alembic_config(connection), revision)
            assert not {"thread_ttls", "thread_leftovers"} & set(inspect(connection).get_table_names())
            assert connection.execute(text("DELETE FROM threads")).rowcount == 1


@pytest.mark.parametrize("broken", ["raise RuntimeError('no')", "op.execute('DROP TABLE nowhere')"])
async def test_a_failed_migration_leaves_the_old_tables(
    tmp_path: Path, older_release: str, broken: str
) -> None:
    (path,) = (tmp_path / "migrations" / "versions").glob("0001*.py")
    path.write_text(path.read_text().replace("    _create_run_changes()\n", f"    {broken}\n", 1))
    config = sqlite_config(tmp_path / "old.db")
    make_old(config, older_release)
    with pytest.raises(Exception, match="no"):
        async with open_database(config):
            pass
    with connected(config) as engine:
        assert inspect(engine).get_table_names() == ["alembic_version"]


async def test_a_rebuilt_table_keeps_its_referrers(tmp_path: Path, older_release: str) -> None:
    """SQLite changes a column by copying the table; deleting the original must not cascade."""
    (first,) = (tmp_path / "migrations" / "versions").glob("0001*.py")
    config = sqlite_config(tmp_path / "old.db")
    async with open_database(config) as database:
        run = await start_run(database)
    body = OLDER.replace('"0000"', '"later"', 1).replace(
        "down_revision = None", f'down_revision = "{HEAD_REVISION}"'
    )
    first.with_name("later.py").write_text(
        "import sqlalchemy as sa\nfrom alembic import op\n" + body + "\ndef upgrade():\n"
        "    with op.batch_alter_table('threads', recreate='always') as batch:\n"
        "        batch.add_column(sa.Column('added', sa.Text()))\n"
    )
    change(config, f"UPDATE alembic_version SET version_num = '{HEAD_REVISION}'")
    location = locate_database(config)
    with connected(config) as engine:
        sys.modules["deerflow.persistence.upgrade"].upgrade(engine, location)
        kept = Table("runs", MetaData(), autoload_with=engine)
        with engine.connect() as connection:
            assert connection.execute(kept.select()).one().run_id == run.run_id
