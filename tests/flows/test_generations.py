"""One run never mixes two generations of extensions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from deerflow_extension_api import EXTENSION_TASK_STORE_KEY
from support import gate as gates
from support.extensions import Seen, installed, recording
from support.hosts import DELEGATE_TWICE, answer, finished, scripted_host, start

from deerflow.agents.run_scope import RUN_SCOPE_KEY
from deerflow.extensions import LoadedExtensions, set_loaded_extensions

_HELD_DELEGATION = {
    "when": "^delegate",
    "turns": [{"tool_calls": [{"name": "pass_gate", "args": {}}]}, *DELEGATE_TWICE["turns"]],
}


async def test_a_set_replaced_in_mid_run_reaches_only_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, new, opened = Seen(), Seen(), asyncio.Event()
    monkeypatch.setattr(gates, "gate", opened)
    with installed(recording(old)) as old_set:
        tools = [{"use": "support.gate:pass_gate"}]
        async with scripted_host(tmp_path, [_HELD_DELEGATION], tools=tools) as host:
            run = await start(host, "delegate")
            while not old.tool_names:
                await asyncio.sleep(0.001)
            new_set = recording(new)
            set_loaded_extensions(new_set)
            opened.set()
            await run.ended.wait()
            assert run.scope is not None and run.scope.snapshot is old_set
            first, *of_subagents, last = old.kinds()
            assert (first, last) == ("start lead", "stop lead")
            assert sorted(of_subagents) == ["start subagent"] * 2 + ["stop subagent"] * 2
            assert not new.events and not new.model_stores
            second = await finished(host, "hello")
            assert second.scope is not None and second.scope.snapshot is new_set
            assert new.kinds() == ["start lead", "stop lead"]


async def test_subagents_get_their_own_store_and_name_their_parent(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            run = await finished(host, "delegate")
    lead, *children = seen.infos
    assert (lead.task_id, lead.kind, lead.parent_task_id) == (run.run_id, "lead", None)
    assert sorted(child.task_id for child in children) == ["call-1", "call-2"]
    assert {child.parent_task_id for child in children} == {run.run_id}
    assert {store.scope_id for store in seen.stores.values()} == {run.run_id, "call-1", "call-2"}
    assert {id(store) for store in seen.model_stores} == {id(store) for store in seen.stores.values()}
    assert set(seen.outcomes.values()) == {"completed"}


async def test_a_run_without_observers_allocates_no_store(tmp_path: Path) -> None:
    with installed(LoadedExtensions()):
        async with scripted_host(tmp_path) as host:
            run = await finished(host, "hello")
    assert run.scope is not None and run.scope.task_store is None


async def test_host_internal_keys_of_a_caller_do_not_get_through(tmp_path: Path) -> None:
    seen = Seen()
    forged = {RUN_SCOPE_KEY: "forged", EXTENSION_TASK_STORE_KEY: "forged", "thread_id": "x", "run_id": "y"}
    with installed(recording(seen)):
        async with scripted_host(tmp_path) as host:
            run = await finished(host, "hello", context=forged, config={"configurable": forged})
    assert run.ending is not None and run.ending.status == "success"
    assert [store.scope_id for store in seen.model_stores if store] == [run.run_id]
    assert answer(run) == "echo: hello"
