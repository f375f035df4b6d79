"""What a lead and its subagents do not share: state, checkpoints, callbacks."""

from __future__ import annotations

import operator
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NotRequired
from uuid import uuid4

import pytest
import yaml
from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents.middleware import AgentMiddleware, AgentState
from langchain.agents.middleware.types import PrivateStateAttr
from langchain_core.callbacks import BaseCallbackHandler
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from support.extensions import installed
from support.hosts import DELEGATE_TWICE, answer, finished, scripted_config, scripted_host

from deerflow.agents import make_lead_agent
from deerflow.extensions import LoadedExtensions

JOINED = "joined: Task Succeeded. Result: echo: one\nTask Succeeded. Result: echo: two"


class Notes(AgentState[Any]):
    secret: NotRequired[Annotated[str, PrivateStateAttr]]
    notes: NotRequired[Annotated[list[str], operator.add]]


class Writing(AgentMiddleware[Any, Any]):
    """Writes a private and a shared field in every agent, and keeps what each agent found there."""

    state_schema = Notes

    def __init__(self, found: list[tuple[str, str, Any, Any]]) -> None:
        super().__init__()
        self._found = found

    def before_agent(self, state: Any, runtime: Any) -> dict[str, Any]:
        prompt = state["messages"][0].text
        self._found.append(("before", prompt, state.get("secret"), state.get("notes")))
        return {"secret": f"secret of {prompt}", "notes": [prompt]}

    def after_agent(self, state: Any, runtime: Any) -> None:
        prompt = state["messages"][0].text
        self._found.append(("after", prompt, state.get("secret"), state.get("notes")))


class Contributor(MiddlewareContributor):
    def __init__(self) -> None:
        self.found: list[tuple[str, str, Any, Any]] = []

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(Writing(self.found), Placement.STANDARD),)


async def test_state_crosses_neither_to_subagents_nor_back_nor_between_them(tmp_path: Path) -> None:
    contributor = Contributor()
    with installed(LoadedExtensions(middleware_contributors=(("acme:install", contributor),))):
        async with scripted_host(tmp_path, [DELEGATE_TWICE]) as host:
            run = await finished(host, "delegate")
    assert answer(run) == JOINED
    prompts = ("delegate", "one", "two")
    before = {found[1]: found[2:] for found in contributor.found if found[0] == "before"}
    after = {found[1]: found[2:] for found in contributor.found if found[0] == "after"}
    assert before == {prompt: (None, []) for prompt in prompts}
    assert after == {prompt: (f"secret of {prompt}", [prompt]) for prompt in prompts}
    assert run.values["notes"] == ["delegate"]
    assert [m.type for m in run.values["messages"]] == ["human", "ai", "tool", "tool", "ai"]


async def namespaces(saver: Any, thread_id: str) -> set[str]:
    config = {"configurable": {"thread_id": thread_id}}
    if isinstance(saver, SqliteSaver):
        return {item.config["configurable"]["checkpoint_ns"] for item in saver.list(config)}
    return {item.config["configurable"]["checkpoint_ns"] async for item in saver.alist(config)}


@pytest.mark.parametrize("backend", ["memory", "sqlite"])
async def test_subagents_leave_no_checkpoint_on_the_run_path(tmp_path: Path, backend: str) -> None:
    async with scripted_host(tmp_path, [DELEGATE_TWICE], database={"backend": backend}) as host:
        run = await finished(host, "delegate")
        again = await finished(host, "delegate", thread_id=run.thread_id)
        assert await namespaces(host.checkpointer, run.thread_id) == {""}
    assert [m.text for m in again.values["messages"] if m.type == "human"] == ["delegate", "delegate"]
    assert answer(again) == JOINED


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """The plain graph of a configuration that delegates."""
    file = tmp_path / "config.yaml"
    config = scripted_config(tmp_path, [DELEGATE_TWICE]).model_dump(
        mode="json", include={"models", "database"}
    )
    file.write_text(yaml.safe_dump(config))
    monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(file))
    monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path))
    yield make_lead_agent({})


GIVEN = {"messages": [("user", "delegate")]}


def on_thread(**more: Any) -> Any:
    return {"configurable": {"thread_id": str(uuid4())}, **more}


def check(state: Any, found: set[str]) -> None:
    assert [m.text for m in state.values["messages"] if m.type == "human"] == ["delegate", "delegate"]
    assert state.values["messages"][-1].text == JOINED
    assert len(state.values["messages"]) == 10
    assert found == {""}


async def test_a_synchronous_saver_sees_nothing_of_subagents(plain: Any) -> None:
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    saver, config = SqliteSaver(connection), on_thread()
    graph = plain.copy(update={"checkpointer": saver})
    for _ in range(2):
        graph.invoke(GIVEN, config)
    check(graph.get_state(config), await namespaces(saver, config["configurable"]["thread_id"]))
    connection.close()


async def test_an_async_saver_sees_nothing_of_subagents(plain: Any) -> None:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        graph, config = plain.copy(update={"checkpointer": saver}), on_thread()
        for _ in range(2):
            await graph.ainvoke(GIVEN, config)
        check(await graph.aget_state(config), await namespaces(saver, config["configurable"]["thread_id"]))


@pytest.mark.parametrize("sync", [True, False])
async def test_a_saver_in_memory_serves_both_sides(plain: Any, sync: bool) -> None:
    saver, config = InMemorySaver(), on_thread()
    graph = plain.copy(update={"checkpointer": saver})
    for _ in range(2):
        _ = graph.invoke(GIVEN, config) if sync else await graph.ainvoke(GIVEN, config)
    check(graph.get_state(config), await namespaces(saver, config["configurable"]["thread_id"]))


class Listening(BaseCallbackHandler):
    """Keeps the texts of all prompts that reach a model under its eyes."""

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def on_chat_model_start(self, serialized: Any, messages: Any, **kwargs: Any) -> None:
        self.prompts.append(messages[0][-1].text)


async def test_a_leads_callbacks_hear_the_lead_only(plain: Any) -> None:
    listening = Listening()
    await plain.ainvoke(GIVEN, {"callbacks": [listening]})
    assert len(listening.prompts) == 2
    assert not {"one", "two"} & set(listening.prompts)
