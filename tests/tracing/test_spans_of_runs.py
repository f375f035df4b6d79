"""A run is a tree of spans: the run, its model and tool calls, its subagents, the hooks of extensions."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import TaskLifecycleContributor
from langchain_core.messages import HumanMessage
from langchain_core.tools import BaseTool, tool
from opentelemetry import trace
from opentelemetry.trace import SpanKind, StatusCode
from support.extensions import Seen, installed, recording
from support.gateways import ASKING, FAILING
from support.hosts import DELEGATE_TWICE, answer, finished, scripted_config, scripted_host, start
from support.spans import TRACED, WITH_CONTENT, Spans, attributes_of

from deerflow.agents.lead import Assembler
from deerflow.agents.tool_owners import OwnedTool, ToolOwner
from deerflow.client import DeerFlowClient
from deerflow.config import RequestOptions
from deerflow.extensions import LoadedExtensions, register_notification_loop
from deerflow.tracing import open_tracing
from deerflow.tracing.contents import MOST_CHARACTERS

RUN = "invoke_agent lead_agent"
CHAT = "chat scripted"
CALLS_ITSELF = {
    "when": "^both",
    "turns": [
        {"tool_calls": [{"name": "blocking", "id": "call-1"}, {"name": "awaiting", "id": "call-2"}]},
        {"text": "done"},
    ],
}


async def test_a_run_is_above_its_calls(tmp_path: Path, spans: Spans) -> None:
    async with scripted_host(tmp_path, [ASKING], tracing=TRACED) as host:
        run = await finished(host, "ask")
    assert spans.tree() == [RUN, [CHAT, "execute_tool write_file", CHAT]]
    ids = {"gen_ai.conversation.id": run.thread_id, "deerflow.run.id": run.run_id}
    assert all(ids.items() <= attributes_of(span).items() for span in spans.all)
    assert all(span.status.status_code is StatusCode.UNSET for span in spans.all)
    assert {span.context.trace_id for span in spans.all if span.context} == {
        spans.only(RUN).context.trace_id  # type: ignore[union-attr]
    }


async def test_spans_bear_the_names_of_the_conventions(tmp_path: Path, spans: Spans) -> None:
    async with scripted_host(tmp_path, [ASKING], tracing=TRACED) as host:
        run = await finished(host, "ask")
        used = run.scope.usage  # type: ignore[union-attr]
    of_run = attributes_of(spans.only(RUN))
    assert of_run["gen_ai.operation.name"] == "invoke_agent"
    assert of_run["gen_ai.agent.name"] == "lead_agent"
    assert of_run["gen_ai.usage.input_tokens"] == used.input_tokens > 0
    assert of_run["deerflow.run.status"] == "success"
    assert of_run["deerflow.run.wait_seconds"] >= 0
    chats = spans.named(CHAT)
    assert {span.kind for span in chats} == {SpanKind.CLIENT}
    of_chat = attributes_of(chats[0])
    assert of_chat["gen_ai.operation.name"] == "chat"
    assert of_chat["gen_ai.request.model"] == of_chat["deerflow.model"] == "scripted"
    assert sum(attributes_of(span)["gen_ai.usage.output_tokens"] for span in chats) == used.output_tokens
    of_tool = attributes_of(spans.only("execute_tool write_file"))
    assert of_tool["gen_ai.operation.name"] == "execute_tool"
    assert (of_tool["gen_ai.tool.name"], of_tool["gen_ai.tool.call.id"]) == ("write_file", "call-1")
    assert of_tool["gen_ai.tool.description"]


async def test_subagents_are_below_the_calls_that_started_them(tmp_path: Path, spans: Spans) -> None:
    async with scripted_host(tmp_path, [DELEGATE_TWICE], tracing=TRACED) as host:
        await finished(host, "delegate")
    delegated = ["execute_tool task", ["invoke_agent general-purpose", [CHAT]]]
    assert spans.tree() == [RUN, [CHAT, *delegated, *delegated, CHAT]]
    for call in spans.named("execute_tool task"):
        (subagent,) = spans.below(call)
        assert attributes_of(subagent)["deerflow.task.id"] == attributes_of(call)["gen_ai.tool.call.id"]
        assert attributes_of(subagent)["gen_ai.usage.output_tokens"] > 0


def _noting(noted: dict[str, int]) -> list[OwnedTool]:
    def note(name: str) -> str:
        noted[name] = trace.get_current_span().get_span_context().span_id
        return "noted"

    @tool
    def blocking() -> str:
        """Note the current span in a thread."""
        return note("blocking")

    @tool
    async def awaiting() -> str:
        """Note the current span on the loop."""
        await asyncio.sleep(0)
        return note("awaiting")

    tools: list[BaseTool] = [blocking, awaiting]
    return [OwnedTool(one, ToolOwner("the test", "test")) for one in tools]


async def test_each_of_parallel_tools_runs_within_its_own_span(tmp_path: Path, spans: Spans) -> None:
    noted: dict[str, int] = {}
    async with scripted_host(tmp_path, [CALLS_ITSELF], tracing=TRACED) as host:
        host.assembler.add_tools(_noting(noted))
        await finished(host, "both")
    for name in ("blocking", "awaiting"):
        assert noted[name] == spans.only(f"execute_tool {name}").context.span_id  # type: ignore[union-attr]


async def test_a_graph_run_from_a_thread_has_the_same_spans(tmp_path: Path, spans: Spans) -> None:
    config = scripted_config(tmp_path, [DELEGATE_TWICE], tracing=TRACED)
    async with open_tracing(config.tracing) as tracing:
        graph = Assembler(config, tracing=tracing).lead_now(LoadedExtensions(), RequestOptions()).graph
        given = {"messages": [HumanMessage("delegate")]}
        state = await asyncio.to_thread(graph.invoke, given)
    assert len(state["messages"]) == 5
    subagents = spans.named("invoke_agent general-purpose")
    calls = {span.context.span_id for span in spans.named("execute_tool task") if span.context}
    assert {span.parent.span_id for span in subagents if span.parent} == calls
    assert len(calls) == len(subagents) == 2


async def test_hooks_are_spans_where_they_ran(tmp_path: Path, spans: Spans) -> None:
    with installed(recording(Seen())):
        async with scripted_host(tmp_path, [DELEGATE_TWICE], tracing=TRACED) as host:
            await finished(host, "delegate")
    of_run = [span.name for span in spans.below(spans.only(RUN))]
    assert (
        of_run.count("extension_hook wrap_model_call") == of_run.count("extension_hook wrap_tool_call") == 2
    )
    for name in ("on_task_start", "on_task_stop", "contribute_middlewares"):
        assert of_run.count(f"extension_hook {name}") == 1
    for subagent in spans.named("invoke_agent general-purpose"):
        inner = [span.name for span in spans.below(subagent)]
        assert inner.count("extension_hook on_task_start") == inner.count("extension_hook on_task_stop") == 1
    hook = spans.named("extension_hook wrap_model_call")[0]
    assert attributes_of(hook)["deerflow.extension"] == "recorder:install"
    assert 0 <= attributes_of(hook)["deerflow.hook.own_seconds"] * 1e9 <= hook.end_time - hook.start_time + 1  # type: ignore[operator]
    chat = spans.below(spans.only(RUN))[0] if of_run[0] == CHAT else spans.named(CHAT)[0]
    # It is made when the hook has ended: a pause before that moves it, and changes nothing of its length.
    assert hook.end_time - hook.start_time >= chat.end_time - chat.start_time  # type: ignore[operator]
    assert hook.end_time >= chat.end_time  # type: ignore[operator]


async def test_what_fails_is_marked_up_to_the_run(tmp_path: Path, spans: Spans) -> None:
    async with scripted_host(tmp_path, [FAILING], tracing=TRACED, model_retry={"max_retries": 0}) as host:
        await finished(host, "fail")
    for name in (RUN, CHAT):
        span = spans.only(name)
        assert span.status.status_code is StatusCode.ERROR
        assert attributes_of(span)["error.type"] == span.status.description == "ScriptedModelError"
    assert "the model broke" not in spans.texts()


async def test_a_tool_that_fails_is_marked_and_the_run_is_not(tmp_path: Path, spans: Spans) -> None:
    wrong = {
        "when": "^read",
        "turns": [{"tool_calls": [{"name": "read_file", "args": {"path": "no.txt"}}]}, {"text": "sorry"}],
    }
    async with scripted_host(tmp_path, [wrong], tracing=TRACED) as host:
        await finished(host, "read")
    assert spans.only("execute_tool read_file").status.status_code is StatusCode.ERROR
    assert spans.only(RUN).status.status_code is StatusCode.UNSET


async def test_a_subagent_that_fails_is_marked(tmp_path: Path, spans: Spans) -> None:
    broken = {"when": "^(one|two)", "turns": [{"error": "the model broke"}]}
    sections: dict[str, Any] = {"tracing": TRACED, "model_retry": {"max_retries": 0}}
    async with scripted_host(tmp_path, [DELEGATE_TWICE, broken], **sections) as host:
        await finished(host, "delegate")
    for span in spans.named("invoke_agent general-purpose"):
        assert span.status.status_code is StatusCode.ERROR
        assert attributes_of(span)["error.type"] == "failed"
    assert spans.only(RUN).status.status_code is StatusCode.UNSET


async def test_a_cancelled_run_is_marked_with_everything_under_way(tmp_path: Path, spans: Spans) -> None:
    slow = {"when": "^(one|two)", "turns": [{"delay_seconds": 60, "text": "never"}]}
    seen = Seen()
    with installed(recording(seen)):
        async with scripted_host(tmp_path, [DELEGATE_TWICE, slow], tracing=TRACED) as host:
            run = await start(host, "delegate")
            async with asyncio.timeout(30):
                while len(seen.model_stores) < 3:
                    await asyncio.sleep(0.01)
            await host.runs.stop(run.run_id)
    failed = {s.name for s in spans.all if s.status.status_code is StatusCode.ERROR}
    assert failed == {RUN, CHAT, "execute_tool task", "invoke_agent general-purpose"}
    assert attributes_of(spans.only(RUN))["deerflow.stop_reason"] == "cancelled"
    kinds = {attributes_of(s)["error.type"] for s in spans.all if s.status.status_code is StatusCode.ERROR}
    assert kinds == {"cancelled"}


async def test_a_run_that_waits_for_a_person_has_not_failed(tmp_path: Path, spans: Spans) -> None:
    async with scripted_host(tmp_path, [ASKING], tracing=TRACED) as host:
        await finished(host, "ask", context={"approve_tools": ["write_file"]})
    assert spans.tree() == [RUN, [CHAT]]
    assert spans.only(RUN).status.status_code is StatusCode.UNSET
    assert attributes_of(spans.only(RUN))["deerflow.run.status"] == "interrupted"


async def test_each_repetition_of_a_model_call_is_a_span(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("deerflow.agents.stack.is_transient", lambda error: True)
    retry = {"max_retries": 2, "initial_delay_seconds": 0.001}
    async with scripted_host(tmp_path, [FAILING], tracing=TRACED, model_retry=retry) as host:
        await finished(host, "fail")
    assert spans.tree() == [RUN, [CHAT, CHAT, CHAT]]


async def test_the_hosts_own_model_calls_say_what_they_are_for(tmp_path: Path, spans: Spans) -> None:
    async with scripted_host(tmp_path, tracing=TRACED, title={"model_name": "scripted"}) as host:
        await finished(host, "hello")
    kinds = [attributes_of(s).get("deerflow.system_operation") for s in spans.below(spans.only(RUN))]
    assert sorted(map(str, kinds)) == ["None", "title"]


async def test_no_content_is_recorded_unless_it_is_wanted(tmp_path: Path, spans: Spans) -> None:
    secret = {
        "when": "^secret",
        "turns": [
            {"tool_calls": [{"name": "write_file", "args": {"path": "a.txt", "content": "sesame"}}]},
            {"text": "sesame"},
        ],
    }
    async with scripted_host(tmp_path, [secret], tracing=TRACED, title={"model_name": "scripted"}) as host:
        assert answer(await finished(host, "secret sesame")) == "sesame"
    assert len(spans.all) >= 4
    assert "sesame" not in spans.texts()


async def test_content_is_recorded_where_it_is_wanted(tmp_path: Path, spans: Spans) -> None:
    long = "x" * (2 * MOST_CHARACTERS)
    async with scripted_host(tmp_path, [ASKING], tracing=WITH_CONTENT) as host:
        await finished(host, f"ask {long} \ud83d")
    first, second = map(attributes_of, spans.named(CHAT))
    assert '"role": "user"' in first["gen_ai.input.messages"] and "ask x" in first["gen_ai.input.messages"]
    assert len(first["gen_ai.input.messages"]) < 2 * MOST_CHARACTERS
    assert '"type": "text"' in first["gen_ai.system_instructions"]
    assert '"name": "write_file"' in first["gen_ai.output.messages"]
    assert '"type": "tool_call_response"' in second["gen_ai.input.messages"]
    of_tool = attributes_of(spans.only("execute_tool write_file"))
    assert '"a.txt"' in of_tool["gen_ai.tool.call.arguments"]
    assert of_tool["gen_ai.tool.call.result"]


async def test_a_failure_says_what_it_was_where_contents_are_wanted(tmp_path: Path, spans: Spans) -> None:
    sections: dict[str, Any] = {"tracing": WITH_CONTENT, "model_retry": {"max_retries": 0}}
    async with scripted_host(tmp_path, [FAILING], **sections) as host:
        await finished(host, "fail")
    for name in (RUN, CHAT):
        assert "the model broke" in str(spans.only(name).status.description)


async def test_a_host_records_the_hooks_of_its_own_runs(tmp_path: Path, spans: Spans) -> None:
    with installed(recording(Seen())):
        async with scripted_host(tmp_path / "a", tracing=TRACED) as traced:
            async with scripted_host(tmp_path / "b", tracing=TRACED), scripted_host(tmp_path / "c") as plain:
                await finished(traced, "hello")
                await finished(plain, "hello")
    assert len(spans.named("extension_hook on_task_start")) == 1


def test_an_embedded_run_is_below_the_span_of_whoever_asks(tmp_path: Path, spans: Spans) -> None:
    asker = trace.NonRecordingSpan(trace.SpanContext(0xABC, 0xDEF, False, trace.TraceFlags(1)))
    with DeerFlowClient(scripted_config(tmp_path, tracing=TRACED)) as client:
        with trace.use_span(asker):
            client.chat("hello")
        client.chat("hello")
    first, second = spans.named(RUN)
    assert first.parent == asker.get_span_context()
    assert second.parent is None


async def test_hooks_on_another_loop_are_below_their_run(tmp_path: Path, spans: Spans) -> None:
    loops: set[asyncio.AbstractEventLoop] = set()

    class Noting(TaskLifecycleContributor):
        async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
            loops.add(asyncio.get_running_loop())

    loaded = LoadedExtensions(task_lifecycle=(("noting:install", Noting()),))
    registration = register_notification_loop(snapshot=loaded)
    try:
        with installed(loaded):
            async with DeerFlowClient(scripted_config(tmp_path, tracing=TRACED)) as client:
                await client.achat("hello")
    finally:
        registration.release()
    assert loops == {asyncio.get_running_loop()}, "the client's runs have a loop of their own"
    assert "extension_hook on_task_start" in [span.name for span in spans.below(spans.only(RUN))]
