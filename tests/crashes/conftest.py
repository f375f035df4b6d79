"""Databases that outlive a process."""

from __future__ import annotations

from support.databases import lasting_config, postgres_database, postgres_url
from support.redis_server import redis_server

__all__ = ["lasting_config", "postgres_database", "postgres_url", "redis_server"]
