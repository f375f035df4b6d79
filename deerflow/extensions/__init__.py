"""What the host does with extensions: load them once, freeze what they registered, notify them."""

from deerflow.config import ExtensionSpec
from deerflow.extensions.diagnostics import Diagnostic
from deerflow.extensions.errors import ExtensionLoadError, RegistrationError, TablePrefixError
from deerflow.extensions.lifecycle import notify_task_start, notify_task_stop
from deerflow.extensions.loader import load_extensions
from deerflow.extensions.snapshot import (
    LoadedExtensions,
    get_loaded_extensions,
    reset_loaded_extensions,
    set_loaded_extensions,
)
from deerflow.extensions.table_prefixes import TablePrefixes

__all__ = [
    "Diagnostic",
    "ExtensionLoadError",
    "ExtensionSpec",
    "LoadedExtensions",
    "RegistrationError",
    "TablePrefixError",
    "TablePrefixes",
    "get_loaded_extensions",
    "load_extensions",
    "notify_task_start",
    "notify_task_stop",
    "reset_loaded_extensions",
    "set_loaded_extensions",
]
