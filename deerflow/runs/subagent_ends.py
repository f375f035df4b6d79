"""The ends of subagents that their run's own stream did not live to tell."""

from __future__ import annotations

from deerflow.runs.active import ActiveRun


def tell_subagent_ends(run: ActiveRun) -> None:
    """Publish and keep, for each subagent whose end was not streamed, how it ended."""
    ends = run.scope.subagent_ends if run.scope is not None else ()
    for payload in ends:
        if payload["execution_id"] in run.recorder.ended_executions:
            continue
        run.recorder.note_custom(payload)
        if "custom" in run.request.stream_modes:
            run.log.publish("custom", payload)
