"""Older messages become a summary: what goes, what stays, and who is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import (
    ContentKind,
    ExtensionData,
    TaskInfo,
    canonical_hash,
    collect_release_policies,
    provenance_kwargs,
    read_provenance,
)
from langchain.agents.middleware import AgentMiddleware, ExtendedModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from support.agents import Counter, agent, calls, says
from support.hosts import scripted_config
from support.observers import Observed, observing

from deerflow.agents.authorship import is_summary
from deerflow.agents.fold import fold
from deerflow.agents.middlewares.compaction import Compacting, Compaction
from deerflow.agents.middlewares.compaction_sizes import usable_sizes
from deerflow.agents.run_scope import Delegations, RunScope
from deerflow.agents.system_calls import SystemModels
from deerflow.agents.workspace import Workspace
from deerflow.config import config_from
from deerflow.config.request import RequestOptions
from deerflow.config.schema import ContextSize
from deerflow.extensions import LoadedExtensions, NotificationLoop, lead_policy, register_notification_loop
from deerflow.models import ScriptedChatModel

THREAD = {"configurable": {"thread_id": "t"}}


@pytest.fixture
def observed() -> Observed:
    return Observed()


@pytest.fixture
async def serving() -> Any:
    registration = register_notification_loop()
    yield registration
    registration.release()


class Bench:
    """One compaction with its scope; the writer of summaries says `answer`."""

    def __init__(self, home: Path, snapshot: LoadedExtensions, answer: dict[str, Any] | None = None) -> None:
        self.config = scripted_config(home, [{"when": "", "turns": [answer or {"text": "what was said"}]}])
        info = TaskInfo(task_id="run-1", run_id="run-1", thread_id="t", kind="lead")
        self.scope = RunScope(
            snapshot=snapshot,
            task_info=info,
            task_store=ExtensionData("run-1"),
            policy=lead_policy(self.config),
            options=RequestOptions(),
            workspace=Workspace(home),
            delegations=Delegations(0),
        )

    def middleware(self, *, trigger: int = 6, keep: int = 2, kind: str = "messages") -> Compaction:
        return Compaction(
            Compacting(
                trigger=(ContextSize(type=kind, value=trigger),),
                keep=ContextSize(type=kind, value=keep),
                agent_model=ScriptedChatModel(),
                model_name="scripted",
                models=SystemModels(self.config),
                scope_of=lambda _: self.scope,
            )
        )


def talk(turns: int) -> list[AnyMessage]:
    """Question and answer, `turns` times, then one more question."""
    said: list[AnyMessage] = []
    for turn in range(turns):
        said += [HumanMessage(f"question {turn}", id=f"q{turn}"), AIMessage(f"answer {turn}", id=f"a{turn}")]
    return [*said, HumanMessage("the question", id="q")]


async def run(
    middlewares: Sequence[AgentMiddleware], messages: Sequence[AnyMessage], *turns: Any, **options: Any
) -> Any:
    graph, model = agent(fold(middlewares), *turns, **options)
    result = await graph.ainvoke({"messages": list(messages)})
    return result["messages"], model


def assert_well_formed(messages: Sequence[AnyMessage]) -> None:
    """Every call of a tool is followed by its results, and no result stands without its call."""
    waiting: list[str] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            waiting.remove(message.tool_call_id)
        else:
            assert not waiting, messages
        if isinstance(message, AIMessage):
            waiting = [str(call["id"]) for call in message.tool_calls]


async def test_older_messages_become_a_summary_and_the_rest_keeps_its_ids(
    tmp_path: Path, observed: Observed
) -> None:
    bench = Bench(tmp_path, observing(observed))
    messages, model = await run([bench.middleware()], talk(3), says("the answer"))
    assert [message.text for message in messages[1:]] == ["answer 2", "the question", "the answer"]
    assert [message.id for message in messages[1:3]] == ["a2", "q"]
    assert "what was said" in messages[0].text and is_summary(messages[0])
    assert read_provenance(messages[0]) is not None
    assert model.seen == [messages[:3]]


async def test_a_short_conversation_stays_as_it_is(tmp_path: Path, observed: Observed) -> None:
    bench = Bench(tmp_path, observing(observed))
    messages, _ = await run([bench.middleware(trigger=8)], talk(3), says("the answer"))
    assert len(messages) == 8 and not observed.calls


async def test_observers_see_the_call_with_the_store_of_its_task(tmp_path: Path, observed: Observed) -> None:
    bench = Bench(tmp_path, observing(observed))
    await run([bench.middleware()], talk(3), says("the answer"))
    (call,) = observed.calls
    assert (call.store_id, call.kind, call.answer) == ("run-1", "summarization", "what was said")
    assert call.request.model_name == "scripted" and "question 1" in call.prompt
    assert call.result.duration_ms is not None and call.result.error is None
    assert call.request.invoke_config is not None and "nostream" in call.request.invoke_config["tags"]
    assert bench.scope.usage.total_tokens > 0


async def test_event_names_what_went_by_the_hash_of_its_content(
    tmp_path: Path, observed: Observed, serving: NotificationLoop
) -> None:
    bench = Bench(tmp_path, observing(observed))
    picture = [{"type": "text", "text": "look"}, {"type": "image", "url": "https://example.org/cat.png"}]
    said = [HumanMessage(picture, id="p"), *talk(3)]
    messages, _ = await run([bench.middleware()], said, says("the answer"))
    await serving.drain(30)
    (event,) = observed.compactions
    assert observed.compaction_stores == ["detached"]
    assert event.source_content_hashes == tuple(canonical_hash(m.content) for m in said[:6])
    assert event.output_content_hash == canonical_hash(messages[0].content)
    assert (event.compacted_message_count, event.kept_message_count) == (6, 2)
    assert (event.transform_kind, event.transform_version) == ("summarization", "1")


async def test_the_question_being_answered_stays_through_every_compaction(
    tmp_path: Path, observed: Observed
) -> None:
    bench = Bench(tmp_path, observing(observed))
    counter = Counter()
    said = [*talk(2)[:-1], HumanMessage("first part", id="part"), HumanMessage("the question", id="q")]
    steps = [calls("count") for _ in range(8)]
    messages, model = await run([bench.middleware()], said, *steps, says("done"), tools=[counter.tool])
    assert counter.count == 8 and messages[-1].text == "done"
    assert len(observed.calls) >= 3
    assert [m.id for m in messages if isinstance(m, HumanMessage)] == ["q0", "part", "q"]
    assert [is_summary(m) for m in messages[:3]] == [True, False, False]
    for seen in model.seen:
        assert_well_formed(seen)
        assert len(seen) <= 8


@pytest.mark.parametrize("keep", range(1, 6))
async def test_tool_calls_stay_with_their_results(tmp_path: Path, keep: int) -> None:
    bench = Bench(tmp_path, LoadedExtensions())
    counter = Counter()
    steps = [calls("count", "count", "count"), calls("count"), calls("count", "count"), calls("count")]
    messages, model = await run(
        [bench.middleware(keep=keep)], talk(1), *steps, says("done"), tools=[counter.tool]
    )
    assert any(map(is_summary, messages)) and counter.count == 7
    for seen in [*model.seen, messages]:
        assert_well_formed(seen)
    # A first turn may be too long as well: the summary then stands behind its question.
    assert sum(map(is_summary, messages)) == 1


async def test_what_was_put_there_to_last_stays_the_newest_of_each_producer(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LoadedExtensions())

    def reminder(text: str, producer: str, kind: ContentKind = ContentKind.DURABLE_CONTEXT) -> HumanMessage:
        return HumanMessage(text, additional_kwargs=provenance_kwargs(kind, producer))

    marked = [
        reminder("old", "a"),
        reminder("new", "a"),
        reminder("other", "b"),
        reminder("passing", "c", ContentKind.MIDDLEWARE_INJECTION),
    ]
    messages, _ = await run([bench.middleware()], [*marked, *talk(2)], says("done"))
    assert [m.text for m in messages if not is_summary(m)] == [
        "new",
        "other",
        "answer 1",
        "the question",
        "done",
    ]


async def test_a_later_prompt_of_the_host_stays_with_the_question(tmp_path: Path) -> None:
    bench = Bench(tmp_path, LoadedExtensions())
    marks = provenance_kwargs(ContentKind.MIDDLEWARE_INJECTION, "goal")
    said = [*talk(1), AIMessage("half"), HumanMessage("go on", additional_kwargs=marks), AIMessage("more")]
    messages, _ = await run([bench.middleware(keep=1)], said, says("done"))
    assert [m.text for m in messages[1:]] == ["the question", "go on", "more", "done"]


FAILURES = {"error": {"error": "no quota"}, "empty": {"text": "  "}, "endless": {"text": "x" * 10_000}}


@pytest.mark.parametrize("answer", FAILURES.values(), ids=FAILURES)
async def test_failed_summary_removes_nothing_and_ends_nothing(
    tmp_path: Path,
    observed: Observed,
    serving: NotificationLoop,
    caplog: pytest.LogCaptureFixture,
    answer: dict[str, Any],
) -> None:
    bench = Bench(tmp_path, observing(observed), answer)
    messages, model = await run([bench.middleware()], talk(3), says("the answer"))
    await serving.drain(30)
    assert len(messages) == 8 and len(model.seen) == 1
    assert not observed.compactions and len(observed.calls) == 1
    assert [r.levelname for r in caplog.records if "nothing is removed" in r.getMessage()] == ["WARNING"]


async def test_failed_model_call_removes_nothing_and_is_no_event(
    tmp_path: Path, observed: Observed, serving: NotificationLoop
) -> None:
    bench = Bench(tmp_path, observing(observed))
    graph, _ = agent(fold([bench.middleware()]), RuntimeError("provider down"), checkpointer=InMemorySaver())
    with pytest.raises(RuntimeError, match="provider down"):
        await graph.ainvoke({"messages": talk(3)}, THREAD)
    await serving.drain(30)
    assert len((await graph.aget_state(THREAD)).values["messages"]) == 7
    assert not observed.compactions and len(observed.calls) == 1


async def test_a_summary_alone_is_not_summarised_again(tmp_path: Path, observed: Observed) -> None:
    bench = Bench(tmp_path, observing(observed))
    first, _ = await run([bench.middleware()], talk(3), says("the answer"))
    again, _ = await run([bench.middleware(trigger=2, keep=1)], [first[0], *talk(0)], says("done"))
    assert [m.text for m in again[1:]] == ["the question", "done"] and len(observed.calls) == 1


async def test_what_others_add_in_the_same_step_is_not_lost(tmp_path: Path) -> None:
    class Adding(AgentMiddleware):
        async def awrap_model_call(self, request: Any, handler: Any) -> Any:
            response = await handler(request)
            added = SystemMessage("noted", id="noted")
            return ExtendedModelResponse(response, Command(update={"messages": [added]}))

    bench = Bench(tmp_path, LoadedExtensions())
    messages, _ = await run([bench.middleware(), Adding()], talk(3), says("the answer"))
    assert [m.text for m in messages[1:]] == ["answer 2", "the question", "the answer", "noted"]


async def test_it_works_for_graphs_that_are_invoked_synchronously(tmp_path: Path, observed: Observed) -> None:
    bench = Bench(tmp_path, observing(observed))
    graph, _ = agent(fold([bench.middleware()]), says("the answer"))
    result = await asyncio.to_thread(graph.invoke, {"messages": talk(3)})
    assert is_summary(result["messages"][0]) and len(result["messages"]) == 4
    assert len(observed.calls) == 1


def test_its_settings_are_part_of_the_release_policy(tmp_path: Path) -> None:
    middleware = Bench(tmp_path, LoadedExtensions()).middleware(trigger=6, keep=2)
    assert collect_release_policies([middleware]) == {
        "Compaction": {
            "trigger": [{"type": "messages", "value": 6}],
            "keep": {"type": "messages", "value": 2},
            "model_name": "scripted",
        }
    }


async def test_no_node_is_added_to_the_graph(tmp_path: Path) -> None:
    graph, _ = agent(fold([Bench(tmp_path, LoadedExtensions()).middleware()]))
    assert set(graph.nodes) == {"__start__", "model"}


@pytest.fixture
def fractions() -> Any:
    return config_from(
        {
            "summarization": {
                "trigger": [{"type": "fraction", "value": 0.5}],
                "keep": {"type": "fraction", "value": 0.1},
            }
        }
    ).summarization


def test_fractions_count_where_the_window_is_known(fractions: Any) -> None:
    model = ScriptedChatModel(profile={"max_input_tokens": 1000})
    assert usable_sizes(fractions, model, "small") == (fractions.trigger, fractions.keep)


def test_fractions_of_an_unknown_window_are_left_out(
    fractions: Any, caplog: pytest.LogCaptureFixture
) -> None:
    trigger, keep = usable_sizes(fractions, ScriptedChatModel(), "strange")
    assert (trigger, keep.type) == ((), "messages")
    assert "the context window of model 'strange' is unknown" in caplog.text
