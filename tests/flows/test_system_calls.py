"""Titles, summaries and goals within whole runs, as clients and observers see them."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from deerflow_extension_api import read_provenance
from langchain_core.messages import AnyMessage
from langchain_core.outputs import ChatResult
from support.agents import ListModel, calls, says
from support.extensions import Seen, installed, recording
from support.hosts import answer, finished, scripted_host, start
from support.observers import Observed, observing

from deerflow.agents.authorship import is_summary
from deerflow.host import Host, HostOptions
from deerflow.runs.active import ActiveRun

MODES = ("values", "messages-tuple", "custom", "updates", "events")
TITLES = {"title": {"model_name": "helper"}}
SHORT = {
    "summarization": {
        "model_name": "helper",
        "trigger": [{"type": "messages", "value": 5}],
        "keep": {"type": "messages", "value": 1},
    }
}


HANGS: dict[str, Any] = {}


class Hanging(ListModel):
    """Notes that it was asked, and never answers."""

    turns: list[Any] = []
    entered: ClassVar[list[str]] = []

    async def _agenerate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.entered.append("asked")
        return await asyncio.get_running_loop().create_future()


@asynccontextmanager
async def watched_host(
    home: Path,
    observed: Observed,
    *,
    helper: dict[str, Any],
    rules: Sequence[dict[str, Any]] = (),
    more: Sequence[dict[str, Any]] = (),
    **sections: Any,
) -> AsyncIterator[Host]:
    """A host whose second model, the helper, always says the same; what it is asked is observed."""
    use = "deerflow.models:ScriptedChatModel"
    main = {
        "name": "scripted",
        "use": use,
        "rules": [*rules, {"when": "", "turns": [{"text": "echo: {prompt}"}]}],
    }
    second = {"name": "helper", "use": use, "rules": [{"when": "", "turns": [helper]}]}
    if helper is HANGS:
        Hanging.entered.clear()
        second = {"name": "helper", "use": f"{__name__}:Hanging"}
    options = HostOptions(drain_seconds=0.0, owns_notification_loop=True)
    with installed(observing(observed)):
        async with scripted_host(home, options=options, models=[main, second, *more], **sections) as host:
            yield host


async def until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.sleep(0.001)


async def title_of(host: Host, run: ActiveRun) -> Any:
    thread = await host.database.stores.threads.get(run.thread_id)
    assert thread is not None
    return thread.metadata.get("title")


async def shown(run: ActiveRun, *names: str) -> str:
    """What clients were sent under these names."""
    payloads = [event.payload.decode() async for event in run.log.subscribe(0) if event.name in names]
    return "\n".join(payloads)


async def recorded(host: Host, run: ActiveRun) -> list[str]:
    events = await host.database.stores.events.list(run.thread_id, run.run_id)
    return [f"{stored.event.event_type} {stored.event.content}" for stored in events]


async def test_thread_is_named_by_its_first_message_without_a_model_call(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"text": "unasked"}) as host:
        run = await finished(host, "one two three four five six seven")
        assert await title_of(host, run) == "one two three four five six"
        await finished(host, "and another thing", thread_id=run.thread_id)
        assert await title_of(host, run) == "one two three four five six"
    assert not observed.calls


async def test_model_names_the_thread_once_within_the_run_and_unseen(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(
        tmp_path, observed, helper={"text": '"A friendly greeting."\n'}, **TITLES
    ) as host:
        run = await finished(host, "hello", stream_modes=MODES)
        assert await title_of(host, run) == "A friendly greeting"
        (call,) = observed.calls
        assert (call.kind, call.store_id, call.request.model_name) == ("title", run.run_id, "helper")
        assert "friendly" not in await shown(run, "values", "messages", "updates", "custom", "events")
        await finished(host, "more", thread_id=run.thread_id)
    assert len(observed.calls) == 1


async def test_tokens_of_a_title_count_as_the_runs(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"text": "A greeting"}, **TITLES) as host:
        run = await finished(host, "hello")
        spent = observed.calls[0].result.response.usage_metadata["total_tokens"]
        assert run.scope is not None and run.scope.usage.total_tokens > spent > 0


async def test_a_persons_own_title_stays(tmp_path: Path) -> None:
    observed = Observed()
    slow = {"delay_seconds": 0.2, "text": "Too late"}
    async with watched_host(tmp_path, observed, helper=slow, **TITLES) as host:
        run = await start(host, "hello")
        await host.database.stores.threads.merge_metadata(run.thread_id, {"title": "Mine"})
        await run.ended.wait()
        assert await title_of(host, run) == "Mine" and len(observed.calls) == 1


async def test_failed_title_is_cut_from_the_message(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"error": "no quota"}, **TITLES) as host:
        run = await finished(host, "hello")
        assert await title_of(host, run) == "hello"
        assert run.ending is not None and run.ending.status == "success"
    assert [str(call.result.error) for call in observed.calls] == ["no quota"]
    assert "the title is cut from the message" in caplog.text


async def test_thread_of_a_failed_run_is_named_by_its_message(tmp_path: Path) -> None:
    observed = Observed()
    broken = {"when": "^break", "turns": [{"error": "broken on purpose"}]}
    async with watched_host(tmp_path, observed, helper=HANGS, rules=[broken], **TITLES) as host:
        run = await finished(host, "break it")
        assert run.ending is not None and run.ending.status == "error"
        assert await title_of(host, run) == "break it"


async def test_stopping_a_run_that_waits_for_its_title_keeps_the_answer(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper=HANGS, **TITLES) as host:
        run = await start(host, "hello")
        await until(lambda: Hanging.entered and run.ending is not None)
        await asyncio.wait_for(host.runs.stop(run.run_id), 5)
        assert run.ending is not None and run.ending.status == "success"
        assert await title_of(host, run) == "hello"
        await until(lambda: observed.calls)
    assert [type(call.result.error) for call in observed.calls] == [asyncio.CancelledError]
    assert observed.calls[0].store_id == run.run_id


async def test_title_is_there_before_the_tasks_store_goes(tmp_path: Path) -> None:
    observed, seen = Observed(), Seen()
    stopped_with: list[int] = []

    class Late(type(recording(seen).task_lifecycle[0][1])):  # type: ignore[misc]
        async def on_task_stop(self, *arguments: Any) -> None:
            stopped_with.append(len(observed.calls))

    async with watched_host(tmp_path, observed, helper={"delay_seconds": 0.1, "text": "x"}, **TITLES) as host:
        with installed(observing(observed, task_lifecycle=(("late:install", Late(seen)),))):
            await finished(host, "hello")
    assert stopped_with == [1]


async def test_summary_is_state_that_nobody_said(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"text": "the gist of it"}, **SHORT) as host:
        run = await finished(host, "one", stream_modes=MODES)
        for text in ("two", "three"):
            run = await finished(host, text, thread_id=run.thread_id, stream_modes=MODES)
        assert answer(run) == "echo: three"
        summary, *rest = run.values["messages"]
        assert is_summary(summary) and "the gist of it" in summary.text
        assert read_provenance(summary) is not None
        assert [message.text for message in rest] == ["three", "echo: three"]
        (call,) = observed.of("summarization")
        assert (call.store_id, call.request.model_name) == (run.run_id, "helper")
        await until(lambda: observed.compactions)
        assert "gist" not in await shown(run, "messages")
        events = await recorded(host, run)
        assert not any("gist" in event for event in events)
        assert sum("message.ai" in event for event in events) == 1
        again = await finished(host, "four", thread_id=run.thread_id)
        assert [message.text for message in again.values["messages"][1:]] == [
            "three",
            "echo: three",
            "four",
            "echo: four",
        ]
    (event,) = observed.compactions
    assert (event.compacted_message_count, event.kept_message_count) == (4, 1)
    assert observed.compaction_stores == ["detached"]


async def test_state_of_a_long_thread_stays_short(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"text": "gist"}, **SHORT) as host:
        run = await finished(host, "0")
        for number in range(1, 25):
            run = await finished(host, str(number), thread_id=run.thread_id)
            assert len(run.values["messages"]) <= 6
    assert answer(run) == "echo: 24" and sum(map(is_summary, run.values["messages"])) == 1
    assert len(observed.calls) < 25


async def test_event_of_a_compaction_outlives_garbage_collection(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"text": "gist"}, **SHORT) as host:
        run = await finished(host, "one")
        for text in ("two", "three"):
            await finished(host, text, thread_id=run.thread_id)
            gc.collect()
        await until(lambda: observed.compactions)


class Worker(ListModel):
    """Looks around six times, then reports."""

    turns: list[Any] = [*[calls("list_files")] * 6, says("the findings")]


async def test_subagent_summarises_with_its_own_store_and_keeps_its_answer(tmp_path: Path) -> None:
    observed = Observed()
    worker = {"description": "works", "system_prompt": "work", "model": "worker"}
    task = {"name": "task", "args": {"prompt": "look", "subagent_type": "worker"}, "id": "call-1"}
    delegating = {"when": "^delegate", "turns": [{"tool_calls": [task]}, {"text": "it said: {tool_results}"}]}
    async with watched_host(
        tmp_path,
        observed,
        helper={"text": "gist"},
        rules=[delegating],
        more=[{"name": "worker", "use": f"{__name__}:Worker"}],
        subagents={"custom_agents": {"worker": worker}},
        **SHORT,
    ) as host:
        run = await finished(host, "delegate", stream_modes=MODES)
        await until(lambda: observed.compactions)
    assert {call.store_id for call in observed.of("summarization")} == {"call-1"}
    assert answer(run) == "it said: Task Succeeded. Result: the findings"
    assert "gist" not in await shown(run, "messages", "custom", "events")


async def test_run_stopped_in_the_middle_of_a_summary_is_told_once(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper=HANGS, **SHORT) as host:
        run = await finished(host, "one")
        await finished(host, "two", thread_id=run.thread_id)
        third = await start(host, "three", thread_id=run.thread_id)
        await until(lambda: Hanging.entered)
        await asyncio.wait_for(host.runs.stop(third.run_id), 5)
        assert third.ending is not None and third.ending.status == "interrupted"
        await until(lambda: observed.calls)
        await asyncio.sleep(0.05)
    assert [type(call.result.error) for call in observed.calls] == [asyncio.CancelledError]
    assert not observed.compactions


async def test_run_goes_on_towards_its_goal_as_often_as_is_allowed(tmp_path: Path) -> None:
    observed = Observed()
    verdict = {"text": '{"met": false, "missing": "the <b>end</b>"}'}
    async with watched_host(
        tmp_path, observed, helper=verdict, goal={"model_name": "helper", "max_continuations": 2}
    ) as host:
        run = await finished(host, "hello", context={"goal": "finish <it>"})
        prompts = [m for m in run.values["messages"] if m.type == "human"]
        assert len(prompts) == 3 and run.ending is not None and run.ending.status == "success"
        assert [read_provenance(m) is not None for m in prompts] == [False, True, True]
        assert "the &lt;b&gt;end&lt;/b&gt;" in prompts[1].text and "finish &lt;it&gt;" in prompts[1].text
        events = await recorded(host, run)
        assert sum("goal.continued" in event for event in events) == 2
        assert sum("message.human" in event for event in events) == 1
        assert sum("message.ai" in event for event in events) == 3
    assert [(call.kind, call.store_id) for call in observed.calls] == [("goal", run.run_id)] * 2
    assert run.scope is not None
    spent = sum(call.result.response.usage_metadata["total_tokens"] for call in observed.calls)
    assert run.scope.usage.total_tokens > spent


@pytest.mark.parametrize(
    "said", [{"text": '{"met": true}'}, {"text": "who knows"}, {"error": "no quota"}], ids=str
)
async def test_goal_that_is_met_or_cannot_be_judged_ends_the_run(
    tmp_path: Path, said: dict[str, Any]
) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper=said, goal={"model_name": "helper"}) as host:
        run = await finished(host, "hello", context={"goal": "be polite"})
        assert answer(run) == "echo: hello" and run.ending is not None and run.ending.status == "success"
    assert len(observed.of("goal")) == 1


async def test_goal_may_stand_in_the_threads_metadata_and_is_judged_by_the_runs_model(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper={"text": "x"}) as host:
        first = await finished(host, "hello")
        assert not observed.calls
        await host.database.stores.threads.merge_metadata(first.thread_id, {"goal": "be polite"})
        await finished(host, "again", thread_id=first.thread_id)
    (call,) = observed.calls
    assert (call.kind, call.request.model_name) == ("goal", "scripted") and "be polite" in call.prompt


async def test_goal_is_not_judged_where_a_person_is_waited_for_or_nothing_may_follow(tmp_path: Path) -> None:
    observed = Observed()
    asking = {
        "when": "^write",
        "turns": [{"tool_calls": [{"name": "list_files", "args": {}}]}, {"text": "done"}],
    }
    async with watched_host(tmp_path, observed, helper={"text": "x"}, rules=[asking]) as host:
        run = await finished(host, "write", context={"goal": "g", "approve_tools": ["list_files"]})
        assert run.ending is not None and run.ending.interrupts
    async with watched_host(tmp_path, observed, helper={"text": "x"}, goal={"max_continuations": 0}) as host:
        await finished(host, "hello", context={"goal": "g"})
    assert not observed.calls


async def test_run_can_be_stopped_while_its_goal_is_judged(tmp_path: Path) -> None:
    observed = Observed()
    async with watched_host(tmp_path, observed, helper=HANGS, goal={"model_name": "helper"}) as host:
        run = await start(host, "hello", context={"goal": "g"})
        await until(lambda: Hanging.entered)
        await asyncio.wait_for(host.runs.stop(run.run_id), 5)
        assert run.ending is not None and run.ending.stop_reason == "cancelled"
        await until(lambda: observed.calls)
    assert [type(call.result.error) for call in observed.calls] == [asyncio.CancelledError]
