"""The service that reports the totals when the host shuts down."""

from __future__ import annotations

import logging
from typing import Literal

from deerflow_extension_api import ExtensionData, ExtensionRuntimeDeps, ExtensionService

from tool_call_counter.counts import Totals

logger = logging.getLogger(__name__)


class CountReport(ExtensionService):
    """Writes one line at the end: how many tool calls, and of which tools."""

    def __init__(self, target: Literal["log", "stdout"]) -> None:
        self._target = target
        self._app_store: ExtensionData | None = None

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        self._app_store = deps.app_store

    async def stop(self) -> None:
        totals = self._app_store.get(Totals) if self._app_store is not None else None
        text = report_line(totals or Totals())
        if self._target == "stdout":
            print(text, flush=True)
        else:
            logger.info(text)


def report_line(totals: Totals) -> str:
    """`Tool calls: 4 (read_file 2, task 2) in 3 tasks`."""
    counts = totals.as_dict()
    calls = counts["tool_calls"]
    by_tool = ", ".join(f"{tool} {count}" for tool, count in sorted(calls.items()))
    details = f" ({by_tool})" if by_tool else ""
    return f"Tool calls: {sum(calls.values())}{details} in {sum(counts['tasks'].values())} tasks"
