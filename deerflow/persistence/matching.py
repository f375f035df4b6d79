"""Conditions on JSON columns that mean the same on every backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Column, ColumnElement, bindparam, func
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Connection

from deerflow.persistence.columns import dump_json


def contains_json(
    connection: Connection, column: Column[Any], part: Mapping[str, Any]
) -> ColumnElement[bool]:
    """Whether a searchable column contains `part`, as `containment.contains` defines it."""
    if connection.dialect.name == "postgresql":
        return column.op("@>")(bindparam(None, dict(part), type_=postgresql.JSONB))
    return func.json_contains(column, dump_json(part))
