"""The components and Jobs that give an application Tasks, as parts of its configuration."""

from __future__ import annotations

from typing import Any

_TEXT = {"type": "string", "minLength": 1}
_DETAIL = {"type": "string", "enum": ["summary", "full"]}
_SECONDS = {"type": "number", "exclusiveMinimum": 0}
_STATES = ["queued", "running", "succeeded", "failed", "cancelled"]

#: For `components` of a configuration.
TASK_COMPONENTS: dict[str, Any] = {
    "task_repository": {"default": {"backend": "local"}},
    "task_manager": {"default": {"backend": "local"}},
}


def _job(step: str, description: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    return {
        "description": description,
        "parameters": {
            "type": "object",
            "properties": properties,
            "required": list(required),
            "additionalProperties": step == "submit_task",
        },
        "steps": [{"backend": step}],
    }


#: For `jobs` of a configuration.
TASK_JOBS: dict[str, Any] = {
    "list_installed_task_definitions": _job(
        "list_installed_task_definitions",
        "List the Tasks that can be submitted.",
        include_schemas={"type": "boolean"},
    ),
    "get_task_definition": _job(
        "get_task_definition", "Describe one Task and its input.", ("task",), task=_TEXT
    ),
    "submit": _job(
        "submit_task", "Start a Task in a worker; further arguments are its input.", ("task",), task=_TEXT
    ),
    "wait_task": _job(
        "wait_task",
        "Wait until a run of a Task has ended.",
        ("task_id", "run_id"),
        task_id=_TEXT,
        run_id=_TEXT,
        poll_interval=_SECONDS,
        detail=_DETAIL,
    ),
    "stream_task": _job(
        "stream_task",
        "Follow progress and log of a Task until its run has ended.",
        ("task_id",),
        task_id=_TEXT,
        poll_interval=_SECONDS,
    ),
    "status": _job("get_status", "Show the record of a Task.", ("task_id",), task_id=_TEXT, detail=_DETAIL),
    "list_task_ids": _job("list_ids", "List the IDs of all Tasks."),
    "list_task_statuses": _job(
        "list_statuses",
        "List the records of Tasks.",
        task_type=_TEXT,
        state={"type": "string", "enum": _STATES},
        detail=_DETAIL,
    ),
    "read_task_log": _job(
        "read_log",
        "Read a part of a Task's log by byte offset; -1 reads its end.",
        ("task_id",),
        task_id=_TEXT,
        run_id=_TEXT,
        offset={"type": "integer", "minimum": -1},
        limit={"type": "integer", "minimum": 1, "maximum": 262_144},
    ),
    "cancel": _job(
        "cancel", "End the run of a Task: by task_id, run_id or both.", task_id=_TEXT, run_id=_TEXT
    ),
    "delete_tasks": _job(
        "delete",
        "Remove Tasks that have ended, with their files.",
        ("task_ids",),
        task_ids={"type": "array", "items": _TEXT, "minItems": 1, "uniqueItems": True},
    ),
}
