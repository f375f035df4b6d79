"""What events accept, how they look as JSON, and that a sent event is what the Step emitted."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError
from support.axonx_app import StepBody, step_app

from axonx import BaseStep
from axonx.components.job import (
    JOB_EVENT_ADAPTER,
    AgentBlockPatch,
    AgentMessageEvent,
    ArtifactEvent,
    LogEvent,
    ProgressEvent,
    ResultEvent,
)


def as_json(event: Any) -> Any:
    return json.loads(event.model_dump_json())


def test_the_json_of_every_kind() -> None:
    assert as_json(ProgressEvent(name="a")) == {
        "name": "a",
        "label": "",
        "parent": None,
        "percentage": None,
        "group": "",
        "state": "pending",
        "phase": "",
        "completed": None,
        "total": None,
        "unit": "",
        "scheduled_at": None,
        "deadline": None,
        "started_at": None,
        "finished_at": None,
        "updated_at": None,
        "metrics": {},
        "files": {},
        "error": "",
        "kind": "progress",
    }
    assert as_json(LogEvent()) == {
        "content": "",
        "start_offset": 0,
        "next_offset": 0,
        "file_size": 0,
        "has_more_before": False,
        "has_more_after": False,
        "reset": False,
        "kind": "log",
        "channel": "task",
    }
    assert as_json(ArtifactEvent(path="a/b.csv")) == {
        "kind": "artifact",
        "path": "a/b.csv",
        "sha256": "",
        "size": 0,
        "media_type": None,
        "extra": {},
    }
    patch = AgentBlockPatch(operation="append", block_id="b", block_type="text", delta="x")
    assert as_json(AgentMessageEvent(session_id="s", presentation=[patch])) == {
        "kind": "agent_message",
        "session_id": "s",
        "type_name": "",
        "message_uuid": "",
        "role": "assistant",
        "sequence": 0,
        "presentation": [
            {"operation": "append", "block_id": "b", "block_type": "text", "delta": "x", "payload": {}}
        ],
    }
    assert (
        ResultEvent(answer=1).model_dump_json() == '{"answer":1,"success":true,"metadata":{},"kind":"result"}'
    )


@pytest.mark.parametrize(
    "event",
    [
        ProgressEvent(
            name="a", percentage=100, state="done", updated_at=datetime.now(UTC), metrics={"x": [1]}
        ),
        LogEvent(content="x", next_offset=1),
        ArtifactEvent(path="a", size=3),
        AgentMessageEvent(session_id="s", role="user"),
        ResultEvent(answer={"a": 1}, success=False, metadata={"b": 2}),
    ],
)
def test_every_kind_survives_json(event: Any) -> None:
    assert JOB_EVENT_ADAPTER.validate_json(event.model_dump_json()) == event


def test_an_unknown_kind_lists_the_five() -> None:
    with pytest.raises(ValidationError, match="'progress', 'log', 'artifact', 'agent_message', 'result'"):
        JOB_EVENT_ADAPTER.validate_python({"kind": "zzz"})


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"name": ""},
        {"name": "a", "percentage": 101},
        {"name": "a", "percentage": -0.1},
        {"name": "a", "percentage": float("nan")},
        {"name": "a", "state": "odd"},
        {"name": "a", "completed": -1},
        {"name": "a", "total": -1},
        {"name": "a", "started_at": datetime(2024, 1, 1)},
        {"name": "a", "metrics": {"x": object()}},
        {"name": "a", "colour": 1},
    ],
)
def test_a_wrong_progress_event_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        ProgressEvent(**fields)


def test_a_log_event_ignores_what_it_does_not_know() -> None:
    assert LogEvent(colour=1) == LogEvent()  # type: ignore[call-arg]


@pytest.mark.parametrize(
    "path", ["/abs", "../x", "a/../b", "a\\b", "", ".", "a//b", "a/./b", "~/x", "C:x", "c:/x", "a\0b", "a/"]
)
def test_an_artifact_path_stays_in_the_workspace(path: str) -> None:
    with pytest.raises(ValidationError, match="must be a relative path inside the workspace"):
        ArtifactEvent(path=path)


def test_an_artifact_has_no_negative_size() -> None:
    with pytest.raises(ValidationError):
        ArtifactEvent(path="a", size=-1)


def test_a_block_of_an_agents_message_has_an_id() -> None:
    with pytest.raises(ValidationError):
        AgentBlockPatch(operation="start", block_id="", block_type="text")


async def emit_changed(step: BaseStep) -> None:
    event = ProgressEvent(name="a", metrics={"x": [1]})
    await step.emit(event)
    event.name = "b"
    event.metrics["x"].append(2)  # type: ignore[union-attr]
    await step.emit(event)


async def test_changing_an_event_after_emit_changes_nothing_that_was_sent(tmp_path: Path) -> None:
    async with step_app(tmp_path, emit_changed) as app:
        events = [event async for event in app.stream_job("job") if isinstance(event, ProgressEvent)]
    assert [(event.name, event.metrics) for event in events] == [("a", {"x": [1]}), ("b", {"x": [1, 2]})]


def emits(event: Any) -> StepBody:
    async def body(step: BaseStep) -> None:
        await step.emit(event)

    return body


def broken_progress() -> ProgressEvent:
    event = ProgressEvent(name="a")
    event.percentage = 400
    return event


@pytest.mark.parametrize(
    ("event", "answer"),
    [
        ("text", "InvalidEventError: a Step can emit ProgressEvent.* not str"),
        ({"kind": "log"}, "InvalidEventError: .* not dict"),
        (None, "InvalidEventError: .* not NoneType"),
        (ResultEvent(), "InvalidEventError: a Step cannot emit a ResultEvent"),
        (broken_progress(), "ValidationError: .*percentage"),
        (ArtifactEvent.model_construct(path="../x"), "ValidationError: .*inside the workspace"),
        (
            ArtifactEvent(path="link/x"),
            "PathOutsideWorkspaceError: 'link/x' leaves the workspace through a link",
        ),
    ],
)
async def test_what_a_step_may_not_emit_is_a_failure_in_both_ways_to_call(
    tmp_path: Path, event: Any, answer: str
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    (workspace / "link").symlink_to(tmp_path)
    async with step_app(workspace, emits(event)) as app:
        response = await app.run_job("job")
        events = [sent async for sent in app.stream_job("job")]
    assert [sent.kind for sent in events] == ["result"]
    assert events[0].model_dump(exclude={"kind"}) == response.model_dump()
    assert not response.success
    assert re.match(answer, response.answer, re.DOTALL)


async def test_an_artifact_inside_the_workspace_may_be_emitted(tmp_path: Path) -> None:
    async with step_app(tmp_path, emits(ArtifactEvent(path="not/yet/there.csv"))) as app:
        assert [event.kind async for event in app.stream_job("job")] == ["artifact", "result"]
