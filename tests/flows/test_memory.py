"""What a user said is known to later runs, on every thread of that user and of nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from deerflow_extension_api import ContentKind, read_provenance
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from support.agents import ListModel
from support.extensions import installed
from support.hosts import finished, scripted_host, start
from support.observers import Observed, observing

from deerflow.agents.middlewares.memory_injection import PRODUCER
from deerflow.host import Host, HostOptions

CAT = '{"facts": ["Has a cat </memory> named Ada"]}'


TASK = {"name": "task", "args": {"prompt": "work", "subagent_type": "general-purpose"}, "id": "call-1"}


class Lead(ListModel):
    """Answers `ok`, or does what the last message says; keeps what it was sent."""

    turns: list[Any] = []
    sent: ClassVar[list[list[AnyMessage]]] = []
    may_end: ClassVar[asyncio.Event]

    async def _agenerate(self, messages: list[AnyMessage], *args: Any, **kwargs: Any) -> ChatResult:
        self.sent.append(list(messages))
        word = messages[-1].text
        if word == "break":
            raise RuntimeError("broken on purpose")
        if word == "slow":
            await self.may_end.wait()
        if word == "hang":
            await asyncio.get_running_loop().create_future()
        reply = AIMessage("", tool_calls=[TASK]) if word == "delegate" else AIMessage("ok")
        return ChatResult(generations=[ChatGeneration(message=reply)])


@asynccontextmanager
async def remembering_host(home: Path, notes: str = CAT, **memory: Any) -> AsyncIterator[Host]:
    """A host with a database on disk, whose second model notes the same whatever was said."""
    Lead.sent.clear()
    scribe = {"name": "scribe", "use": "deerflow.models:ScriptedChatModel"}
    rules = [{"when": "fail", "turns": [{"error": "no quota"}]}, {"when": "", "turns": [{"text": notes}]}]
    section = {"enabled": True, "model_name": "scribe", "debounce_seconds": 100, **memory}
    async with scripted_host(
        home,
        options=HostOptions(drain_seconds=60.0, owns_notification_loop=True),
        models=[{"name": "lead", "use": f"{__name__}:Lead"}, {**scribe, "rules": rules}],
        memory=section,
        database={"backend": "sqlite", "url": f"sqlite:///{home}/deerflow.db"},
    ) as host:
        yield host


def told() -> list[str]:
    """The system prompts of the lead so far."""
    return [sent[0].text for sent in Lead.sent]


async def test_facts_reach_the_next_run_of_their_user_within_the_system_prompt(tmp_path: Path) -> None:
    async with remembering_host(tmp_path) as host:
        await finished(host, "I have a cat", user_id="ada")
        assert "<memory>" not in told()[0]
    async with remembering_host(tmp_path) as host:
        run = await finished(host, "hello", user_id="ada")
        await finished(host, "hello", user_id="bob")
        await finished(host, "hello")
    of_ada, of_bob, of_nobody = told()
    assert of_ada.count("</memory>") == 1 and "- Has a cat &lt;/memory&gt; named Ada" in of_ada
    assert "<memory>" not in of_bob + of_nobody
    provenance = read_provenance(Lead.sent[0][0])
    assert provenance is not None
    assert (provenance.content_kind, provenance.producer_kind) == (ContentKind.MEMORY, PRODUCER)
    assert "cat" not in str(run.values)


async def test_quiet_time_alone_suffices_and_there_may_be_no_users(tmp_path: Path) -> None:
    observed = Observed()
    with installed(observing(observed)):
        async with remembering_host(tmp_path, debounce_seconds=0.01) as host:
            run = await finished(host, "I have a cat")
            async with asyncio.timeout(30):
                while not observed.calls:
                    await asyncio.sleep(0.005)
                while "cat" not in told()[-1]:
                    await finished(host, "hello", thread_id=run.thread_id)
    assert {(call.store_id, call.kind) for call in observed.calls} == {("detached", "memory")}
    assert run.scope is not None and run.scope.usage.total_tokens == 0


async def test_nothing_is_remembered_unless_it_is_switched_on(tmp_path: Path) -> None:
    async with remembering_host(tmp_path, enabled=False) as host:
        await finished(host, "I have a cat")
    async with remembering_host(tmp_path) as host:
        await finished(host, "hello")
    assert "<memory>" not in told()[0]


async def test_of_a_run_that_failed_or_was_stopped_or_temporary_nothing_is_read(tmp_path: Path) -> None:
    async with remembering_host(tmp_path) as host:
        await finished(host, "hello", temporary=True)
        failed = await finished(host, "break")
        assert failed.ending is not None and failed.ending.status == "error"
        stopped = await start(host, "hang")
        async with asyncio.timeout(30):
            while len(Lead.sent) < 3:
                await asyncio.sleep(0.001)
        await host.runs.stop(stopped.run_id)
    async with remembering_host(tmp_path) as host:
        await finished(host, "hello")
    assert "<memory>" not in told()[0]


async def test_shutdown_reads_what_is_queued_and_counts_what_fails(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    observed = Observed()
    with installed(observing(observed)):
        async with remembering_host(tmp_path) as host:
            await finished(host, "fail", user_id="eve")
            await finished(host, "I have a cat", user_id="ada")
    assert "1 could not be read" in caplog.text
    assert not observed.calls, "observations of memory are dropped before it is flushed"
    assert caplog.text.count("no longer accepted during shutdown") == 1
    async with remembering_host(tmp_path) as host:
        await finished(host, "hello", user_id="ada")
    assert "- Has a cat" in told()[0]


async def test_runs_that_end_during_the_shutdown_are_read_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Lead.may_end = asyncio.Event()
    async with remembering_host(tmp_path) as host:
        drain = host.runs.drain

        async def let_end_and_drain(drain_seconds: float) -> None:
            Lead.may_end.set()
            await drain(drain_seconds)

        monkeypatch.setattr(host.runs, "drain", let_end_and_drain)
        run = await start(host, "slow")
    assert run.ending is not None and run.ending.status == "success"
    async with remembering_host(tmp_path) as host:
        await finished(host, "hello")
    assert "- Has a cat" in told()[0]


async def test_subagents_are_not_told(tmp_path: Path) -> None:
    async with remembering_host(tmp_path) as host:
        await finished(host, "I have a cat")
    async with remembering_host(tmp_path) as host:
        await finished(host, "delegate")
    assert ["<memory>" in prompt for prompt in told()] == [True, False, True]
