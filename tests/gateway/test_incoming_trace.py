"""Runs belong to the trace of the request that started them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from opentelemetry.trace import format_span_id, format_trace_id
from support.gateways import ASSISTANT, gateway, said
from support.spans import TRACED, Spans, keep_spans
from support.users import users_gateway

RUN = "invoke_agent lead_agent"
TRACE_ID, SPAN_ID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
HEADERS = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-01"}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return keep_spans(monkeypatch)


def parents(spans: Spans) -> set[tuple[str, str] | None]:
    """Trace and span of each run's parent."""
    return {
        span.parent and (format_trace_id(span.parent.trace_id), format_span_id(span.parent.span_id))
        for span in spans.named(RUN)
    }


@pytest.mark.parametrize("path", ["runs/wait", "runs/stream", "runs"])
async def test_the_sender_of_a_request_is_above_its_run(path: str, tmp_path: Path, spans: Spans) -> None:
    async with gateway(tmp_path, tracing=TRACED) as client:
        thread_id = await client.thread()
        started = await client.post(f"/threads/{thread_id}/{path}", json=said("hello"), headers=HEADERS)
        assert started.status_code == 200
        if path == "runs":
            await client.get(f"/threads/{thread_id}/runs/{started.json()['run_id']}/join")
    assert parents(spans) == {(TRACE_ID, SPAN_ID)}
    assert {format_trace_id(span.context.trace_id) for span in spans.all if span.context} == {TRACE_ID}


async def test_runs_of_other_requests_are_no_part_of_it(tmp_path: Path, spans: Spans) -> None:
    async with gateway(tmp_path, tracing=TRACED) as client:
        body = said("hello")
        await asyncio.gather(
            client.post("/runs/wait", json=body, headers=HEADERS),
            client.post("/runs/wait", json=body),
            client.post("/runs/wait", json=body, headers={"traceparent": "nonsense"}),
        )
    assert len(spans.named(RUN)) == 3
    assert parents(spans) == {(TRACE_ID, SPAN_ID), None}
    assert len({span.context.trace_id for span in spans.named(RUN) if span.context}) == 3


async def test_what_the_sender_does_not_sample_is_not_recorded(tmp_path: Path, spans: Spans) -> None:
    async with gateway(tmp_path, tracing=TRACED) as client:
        headers = {"traceparent": f"00-{TRACE_ID}-{SPAN_ID}-00"}
        response = await client.post("/runs/wait", json=said("hello"), headers=headers)
        assert response.status_code == 200
    assert spans.all == ()


async def test_users_requests_are_traced_as_well(tmp_path: Path, spans: Spans) -> None:
    async with users_gateway(tmp_path, tracing=TRACED) as users:
        ann = await users.user("ann")
        body = {"assistant_id": ASSISTANT, "input": {"messages": [{"role": "user", "content": "hello"}]}}
        assert (await ann.post("/runs/wait", json=body, headers=HEADERS)).status_code == 200
    assert parents(spans) == {(TRACE_ID, SPAN_ID)}
