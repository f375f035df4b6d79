"""A run under LangGraph's server is a span as well, though it is a stream that others consume."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode
from support.extensions import Recorder, Seen
from support.hosts import DELEGATE_TWICE, scripted_config
from support.spans import TRACED, Spans, attributes_of, keep_spans

from deerflow.config import RequestOptions
from deerflow.extensions import LoadedExtensions, reset_loaded_extensions, set_loaded_extensions
from deerflow.langgraph_server.bracket import BracketedGraph
from deerflow.langgraph_server.state import DevServer

RUN = "invoke_agent lead_agent"
FAILING = {"when": "^fail", "turns": [{"error": "the model broke"}]}


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Spans:
    return keep_spans(monkeypatch)


@pytest.fixture
async def server(tmp_path: Path, spans: Spans) -> AsyncIterator[DevServer]:
    sections: dict[str, Any] = {"tracing": TRACED, "model_retry": {"max_retries": 0}}
    server = DevServer(scripted_config(tmp_path, [DELEGATE_TWICE, FAILING], **sections))
    set_loaded_extensions(LoadedExtensions(task_lifecycle=(("recorder:install", Recorder(Seen())),)))
    yield server
    reset_loaded_extensions()


async def _run(server: DevServer) -> BracketedGraph:
    """The graph of a run, as the server gets it."""
    scope = server.scope("run-1", "thread-1", RequestOptions(), None)
    assembly = await server.assembler.lead(scope.snapshot, scope.options)
    return BracketedGraph.around(assembly.graph, scope=scope, tracing=server.assembler.tracing).copy()


async def test_a_run_is_above_its_calls_and_hooks(server: DevServer, spans: Spans) -> None:
    async with server.lifespan():
        async for _ in (await _run(server)).astream({"messages": [("user", "delegate")]}):
            assert not trace.get_current_span().get_span_context().is_valid, "the consumer is outside of it"
    run = spans.only(RUN)
    assert spans.below(None) == [run]
    names = [span.name for span in spans.below(run)]
    assert sorted(names) == sorted(
        ["extension_hook on_task_start", "extension_hook on_task_stop"]
        + 2 * ["chat scripted", "execute_tool task"]
    )
    assert attributes_of(run)["gen_ai.conversation.id"] == "thread-1"
    assert attributes_of(run)["gen_ai.usage.output_tokens"] > 0
    assert run.status.status_code is StatusCode.UNSET


async def test_a_run_that_is_left_is_marked_as_cancelled(server: DevServer, spans: Spans) -> None:
    async with server.lifespan():
        given = {"messages": [("user", "delegate")]}
        async with aclosing((await _run(server)).astream(given, stream_mode="updates")) as parts:  # type: ignore[type-var]
            await anext(parts)
    assert attributes_of(spans.only(RUN))["error.type"] == "cancelled"
    assert "extension_hook on_task_stop" in [span.name for span in spans.below(spans.only(RUN))]


async def test_a_run_that_fails_is_marked(server: DevServer, spans: Spans) -> None:
    async with server.lifespan():
        with pytest.raises(Exception, match="the model broke"):
            async for _ in (await _run(server)).astream({"messages": [("user", "fail")]}):
                pass
    assert attributes_of(spans.only(RUN))["error.type"] == "ScriptedModelError"
