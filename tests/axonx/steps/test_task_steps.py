from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from support.research import ActTask, RepeatWordTask

from axonx import Application
from axonx.components.job import JobResponse
from axonx.task.defaults import TASK_COMPONENTS, TASK_JOBS


@pytest.fixture
async def app(tmp_path: Path) -> AsyncIterator[Application]:
    async with Application(
        providers=(RepeatWordTask, ActTask),
        workspace_dir=str(tmp_path),
        components=TASK_COMPONENTS,
        jobs=TASK_JOBS,
    ) as app:
        yield app


async def finished(app: Application, task: str, **arguments: Any) -> JobResponse:
    submitted = await app.run_job("submit", {"task": task, **arguments})
    assert submitted.success, submitted.answer
    ids = {name: submitted.answer[name] for name in ("task_id", "run_id")}
    return await app.run_job("wait_task", ids | {"poll_interval": 0.02})


async def test_a_task_is_submitted_and_awaited(app: Application):
    events = [event async for event in app.stream_job("submit", {"task": "repeat_word", "word": "x"})]

    assert [(event.kind, getattr(event, "name", "")) for event in events] == [
        ("progress", "submitted"),
        ("result", ""),
    ]
    answer = events[-1].answer
    assert set(answer) == {"task_id", "run_id", "task"} and answer["task"] == "repeat_word"
    ids = {name: answer[name] for name in ("task_id", "run_id")}
    response = await app.run_job("wait_task", ids)
    assert response.success
    assert response.answer["state"] == "succeeded"
    assert response.answer["output_params"]["text"] == "x"


async def test_a_failed_task_is_a_failed_wait(app: Application):
    response = await finished(app, "demo", x=1, y=1, fail=True)

    assert not response.success
    assert (response.answer["state"], response.answer["exit_code"]) == ("failed", 1)


async def test_wrong_submissions_are_failures_with_a_reason(app: Application):
    unknown = await app.run_job("submit", {"task": "nope"})
    assert not unknown.success and "Unknown Task: 'nope'" in unknown.answer
    wrong = await app.run_job("submit", {"task": "demo", "x": "a", "y": 1})
    assert not wrong.success and "valid integer" in wrong.answer
    with pytest.raises(ValueError, match="'task'"):
        await app.run_job("submit", {"x": 1})


async def test_the_state_of_tasks_is_answered(app: Application):
    done = (await finished(app, "repeat_word", task_name="one")).answer

    assert (await app.run_job("list_task_ids")).answer == [done["task_id"]]
    assert (await app.run_job("status", {"task_id": done["task_id"]})).answer == done
    short = (await app.run_job("status", {"task_id": done["task_id"], "detail": "summary"})).answer
    assert set(done) - set(short) == {"input_params", "output_params", "steps"}
    assert (await app.run_job("list_task_statuses")).answer == [short]
    assert (await app.run_job("list_task_statuses", {"detail": "full", "task_type": "etl"})).answer == [done]
    assert (await app.run_job("list_task_statuses", {"state": "failed"})).answer == []
    ids = {"task_id": done["task_id"], "run_id": done["run_id"], "detail": "summary"}
    assert (await app.run_job("wait_task", ids)).answer == short


async def test_unknown_types_and_tasks_are_failures(app: Application):
    response = await app.run_job("list_task_statuses", {"task_type": "nope"})
    assert not response.success and "nope" in response.answer
    response = await app.run_job("status", {"task_id": "etl#x#y"})
    assert not response.success and response.answer.endswith("Task not found: etl#x#y")


async def test_the_log_is_read_by_offset(app: Application):
    done = (await finished(app, "repeat_word")).answer

    response = await app.run_job("read_task_log", {"task_id": done["task_id"], "offset": 0, "limit": 10})

    assert len(response.answer["content"]) == 10
    assert response.answer["next_offset"] == 10 and response.answer["has_more_after"]
    tail = await app.run_job("read_task_log", {"task_id": done["task_id"], "run_id": done["run_id"]})
    assert tail.answer["content"].endswith("Step publish\n")


async def test_a_run_is_followed_to_its_end(app: Application):
    submitted = (await app.run_job("submit", {"task": "demo", "x": 1, "y": 2})).answer

    arguments = {"task_id": submitted["task_id"], "poll_interval": 0.02}
    events = [event async for event in app.stream_job("stream_task", arguments)]

    assert {event.kind for event in events} == {"progress", "log", "artifact", "result"}
    assert events[-1].success and events[-1].answer["output_params"]["result"] == 3


async def test_a_run_is_cancelled_and_deleted(app: Application):
    submitted = (await app.run_job("submit", {"task": "act", "action": "sleep"})).answer
    ids = {"task_ids": [submitted["task_id"]]}

    refused = await app.run_job("delete_tasks", ids)
    assert not refused.success and "Active Task cannot be deleted" in refused.answer
    assert (await app.run_job("cancel", {"run_id": submitted["run_id"]})).answer is True
    assert (await app.run_job("cancel", {"task_id": submitted["task_id"]})).answer is False
    assert (await app.run_job("delete_tasks", ids)).answer == ids["task_ids"]
    assert (await app.run_job("list_task_ids")).answer == []


async def test_definitions_carry_their_schemas(app: Application):
    listed = (await app.run_job("list_installed_task_definitions")).answer
    assert [definition["name"] for definition in listed] == ["act", "demo", "repeat_word"]
    one = (await app.run_job("get_task_definition", {"task": "demo"})).answer
    assert one == listed[1]
    assert one["input_schema"]["required"] == ["x", "y"]
    short = (await app.run_job("list_installed_task_definitions", {"include_schemas": False})).answer
    assert "input_schema" not in short[0]
    unknown = await app.run_job("get_task_definition", {"task": "nope"})
    assert not unknown.success and "Unknown Task: 'nope'" in unknown.answer
