"""What task hooks are told of a task, and of how it ended."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from deerflow_extension_api import TaskOutcome
from support.extensions import Seen, installed, recording
from support.gateways import ASKING, FAILING, SLOW
from support.hosts import DELEGATE_TWICE, delegation, finished, scripted_config, scripted_host, start
from support.marking import Marking

from deerflow.client import DeerFlowClient
from deerflow.extensions import LoadedExtensions
from deerflow.host import Host
from deerflow.runs.active import ActiveRun
from deerflow.runs.request import RunRequest

_SAME_ID = {
    "when": "^twice",
    "turns": [
        {"tool_calls": [delegation("a", "call-1")]},
        {"tool_calls": [delegation("b", "call-1")]},
        {"text": "joined"},
    ],
}


async def _answered(host: Host, run: ActiveRun, decision: str) -> ActiveRun:
    resume = {"decisions": [{"type": decision}]}
    request = RunRequest(thread_id=run.thread_id, command={"resume": resume})
    answered = await host.runs.start(request)
    await asyncio.wait_for(answered.ended.wait(), 20)
    return answered


async def test_a_run_that_waits_for_a_person_completed_and_the_answer_resumes_it(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [ASKING]) as host:
            asked = await finished(host, "ask", context={"approve_tools": ["write_file"]})
            answered = await _answered(host, asked, "approve")
    assert asked.ending is not None and asked.ending.status == "interrupted"
    assert answered.ending is not None and answered.ending.status == "success"
    assert seen.outcomes == {
        asked.run_id: TaskOutcome.COMPLETED,
        answered.run_id: TaskOutcome.COMPLETED,
    }
    assert [info.resumed for info in seen.infos] == [False, True]


async def test_a_model_that_fails_ends_in_failed_and_a_stop_in_aborted(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [FAILING, SLOW], model_retry={"max_retries": 0}) as host:
            failed = await finished(host, "fail")
            stopped = await start(host, "slow")
            while len(seen.model_stores) < 2:
                await asyncio.sleep(0.001)
            await host.runs.stop(stopped.run_id)
            second = await start(host, "slow", thread_id=stopped.thread_id)
            while len(seen.model_stores) < 3:
                await asyncio.sleep(0.001)
            third = await finished(host, "hello", thread_id=stopped.thread_id, multitask_strategy="interrupt")
    assert seen.outcomes == {
        failed.run_id: TaskOutcome.FAILED,
        stopped.run_id: TaskOutcome.ABORTED,
        second.run_id: TaskOutcome.ABORTED,
        third.run_id: TaskOutcome.COMPLETED,
    }


async def test_a_run_whose_graph_cannot_be_made_still_ends_with_its_hook(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path) as host:

            async def fail(*arguments: Any) -> Any:
                raise RuntimeError("no graph")

            monkeypatch.setattr(host.assembler, "lead", fail)
            run = await finished(host, "hello")
    assert run.ending is not None and run.ending.error == ("RuntimeError", "no graph")
    assert seen.kinds() == ["start lead", "stop lead"]
    assert seen.outcomes == {run.run_id: TaskOutcome.FAILED}


async def test_a_tool_call_id_that_comes_again_gives_way_to_the_execution_id(tmp_path: Path) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [_SAME_ID]) as host:
            run = await finished(host, "twice")
    first, second = [info for info in seen.infos if info.kind == "subagent"]
    assert first.task_id == "call-1"
    assert str(UUID(second.task_id)) == second.task_id
    assert [seen.stores[info.task_id].scope_id for info in (first, second)] == [first.task_id, second.task_id]
    assert {(info.run_id, info.thread_id, info.parent_task_id) for info in (first, second)} == {
        (run.run_id, run.thread_id, run.run_id)
    }


class _Broken:
    async def on_task_start(self, *arguments: Any) -> None:
        raise RuntimeError("no")


async def test_log_lines_carry_the_whole_id(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "deerflow.extensions")
    with installed(LoadedExtensions(task_lifecycle=(("acme:install", _Broken()),))):  # type: ignore[arg-type]
        async with scripted_host(tmp_path) as host:
            run = await finished(host, "hello")
    assert caplog.messages == [f"Extension acme:install: on_task_start failed for task {run.run_id}: no"]


def test_middlewares_of_a_client_reach_the_lead_and_those_of_the_configuration_everyone(
    tmp_path: Path,
) -> None:
    rule = {**DELEGATE_TWICE, "when": "^marked delegate"}
    with DeerFlowClient(scripted_config(tmp_path / "a", [rule]), middlewares=[Marking()]) as client:
        assert "Result: echo: one" in client.chat("delegate")
    everyone = {"middlewares": ["support.marking:Marking"]}
    with DeerFlowClient(scripted_config(tmp_path / "b", [rule], extensions=everyone)) as client:
        assert "Result: echo: marked one" in client.chat("delegate")
