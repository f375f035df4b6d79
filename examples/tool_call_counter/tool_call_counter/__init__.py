"""Counts the tool calls of every run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deerflow_extension_api import ExtensionRegistry, extension

from tool_call_counter.counting import CountingMiddlewares
from tool_call_counter.lifecycle import TaskTotals
from tool_call_counter.observers import AssemblyCount, CompactionCount, SystemCallCount
from tool_call_counter.report import CountReport
from tool_call_counter.routes import build_router

__all__ = ["install"]


@extension(api="0.2.1", name="tool call counter")
def install(registry: ExtensionRegistry, config: Mapping[str, Any]) -> None:
    """Register one of each kind. `config["report"]` says where totals go: `log` (default) or `stdout`."""
    target = config.get("report", "log")
    if target not in ("log", "stdout"):
        raise ValueError(f"report: {target!r} is not allowed; choose 'log' or 'stdout'")
    registry.middlewares(CountingMiddlewares())
    registry.task_lifecycle(TaskTotals())
    registry.system_model_observer(SystemCallCount())
    registry.context_compaction_observer(CompactionCount())
    registry.agent_assembly_observer(AssemblyCount())
    registry.service(CountReport(target))
    registry.routers([build_router()])
