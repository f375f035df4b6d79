"""The host's database: the only package that speaks SQL."""

from deerflow.persistence.checkpoints import delete_checkpoints, open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.persistence.errors import DatabaseUnavailableError, SchemaError, UnstorableValueError

__all__ = [
    "Database",
    "DatabaseUnavailableError",
    "SchemaError",
    "UnstorableValueError",
    "delete_checkpoints",
    "open_checkpointer",
    "open_database",
]
