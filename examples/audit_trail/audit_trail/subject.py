"""Which task an entry is about."""

from __future__ import annotations

from dataclasses import dataclass

from deerflow_extension_api import ExtensionData, TaskInfo


@dataclass(frozen=True)
class Subject:
    """The ids of a task, kept in its store; empty for what belongs to none."""

    run_id: str = ""
    thread_id: str = ""
    task_id: str = ""

    @classmethod
    def of(cls, info: TaskInfo) -> Subject:
        """The ids that a notification names."""
        return cls(info.run_id, info.thread_id, info.task_id)


def subject_in(task_store: ExtensionData | None) -> Subject:
    """The task of a store, as it was put there when it started."""
    found = None if task_store is None else task_store.get(Subject)
    return found or Subject()
