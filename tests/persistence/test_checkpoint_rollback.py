"""A run that is rolled back leaves its thread where it was, on every backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from sqlalchemy import text

from deerflow.config import AppConfig
from deerflow.persistence import copy_checkpoints, open_checkpointer, roll_back_checkpoints
from deerflow.persistence.checkpoint_fence import FencedSaver
from deerflow.persistence.engines import build_migration_engine
from deerflow.persistence.location import locate_database
from deerflow.runs.record import RunLostError

Graph = CompiledStateGraph[Any, Any, Any, Any]


@pytest.fixture
async def saver(database_config: AppConfig) -> AsyncIterator[FencedSaver]:
    async with open_checkpointer(database_config) as opened:
        yield opened


def of_run(run_id: str, thread_id: str = "t", **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}, "metadata": {"run_id": run_id}}


def echoing(saver: BaseCheckpointSaver[Any]) -> Graph:
    """Three steps for each message."""
    builder = StateGraph(MessagesState)
    for name in ("one", "two", "three"):
        builder.add_node(name, lambda state, name=name: {"messages": [("ai", name)]})
    builder.add_edge("__start__", "one").add_edge("one", "two").add_edge("two", "three")
    return builder.compile(checkpointer=saver)


def asking_twice(saver: BaseCheckpointSaver[Any]) -> Graph:
    """One step that asks two questions, one after the other."""
    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda state: {"messages": [("ai", f"{interrupt('1?')} {interrupt('2?')}")]})
    builder.add_node("boast", lambda state: {"messages": [("ai", "done")]})
    builder.add_edge("__start__", "ask").add_edge("ask", "boast")
    return builder.compile(checkpointer=saver)


def said(text: str) -> Any:
    return {"messages": [HumanMessage(text)]}


async def states(graph: Graph, thread_id: str = "t") -> list[Any]:
    return [state async for state in graph.aget_state_history({"configurable": {"thread_id": thread_id}})]


async def head(saver: FencedSaver, **more: Any) -> CheckpointTuple | None:
    return await saver.aget_tuple({"configurable": {"thread_id": "t", "checkpoint_ns": "", **more}})


async def test_savers_keep_langgraphs_contract_for_runs(database_config: AppConfig) -> None:
    @checkpointer_test(name="saver")
    async def opened() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        async with open_checkpointer(database_config) as saver:
            yield saver

    report = await validate(opened)
    assert report.passed_all_base(), report.to_dict()
    assert report.results["delete_for_runs"].passed, report.to_dict()


async def test_a_run_that_is_rolled_back_never_was(saver: FencedSaver) -> None:
    graph = echoing(saver)
    await graph.ainvoke(said("kept"), of_run("r1"))
    await graph.ainvoke(said("elsewhere"), of_run("r2", "other"))
    before, other = await states(graph), await states(graph, "other")
    await graph.ainvoke(said("gone"), of_run("r2"))
    await roll_back_checkpoints(saver, "t", "r2")
    assert await states(graph) == before
    assert await states(graph, "other") == other
    answered = await graph.ainvoke(said("again"), of_run("r3"))
    assert [m.content for m in answered["messages"]] == [
        "kept", "one", "two", "three", "again", "one", "two", "three",
    ]  # fmt: skip


async def test_the_first_run_of_a_thread_can_be_rolled_back(saver: FencedSaver) -> None:
    graph = echoing(saver)
    await graph.ainvoke(said("gone"), of_run("r1"))
    await roll_back_checkpoints(saver, "t", "r1")
    await roll_back_checkpoints(saver, "t", "never began")
    assert await states(graph) == []


async def test_a_run_from_an_older_checkpoint_is_rolled_back_to_the_newest(saver: FencedSaver) -> None:
    graph = echoing(saver)
    await graph.ainvoke(said("first"), of_run("r1"))
    older = (await graph.aget_state(of_run("r1"))).config["configurable"]["checkpoint_id"]
    await graph.ainvoke(said("second"), of_run("r2"))
    before = await states(graph)
    for value in (said("branch"), None):
        await graph.ainvoke(value, of_run("r3", checkpoint_id=older))
        await roll_back_checkpoints(saver, "t", "r3")
        assert await states(graph) == before


@pytest.mark.parametrize("remembered", [True, False])
async def test_a_question_is_open_again_after_its_answer_was_rolled_back(
    saver: FencedSaver, remembered: bool
) -> None:
    graph = asking_twice(saver)
    await graph.ainvoke(said("hello"), of_run("r1"))
    before, found = await states(graph), await head(saver)
    for answers in (["yes"], ["yes", "yes"]):
        for answer in answers:
            await graph.ainvoke(Command(resume=answer), of_run("r2"))
        await roll_back_checkpoints(saver, "t", "r2", found if remembered else None)
        after = await states(graph)
        assert [state.values for state in after] == [state.values for state in before]
        assert after[0].next == ("ask",)
        if remembered:
            assert after == before
        asked = await graph.ainvoke(None, of_run("r3"))
        assert asked["__interrupt__"][0].value == "1?"
    await graph.ainvoke(Command(resume="a"), of_run("r4"))
    answered = await graph.ainvoke(Command(resume="b"), of_run("r5"))
    assert [message.content for message in answered["messages"]] == ["hello", "a b", "done"]


async def test_an_earlier_answer_survives_a_later_one_that_is_rolled_back(saver: FencedSaver) -> None:
    graph = asking_twice(saver)
    await graph.ainvoke(said("hello"), of_run("r1"))
    await graph.ainvoke(Command(resume="a"), of_run("r2"))
    before, found = await states(graph), await head(saver)
    await graph.ainvoke(Command(resume="wrong"), of_run("r3"))
    await roll_back_checkpoints(saver, "t", "r3", found)
    assert await states(graph) == before
    answered = await graph.ainvoke(Command(resume="b"), of_run("r4"))
    assert answered["messages"][1].content == "a b"


async def test_a_copy_of_the_thread_is_left_alone(saver: FencedSaver) -> None:
    graph = echoing(saver)
    await graph.ainvoke(said("hello"), of_run("r1"))
    await copy_checkpoints(saver, "t", "copy")
    before = await states(graph, "copy")
    await roll_back_checkpoints(saver, "t", "r1")
    assert await states(graph, "copy") == before


async def test_nothing_of_the_run_stays_in_the_tables(lasting_config: AppConfig) -> None:
    def rows() -> dict[str, int]:
        engine = build_migration_engine(locate_database(lasting_config))
        tables = ["checkpoints", "writes"]
        if lasting_config.database.backend == "postgres":
            tables = ["checkpoints", "checkpoint_writes", "checkpoint_blobs"]
        with engine.connect() as connection:
            count = {name: connection.execute(text(f"SELECT count(*) FROM {name}")) for name in tables}
            found = {name: result.scalar_one() for name, result in count.items()}
        engine.dispose()
        return found

    async with open_checkpointer(lasting_config) as saver:
        graph = echoing(saver)
        await graph.ainvoke(said("kept"), of_run("r1"))
        before = rows()
        await graph.ainvoke(said("gone"), of_run("r2"))
        assert rows() != before
        await roll_back_checkpoints(saver, "t", "r2")
        assert rows() == before


async def test_a_run_writes_only_where_the_fence_lets_it(saver: FencedSaver) -> None:
    graph = echoing(saver)
    await graph.ainvoke(said("hello"), of_run("r1"))
    before, asked = await states(graph), []

    @asynccontextmanager
    async def fence(run_id: str | None) -> AsyncIterator[None]:
        asked.append(run_id)
        if run_id == "r2":
            raise RunLostError(run_id)
        yield

    saver.fence = fence
    with pytest.raises(RunLostError):
        await graph.ainvoke(said("late"), of_run("r2"))
    assert await states(graph) == before
    await graph.ainvoke(said("hello"), of_run("r3"))
    assert set(asked) == {"r2", "r3"}
