"""Graphs keep their state on every backend, and give up none of it when they are cancelled."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.base import BaseCheckpointSaver, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.graph import MessagesState, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Command, interrupt
from support.records import start_run
from typing_extensions import TypedDict

from deerflow.config import AppConfig
from deerflow.persistence import (
    copy_checkpoints,
    delete_checkpoints,
    open_checkpointer,
    open_database,
    prune_checkpoints,
)


@dataclass
class Note:
    text: str


class NoteState(TypedDict):
    note: Any


def config_of(thread_id: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id, **more}}


def asking_graph(saver: BaseCheckpointSaver[Any]) -> CompiledStateGraph[Any, Any, Any, Any]:
    """A graph that asks a person and repeats the answer."""
    builder = StateGraph(MessagesState)
    builder.add_node("ask", lambda state: {"messages": [("ai", f"you said {interrupt('what?')}")]})
    builder.set_entry_point("ask")
    return builder.compile(checkpointer=saver)


async def test_savers_keep_langgraphs_contract(database_config: AppConfig) -> None:
    @checkpointer_test(name="saver")
    async def opened() -> AsyncIterator[BaseCheckpointSaver[Any]]:
        async with open_checkpointer(database_config) as saver:
            yield saver

    report = await validate(opened)
    assert report.passed_all_base(), report.to_dict()


async def test_an_interrupted_graph_goes_on_after_a_restart(
    lasting_config: AppConfig, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with open_checkpointer(lasting_config) as saver:
        asked = await asking_graph(saver).ainvoke({"messages": [HumanMessage("hello")]}, config_of("t"))
        assert asked["__interrupt__"][0].value == "what?"
    async with open_checkpointer(lasting_config) as saver:
        graph = asking_graph(saver)
        answered = await graph.ainvoke(Command(resume="yes"), config_of("t"))
        assert answered["messages"][-1].content == "you said yes"
        history = [state async for state in graph.aget_state_history(config_of("t"))]
        assert len(history) == 4 - 1
    assert caplog.records == []


async def test_only_known_types_are_rebuilt(
    database_config: AppConfig, caplog: pytest.LogCaptureFixture
) -> None:
    for allowed, rebuilt in (((), False), ((Note,), True)):
        async with open_checkpointer(database_config, allowed_types=allowed) as saver:
            checkpoint = empty_checkpoint()
            checkpoint["channel_values"] = {"note": Note("n")}
            checkpoint["channel_versions"] = {"note": "1"}
            where = config_of(f"t{rebuilt}", checkpoint_ns="")
            await saver.aput(where, checkpoint, {}, {"note": "1"})
            found = await saver.aget_tuple(where)
            assert found is not None
            assert isinstance(found.checkpoint["channel_values"]["note"], Note) is rebuilt


async def test_deleting_a_threads_checkpoints_leaves_the_others(database_config: AppConfig) -> None:
    async with open_checkpointer(database_config) as saver:
        graph = asking_graph(saver)
        for thread_id in ("gone", "kept"):
            await graph.ainvoke({"messages": [HumanMessage("hello")]}, config_of(thread_id))
        await delete_checkpoints(saver, "gone")
        assert (await graph.aget_state(config_of("gone"))).values == {}
        assert (await graph.aget_state(config_of("kept"))).values["messages"][0].content == "hello"


async def test_copied_checkpoints_are_a_thread_of_their_own(database_config: AppConfig) -> None:
    async with open_checkpointer(database_config) as saver:
        graph = asking_graph(saver)
        await graph.ainvoke({"messages": [HumanMessage("hello")]}, config_of("first"))
        await graph.ainvoke(Command(resume="yes"), config_of("first"))
        await graph.ainvoke({"messages": [HumanMessage("again")]}, config_of("first"))
        before = [state async for state in graph.aget_state_history(config_of("first"))]
        assert await copy_checkpoints(saver, "first", "second") == len(before)
        await graph.ainvoke(Command(resume="both"), config_of("second"))
        assert [state async for state in graph.aget_state_history(config_of("first"))] == before
        copied = [state async for state in graph.aget_state_history(config_of("second"))]
        assert [state.values for state in copied][1:] == [state.values for state in before]
        assert copied[0].values["messages"][-1].content == "you said both"
        assert [state.created_at for state in copied][1:] == [state.created_at for state in before]
        assert await copy_checkpoints(saver, "unknown", "third") == 0


async def test_pruned_threads_keep_their_state_and_go_on(database_config: AppConfig) -> None:
    async with open_checkpointer(database_config) as saver:
        graph = asking_graph(saver)
        for thread_id in ("pruned", "kept"):
            await graph.ainvoke({"messages": [HumanMessage("hello")]}, config_of(thread_id))
            await graph.ainvoke(Command(resume="yes"), config_of(thread_id))
            await graph.ainvoke({"messages": [HumanMessage("again")]}, config_of(thread_id))
        before = (await graph.aget_state(config_of("pruned"))).values
        await prune_checkpoints(saver, "pruned")
        (left,) = [state async for state in graph.aget_state_history(config_of("pruned"))]
        assert left.values == before
        assert left.parent_config is None
        answered = await graph.ainvoke(Command(resume="still"), config_of("pruned"))
        assert answered["messages"][-1].content == "you said still"
        assert len([state async for state in graph.aget_state_history(config_of("kept"))]) > 3


async def test_long_histories_come_in_order_and_up_to_the_limit(database_config: AppConfig) -> None:
    async with open_checkpointer(database_config) as saver:
        made = []
        for step in range(120):
            checkpoint = empty_checkpoint()
            await saver.aput(config_of("t", checkpoint_ns=""), checkpoint, {"step": step}, {})
            made.append(checkpoint["id"])
        for limit, expected in ((None, 120), (0, 0), (1, 1), (50, 50), (100, 100), (119, 119), (500, 120)):
            if limit == 0 and database_config.database.backend != "sqlite":
                continue  # a limit of nothing means everything to LangGraph's other savers
            found = [item async for item in saver.alist(config_of("t"), limit=limit)]
            assert [item.config["configurable"]["checkpoint_id"] for item in found] == made[::-1][:expected]
        before = [item async for item in saver.alist(config_of("t"), filter={"step": 7})]
        assert [item.metadata["step"] for item in before] == [7]


async def test_cancelled_steps_hold_no_lock(lasting_config: AppConfig) -> None:
    """A person pressing stop at any moment must not leave the database locked for everybody."""
    async with open_database(lasting_config) as database, open_checkpointer(lasting_config) as saver:
        graph = asking_graph(saver)
        for turn in range(30):
            task = asyncio.create_task(
                graph.ainvoke({"messages": [HumanMessage("x")]}, config_of(f"t{turn % 3}"))
            )
            await asyncio.sleep(turn / 4000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.wait_for(start_run(database), 20)
        asked = await graph.ainvoke({"messages": [HumanMessage("hello")]}, config_of("fresh"))
        assert asked["__interrupt__"][0].value == "what?"


async def test_many_runs_share_a_saver(lasting_config: AppConfig) -> None:
    async with open_checkpointer(lasting_config) as saver:
        graph = asking_graph(saver)
        asked = await asyncio.gather(
            *(graph.ainvoke({"messages": [HumanMessage(str(n))]}, config_of(f"t{n}")) for n in range(20))
        )
        assert [state["messages"][0].content for state in asked] == [str(n) for n in range(20)]
        answered = await asyncio.gather(
            *(graph.ainvoke(Command(resume=n), config_of(f"t{n}")) for n in range(20))
        )
        assert [state["messages"][-1].content for state in answered] == [f"you said {n}" for n in range(20)]


async def test_text_that_no_database_holds_does_not_end_a_run(database_config: AppConfig) -> None:
    async with open_checkpointer(database_config) as saver:
        builder = StateGraph(NoteState)
        builder.add_node("keep", lambda state: {"note": state["note"] + "!"})
        builder.set_entry_point("keep")
        graph = builder.compile(checkpointer=saver)
        for text in ("a\x00b", "a\ud800b"):
            config = {**config_of("t"), "metadata": {"said": text}}
            assert (await graph.ainvoke({"note": text}, config))["note"] == text + "!"
            assert "a" in (await graph.aget_state(config_of("t"))).values["note"]


async def test_a_closed_saver_says_so(lasting_config: AppConfig) -> None:
    async with open_checkpointer(lasting_config) as saver:
        pass
    with pytest.raises(Exception, match="closed"):
        await saver.aget_tuple(config_of("t", checkpoint_ns=""))
