"""Keeps an append-only audit trail of tasks, tool calls and the host's own model calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry, extension

from audit_trail.recording import SystemCallEntries, TaskEntries, ToolCallEntries
from audit_trail.routes import build_router
from audit_trail.service import AuditTrailService

__all__ = ["install"]

_OPTIONS = ("key", "arguments")


@extension(api="0.2.1", name="audit trail")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Register what records, what stores, and the routes that show it.

    `config["key"]`: a secret for the chain, so that nobody without it can forge one. `config["arguments"]`:
    `hash` (default) keeps a digest of what tools are called with, `full` the arguments themselves.
    """
    unknown = sorted(set(config) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"{', '.join(unknown)}: unknown; allowed: {', '.join(_OPTIONS)}")
    key = config.get("key", "")
    if not isinstance(key, str):
        raise ValueError("key: give a text, such as $AUDIT_KEY")
    arguments = config.get("arguments", "hash")
    if arguments not in ("hash", "full"):
        raise ValueError(f"arguments: {arguments!r} is not allowed; choose 'hash' or 'full'")
    registry.service(AuditTrailService(key.encode()))
    registry.task_lifecycle(TaskEntries())
    registry.middlewares(ToolCallEntries(full_arguments=arguments == "full"))
    registry.system_model_observer(SystemCallEntries())
    registry.routers([build_router()])
