"""Where state and streams are kept: database and stream backends with their URLs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import field_validator, model_validator

from deerflow.config.fields import OptionalText, PositiveInt, Seconds, Section, Text, refusal

_DATABASE_SCHEMES = {"sqlite": ("sqlite",), "postgres": ("postgresql",), "memory": ()}
_REDIS_SCHEMES = ("redis", "rediss", "unix")


def _scheme(url: str) -> str:
    return url.partition("://")[0]


class DatabaseConfig(Section):
    """Where threads, runs and checkpoints live. `url` is a SQLAlchemy URL without driver."""

    backend: Literal["memory", "sqlite", "postgres"] = "sqlite"
    url: OptionalText = None
    statement_timeout_seconds: Seconds = 30

    @field_validator("url", mode="after")
    @classmethod
    def _long_form(cls, url: str | None) -> str | None:
        if url is not None and _scheme(url) == "postgres":
            return "postgresql" + url.removeprefix("postgres")
        return url

    @model_validator(mode="after")
    def _url_fits_backend(self) -> Self:
        schemes = _DATABASE_SCHEMES[self.backend]
        if self.url is None and self.backend == "postgres":
            raise refusal("with backend 'postgres' a url such as postgresql://user@host/name", field="url")
        if self.url is not None and schemes and _scheme(self.url) not in schemes:
            example = {"sqlite": "sqlite:///file.db", "postgres": "postgresql://user@host/name"}[self.backend]
            raise refusal(
                f"with backend {self.backend!r} a url without driver such as {example}", field="url"
            )
        return self

    def resolved_url(self, home: Path) -> str | None:
        """Return the SQLAlchemy URL without driver; `None` where nothing is stored (`memory`)."""
        if self.backend == "memory":
            return None
        return self.url or f"sqlite:///{home / 'deerflow.db'}"


class StreamConfig(Section):
    """How a run's events reach its readers, and how many of them a run keeps for those who come back.

    `max_total_bytes` bounds what all runs under way keep together.
    """

    backend: Literal["memory", "redis"] = "memory"
    url: OptionalText = None
    key_prefix: Text = "deerflow:"
    heartbeat_seconds: Seconds = 15
    max_events: PositiveInt = 10_000
    max_total_bytes: PositiveInt = 536_870_912

    @model_validator(mode="after")
    def _url_fits_backend(self) -> Self:
        if self.backend == "redis" and (self.url is None or _scheme(self.url) not in _REDIS_SCHEMES):
            raise refusal("with backend 'redis' a url such as redis://host:6379/0", field="url")
        return self
