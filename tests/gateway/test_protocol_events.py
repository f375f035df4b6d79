"""What the events of a run are in LangGraph's streaming protocol."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson

from deerflow.gateway.protocol.events import ProtocolEvent, RunTranslator
from deerflow.gateway.threads.numbers import ThreadNumbers
from deerflow.runs.events.log import IDS_PER_ATTEMPT, RunEvent, gap_marker

MOMENT = datetime(2026, 5, 1, tzinfo=UTC)
BELOW = "tasks|tools:t1"


def _events(*given: tuple[str, Any]) -> list[RunEvent]:
    return [RunEvent(index + 1, name, orjson.dumps(data), 1_000) for index, (name, data) in enumerate(given)]


def _translated(*given: tuple[str, Any], translator: RunTranslator | None = None) -> list[ProtocolEvent]:
    translator = translator or RunTranslator("r", MOMENT)
    return [told for event in _events(*given) for told in translator.events(event)]


def _lifecycle(events: list[ProtocolEvent]) -> list[tuple[tuple[str, ...], str]]:
    return [(event.namespace, event.data["event"]) for event in events if event.channel == "lifecycle"]


def _task(task_id: str, **more: Any) -> dict[str, Any]:
    return {"id": task_id, "name": "tools", **more}


def test_graphs_within_a_run_begin_and_end_with_their_tasks() -> None:
    call = {"name": "research", "args": {}, "id": "call-1"}
    translator = RunTranslator("r", MOMENT)
    events = _translated(
        ("tasks", _task("t1", input=[call])),
        (BELOW, _task("u1", metadata={"lc_agent_name": "researcher"})),
        (f"{BELOW}|model:u1", _task("v1")),
        (f"{BELOW}", _task("u1", result={}, error="it broke")),
        ("tasks", _task("t1", result={})),
        ("end", {"status": "success"}),
        translator=translator,
    )
    assert _lifecycle(events) == [
        ((), "running"),
        (("tools:t1",), "started"),
        (("tools:t1", "model:u1"), "started"),
        (("tools:t1", "model:u1"), "failed"),
        (("tools:t1",), "completed"),
        ((), "completed"),
    ]
    started = next(event.data for event in events if event.namespace == ("tools:t1",))
    assert started["graph_name"] == "researcher"
    assert started["cause"] == {"type": "toolCall", "tool_call_id": "call-1"}
    assert translator.namespaces.tree() == {
        "namespace": [],
        "status": "completed",
        "graph_name": "lead_agent",
        "children": [
            {
                "namespace": ("tools:t1",),
                "status": "completed",
                "graph_name": "researcher",
                "children": [
                    {"namespace": ("tools:t1", "model:u1"), "status": "failed", "graph_name": "model"}
                ],
            }
        ],
    }


def test_graphs_that_nobody_ended_end_with_the_run_the_innermost_first() -> None:
    events = _translated(
        (BELOW, _task("u1")), (f"{BELOW}|model:u1", _task("v1")), ("end", {"status": "success"})
    )
    assert _lifecycle(events)[-3:] == [
        (("tools:t1", "model:u1"), "completed"),
        (("tools:t1",), "completed"),
        ((), "completed"),
    ]


def test_interrupt_is_told_once_whichever_events_have_it() -> None:
    asked = [{"id": "i1", "value": "sure?"}]
    events = _translated(
        ("values", {"messages": [], "__interrupt__": asked}),
        ("updates", {"__interrupt__": asked}),
        ("end", {"status": "interrupted", "interrupts": [*asked, {"id": "i2", "value": 2}]}),
    )
    requests = [event.data for event in events if event.method == "input.requested"]
    assert requests == [
        {"interrupt_id": "i1", "payload": "sure?"},
        {"interrupt_id": "i2", "payload": 2},
    ]
    assert _lifecycle(events) == [((), "running"), ((), "interrupted")]
    assert [event.data for event in events if event.channel == "values"] == [{"messages": []}]


def test_gap_is_no_event_and_an_end_from_the_record_is_one() -> None:
    translator = RunTranslator("r", MOMENT)
    assert translator.events(gap_marker(3, 9)) == []
    end = RunEvent(None, "end", b'{"status": "error", "error": "HostLostError: gone"}')
    told = translator.events(end)
    assert _lifecycle(told) == [((), "running"), ((), "failed")]
    assert told[-1].data["error"] == "HostLostError: gone"
    assert told[-1].seq == told[0].seq + 1


def test_numbers_rise_over_attempts_and_runs_and_fit_into_javascript() -> None:
    numbers = ThreadNumbers()
    given = [
        numbers.next(MOMENT, 1),
        numbers.next(MOMENT, 100_000),
        numbers.next(MOMENT, IDS_PER_ATTEMPT + 1),
        numbers.next(MOMENT + timedelta(milliseconds=1), 1),
        numbers.next(MOMENT + timedelta(hours=1), 1),
        numbers.next(datetime(2050, 1, 1, tzinfo=UTC), 100_000),
    ]
    assert given == sorted(set(given))
    assert given[-1] < 2**53
    assert ThreadNumbers().next(MOMENT, 1) == given[0]


def test_checkpoint_is_told_once() -> None:
    checkpoint = {"id": "c1", "step": 0, "source": "loop"}
    events = _translated(("checkpoints", checkpoint), ("checkpoints", checkpoint))
    assert [event.data for event in events if event.channel == "checkpoints"] == [checkpoint]
