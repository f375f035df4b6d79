"""The host's database: the only package that speaks SQL."""

from deerflow.persistence.accounts import Accounts
from deerflow.persistence.assistants import Assistants
from deerflow.persistence.checkpoint_fence import FencedSaver
from deerflow.persistence.checkpoint_upkeep import (
    copy_checkpoints,
    delete_checkpoints,
    prune_checkpoints,
    roll_back_checkpoints,
)
from deerflow.persistence.checkpoints import open_checkpointer
from deerflow.persistence.database import Database, open_database
from deerflow.persistence.errors import DatabaseUnavailableError, SchemaError, UnstorableValueError
from deerflow.persistence.langgraph_store import open_store
from deerflow.persistence.location import DatabaseLocation, locate_database, locate_url
from deerflow.persistence.schema import host_table_names, upgrade_database

__all__ = [
    "Accounts",
    "Assistants",
    "Database",
    "DatabaseLocation",
    "DatabaseUnavailableError",
    "FencedSaver",
    "SchemaError",
    "UnstorableValueError",
    "copy_checkpoints",
    "delete_checkpoints",
    "host_table_names",
    "locate_database",
    "locate_url",
    "open_checkpointer",
    "open_database",
    "open_store",
    "prune_checkpoints",
    "roll_back_checkpoints",
    "upgrade_database",
]
