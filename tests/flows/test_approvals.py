"""A run that waits for a person goes on as if it had never waited."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from deerflow_extension_api import (
    AgentBuildContext,
    AgentScope,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
    TaskOutcome,
)
from langchain.agents.middleware import AgentMiddleware
from langgraph.types import interrupt
from support import tools
from support.extensions import Seen, installed, recording
from support.gateways import gateway
from support.hosts import answer, delegation, finished, scripted_config, scripted_host

from deerflow.client import DeerFlowClient
from deerflow.errors import InvalidRequestError, NotFoundError, RunFailedError, RunInterruptedError
from deerflow.extensions import LoadedExtensions
from deerflow.host import Host
from deerflow.runs.active import ActiveRun
from deerflow.runs.record import RunStatus, ThreadStatus
from deerflow.runs.request import RunRequest

APPROVE: dict[str, Any] = {"type": "approve"}
REJECT: dict[str, Any] = {"type": "reject", "message": "not today"}


def edit(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "edit", "edited_action": {"name": name, "args": args}}


def decided(*decisions: dict[str, Any]) -> dict[str, Any]:
    return {"decisions": list(decisions)}


def writing(path: str) -> dict[str, Any]:
    return {"name": "write_file", "args": {"path": path, "content": "x"}, "id": f"call-{path}"}


def asking(question: str) -> dict[str, Any]:
    return {"name": "ask", "args": {"question": question}, "id": f"call-{question}"}


def rule(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"when": "^do", "turns": [{"tool_calls": list(calls)}, {"text": "after: {tool_results}"}]}


TWO_WRITES = rule(writing("a"), writing("b"), {"name": "search", "args": {}, "id": "call-search"})
TWO_QUESTIONS = rule(asking("one"), asking("two"), {"name": "search", "args": {}, "id": "call-search"})
CONFIGURED = [{"use": "support.tools:ask"}, {"use": "support.tools:search"}]
WRITES_NEED_APPROVAL = {"approve_tools": ["write_file"]}


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    tools.asked.clear()
    tools.threads.clear()
    yield


@asynccontextmanager
async def host_with(home: Path, *rules: dict[str, Any]) -> AsyncIterator[Host]:
    async with scripted_host(home, rules, tools=CONFIGURED) as host:
        yield host


async def asked(host: Host, **fields: Any) -> ActiveRun:
    run = await finished(host, "do it", context=WRITES_NEED_APPROVAL, **fields)
    assert run.ending is not None and run.ending.status is RunStatus.INTERRUPTED
    return run


async def answering(host: Host, run: ActiveRun, value: Any, **fields: Any) -> ActiveRun:
    request = RunRequest(thread_id=run.thread_id, command={"resume": value}, **fields)
    return await host.runs.start(request)


async def answered(host: Host, run: ActiveRun, value: Any, **fields: Any) -> ActiveRun:
    resumed = await answering(host, run, value, **fields)
    await asyncio.wait_for(resumed.ended.wait(), 20)
    return resumed


def ended_well(run: ActiveRun) -> bool:
    return run.ending is not None and run.ending.status is RunStatus.SUCCESS


def files(home: Path, run: ActiveRun) -> list[str]:
    folder = home / "threads" / run.thread_id / "workspace"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def results(run: ActiveRun) -> dict[str, str]:
    return {m.tool_call_id: m.text for m in run.values["messages"] if m.type == "tool"}


@pytest.mark.parametrize(
    ("decisions", "written"),
    [
        ([APPROVE, APPROVE], ["a", "b"]),
        ([APPROVE, REJECT], ["a"]),
        ([REJECT, REJECT], []),
        ([edit("write_file", path="c", content="y"), APPROVE], ["b", "c"]),
        ([edit("ls"), {"type": "respond", "message": "done already"}], []),
    ],
)
async def test_each_call_of_a_message_is_decided_on_its_own(
    tmp_path: Path, decisions: list[dict[str, Any]], written: list[str]
) -> None:
    seen = Seen()
    with installed(recording(seen)):
        async with host_with(tmp_path, TWO_WRITES) as host:
            run = await asked(host)
            assert files(tmp_path, run) == []
            (question,) = run.ending.interrupts if run.ending else ()
            assert [action["args"]["path"] for action in question["value"]["action_requests"]] == ["a", "b"]
            thread = await host.database.stores.threads.get(run.thread_id)
            assert thread is not None and thread.status is ThreadStatus.INTERRUPTED
            resumed = await answered(host, run, decided(*decisions))
    assert ended_well(resumed)
    assert files(tmp_path, run) == written
    assert len(results(resumed)) == 3
    assert len(seen.model_stores) == 2
    assert tools.threads and len(tools.threads) == 1
    lead = [(info.run_id, info.resumed) for info in seen.infos]
    assert lead == [(run.run_id, False), (resumed.run_id, True)]
    assert list(seen.outcomes.values()) == [TaskOutcome.COMPLETED, TaskOutcome.COMPLETED]


async def test_an_answer_that_does_not_fit_is_asked_for_again(tmp_path: Path) -> None:
    wrong: Sequence[Any] = (
        decided(APPROVE),
        "yes",
        decided(APPROVE, {"type": "maybe"}),
        decided(APPROVE, edit("write_file") | {"edited_action": {"name": 5}}),
        {"decisions": [None, None]},
    )
    async with host_with(tmp_path, TWO_WRITES) as host:
        run = await asked(host)
        for value in wrong:
            again = await answered(host, run, value)
            assert again.ending is not None and again.ending.status is RunStatus.INTERRUPTED
            (question,) = again.ending.interrupts
            description = question["value"]["action_requests"][0]["description"]
            assert description.startswith("The last answer did not fit (")
        assert files(tmp_path, run) == []
        resumed = await answered(host, run, decided(APPROVE, REJECT))
    assert ended_well(resumed)
    assert files(tmp_path, run) == ["a"]


async def test_an_edit_towards_a_tool_that_is_not_there_is_a_failed_result(tmp_path: Path) -> None:
    async with host_with(tmp_path, TWO_WRITES) as host:
        resumed = await answered(host, await asked(host), decided(edit("rm", path="/"), APPROVE))
    assert ended_well(resumed)
    assert "not an available tool" in results(resumed)["call-a"]


async def test_a_person_is_not_asked_about_a_call_that_nobody_can_read(tmp_path: Path) -> None:
    odd = {"name": "write_file", "args": {"path": "\ud835", "content": ""}, "id": "odd"}
    async with host_with(tmp_path, rule(odd, writing("a"))) as host:
        run = await asked(host)
        (question,) = run.ending.interrupts if run.ending else ()
        assert [action["args"]["path"] for action in question["value"]["action_requests"]] == ["a"]
        assert ended_well(await answered(host, run, decided(APPROVE)))


async def test_every_question_of_tools_is_listed_and_answered_by_its_id(tmp_path: Path) -> None:
    async with host_with(tmp_path, TWO_QUESTIONS) as host:
        run = await finished(host, "do it")
        assert run.ending is not None
        ids = {interrupt["value"]["question"]: interrupt["id"] for interrupt in run.ending.interrupts}
        assert set(ids) == {"one", "two"}
        unclear = await answered(host, run, "to whom?")
        assert unclear.ending is not None and unclear.ending.error is not None
        assert "multiple pending interrupts" in unclear.ending.error[1]
        half = await answered(host, run, {ids["two"]: "2"})
        assert half.ending is not None
        assert [interrupt["value"]["question"] for interrupt in half.ending.interrupts] == ["one"]
        whole = await answered(host, run, "1")
    assert ended_well(whole)
    assert results(whole) == {
        "call-one": "answered: 1",
        "call-two": "answered: 2",
        "call-search": "found  for nobody",
    }
    assert len(tools.threads) == 1
    assert tools.asked.count("two") == 2


@pytest.mark.parametrize("text", [None, "hello"])
async def test_an_answer_to_nothing_fails_and_says_so(tmp_path: Path, text: str | None) -> None:
    async with host_with(tmp_path) as host:
        thread_id = str(uuid4()) if text is None else (await finished(host, text)).thread_id
        request = RunRequest(thread_id=thread_id, command={"resume": "yes"}, if_not_exists="create")
        run = await host.runs.start(request)
        await run.ended.wait()
    assert run.ending is not None and run.ending.error is not None
    assert "waits for an answer" in run.ending.error[1]


async def test_of_two_answers_to_one_question_the_first_counts(tmp_path: Path) -> None:
    async with host_with(tmp_path, rule(writing("a"))) as host:
        run = await asked(host)
        # Asked for one after the other: which of two at the same moment is the first is nobody's to say.
        first = await answering(host, run, decided(APPROVE))
        second = await answered(host, run, decided(REJECT))
    assert ended_well(first)
    assert second.ending is not None and second.ending.status is RunStatus.ERROR
    assert files(tmp_path, run) == ["a"]


async def test_a_new_message_instead_of_an_answer_leaves_the_thread_usable(tmp_path: Path) -> None:
    async with host_with(tmp_path, TWO_WRITES) as host:
        run = await asked(host)
        other = await finished(host, "never mind", thread_id=run.thread_id)
    assert answer(other) == "echo: never mind"
    assert files(tmp_path, run) == []


class Asking(AgentMiddleware[Any, Any]):
    """Asks a person once, in one of the node hooks."""

    def __init__(self, hook: str) -> None:
        super().__init__()
        self._hook = hook
        self.heard: list[Any] = []

    @property
    def name(self) -> str:
        return f"Asking_{self._hook}"

    def _ask(self, hook: str) -> None:
        if hook == self._hook and not self.heard:
            self.heard.append(interrupt({"from": hook}))

    def before_agent(self, state: Any, runtime: Any) -> None:
        self._ask("before_agent")

    def before_model(self, state: Any, runtime: Any) -> None:
        self._ask("before_model")

    def after_model(self, state: Any, runtime: Any) -> None:
        self._ask("after_model")

    def after_agent(self, state: Any, runtime: Any) -> None:
        self._ask("after_agent")


class Contributor(MiddlewareContributor):
    def __init__(self, asking: Asking, scope: AgentScope) -> None:
        self._placement = MiddlewarePlacement(asking, Placement.STANDARD, scope)

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (self._placement,)


def contributed(asking: Asking, scope: AgentScope, seen: Seen) -> LoadedExtensions:
    base = recording(seen)
    return LoadedExtensions(
        task_lifecycle=base.task_lifecycle,
        middleware_contributors=(
            *base.middleware_contributors,
            ("asking:install", Contributor(asking, scope)),
        ),
    )


HOOKS = ("before_agent", "before_model", "after_model", "after_agent")


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_contributed_hook_may_ask_and_the_resumed_run_ends_as_without_it(
    tmp_path: Path, hook: str
) -> None:
    seen, asking = Seen(), Asking(hook)
    search = rule({"name": "search", "args": {}, "id": "call-search"})
    with installed(contributed(asking, AgentScope.LEAD, seen)):
        async with host_with(tmp_path, search) as host:
            run = await finished(host, "do it")
            assert run.ending is not None
            assert [i["value"] for i in run.ending.interrupts] == [{"from": hook}]
            resumed = await answered(host, run, "go on")
    assert ended_well(resumed)
    assert [m.text for m in resumed.values["messages"]] == [
        "do it",
        "",
        "found  for nobody",
        "after: found  for nobody",
    ]
    assert asking.heard == ["go on"]
    assert (len(seen.model_stores), len(tools.threads)) == (2, 1)


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_contributed_hook_that_asks_inside_a_subagent_fails_that_subagent(
    tmp_path: Path, hook: str
) -> None:
    seen = Seen()
    with installed(contributed(Asking(hook), AgentScope.SUBAGENT, seen)):
        async with host_with(tmp_path, rule(delegation("inner", "a"))) as host:
            run = await finished(host, "do it")
            assert host.assembler.capacity.running == 0
    assert ended_well(run)
    assert results(run)["a"].startswith("Task failed. Error: PermissionError: it asked for a person's answer")
    assert seen.outcomes["a"] is TaskOutcome.FAILED


async def test_a_tool_that_asks_inside_a_subagent_fails_that_subagent(tmp_path: Path) -> None:
    inner = {"when": "^inner", "turns": [{"tool_calls": [asking("one")]}]}
    async with host_with(tmp_path, rule(delegation("inner", "a")), inner) as host:
        run = await finished(host, "do it")
    assert ended_well(run)
    assert "it asked for a person's answer" in results(run)["a"]


def test_the_client_answers(tmp_path: Path) -> None:
    thread_id = str(uuid4())
    with DeerFlowClient(scripted_config(tmp_path, [TWO_WRITES], tools=CONFIGURED)) as client:
        with pytest.raises(RunInterruptedError):
            client.chat("do it", thread_id=thread_id, **WRITES_NEED_APPROVAL)
        with pytest.raises(RunInterruptedError, match="waits for a person"):
            client.resume(decided(APPROVE), thread_id=thread_id)
        text = client.resume(decided(APPROVE, REJECT), thread_id=thread_id)
        assert text.startswith("after: created 'a'") and "not today" in text
        with pytest.raises(RunFailedError, match="waits for an answer"):
            client.resume("again", thread_id=thread_id)
        with pytest.raises(InvalidRequestError, match="answer is None"):
            client.resume(None, thread_id=thread_id)
        with pytest.raises(NotFoundError):
            client.resume("x", thread_id=str(uuid4()))
    assert (tmp_path / "threads" / thread_id / "workspace" / "a").exists()


@pytest.mark.parametrize(
    ("decisions", "written"),
    [
        ([APPROVE, APPROVE], {"a", "b"}),
        ([REJECT, edit("write_file", path="c", content="y")], {"c"}),
    ],
)
def test_a_client_that_comes_later_answers(
    tmp_path: Path, decisions: list[dict[str, Any]], written: set[str]
) -> None:
    thread_id = str(uuid4())
    config = scripted_config(tmp_path, [TWO_WRITES], tools=CONFIGURED, database={"backend": "sqlite"})
    with DeerFlowClient(config) as client, pytest.raises(RunInterruptedError) as asked:
        client.chat("do it", thread_id=thread_id, **WRITES_NEED_APPROVAL)
    (question,) = asked.value.interrupts
    with DeerFlowClient(config) as client:
        text = client.resume({question["id"]: decided(*decisions)}, thread_id=thread_id)
        assert text.startswith("after: ")
        assert client.chat("hello", thread_id=thread_id) == "echo: hello"
    folder = tmp_path / "threads" / thread_id / "workspace"
    assert {path.name for path in folder.iterdir()} == written
    assert len(tools.threads) == 1


def test_the_clients_stream_goes_on_with_the_answer(tmp_path: Path) -> None:
    thread_id = str(uuid4())
    with DeerFlowClient(scripted_config(tmp_path, [rule(asking("one"))], tools=CONFIGURED)) as client:
        waiting = list(client.stream("do it", thread_id=thread_id))
        assert waiting[-1].data["status"] == "interrupted"
        (question,) = waiting[-2].data["__interrupt__"]
        assert question["value"] == {"question": "one"}
        events = list(client.stream_resume({question["id"]: "1"}, thread_id=thread_id))
    assert events[-1].data["status"] == "success"
    assert events[-2].data["messages"][-1]["content"] == "after: answered: 1"


async def test_the_clients_async_faces_answer(tmp_path: Path) -> None:
    thread_id = str(uuid4())
    async with DeerFlowClient(scripted_config(tmp_path, [rule(asking("one"))], tools=CONFIGURED)) as client:
        with pytest.raises(RunInterruptedError):
            await client.achat("do it", thread_id=thread_id)
        assert await client.aresume("1", thread_id=thread_id) == "after: answered: 1"
        with pytest.raises(RunInterruptedError):
            await client.achat("do it", thread_id=thread_id)
        events = [event async for event in client.astream_resume("2", thread_id=thread_id)]
    assert events[-2].data["messages"][-1]["content"].endswith("answered: 2")


async def test_an_answer_over_http_needs_no_options_of_its_own(tmp_path: Path) -> None:
    async with gateway(tmp_path, [TWO_WRITES], tools=CONFIGURED) as client:
        thread_id = await client.thread()
        waiting = await client.say(thread_id, "do it", context=WRITES_NEED_APPROVAL)
        assert len(waiting["__interrupt__"][0]["value"]["action_requests"]) == 2
        state = (await client.get(f"/threads/{thread_id}/state")).json()
        assert len(state["interrupts"]) == 1
        body = {"assistant_id": "lead_agent", "command": {"resume": decided(APPROVE, APPROVE)}}
        response = await client.post(f"/threads/{thread_id}/runs/wait", json=body)
    assert response.status_code == 200
    assert response.json()["messages"][-1]["content"].startswith("after: created 'a'")
