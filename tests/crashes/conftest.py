"""Databases that outlive a process."""

from __future__ import annotations

from support.databases import lasting_config, postgres_database, postgres_url

__all__ = ["lasting_config", "postgres_database", "postgres_url"]
