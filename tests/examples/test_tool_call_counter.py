"""What the example keeps in the stores brings its own lock."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from deerflow_extension_api import EXTENSION_TASK_STORE_KEY, ExtensionData, TaskInfo, TaskOutcome
from tool_call_counter.counting import CountToolCalls
from tool_call_counter.counts import TaskToolCalls, Totals
from tool_call_counter.lifecycle import TaskTotals

INFO = TaskInfo(task_id="run-1", run_id="run-1", thread_id="thread-1", kind="lead")


class _Request:
    def __init__(self, store: ExtensionData, name: str) -> None:
        self.tool_call = {"name": name}
        self.runtime: Any = type("Runtime", (), {"context": {EXTENSION_TASK_STORE_KEY: store}})()


def test_calls_from_many_threads_are_all_counted() -> None:
    store, middleware = ExtensionData("run-1"), CountToolCalls()
    requests = [_Request(store, name) for name in ("read_file", "task") * 2000]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda request: middleware.wrap_tool_call(request, lambda _: None), requests))  # type: ignore[arg-type]
    counted = store.get(TaskToolCalls)
    assert counted is not None and counted.snapshot() == Counter(read_file=2000, task=2000)


async def test_what_a_task_counted_outlives_it_in_the_app_store() -> None:
    app_store, hooks = ExtensionData("app"), TaskTotals()
    for _ in range(3):
        store = ExtensionData("run-1")
        await hooks.on_task_start(app_store, store, INFO)
        CountToolCalls().wrap_tool_call(_Request(store, "task"), lambda _: None)  # type: ignore[arg-type]
        await hooks.on_task_stop(app_store, store, INFO, TaskOutcome.COMPLETED)
    totals = app_store.get(Totals)
    assert totals is not None
    assert totals.as_dict() == {"tool_calls": {"task": 3}, "tasks": {"lead completed": 3}, "observed": {}}
