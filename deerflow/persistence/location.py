"""Which database is meant: one setting, read once, for every part that opens a connection."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from deerflow.config import AppConfig
from deerflow.errors import ConfigError

Backend = Literal["memory", "sqlite", "postgres"]


@dataclass(frozen=True)
class DatabaseLocation:
    """A database; `path` is given for `sqlite`, `url` (without driver) for `sqlite` and `postgres`."""

    backend: Backend
    url: URL | None = None
    path: Path | None = None
    statement_timeout_seconds: float = 30.0

    def url_with(self, driver: str) -> URL:
        """Return the URL for SQLAlchemy with a driver of its backend."""
        if self.path is not None:
            return URL.create(f"sqlite+{driver}", database=str(self.path))
        assert self.url is not None, "a database in memory has no URL"
        return self.url.set(drivername=f"postgresql+{driver}")

    @property
    def libpq_url(self) -> str:
        """The URL as PostgreSQL's own clients read it."""
        assert self.url is not None, "only a PostgreSQL database has a libpq URL"
        return self.url.set(drivername="postgresql").render_as_string(hide_password=False)

    def __str__(self) -> str:
        if self.path is not None:
            return f"sqlite:///{self.path}"
        return "memory" if self.url is None else self.url.render_as_string(hide_password=True)


def locate_database(config: AppConfig) -> DatabaseLocation:
    """Return where `config` keeps its database. Raises `ConfigError` for a URL that cannot be one."""
    timeout = config.database.statement_timeout_seconds
    if config.database.backend == "sqlite" and config.database.url is None:
        # Not by way of a URL, in which a folder's ? or % would mean something.
        return DatabaseLocation("sqlite", path=config.home / "deerflow.db", statement_timeout_seconds=timeout)
    return locate_url(config.database_url, statement_timeout_seconds=timeout)


def locate_url(text: str | None, *, statement_timeout_seconds: float = 30.0) -> DatabaseLocation:
    """Return the database of a URL without driver; `None` is one in memory."""
    if text is None:
        return DatabaseLocation("memory", statement_timeout_seconds=statement_timeout_seconds)
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigError("database.url: not a URL; allowed: sqlite:///file or postgresql://...") from error
    if url.drivername in ("postgres", "postgresql"):
        return DatabaseLocation("postgres", url=url, statement_timeout_seconds=statement_timeout_seconds)
    if url.drivername != "sqlite":
        raise ConfigError(
            f"database.url: {url.drivername}:// is not known; allowed: sqlite:/// and postgresql://, "
            "without a driver"
        )
    return DatabaseLocation(
        "sqlite", url=url, path=_file_of(url), statement_timeout_seconds=statement_timeout_seconds
    )


def _file_of(url: URL) -> Path:
    name = url.database or ""
    # Each connection to a nameless file would see its own, empty database.
    if not name or name.startswith((":memory:", "file:")):
        raise ConfigError(
            f"database.url: {url} names no file; write sqlite:///path, or database.backend: memory"
        )
    return Path(name)
