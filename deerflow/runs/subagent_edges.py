"""The beginnings and ends of subagents that their run's own stream did not live to tell."""

from __future__ import annotations

from typing import Any

from deerflow.runs.active import ActiveRun


def tell_subagent_edges(run: ActiveRun) -> None:
    """Publish and keep, of each subagent that ended, what was not streamed of its beginning and its end."""
    scope = run.scope
    if scope is None:
        return
    for end in scope.subagent_ends:
        for payload in (scope.subagent_starts[end["execution_id"]], end):
            if (payload["execution_id"], payload["type"]) not in run.recorder.subagent_edges:
                _tell(run, payload)


def _tell(run: ActiveRun, payload: dict[str, Any]) -> None:
    run.recorder.note_custom(payload)
    if "custom" in run.request.stream_modes:
        run.log.publish("custom", payload)
