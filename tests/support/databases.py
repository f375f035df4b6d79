"""Databases for tests: in memory, a fresh SQLite file, a fresh PostgreSQL database.

A conftest makes the fixtures known with `from support.databases import database_config, lasting_config,
postgres_database, postgres_url`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.engine import Engine

from deerflow.config import AppConfig, config_from
from deerflow.persistence import locate_database
from deerflow.persistence.engines import build_migration_engine

SERVER_URL = os.environ.get("DEERFLOW_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/test")
"""A PostgreSQL server on which tests may create and drop databases of their own."""


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[str]:
    """The URL, without driver, of a PostgreSQL database of this session, dropped at its end."""
    name = f"deerflow_test_{uuid.uuid4().hex}"
    try:
        server = psycopg.connect(SERVER_URL, autocommit=True, connect_timeout=30)
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL server: {str(error).strip()}")
    with server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield SERVER_URL.rpartition("/")[0] + f"/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def postgres_url(postgres_database: str) -> str:
    """The URL, without driver, of an empty schema of its own: as good as a database, made in milliseconds."""
    schema = f"test_{uuid.uuid4().hex}"
    with psycopg.connect(postgres_database, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"')
    return f"{postgres_database}?options=-csearch_path%3D{schema}"


@pytest.fixture(
    params=["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.postgres)],
)
def database_config(request: pytest.FixtureRequest, tmp_path: Path) -> AppConfig:
    """A configuration whose database is empty; a test that takes it runs on every backend."""
    if request.param == "memory":
        return config_from({"database": {"backend": "memory"}})
    return config_from({"database": {"backend": request.param, "url": _url(request, tmp_path)}})


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.postgres)])
def lasting_config(request: pytest.FixtureRequest, tmp_path: Path) -> AppConfig:
    """Like `database_config`, on the backends that outlive a process."""
    return config_from({"database": {"backend": request.param, "url": _url(request, tmp_path)}})


def sqlite_config(path: Path) -> AppConfig:
    """Return a configuration with a SQLite file."""
    return config_from({"database": {"backend": "sqlite", "url": f"sqlite:///{path}"}})


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'deerflow.db'}"
    return str(request.getfixturevalue("postgres_url"))


@contextmanager
def connected(config: AppConfig) -> Iterator[Engine]:
    """An engine of the configured database, as it is."""
    location = locate_database(config)
    engine = build_migration_engine(location)
    try:
        yield engine
    finally:
        engine.dispose()


def change(config: AppConfig, *statements: str) -> None:
    """Change a database without asking the host."""
    with connected(config) as engine, engine.begin() as connection:
        for statement in statements:
            connection.execute(text(statement))
