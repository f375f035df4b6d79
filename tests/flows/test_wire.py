"""Runs on a real client of a provider, over HTTP, against a server as strict as the strictest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support import tools
from support.hosts import answer, finished, start
from support.openai_server import Call, OpenAIServer, Turn, openai_server

from deerflow.config import config_from
from deerflow.host import Host, HostOptions, open_host
from deerflow.runs.active import ActiveRun

STREAMED, WHOLE = ("values", "messages-tuple"), ()
BOTH = pytest.mark.parametrize("modes", [STREAMED, WHOLE], ids=["streamed", "whole"])


def write(name: str, content: str = "", call_id: str | None = None) -> Call:
    return Call("write_file", json.dumps({"path": name, "content": content}), call_id or f"call-{name}")


HALF = Call("write_file", '{"path": "half", "content": "the first ha', "call-half")


@asynccontextmanager
async def wired(
    home: Path, server: OpenAIServer, *, attempts: int = 3, **options: Any
) -> AsyncIterator[Host]:
    """A host whose only model is the server's."""
    sections = {
        "models": [server.model(**options)],
        "database": {"backend": "memory"},
        "model_retry": {"initial_delay_seconds": 0.001, "max_retries": attempts - 1},
        "tools": [{"use": "support.tools:wait"}],
    }
    async with open_host(config_from(sections).based_in(home), HostOptions(drain_seconds=0.0)) as host:
        yield host


async def said(
    home: Path, turns: Sequence[Turn], modes: tuple[str, ...] = WHOLE, texts: Sequence[str] = ("hello",)
) -> tuple[ActiveRun, OpenAIServer]:
    """Say the texts on one thread; every run must end well, with every request accepted."""
    with openai_server(*turns) as server:
        async with wired(home, server) as host:
            run = await finished(host, texts[0], stream_modes=modes)
            for text in texts[1:]:
                run = await finished(host, text, stream_modes=modes, thread_id=run.thread_id)
                assert run.ending is not None and run.ending.error is None
    assert server.refused == []
    return run, server


def workspace(home: Path, run: ActiveRun) -> list[str]:
    folder = home / "threads" / run.thread_id / "workspace"
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def results(run: ActiveRun) -> list[Any]:
    return [message for message in run.values["messages"] if message.type == "tool"]


@BOTH
async def test_parallel_calls_arrive_in_pieces_and_run(tmp_path: Path, modes: tuple[str, ...]) -> None:
    both = Turn("I write both.", [write("a", "x" * 40), write("b", "y" * 60)])
    run, server = await said(tmp_path, [both, Turn("done")], modes)
    assert workspace(tmp_path, run) == ["a", "b"]
    assert answer(run) == "done"
    assert [message["role"] for message in server.requests[1]["messages"]] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
    ]
    assert run.scope is not None and run.scope.usage.total_tokens == 30


async def test_tokens_reach_the_stream_as_they_come(tmp_path: Path) -> None:
    text = "a text that is longer than one piece"
    run, _ = await said(tmp_path, [Turn(text)], STREAMED)
    pieces = [event.data[0]["content"] for event in run.log.after(0) if event.name == "messages"]
    assert "".join(pieces) == text
    assert len([piece for piece in pieces if piece]) > 3


@BOTH
@pytest.mark.parametrize("finish", ["tool_calls", "length"])
async def test_half_a_call_is_never_run_and_the_model_may_send_it_again(
    tmp_path: Path, modes: tuple[str, ...], finish: str
) -> None:
    turns = [Turn("", [HALF], finish=finish), Turn("", [write("whole")]), Turn("done")]
    run, _ = await said(tmp_path, turns, modes)
    assert workspace(tmp_path, run) == ["whole"]
    assert "could not be read" in results(run)[0].text
    assert answer(run) == "done"


@BOTH
@pytest.mark.parametrize("arguments", ["nonsense", '{"path: ', "{}}"])
async def test_calls_that_nobody_can_read_do_not_stop_those_beside_them(
    tmp_path: Path, modes: tuple[str, ...], arguments: str
) -> None:
    turns = [Turn("", [write("a"), Call("write_file", arguments, "b")]), Turn("done")]
    run, _ = await said(tmp_path, turns, modes, ["hello", "again"])
    assert workspace(tmp_path, run) == ["a"]
    assert {result.tool_call_id: result.status for result in results(run)} == {
        "call-a": "success",
        "b": "error",
    }


@BOTH
@pytest.mark.parametrize(
    "arguments",
    [
        *("[1, 2]", '"text"', "5", "true"),  # no object: a client that gets the answer whole cannot form it
        *('{"path": 1' + "0" * 30 + "}", "{" + '"path": {' * 400 + "}" * 401),  # what no checkpoint can hold
    ],
    ids=["list", "text", "number", "flag", "huge number", "deep"],
)
async def test_arguments_that_cannot_be_kept_do_not_end_the_run(
    tmp_path: Path, modes: tuple[str, ...], arguments: str
) -> None:
    turns = [Turn("", [Call("write_file", arguments)]), Turn("", [write("a")]), Turn("done")]
    run, _ = await said(tmp_path, turns, modes, ["hello", "again"])
    assert "could not be read" in results(run)[0].text
    assert workspace(tmp_path, run) == ["a"]


@BOTH
@pytest.mark.parametrize("call", [HALF, Call("write_file", "[5]")])
async def test_a_model_that_sends_nothing_readable_is_stopped(
    tmp_path: Path, modes: tuple[str, ...], call: Call
) -> None:
    run, server = await said(tmp_path, [Turn("", [call])], modes)
    assert len(server.requests) == 4
    assert answer(run).startswith("The model's tool calls could not be read")


@BOTH
@pytest.mark.parametrize("ids", [(None, None), ("same", "same"), ("", "x")])
async def test_missing_and_repeated_ids_join_nothing(
    tmp_path: Path, modes: tuple[str, ...], ids: tuple[str | None, str | None]
) -> None:
    calls = [Call("write_file", json.dumps({"path": str(n), "content": ""}), id) for n, id in enumerate(ids)]
    turns = [Turn("", calls), Turn("", calls), Turn("done")]
    run, _ = await said(tmp_path, turns, modes, ["hello", "again"])
    assert workspace(tmp_path, run) == ["0", "1"]
    assert len(results(run)) == 4


@BOTH
async def test_an_answer_without_a_word_does_not_spoil_the_thread(
    tmp_path: Path, modes: tuple[str, ...]
) -> None:
    run, _ = await said(tmp_path, [Turn("", finish="stop"), Turn("here")], modes, ["hello", "again"])
    assert answer(run) == "here"


@BOTH
async def test_a_safety_stop_runs_nothing_says_so_and_the_thread_goes_on(
    tmp_path: Path, modes: tuple[str, ...]
) -> None:
    filtered = Turn("", [HALF, write("other")], finish="content_filter")
    turns = [filtered, Turn("", finish="content_filter"), Turn("fine")]
    run, _ = await said(tmp_path, turns, modes, ["hello", "again", "third"])
    assert workspace(tmp_path, run) == []
    first, second, third = (m.text for m in run.values["messages"] if m.type == "ai")
    assert first == second and "safety filter" in first
    assert third == "fine"


@BOTH
async def test_half_characters_end_nothing(tmp_path: Path, modes: tuple[str, ...]) -> None:
    odd = Turn("odd \ud835 text", [Call("write_file", '{"path": "a\\ud835", "content": ""}', "a")])
    run, _ = await said(tmp_path, [odd, Turn("done")], modes, ["hello", "again"])
    assert workspace(tmp_path, run) == []
    assert "odd \ufffd text" in [message.content for message in run.values["messages"]]


@BOTH
async def test_passing_failures_are_tried_again(tmp_path: Path, modes: tuple[str, ...]) -> None:
    run, server = await said(tmp_path, [Turn(status=429), Turn(status=503), Turn("done")], modes)
    assert answer(run) == "done"
    assert len(server.requests) == 3


@pytest.mark.parametrize(("status", "requests"), [(500, 3), (429, 3), (401, 1), (400, 1)])
async def test_other_failures_end_the_run_after_the_attempts_that_make_sense(
    tmp_path: Path, status: int, requests: int
) -> None:
    with openai_server(Turn("the provider says no", status=status)) as server:
        async with wired(tmp_path, server) as host:
            run = await finished(host, "hello")
    assert len(server.requests) == requests
    assert run.ending is not None and run.ending.error is not None
    assert "the provider says no" in run.ending.error[1]


async def test_a_slow_answer_times_out_and_is_asked_for_again(tmp_path: Path) -> None:
    with openai_server(Turn("late", delay_seconds=60), Turn("in time")) as server:
        # Where the machine stands still, the next one may be late as well: then there is one more.
        async with wired(tmp_path, server, timeout=0.3, attempts=12) as host:
            assert answer(await finished(host, "hello")) == "in time"
    assert len(server.requests) >= 2


async def test_a_stream_that_breaks_off_is_asked_for_again(tmp_path: Path) -> None:
    broken = Turn("a text that is never whole", [HALF], cut_after=4)
    run, server = await said(tmp_path, [broken, Turn("whole")], STREAMED)
    assert [message.text for message in run.values["messages"]] == ["hello", "whole"]
    assert len(server.requests) == 2


@BOTH
async def test_the_turn_after_a_stop_between_two_tools_is_accepted(
    tmp_path: Path, modes: tuple[str, ...]
) -> None:
    tools.began.clear()
    calls = [
        Call("wait", '{"name": "long"}', "long"),
        Call("wait", '{"name": "short", "seconds": 0}', "short"),
    ]
    with openai_server(Turn("", calls), Turn("next")) as server:
        async with wired(tmp_path, server) as host:
            run = await start(host, "hello", stream_modes=modes)
            async with asyncio.timeout(30):
                while len(tools.began) < 2:
                    await asyncio.sleep(0.001)
            await asyncio.sleep(0.02)
            await host.runs.stop(run.run_id)
            after = await finished(host, "again", thread_id=run.thread_id, stream_modes=modes)
            assert answer(after) == "next"
            thread = await host.database.stores.threads.get(run.thread_id)
            assert thread is not None
            state = await host.states.read(thread)
    assert server.refused == []
    sent = server.requests[1]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "tool", "user"]
    assert "stopped before it had a result" in sent[3]["content"]
    assert state.values["messages"][-1].text == "next"


async def test_a_subagent_talks_over_the_wire_too(tmp_path: Path) -> None:
    order = json.dumps({"prompt": "inner", "subagent_type": "general-purpose"})

    def script(body: dict[str, Any]) -> Turn:
        messages = body["messages"]
        if messages[1]["content"] == "inner":
            return Turn("inner result")
        if messages[-1]["role"] == "tool":
            return Turn("; ".join(m["content"] for m in messages if m["role"] == "tool"))
        return Turn("", [Call("task", order, "a"), Call("task", order, "b")])

    with openai_server(script) as server:
        async with wired(tmp_path, server) as host:
            said_by_lead = answer(await finished(host, "hello"))
    assert said_by_lead == "Task Succeeded. Result: inner result; Task Succeeded. Result: inner result"
    assert server.refused == []
