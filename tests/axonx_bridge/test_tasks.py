"""A Task as a tool: submitted to a worker, followed, cancelled with its run."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from support.bridging import Bridge, Caller, bridge, open_bridge, until, workspace_in
from support.research import ActTask, RepeatWordTask

from axonx import Application, BaseTaskManager
from axonx.task import TaskState
from axonx.task.defaults import TASK_COMPONENTS


def application(tmp_path: Path) -> Application:
    return Application(
        providers=(RepeatWordTask, ActTask),
        workspace_dir=tmp_path / "application",
        components=TASK_COMPONENTS,
    )


def manager(opened: Bridge) -> BaseTaskManager:
    found = opened.application.context.component("task_manager")
    assert isinstance(found, BaseTaskManager)
    return found


async def states(opened: Bridge) -> list[str]:
    return [record.state for record in await manager(opened).list_statuses()]


@pytest.fixture
def caller(tmp_path: Path) -> Caller:
    return Caller(workspace_in(tmp_path))


def test_the_tool_has_the_tasks_description_and_input(tmp_path: Path) -> None:
    tool = bridge(application(tmp_path), jobs=[], tasks=["repeat_word"]).tools["repeat_word"]
    assert tool.description.startswith("Repeat a word.")
    assert {"word", "times", "task_name", "source_tasks"} <= set(tool.args)


async def test_a_task_answers_with_its_output_and_hands_its_files_over(
    tmp_path: Path, caller: Caller
) -> None:
    async with open_bridge(
        application(tmp_path), tasks=[{"name": "repeat_word", "tool": "repeat"}]
    ) as opened:
        message = await opened.call("repeat", {"word": "ab", "times": 2}, caller)
        (record,) = await manager(opened).list_statuses()
    assert message.status == "success"
    answer, _, file = str(message.content).partition("\n\n")
    assert json.loads(answer) == {"task_id": record.task_id, "output": {"text": "abab"}}
    assert file == "File in the workspace: artifacts/text.txt (text/plain, 4 bytes)"
    assert message.artifact["metadata"] == {"task_id": record.task_id, "run_id": record.run_id}
    assert caller.workspace is not None
    with caller.workspace.open_file("artifacts/text.txt") as copied:
        assert copied.read() == b"abab"
    steps = {event["name"]: event["state"] for event in caller.told("axonx_progress")}
    assert steps == {"repeat": "done", "publish": "done"}


async def test_wrong_input_and_failed_runs_are_errors(tmp_path: Path, caller: Caller) -> None:
    async with open_bridge(application(tmp_path), jobs=[], tasks=["repeat_word", "demo"]) as opened:
        wrong = await opened.call("repeat_word", {"times": "often", "loud": True}, caller)
        failed = await opened.call("demo", {"x": 1, "y": 1, "fail": True}, caller)
        assert await states(opened) == [TaskState.FAILED]
    assert wrong.status == failed.status == "error"
    assert str(wrong.content).startswith("Task 'repeat_word' failed: times: Input should be a valid integer")
    assert "loud: Extra inputs are not permitted" in str(wrong.content)
    assert str(failed.content).startswith("Task 'demo' failed: ")


async def test_a_stopped_run_cancels_its_task(tmp_path: Path, caller: Caller) -> None:
    async with open_bridge(application(tmp_path), jobs=[], tasks=["act"]) as opened:
        call = asyncio.ensure_future(opened.call("act", {"action": "sleep"}, caller))
        await until(lambda: caller.told("axonx_progress"))
        call.cancel()
        await asyncio.wait({call})
        assert call.cancelled()
        assert await states(opened) == [TaskState.CANCELLED]


async def test_a_task_that_is_being_submitted_is_taken_back(tmp_path: Path, caller: Caller) -> None:
    async with open_bridge(application(tmp_path), jobs=[], tasks=["act"]) as opened:
        began, go_on = asyncio.Event(), asyncio.Event()
        submit = manager(opened).submit

        async def slow_submit(task: str, arguments: Any) -> Any:
            began.set()
            await go_on.wait()
            return await submit(task, arguments)

        manager(opened).submit = slow_submit  # type: ignore[method-assign]
        call = asyncio.ensure_future(opened.call("act", {"action": "sleep"}, caller))
        await began.wait()
        call.cancel()
        await asyncio.sleep(0.01)
        go_on.set()
        await asyncio.wait({call})
        assert call.cancelled()
        assert await states(opened) == [TaskState.CANCELLED]


async def test_a_closing_application_ends_the_task_and_says_so(tmp_path: Path, caller: Caller) -> None:
    opened = bridge(application(tmp_path), jobs=[], tasks=["act"])
    await opened.bridged.start()
    call = asyncio.ensure_future(opened.call("act", {"action": "sleep"}, caller))
    await until(lambda: caller.told("axonx_progress"))
    await opened.bridged.stop()
    message = await call
    assert message.status == "error"
    assert "cancelled" in str(message.content).lower()
    assert opened.is_idle
