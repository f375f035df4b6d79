"""The graphs within a run, as far as its tasks tell of them: which began, which ended, and how."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from deerflow.runs.request import GRAPH_ID

Json = dict[str, Any]
Namespace = tuple[str, ...]


@dataclass
class _Graph:
    name: str
    status: str = "started"


class Namespaces:
    """The graphs of one run by their namespaces; `root_status` is the lead's, None before it began."""

    def __init__(self) -> None:
        self.root_status: str | None = None
        self._graphs: dict[Namespace, _Graph] = {}
        self._calls: dict[str, str] = {}

    def take(self, namespace: Namespace, task: Mapping[str, Any]) -> Iterator[tuple[Namespace, Json]]:
        """The changes that an event of the mode `tasks` means."""
        if "result" in task:
            yield from self._close_below(namespace, task)
            return
        call_id = _tool_call_of(task.get("input"))
        if call_id is not None:
            self._calls[task["id"]] = call_id
        if namespace and namespace not in self._graphs:
            yield namespace, self._begin(namespace, task)

    def close(self) -> Iterator[tuple[Namespace, Json]]:
        """The ends of those that are open still, at the end of the run."""
        status = "interrupted" if self.root_status == "interrupted" else "completed"
        for namespace in sorted(self._graphs, key=len, reverse=True):
            if self._graphs[namespace].status == "started":
                yield namespace, self._change(namespace, status)

    def tree(self) -> Json:
        """All of them, as the protocol's `agent.getTree` answers."""
        return {
            "namespace": [],
            "status": self.root_status or "started",
            "graph_name": GRAPH_ID,
            **self._children_of(()),
        }

    def _children_of(self, parent: Namespace) -> Json:
        children = [
            {"namespace": namespace, "status": graph.status, "graph_name": graph.name}
            | self._children_of(namespace)
            for namespace, graph in self._graphs.items()
            if namespace[:-1] == parent
        ]
        return {"children": children} if children else {}

    def _begin(self, namespace: Namespace, task: Mapping[str, Any]) -> Json:
        segment, _, task_id = namespace[-1].partition(":")
        name = (task.get("metadata") or {}).get("lc_agent_name") or segment
        self._graphs[namespace] = _Graph(name)
        begun: Json = {"event": "started", "namespace": namespace, "graph_name": name}
        if task_id:
            begun["trigger_call_id"] = task_id
        if task_id in self._calls:
            begun["cause"] = {"type": "toolCall", "tool_call_id": self._calls[task_id]}
        return begun

    def _close_below(self, parent: Namespace, task: Mapping[str, Any]) -> Iterator[tuple[Namespace, Json]]:
        for namespace, graph in self._graphs.items():
            _, _, task_id = namespace[-1].partition(":")
            if namespace[:-1] == parent and task_id == task.get("id") and graph.status == "started":
                status = "failed" if task.get("error") else "completed"
                status = "interrupted" if task.get("interrupts") else status
                yield namespace, self._change(namespace, status, task.get("error"))

    def _change(self, namespace: Namespace, status: str, error: Any = None) -> Json:
        graph = self._graphs[namespace]
        graph.status = status
        changed = {"event": status, "namespace": namespace, "graph_name": graph.name}
        return {**changed, "error": str(error)} if status == "failed" else changed


def _tool_call_of(given: Any) -> str | None:
    """The id of the tool call that a task was begun for."""
    calls = [given.get("tool_call")] if isinstance(given, Mapping) else given
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, Mapping) and isinstance(call.get("id"), str):
            return str(call["id"])
    return None
