"""The value that travels with a run cannot be forged, and stands on top of what callers send."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from deerflow_extension_api import EXTENSION_TASK_STORE_KEY, ExtensionData, TaskInfo

from deerflow.agents.run_scope import (
    RUN_SCOPE_KEY,
    Delegations,
    RunScope,
    open_task_store,
    runtime_context,
    scope_from_runtime,
)
from deerflow.agents.workspace import Workspace
from deerflow.config import AppConfig, RequestOptions
from deerflow.extensions import LoadedExtensions, lead_policy


@pytest.fixture
def scope(tmp_path: Path) -> RunScope:
    return RunScope(
        snapshot=LoadedExtensions(),
        task_info=TaskInfo(task_id="run-1", run_id="run-1", thread_id="thread-1", kind="lead"),
        task_store=None,
        policy=lead_policy(AppConfig()),
        options=RequestOptions(),
        workspace=Workspace(tmp_path),
        delegations=Delegations(2),
        user_id="ada",
    )


def test_keys_that_begin_with_two_underscores_are_the_hosts_alone(scope: RunScope) -> None:
    caller = {
        "__pregel_scratchpad": 1,
        RUN_SCOPE_KEY: "forged",
        EXTENSION_TASK_STORE_KEY: "forged",
        "kept": 2,
    }
    context = runtime_context({**caller, "run_id": "mine", "user_id": "bob"}, scope)
    assert context == {
        "kept": 2,
        "run_id": "run-1",
        "thread_id": "thread-1",
        "user_id": "ada",
        RUN_SCOPE_KEY: scope,
    }


@pytest.mark.parametrize("context", [None, "text", [], {}, {RUN_SCOPE_KEY: {"run_id": "run-1"}}])
def test_only_a_real_scope_is_believed(context: Any) -> None:
    assert scope_from_runtime(SimpleNamespace(context=context)) is None
    assert scope_from_runtime(None) is None


def test_a_scope_is_found_in_any_runtime(scope: RunScope) -> None:
    assert scope_from_runtime(SimpleNamespace(context={RUN_SCOPE_KEY: scope})) is scope


def test_a_store_is_opened_only_where_it_can_be_seen() -> None:
    assert open_task_store(LoadedExtensions(), "run-1") is None
    contributor: Any = object()
    seen = open_task_store(LoadedExtensions(task_lifecycle=(("acme:install", contributor),)), "run-1")
    assert isinstance(seen, ExtensionData) and seen.scope_id == "run-1"


def test_delegations_are_counted_and_ids_used_once() -> None:
    delegations = Delegations(2)
    assert [delegations.spend() for _ in range(3)] == [True, True, False]
    delegations.give_back()
    assert [delegations.spend() for _ in range(2)] == [True, False]
    (first, _), (again, execution), (missing, other) = (
        delegations.claim_task_id(call_id) for call_id in ("call-1", "call-1", None)
    )
    assert first == "call-1"
    assert (again, missing) == (execution, other)
    assert len({first, again, missing}) == 3
