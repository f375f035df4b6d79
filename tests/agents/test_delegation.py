"""How a delegation ends, and what the lead and its stream are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import TaskOutcome
from support import gate, tools
from support.extensions import Seen, installed, recording
from support.hosts import DELEGATE_TWICE, delegation, finished, scripted_host, start
from support.loop_clock import put_forward

from deerflow.agents.subagents import delegate
from deerflow.agents.subagents.capacity import SubagentCapacity
from deerflow.agents.subagents.delegate import MAX_ERROR_CHARACTERS, MAX_TOLD_CHARACTERS
from deerflow.errors import UnavailableError
from deerflow.runs.active import ActiveRun


def _delegating(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"when": "^delegate", "turns": [{"tool_calls": list(calls)}, {"text": "joined"}]}


def _results(run: ActiveRun) -> list[Any]:
    return [message for message in run.values["messages"] if message.type == "tool"]


def _events(run: ActiveRun, kind: str) -> list[dict[str, Any]]:
    customs = [event.data for event in run.log.after(0) if event.name == "custom"]
    return [data for data in customs if data["type"] == kind]


async def _delegate(
    home: Path, rules: Sequence[dict[str, Any]], seen: Seen | None = None, **sections: Any
) -> ActiveRun:
    with installed(recording(seen or Seen())):
        async with scripted_host(home, rules, **sections) as host:
            return await finished(host, "delegate", stream_modes=("custom",))


async def test_a_subagent_that_takes_too_long_times_out_and_the_lead_goes_on(tmp_path: Path) -> None:
    seen = Seen()
    slow = {"when": "^one", "turns": [{"delay_seconds": 30, "text": "never"}]}
    run = await _delegate(
        tmp_path, [_delegating(delegation("one", "a")), slow], seen, subagents={"timeout_seconds": 0.05}
    )
    (result,) = _results(run)
    assert result.text == "Task timed out. Error: no result within 0.05 s"
    assert (result.status, result.additional_kwargs["subagent_status"]) == ("error", "timed_out")
    assert seen.outcomes["a"] is TaskOutcome.FAILED
    assert len(_events(run, "task_timed_out")) == 1


async def test_a_subagent_that_ignores_its_cancellation_is_abandoned_visibly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(delegate, "STOP_GRACE_SECONDS", 0.05)
    insisting = {
        "when": "^one",
        "turns": [{"tool_calls": [{"name": "insist", "args": {}}]}, {"text": "late"}],
    }
    rules = [_delegating(delegation("one", "a")), insisting]
    sections: dict[str, Any] = {
        "subagents": {"timeout_seconds": 60, "max_running": 1},
        "tools": [{"use": "support.tools:insist"}],
    }
    tools.began.clear()
    tools.let_go.clear()
    async with scripted_host(tmp_path, rules, **sections) as host:
        before = asyncio.all_tasks()
        run = await start(host, "delegate", stream_modes=("custom",))
        while "insist" not in tools.began:
            await asyncio.sleep(0.001)
        put_forward(asyncio.get_running_loop(), 60)
        await run.ended.wait()
        assert host.assembler.capacity.running == 0
        (ended,) = _events(run, "task_timed_out")
        tools.let_go.set()
        while asyncio.all_tasks() - before:
            await asyncio.sleep(0.01)
    assert "it ignored its cancellation and may still be at work" in _results(run)[0].text
    assert ended["error"] == _results(run)[0].additional_kwargs["subagent_error"]
    assert "ignored its cancellation and was abandoned" in caplog.text
    assert _events(run, "task_completed") == []


async def test_turns_are_capped_with_the_work_done_so_far(tmp_path: Path) -> None:
    looping = {
        "when": "^one",
        "turns": [{"text": "half a result", "tool_calls": [{"name": "ls", "args": {}}]}],
    }
    run = await _delegate(
        tmp_path, [_delegating(delegation("one", "a")), looping], subagents={"max_turns": 3}
    )
    (result,) = _results(run)
    assert result.text == "Task Succeeded (capped: turn budget). Result: half a result"
    assert result.additional_kwargs["subagent_stop_reason"] == "turn_capped"
    assert len([event for event in _events(run, "task_running") if "tools" in event]) == 3


async def test_tokens_are_capped_with_the_work_done_so_far(tmp_path: Path) -> None:
    looping = {
        "when": "^one",
        "turns": [{"text": "half a result", "tool_calls": [{"name": "ls", "args": {}}]}],
    }
    run = await _delegate(
        tmp_path,
        [_delegating(delegation("one", "a")), looping],
        subagents={"token_budget": {"enabled": True, "max_tokens": 150}},
    )
    (result,) = _results(run)
    assert result.text == "Task Succeeded (capped: token budget). Result: half a result"
    assert result.additional_kwargs["subagent_stop_reason"] == "token_capped"


async def test_a_failing_subagent_leaves_its_siblings_alone(tmp_path: Path) -> None:
    seen = Seen()
    broken = {"when": "^two", "turns": [{"error": "the model is down"}]}
    calls = [delegation(prompt, prompt) for prompt in ("one", "two", "three")]
    run = await _delegate(tmp_path, [_delegating(*calls), broken], seen)
    one, two, three = _results(run)
    assert one.text == "Task Succeeded. Result: echo: one"
    assert two.text.startswith("Task failed. Error: ") and "the model is down" in two.text
    assert three.text == "Task Succeeded. Result: echo: three"
    assert seen.outcomes["two"] is TaskOutcome.FAILED
    assert run.ending is not None and run.ending.status == "success"


async def test_the_runs_total_is_spent_visibly(tmp_path: Path) -> None:
    calls = [delegation(prompt, prompt) for prompt in ("one", "two", "three")]
    run = await _delegate(tmp_path, [_delegating(*calls)], subagents={"max_total_per_run": 2})
    texts = [result.text for result in _results(run)]
    assert sum(text.startswith("Task Succeeded") for text in texts) == 2
    assert sum("may delegate 2 times" in text for text in texts) == 1


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The rule of subagents `one` and `two`: the one that has a slot keeps it until the other is refused."""
    monkeypatch.setattr(gate, "gate", asyncio.Event())
    slot = SubagentCapacity.slot

    @asynccontextmanager
    async def watched(capacity: SubagentCapacity, lane: str) -> AsyncIterator[None]:
        try:
            async with slot(capacity, lane):
                yield
        except UnavailableError:
            gate.gate.set()
            raise

    monkeypatch.setattr(SubagentCapacity, "slot", watched)
    return _held("^(one|two)")


def _held(when: str) -> dict[str, Any]:
    """The rule of subagents that wait at the gate."""
    return {
        "when": when,
        "turns": [{"tool_calls": [{"name": "pass_gate", "args": {}}]}, {"text": "done"}],
    }


HOLDING = [{"use": "support.gate:pass_gate"}]


async def test_a_full_house_is_a_failed_result(tmp_path: Path, held: dict[str, Any]) -> None:
    calls = [delegation(prompt, prompt) for prompt in ("one", "two")]
    limits = {"max_running": 1, "admission": "reject"}
    run = await _delegate(tmp_path, [_delegating(*calls), held], subagents=limits, tools=HOLDING)
    texts = sorted(result.text for result in _results(run))
    assert texts[0].startswith("Task Succeeded")
    assert "max_running" in texts[1]


@pytest.mark.parametrize(
    "refusing",
    [{"admission": "reject"}, {"max_queued": 1, "queue_timeout_seconds": 0.01}],
    ids=["full", "waited in vain"],
)
async def test_what_found_no_slot_does_not_count_as_delegated(
    tmp_path: Path, held: dict[str, Any], refusing: dict[str, Any]
) -> None:
    rule = {
        "when": "^delegate",
        "turns": [
            {"tool_calls": [delegation(prompt, prompt) for prompt in ("one", "two")]},
            {"tool_calls": [delegation("three", "three")]},
            {"tool_calls": [delegation("four", "four")]},
            {"text": "joined"},
        ],
    }
    limits = {"max_running": 1, "max_total_per_run": 2, **refusing}
    run = await _delegate(tmp_path, [rule, held], subagents=limits, tools=HOLDING)
    *first, three, four = _results(run)
    assert sorted("Task Succeeded" in result.text for result in first) == [False, True]
    assert three.text == "Task Succeeded. Result: echo: three"
    assert "may delegate 2 times" in four.text


async def test_a_repeated_tool_call_id_joins_nothing(tmp_path: Path) -> None:
    seen = Seen()
    rule = {
        "when": "^delegate",
        "turns": [
            {"tool_calls": [delegation("one", "same")]},
            {"tool_calls": [delegation("two", "same"), delegation("three", "same")]},
            {"text": "joined"},
        ],
    }
    run = await _delegate(tmp_path, [rule], seen)
    assert [result.text for result in _results(run)] == [
        f"Task Succeeded. Result: echo: {prompt}" for prompt in ("one", "two", "three")
    ]
    tasks = [info.task_id for info in seen.infos if info.kind == "subagent"]
    assert len(set(tasks)) == 3
    executions = {event["execution_id"] for event in _events(run, "task_completed")}
    assert len(executions) == 3
    ids = [call["id"] for m in run.values["messages"] for call in getattr(m, "tool_calls", [])]
    assert [event["task_id"] for event in _events(run, "task_started")] == ids


async def test_tokens_of_subagents_count_once_in_the_runs_total(tmp_path: Path) -> None:
    run = await _delegate(tmp_path, [DELEGATE_TWICE])
    children = sum(event["usage"]["total_tokens"] for event in _events(run, "task_completed"))
    own = sum(m.usage_metadata["total_tokens"] for m in run.values["messages"] if m.type == "ai")
    assert run.scope is not None
    assert run.scope.usage.total_tokens == own + children


async def test_a_subagent_cannot_delegate_and_starts_from_its_prompt_alone(tmp_path: Path) -> None:
    nested = {
        "when": "^one",
        "turns": [{"tool_calls": [delegation("deeper", "b")]}, {"text": "{tool_results}"}],
    }
    run = await _delegate(tmp_path, [_delegating(delegation("one", "a")), nested])
    (result,) = _results(run)
    assert "task is not a valid tool" in result.text


async def test_a_tool_that_needs_approval_is_refused_inside_a_subagent(tmp_path: Path) -> None:
    writing = {
        "when": "^one",
        "turns": [
            {"tool_calls": [{"name": "write_file", "args": {"path": "a", "content": "b"}}]},
            {"text": "{tool_results}"},
        ],
    }
    async with scripted_host(tmp_path, [_delegating(delegation("one", "a")), writing]) as host:
        run = await finished(host, "delegate", context={"approve_tools": ["write_file"]})
    (result,) = _results(run)
    assert "needs a person's approval" in result.text
    assert run.ending is not None and run.ending.status == "success"


async def test_a_custom_agent_has_its_own_prompt_and_tools(tmp_path: Path) -> None:
    agents = {"reviewer": {"description": "Reviews.", "system_prompt": "Review.", "tools": ["read_file"]}}
    call = {"name": "task", "args": {"prompt": "one", "subagent_type": "reviewer"}, "id": "a"}
    writing = {
        "when": "^one",
        "turns": [{"tool_calls": [{"name": "ls", "args": {}}]}, {"text": "{tool_results}"}],
    }
    run = await _delegate(tmp_path, [_delegating(call), writing], subagents={"custom_agents": agents})
    (result,) = _results(run)
    assert "ls is not a valid tool, try one of [read_file]" in result.text


async def test_names_that_nothing_answers_to_are_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    sections = {
        "agents": {"general-purpos": {"max_turns": 3}},
        "custom_agents": {
            "reviewer": {"description": "Reviews.", "system_prompt": "x", "tools": ["read_fil", "ls"]}
        },
    }
    call = {"name": "task", "args": {"prompt": "one", "subagent_type": "reviewer"}, "id": "a"}
    run = await _delegate(tmp_path, [_delegating(call)], subagents=sections)
    assert _results(run)[0].status == "success"
    assert (
        "changes agents that there are not: general-purpos; known: general-purpose, reviewer" in caplog.text
    )
    assert "the tools of agent 'reviewer' name what there is not: read_fil" in caplog.text


async def test_the_event_of_an_end_shows_so_much_of_a_result_or_an_error(tmp_path: Path) -> None:
    long, failing = "x" * (2 * MAX_TOLD_CHARACTERS), "y" * (2 * MAX_ERROR_CHARACTERS)
    rules = [
        _delegating(delegation("one", "a"), delegation("two", "b")),
        {"when": "^one", "turns": [{"text": f"begin {long} end"}]},
        {"when": "^two", "turns": [{"error": f"{failing}\ud835"}]},
    ]
    run = await _delegate(tmp_path, rules)
    (done,), (failed,) = _events(run, "task_completed"), _events(run, "task_failed")
    assert MAX_TOLD_CHARACTERS - 10 < len(done["result"]) <= MAX_TOLD_CHARACTERS
    assert "characters left out here; they are in the result of the tool call" in done["result"]
    assert len(failed["error"]) == MAX_ERROR_CHARACTERS and failed["error"].endswith("… [cut]")
    completed, other = _results(run)
    assert "read it with read_file" in completed.text and completed.text.endswith(" end")
    assert other.additional_kwargs["subagent_error"] == failed["error"]


async def test_a_stopped_subagent_takes_no_further_step(tmp_path: Path) -> None:
    tools.began.clear()
    seen = Seen()
    working = {
        "when": "^one",
        "turns": [
            *({"tool_calls": [{"name": "wait", "args": {"name": str(n), "seconds": 0}}]} for n in range(2)),
            {"tool_calls": [{"name": "wait", "args": {"name": "third"}}]},
            {"tool_calls": [{"name": "wait", "args": {"name": "never", "seconds": 0}}]},
        ],
    }
    with installed(recording(seen)):
        async with scripted_host(
            tmp_path, [_delegating(delegation("one", "a")), working], tools=[{"use": "support.tools:wait"}]
        ) as host:
            run = await start(host, "delegate")
            async with asyncio.timeout(10):
                while "third" not in tools.began:
                    await asyncio.sleep(0.001)
            calls = len(seen.model_stores)
            await host.runs.stop(run.run_id)
            await asyncio.sleep(0.05)
    assert (tools.began, len(seen.model_stores)) == (["0", "1", "third"], calls)
    stops = [(kind, seen.outcomes[task]) for hook, kind, task in seen.events if hook == "stop"]
    assert stops == [("subagent", TaskOutcome.ABORTED), ("lead", TaskOutcome.ABORTED)]


@pytest.mark.parametrize("max_running", [6, 3])
async def test_concurrency_follows_the_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, max_running: int
) -> None:
    monkeypatch.setattr(gate, "gate", asyncio.Event())
    rules = [_delegating(*(delegation(f"n{number}", f"c{number}") for number in range(6))), _held("^n")]
    async with scripted_host(tmp_path, rules, subagents={"max_running": max_running}, tools=HOLDING) as host:
        run, capacity = await start(host, "delegate", stream_modes=("custom",)), host.assembler.capacity
        while capacity.running + capacity.queued < 6:
            await asyncio.sleep(0.001)
        assert capacity.running == max_running
        gate.gate.set()
        await run.ended.wait()
    assert all(result.text == "Task Succeeded. Result: done" for result in _results(run))
    assert len(_events(run, "task_completed")) == 6


async def test_what_a_subagents_tool_tells_reaches_the_stream_of_the_run(tmp_path: Path) -> None:
    telling = {
        "when": "^one",
        "turns": [{"tool_calls": [{"name": "tell", "args": {}}]}, {"text": "{tool_results}"}],
    }
    rules = [_delegating(delegation("one", "a")), telling]
    run = await _delegate(tmp_path, rules, tools=[{"use": "support.tools:tell"}])
    (event,) = [event for event in _events(run, "task_running") if "custom" in event]
    assert event["task_id"] == "a"
    assert event["custom"] == {"type": "halfway", "percentage": 50}


async def test_a_stopped_run_tells_how_its_subagents_ended(tmp_path: Path) -> None:
    seen = Seen()
    slow = {"when": "^(one|two)", "turns": [{"delay_seconds": 30, "text": "never"}]}
    with installed(recording(seen)):
        async with scripted_host(
            tmp_path, [_delegating(delegation("one", "a"), delegation("two", "b")), slow]
        ) as host:
            run = await start(host, "delegate", stream_modes=("custom",))
            async with asyncio.timeout(10):
                while len(seen.model_stores) < 3:
                    await asyncio.sleep(0.001)
            await host.runs.stop(run.run_id)
            stored = await host.database.stores.events.list(run.thread_id, run.run_id)
    ends = _events(run, "task_cancelled")
    assert sorted(event["task_id"] for event in ends) == ["a", "b"]
    kinds = [event.event.event_type for event in stored]
    assert kinds.count("task_started") == kinds.count("task_cancelled") == 2
