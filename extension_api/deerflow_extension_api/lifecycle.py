"""When an agent execution, called a task here, starts and how it ends."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, Protocol

from .state import ExtensionData


class TaskOutcome(StrEnum):
    """How a task ended. Waiting for a person counts as `COMPLETED`: that execution ended well."""

    COMPLETED = "completed"
    ABORTED = "aborted"
    FAILED = "failed"


@dataclass(frozen=True)
class TaskInfo:
    """Which task a notification is about.

    A lead task's `task_id` is its run id. A subagent's is the delegating tool-call id, or its execution id
    where there is none or the run has used it before; its `parent_task_id` is the parent's run id.
    `resumed` is true where a run continues an interrupt or was taken up again after a crash.
    """

    task_id: str
    run_id: str
    thread_id: str
    kind: Literal["lead", "subagent"]
    parent_task_id: str | None = None
    agent_name: str | None = None
    resumed: bool = False


class TaskLifecycleContributor(Protocol):
    """Hooks around every task. All contributors share 3 seconds per notification, in registration order.

    What a hook raises is logged with its entry point; it never ends the run.
    """

    async def on_task_start(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo
    ) -> None:
        """Run before the agent's first step; `task_store` is new."""
        return

    async def on_task_stop(
        self, app_store: ExtensionData, task_store: ExtensionData, info: TaskInfo, outcome: TaskOutcome
    ) -> None:
        """Run after the final state is stored; `task_store` is dropped afterwards."""
        return
