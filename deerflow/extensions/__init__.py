"""What the host does with extensions: load them once, freeze what they registered, notify them."""

from deerflow.config import ExtensionSpec
from deerflow.extensions.diagnostics import Diagnostic
from deerflow.extensions.errors import ExtensionLoadError, RegistrationError, TablePrefixError
from deerflow.extensions.lifecycle import TaskHooks, notify_task_start, notify_task_stop
from deerflow.extensions.loader import load_extensions
from deerflow.extensions.notification_loop import NotificationLoop, register_notification_loop
from deerflow.extensions.observations import (
    call_observed,
    notify_assembly,
    notify_compaction,
    notify_system_model_call,
    observe_system_model_call_later,
)
from deerflow.extensions.outcomes import listen_to_outcomes
from deerflow.extensions.policy import lead_policy, subagent_policy
from deerflow.extensions.services import RunningServices, start_services
from deerflow.extensions.snapshot import (
    LoadedExtensions,
    get_loaded_extensions,
    reset_loaded_extensions,
    set_loaded_extensions,
)
from deerflow.extensions.table_prefixes import HOST_TABLES, TablePrefixes

__all__ = [
    "HOST_TABLES",
    "Diagnostic",
    "ExtensionLoadError",
    "ExtensionSpec",
    "LoadedExtensions",
    "NotificationLoop",
    "RegistrationError",
    "RunningServices",
    "TablePrefixError",
    "TablePrefixes",
    "TaskHooks",
    "call_observed",
    "get_loaded_extensions",
    "lead_policy",
    "listen_to_outcomes",
    "load_extensions",
    "notify_assembly",
    "notify_compaction",
    "notify_system_model_call",
    "notify_task_start",
    "notify_task_stop",
    "observe_system_model_call_later",
    "register_notification_loop",
    "reset_loaded_extensions",
    "set_loaded_extensions",
    "start_services",
    "subagent_policy",
]
