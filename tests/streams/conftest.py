"""A Redis server for each test."""

from __future__ import annotations

from support.redis_server import redis_server

__all__ = ["redis_server"]
