"""A host for one extension: chats like any other, and tells what happened in it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from deerflow_extension_api import (
    ExtensionService,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskLifecycleContributor,
    extension,
)
from langchain.agents.middleware import AgentMiddleware, hook_config

from deerflow.extensions import ExtensionLoadError, get_loaded_extensions
from deerflow.testing import (
    BROKEN_MODEL,
    BROKEN_TOOL,
    CANCELLATION,
    COMPACTION,
    DELEGATION,
    FLAKY_MODEL,
    LEAD,
    SCENARIOS,
    SHUTDOWN,
    Scenario,
    ScriptedHost,
)

OpenHost = Callable[..., ScriptedHost]

COUNTER = "tool_call_counter:install"


class Words(list[str]):
    """What an extension of these tests keeps."""


class Remembering(TaskLifecycleContributor, ExtensionService):
    """Keeps what happens in the app store and in task stores."""

    async def start(self, deps: Any) -> None:
        self._words = deps.app_store.get_or_init(Words, Words)
        self._words.append("started")

    async def stop(self) -> None:
        self._words.append("stopped")

    async def on_task_start(self, app_store: Any, task_store: Any, info: Any) -> None:
        task_store.set(Words([info.kind]))


@extension(api="0.2")
def remember(registry: Any, config: Any) -> None:
    contribution = Remembering()
    registry.service(contribution)
    registry.task_lifecycle(contribution)


def test_a_chat_answers_and_goes_on_with_its_thread(deerflow_host: OpenHost) -> None:
    host = deerflow_host()
    first = host.chat("hello")
    second = host.chat("again", thread_id=first.thread_id)
    assert (first.status, first.answer) == ("success", "echo: hello")
    assert [message.text for message in second.messages] == ["hello", "echo: hello", "again", "echo: again"]
    assert first.events[-1][0] == "end"


def test_rules_and_sections_of_a_test_come_first(deerflow_host: OpenHost) -> None:
    host = deerflow_host(rules=[{"when": "^delegate$", "turns": [{"text": "no"}]}], title={"enabled": False})
    assert host.chat("delegate").answer == "no"
    assert host.system_calls == ()


def test_delegation_shows_each_execution_with_its_store_and_calls(deerflow_host: OpenHost) -> None:
    (run,) = deerflow_host(remember).play(DELEGATION)
    assert run.lead.tool_calls == ("task", "task")
    assert run.lead.store.get(Words) == ["lead"]
    assert [task.store.get(Words) for task in run.subagents] == [["subagent"], ["subagent"]]
    assert {task.info.task_id: task.tool_calls for task in run.subagents} == {
        "call-1": ("working_tool",),
        "call-2": (),
    }
    assert {task.outcome for task in run.tasks} == {"completed"}


def test_executions_of_an_earlier_run_stay_apart(deerflow_host: OpenHost) -> None:
    host = deerflow_host()
    (first,), (second,) = host.play(DELEGATION), host.play(DELEGATION)
    assert [task.info.run_id for task in first.tasks] == [first.run_id] * 3
    assert [task.info.run_id for task in second.tasks] == [second.run_id] * 3


def test_a_repeated_model_call_is_counted_twice(deerflow_host: OpenHost) -> None:
    (run,) = deerflow_host().play(FLAKY_MODEL)
    assert (run.status, run.lead.model_calls) == ("success", 2)


def test_a_broken_tool_is_a_result_and_a_broken_model_a_failed_run(deerflow_host: OpenHost) -> None:
    host = deerflow_host()
    (tool_run,), (model_run,) = host.play(BROKEN_TOOL), host.play(BROKEN_MODEL)
    assert tool_run.status == "success" and "broken on purpose" in tool_run.answer
    assert model_run.status == "error" and "broken on purpose" in str(model_run.error)
    assert model_run.lead.outcome == "failed"


def test_compaction_is_seen_when_its_run_has_ended(deerflow_host: OpenHost) -> None:
    host = deerflow_host()
    runs = host.play(COMPACTION)
    assert len({run.thread_id for run in runs}) == 1
    assert [event.transform_kind for event in host.compactions] == ["summarization"]
    assert {call.kind for call in host.system_calls} == {"title", "summarization"}


def test_a_cancelled_run_was_asking_its_model(deerflow_host: OpenHost) -> None:
    (run,) = deerflow_host().play(CANCELLATION)
    assert (run.status, run.stop_reason, run.lead.outcome) == ("interrupted", "cancelled", "aborted")
    assert run.lead.model_calls == 1


class Ending(AgentMiddleware[Any, Any]):
    """Ends every run before its model is asked."""

    @hook_config(can_jump_to=["end"])
    async def abefore_model(self, state: Any, runtime: Any) -> dict[str, Any]:
        return {"jump_to": "end"}


class ContributingEnding(MiddlewareContributor):
    def contribute_middlewares(self, app_store: Any, ctx: Any) -> list[MiddlewarePlacement]:
        return [MiddlewarePlacement(Ending(), Placement.STANDARD)]


def test_a_run_that_ends_before_it_can_be_cancelled_is_not_waited_for(deerflow_host: OpenHost) -> None:
    host = deerflow_host(lambda registry, config: registry.middlewares(ContributingEnding()))
    (run,) = host.play(CANCELLATION)
    assert (run.status, run.stop_reason, run.lead.model_calls) == ("success", None, 0)


def test_shutdown_ends_the_run_and_then_the_services(deerflow_host: OpenHost) -> None:
    host = deerflow_host(remember)
    (run,) = host.play(SHUTDOWN)
    assert (run.stop_reason, run.lead.outcome) == ("shutdown", "aborted")
    assert host.app_store.get(Words) == ["started", "stopped"]


def test_a_person_can_be_asked_and_answer(deerflow_host: OpenHost) -> None:
    host = deerflow_host()
    waiting = host.chat("use the broken tool", approve_tools=["broken_tool"])
    assert waiting.status == "interrupted" and waiting.lead.tool_calls == ()
    resumed = host.resume(waiting, {"decisions": [{"type": "approve"}]}, approve_tools=["broken_tool"])
    assert resumed.status == "success" and resumed.lead.info.resumed
    assert resumed.lead.tool_calls == ("broken_tool",)


def test_contributed_routes_answer_behind_the_hosts_own(deerflow_host: OpenHost) -> None:
    host = deerflow_host(COUNTER)
    host.play(DELEGATION)
    answer = host.request("GET", "/tool-calls")
    assert (answer.status, answer.json()["tool_calls"]) == (200, {"task": 2, "working_tool": 1})
    assert host.request("GET", "/ok").json() == {"ok": True}
    assert get_loaded_extensions().app_store is host.app_store


def test_problems_name_the_hook_in_one_line(deerflow_host: OpenHost) -> None:
    class Failing(TaskLifecycleContributor):
        async def on_task_stop(self, *arguments: Any) -> None:
            raise RuntimeError("no\nreason")

    host = deerflow_host(lambda registry, config: registry.task_lifecycle(Failing()))
    (run,) = host.play(LEAD)
    assert run.status == "success"
    (problem,) = host.problems
    assert ": on_task_stop failed for task" in problem


def test_middleware_problems_are_diagnostics_as_well(deerflow_host: OpenHost) -> None:
    host = deerflow_host(
        lambda registry, config: registry.middlewares(
            type("Wrong", (), {"contribute_middlewares": lambda *_: [AgentMiddleware()]})()
        )
    )
    host.play(LEAD)
    assert "expected a MiddlewarePlacement" in host.diagnostics[0].message
    assert host.problems[0].endswith(host.diagnostics[0].message)


def test_two_hosts_keep_their_extensions_apart(deerflow_host: OpenHost) -> None:
    one, other = deerflow_host(remember), deerflow_host(None)
    assert one.play(LEAD)[0].lead.store.get(Words) == ["lead"]
    assert other.play(LEAD)[0].lead.store.get(Words) is None


def test_closing_puts_the_process_wide_set_back() -> None:
    before = get_loaded_extensions()
    with ScriptedHost(remember) as host:
        assert get_loaded_extensions().app_store is host.app_store
    assert get_loaded_extensions() is before
    host.close()


def test_a_host_that_cannot_open_leaves_nothing_behind() -> None:
    before = get_loaded_extensions()
    with pytest.raises(ExtensionLoadError, match="no_such_module"):
        ScriptedHost("no_such_module:install")
    assert get_loaded_extensions() is before


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_no_scenario_finds_fault_with_the_example(deerflow_host: OpenHost, scenario: Scenario) -> None:
    host = deerflow_host(COUNTER, {"report": "log"})
    host.play(scenario)
    assert host.problems == ()
