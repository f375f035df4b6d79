"""A database is brought to this release once, whoever comes first, and never by accident."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path

import pytest
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy import inspect, text
from sqlalchemy.engine import Connection
from support.databases import change, connected, sqlite_config
from support.records import start_run

from deerflow.config import AppConfig, config_from
from deerflow.errors import ConfigError
from deerflow.extensions.table_prefixes import HOST_TABLES
from deerflow.persistence import (
    DatabaseUnavailableError,
    SchemaError,
    host_table_names,
    locate_database,
    open_checkpointer,
    open_database,
    open_store,
    upgrade_database,
)
from deerflow.persistence.locks import prepare_sqlite_file
from deerflow.persistence.schema import HEAD_REVISION, create_schema, prepare_schema
from deerflow.persistence.tables import host_metadata
from deerflow.persistence.upgrade import MIGRATIONS, alembic_config, knows


def structure(connection: Connection) -> dict[str, object]:
    """Everything that tells two schemas apart, as the database itself words it."""
    if connection.dialect.name == "sqlite":
        rows = connection.execute(text("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")).all()
        made = {name: parts_of(sql) for name, sql in rows}
        # A column that was added later stands behind the constraints, which says nothing.
        return {name: (sorted(parts), columns_of(connection, name)) for name, parts in made.items()}
    columns = connection.execute(
        text(
            "SELECT table_name, column_name, data_type, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema = current_schema() ORDER BY 1, 2"
        )
    )
    indexes = connection.execute(text("SELECT indexdef FROM pg_indexes WHERE schemaname = current_schema()"))
    constraints = connection.execute(
        text(
            "SELECT conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = current_schema()::regnamespace"
        )
    )
    return {
        "columns": sorted(map(str, columns)),
        "indexes": sorted(map(str, indexes)),
        "constraints": sorted(map(str, constraints)),
    }


def parts_of(sql: str) -> list[str]:
    """What stands between the commas of a definition, without its own."""
    head, _, body = " ".join(sql.replace('"', "").split()).partition("(")
    depths = accumulate({"(": 1, ")": -1}.get(letter, 0) for letter in body)
    marked = "".join(
        "\n" if letter == "," and not depth else letter for letter, depth in zip(body, depths, strict=True)
    )
    return [head, *(part.strip() for part in marked.removesuffix(")").split("\n"))]


def columns_of(connection: Connection, name: str) -> list[str]:
    return [row.name for row in connection.execute(text(f"PRAGMA table_info('{name}')"))]


def structure_after(config: AppConfig, make: Callable[[Connection], object]) -> dict[str, object]:
    if (path := locate_database(config).path) is not None:
        path.unlink(missing_ok=True)
    with connected(config) as engine:
        with engine.begin() as connection:
            make(connection)
        with engine.begin() as connection:
            found = structure(connection)
            for table in inspect(connection).get_table_names():
                connection.execute(
                    text(f"DROP TABLE {table}" + " CASCADE" * (connection.dialect.name != "sqlite"))
                )
        return found


def test_migrations_and_models_make_the_same_tables(lasting_config: AppConfig) -> None:
    modelled = structure_after(lasting_config, create_schema)
    migrated = structure_after(
        lasting_config, lambda connection: command.upgrade(alembic_config(connection), "head")
    )
    assert migrated == modelled
    assert modelled


def test_head_revision_is_the_newest_migration() -> None:
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD_REVISION]
    assert knows(HEAD_REVISION)
    assert not knows("9999")


async def test_host_table_names_are_all_that_is_made(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config), open_checkpointer(lasting_config), open_store(lasting_config):
        with connected(lasting_config) as engine:
            made = set(inspect(engine).get_table_names())
    assert made <= host_table_names()
    assert {"threads", "runs", "run_events", "alembic_version", "checkpoints", "store"} <= made
    assert host_table_names() <= HOST_TABLES


async def test_opening_again_changes_nothing_and_takes_no_lock(tmp_path: Path) -> None:
    config = sqlite_config(tmp_path / "folder" / "deerflow.db")
    async with open_database(config) as database:
        run = await start_run(database)
    with connected(config) as engine, engine.begin():  # somebody holds the write lock
        await asyncio.wait_for(asyncio.to_thread(prepare_schema, locate_database(config)), 5)
    (tmp_path / "folder" / "deerflow.db.lock").unlink()
    async with open_database(config) as database:
        assert await database.stores.runs.get(run.run_id) == run
    assert not (tmp_path / "folder" / "deerflow.db.lock").exists()


@pytest.mark.parametrize("opened", [open_database, open_checkpointer, open_store])
async def test_folder_and_file_are_made(tmp_path: Path, opened: Callable[..., object]) -> None:
    path = tmp_path / "a" / "b é" / "deerflow.db"
    async with opened(sqlite_config(path)):  # type: ignore[attr-defined]
        assert path.exists()


async def test_a_home_with_any_name_holds_the_default_file(tmp_path: Path) -> None:
    home = tmp_path / "50%41 ?of#x"
    async with open_database(config_from({}).based_in(home)) as database:
        await start_run(database)
    assert (home / "deerflow.db").exists()


async def test_concurrent_hosts_make_the_schema_once(lasting_config: AppConfig) -> None:
    async def open_and_use() -> None:
        async with open_database(lasting_config) as database:
            await start_run(database)

    await asyncio.gather(*(open_and_use() for _ in range(6)))
    with connected(lasting_config) as engine, engine.connect() as connection:
        assert connection.execute(text("SELECT count(*) FROM runs")).scalar_one() == 6
        assert connection.execute(text("SELECT count(*) FROM run_changes")).scalar_one() == 1


OPEN_IN_A_PROCESS = """
import asyncio, sys
from deerflow.config import config_from
from deerflow.persistence import open_checkpointer, open_database, open_store

async def main(backend, url):
    config = config_from({"database": {"backend": backend, "url": url}})
    async with open_database(config), open_checkpointer(config), open_store(config):
        print("open")

asyncio.run(main(*sys.argv[1:]))
"""


def test_processes_that_start_together_all_come_up(lasting_config: AppConfig) -> None:
    database = lasting_config.database
    arguments = [sys.executable, "-c", OPEN_IN_A_PROCESS, database.backend, str(database.url)]
    processes = [
        subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    ended = [process.communicate(timeout=60) for process in processes]
    assert ended == [("open\n", "")] * 3


async def test_a_cancelled_start_disturbs_no_other(lasting_config: AppConfig) -> None:
    async def open_and_close() -> None:
        async with open_database(lasting_config):
            pass

    starts = [asyncio.create_task(open_and_close()) for _ in range(4)]
    await asyncio.sleep(0.01)
    starts[0].cancel()
    starts[2].cancel()
    results = await asyncio.gather(*starts, return_exceptions=True)
    assert [
        result for result in results if result is not None and not isinstance(result, asyncio.CancelledError)
    ] == []
    async with open_database(lasting_config) as database:
        await start_run(database)


async def test_tables_of_a_newer_release_are_refused(lasting_config: AppConfig) -> None:
    async with open_database(lasting_config):
        pass
    change(lasting_config, "UPDATE alembic_version SET version_num = 'from_the_future'")
    with pytest.raises(SchemaError, match=r"from_the_future.*does not know"):
        async with open_database(lasting_config):
            pass
    with pytest.raises(SchemaError, match=r"from_the_future.*does not know"):
        upgrade_database(locate_database(lasting_config))


async def test_tables_that_somebody_else_made_are_left_alone(lasting_config: AppConfig) -> None:
    change(lasting_config, "CREATE TABLE runs (id INTEGER)", "INSERT INTO runs VALUES (7)")
    with pytest.raises(SchemaError, match="runs that this host did not make"):
        async with open_database(lasting_config):
            pass
    change(lasting_config, "DELETE FROM runs WHERE id = 7")


async def test_tables_of_others_do_not_make_a_database_ours(lasting_config: AppConfig) -> None:
    change(lasting_config, "CREATE TABLE acme_notes (id INTEGER)")
    async with open_checkpointer(lasting_config), open_database(lasting_config) as database:
        await start_run(database)


def test_a_new_state_folder_is_its_owners_alone(tmp_path: Path) -> None:
    prepare_sqlite_file(tmp_path / "new" / "state.db")
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///:memory:", "sqlite:///file:x?mode=memory"])
async def test_a_file_without_a_name_is_not_silently_memory(url: str) -> None:
    config = config_from({"database": {"backend": "sqlite", "url": url}})
    for opened in (open_database, open_checkpointer, open_store):
        with pytest.raises(ConfigError, match="names no file"):
            async with opened(config):  # type: ignore[operator]
                pass


async def test_one_short_url_serves_every_part(postgres_url: str) -> None:
    url = postgres_url.replace("postgresql://", "postgres://")
    config = config_from({"database": {"backend": "postgres", "url": url}})
    async with (
        open_database(config) as database,
        open_checkpointer(config) as saver,
        open_store(config) as store,
    ):
        await start_run(database)
        await store.aput(("a",), "k", {"v": 1})
        assert await saver.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": ""}}) is None
        assert database.session_factory is not None
        async with database.session_factory() as session:
            assert (await session.execute(text("SELECT count(*) FROM runs"))).scalar_one() == 1
            assert (await session.execute(text("SELECT count(*) FROM store"))).scalar_one() == 1


async def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    config = config_from(
        {"database": {"backend": "postgres", "url": "postgresql://ada:secret@127.0.0.1:1/nothing"}}
    )
    for opened in (open_database, open_checkpointer, open_store):
        with pytest.raises(DatabaseUnavailableError, match=r"127\.0\.0\.1:1/nothing") as raised:
            async with opened(config):  # type: ignore[operator]
                pass
        assert "secret" not in str(raised.value)


def test_host_metadata_has_no_unnamed_constraint() -> None:
    """A constraint without a name cannot be changed later on every database."""
    assert [c for table in host_metadata.tables.values() for c in table.constraints if c.name is None] == []
