from __future__ import annotations

import asyncio
from typing import Any, ClassVar

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.store.memory import InMemoryStore
from support.agents import ListModel
from support.loop_clock import put_forward
from support.observers import Observed, observing

from deerflow.agents.system_calls import SystemModels
from deerflow.config import config_from
from deerflow.extensions import LoadedExtensions, register_notification_loop
from deerflow.runs.memory import Conversation, FlushReport, MemoryService


class Noting(ListModel):
    """Notes the conversation's last word as a fact; `hang` and `fail` in it do that."""

    turns: list[Any] = []
    asked: ClassVar[list[str]] = []
    at_work: ClassVar[int] = 0
    most_at_work: ClassVar[int] = 0

    async def _agenerate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        prompt = messages[-1].text
        kind = type(self)
        kind.asked.append(prompt)
        kind.at_work += 1
        kind.most_at_work = max(kind.most_at_work, kind.at_work)
        try:
            await asyncio.sleep(0.01)
            if "hang" in prompt.partition("<conversation>")[2]:
                await asyncio.get_running_loop().create_future()
            if "fail" in prompt:
                raise RuntimeError("no quota")
        finally:
            kind.at_work -= 1
        word = prompt.split("</user>")[-2].split()[-1]
        return ChatResult(generations=[ChatGeneration(message=AIMessage(f'{{"facts": ["{word}"]}}'))])


@pytest.fixture(autouse=True)
def _fresh_model() -> None:
    Noting.asked.clear()
    Noting.most_at_work = 0


def service(debounce_seconds: float = 0.05, store: InMemoryStore | None = None) -> MemoryService:
    config = config_from(
        {
            "models": [{"name": "noting", "use": f"{__name__}:Noting"}],
            "memory": {"enabled": True, "debounce_seconds": debounce_seconds},
        }
    )
    return MemoryService(config, store or InMemoryStore(), SystemModels(config))


def said(
    text: str, *, user: str | None = "ada", thread: str = "t", loaded: LoadedExtensions | None = None
) -> Conversation:
    messages = [
        HumanMessage(f"I say {text}"),
        ToolMessage("from the web", tool_call_id="1"),
        AIMessage("fine"),
    ]
    return Conversation(user, thread, loaded or LoadedExtensions(), messages)


async def until(condition: Any) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.005)


async def test_a_quiet_thread_is_read_once_with_all_its_exchanges() -> None:
    memory = service()
    for word in ("one", "two", "three"):
        memory.queue(said(word))
    await until(lambda: Noting.asked)
    await memory.flush(20)
    (prompt,) = Noting.asked
    assert all(f"I say {word}" in prompt for word in ("one", "two", "three"))
    assert "from the web" not in prompt
    assert "- three" in await memory.known("ada") and await memory.known("bob") == ""


async def test_threads_and_users_are_read_on_their_own() -> None:
    memory = service(debounce_seconds=100)
    memory.queue(said("one"))
    memory.queue(said("two", thread="other"))
    memory.queue(said("three", user=None))
    assert await memory.flush(20) == FlushReport(read=3)
    assert {line for line in (await memory.known("ada")).splitlines() if line.startswith("- ")} == {
        "- one",
        "- two",
    }
    assert "- three" in await memory.known(None) and "- three" in await memory.known("local")


async def test_each_reading_is_told_what_is_known() -> None:
    memory = service(debounce_seconds=100)
    for number in range(4):
        memory.queue(said(f"word{number}", thread=f"t{number}"))
    await memory.flush(20)
    assert [prompt.count("\n1. ") for prompt in Noting.asked] == [0, 1, 1, 1]


async def test_few_are_read_at_once() -> None:
    memory = service(debounce_seconds=100)
    for number in range(8):
        memory.queue(said("word", user=f"user{number}"))
    assert await memory.flush(20) == FlushReport(read=8)
    assert Noting.most_at_work == 2


async def test_flush_waits_for_what_is_being_read_and_counts_failures(
    caplog: pytest.LogCaptureFixture,
) -> None:
    memory = service(debounce_seconds=0.3)
    memory.queue(said("early", thread="early"))
    await until(lambda: Noting.asked)
    memory.queue(said("fail", thread="bad"))
    memory.queue(said("late", thread="late"))
    report = await memory.flush(20)
    assert report.failed == 1 and report.given_up == 0
    known = await memory.known("ada")
    assert "- early" in known and "- late" in known
    assert "reading thread bad for facts failed (RuntimeError: no quota)" in caplog.text
    assert "1 could not be read" in caplog.text


def readings() -> int:
    """How many conversations are being read."""
    return sum(work.get_name().startswith("memory of thread") for work in asyncio.all_tasks())


async def test_flush_gives_up_at_its_time_limit_and_leaves_nothing_running() -> None:
    memory = service(debounce_seconds=100)
    before = asyncio.all_tasks()
    memory.queue(said("hang"))
    memory.queue(said("word", user="bob"))
    flushing = asyncio.create_task(memory.flush(30))
    await until(lambda: len(Noting.asked) == 2 and readings() == 1)
    put_forward(asyncio.get_running_loop(), 40)  # beyond the limit, and not that of the model's answer
    assert await flushing == FlushReport(read=1, given_up=1)
    assert asyncio.all_tasks() == before
    assert await memory.flush(30) == FlushReport()


async def test_readings_are_told_with_a_detached_store_until_observations_stop() -> None:
    observed = Observed()
    loop = register_notification_loop()
    try:
        memory = service(debounce_seconds=100)
        memory.queue(said("one", loaded=observing(observed)))
        await memory.flush(20)
        await loop.drain(20)
        assert [(call.store_id, call.kind) for call in observed.calls] == [("detached", "memory")]
        loop.stop_accepting()
        memory.queue(said("two", loaded=observing(observed)))
        assert await memory.flush(20) == FlushReport(read=1)
        await loop.drain(20)
        assert len(observed.calls) == 1
    finally:
        loop.release()


async def test_what_nobody_said_is_not_read() -> None:
    memory = service()
    memory.queue(Conversation("ada", "t", LoadedExtensions(), [AIMessage("greeting")]))
    assert await memory.flush(1) == FlushReport() and not Noting.asked
