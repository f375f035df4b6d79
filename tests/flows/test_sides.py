"""Synchronous and asynchronous tools and models work through every entry, for whoever called."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from blockbuster import blockbuster_ctx
from deerflow_extension_api import (
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import tool
from support import models, tools
from support.extensions import installed
from support.gateways import answer as http_answer
from support.gateways import gateway
from support.hosts import answer, delegation, finished, scripted_host, start

from deerflow.agents import make_lead_agent
from deerflow.agents.fold import fold
from deerflow.client import DeerFlowClient
from deerflow.config import config_from
from deerflow.extensions import LoadedExtensions
from deerflow.models import ScriptedChatModel

NAMES = ("search", "fetch", "lookup")
CONFIGURED = [{"use": f"support.tools:{name}"} for name in NAMES]
MODELS = ("deerflow.models:ScriptedChatModel", "support.models:SyncModel", "support.models:AsyncModel")


@tool
def blocking() -> str:
    """Contributed, synchronous only."""
    tools.threads.append(threading.current_thread().name)
    return f"blocked for {tools.user.get()}"


@tool
async def waiting() -> str:
    """Contributed, asynchronous only."""
    await asyncio.sleep(0)
    return f"waited for {tools.user.get()}"


class Bringing(AgentMiddleware[Any, Any]):
    tools = (blocking, waiting)


class Contributor(MiddlewareContributor):
    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(Bringing(), Placement.STANDARD),)


ALL = [{"name": name, "args": {}} for name in (*NAMES, "blocking", "waiting")]
RULES: list[dict[str, Any]] = [
    {"when": "^use", "turns": [{"tool_calls": [*ALL, delegation("inner", "a")]}, {"text": "{tool_results}"}]},
    {"when": "^inner", "turns": [{"tool_calls": ALL}, {"text": "{tool_results}"}]},
]


def expected(user: str = "nobody") -> str:
    lines = [
        f"found  for {user}",
        f"fetched  for {user}",
        f"looked up  for {user}",
        f"blocked for {user}",
        f"waited for {user}",
    ]
    return "\n".join([*lines, f"Task Succeeded. Result: {lines[0]}", *lines[1:]])


def sections(use: str, rules: Sequence[dict[str, Any]] = RULES) -> dict[str, Any]:
    return {
        "models": [{"name": "m", "use": use, "rules": list(rules)}],
        "tools": CONFIGURED,
        "database": {"backend": "memory"},
    }


@pytest.fixture(autouse=True)
def contributed() -> Iterator[None]:
    tools.threads.clear()
    models.threads.clear()
    with installed(LoadedExtensions(middleware_contributors=(("acme:install", Contributor()),))):
        yield


def ran_off_the_loop() -> bool:
    names = {*tools.threads, *models.threads}
    return threading.main_thread().name not in names and "deerflow client" not in names


@pytest.mark.parametrize("use", MODELS)
async def test_on_the_run_path_nothing_blocks_the_loop(tmp_path: Path, use: str) -> None:
    config = sections(use)
    async with scripted_host(tmp_path, **config) as host:
        await host.assembler.lead(LoadedExtensions(), (await finished(host, "warm up")).options)
        with blockbuster_ctx():
            assert answer(await finished(host, "use")) == expected()
    assert ran_off_the_loop()


@pytest.mark.parametrize("use", MODELS)
def test_through_the_clients_synchronous_face(tmp_path: Path, use: str) -> None:
    with DeerFlowClient(config_from(sections(use)).based_in(tmp_path)) as client:
        assert client.chat("use") == expected()
    assert ran_off_the_loop()


@pytest.mark.parametrize("use", MODELS)
async def test_through_the_clients_async_face(tmp_path: Path, use: str) -> None:
    async with DeerFlowClient(config_from(sections(use)).based_in(tmp_path)) as client:
        assert await client.achat("use") == expected()


async def test_through_the_gateway(tmp_path: Path) -> None:
    async with gateway(tmp_path, RULES, tools=CONFIGURED) as client:
        with installed(LoadedExtensions(middleware_contributors=(("acme:install", Contributor()),))):
            assert http_answer(await client.say(await client.thread(), "use")) == expected()


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """A function that gives the plain graph on a model."""

    def graph(use: str) -> Any:
        file = tmp_path / "config.yaml"
        file.write_text(yaml.safe_dump(sections(use)))
        monkeypatch.setenv("DEER_FLOW_CONFIG_PATH", str(file))
        monkeypatch.setenv("DEER_FLOW_HOME", str(tmp_path))
        return make_lead_agent({})

    return graph


GIVEN = {"messages": [("user", "use")]}


@pytest.mark.parametrize("use", MODELS)
def test_through_the_plain_graph_for_callers_that_block(plain: Callable[[str], Any], use: str) -> None:
    token = tools.user.set("alice")
    try:
        state = plain(use).invoke(GIVEN)
    finally:
        tools.user.reset(token)
    assert state["messages"][-1].text == expected("alice")


@pytest.mark.parametrize("use", MODELS)
async def test_through_the_plain_graph_for_async_callers(plain: Callable[[str], Any], use: str) -> None:
    state = await plain(use).ainvoke(GIVEN)
    assert state["messages"][-1].text == expected()


async def test_a_blocking_call_of_the_plain_graph_inside_a_loop_ends(plain: Callable[[str], Any]) -> None:
    assert plain(MODELS[2]).invoke(GIVEN)["messages"][-1].text == expected()


def test_each_callers_context_variables_reach_its_tools_and_subagents(tmp_path: Path) -> None:
    users = ("alice", "bob")
    meeting = threading.Barrier(len(users), timeout=20)
    with DeerFlowClient(config_from(sections(MODELS[0])).based_in(tmp_path)) as client:

        def chat(user: str) -> list[str]:
            tools.user.set(user)
            meeting.wait()
            return [client.chat("use") for _ in range(3)]

        with ThreadPoolExecutor(2) as pool:
            jobs = [pool.submit(contextvars.copy_context().run, chat, user) for user in users]
            said = [job.result() for job in jobs]
    assert said == [[expected(user)] * 3 for user in users]


async def test_each_tasks_context_variables_reach_its_tools_and_subagents(tmp_path: Path) -> None:
    async with DeerFlowClient(config_from(sections(MODELS[0])).based_in(tmp_path)) as client:

        async def chat(user: str) -> str:
            tools.user.set(user)
            return await client.achat("use")

        said = await asyncio.gather(chat("alice"), chat("bob"))
        events = [event async for event in client.astream("use")]
    assert said == [expected("alice"), expected("bob")]
    assert events[-2].data["messages"][-1]["content"] == expected()


async def test_a_waiting_run_keeps_the_context_of_whoever_asked(tmp_path: Path) -> None:
    async with scripted_host(tmp_path, **sections(MODELS[0])) as host:
        tools.user.set("alice")
        first = await start(host, "use")
        tools.user.set("bob")
        second = await start(host, "use", thread_id=first.thread_id)
        tools.user.set("carol")
        await asyncio.gather(first.ended.wait(), second.ended.wait())
    assert [answer(first), answer(second)] == [expected("alice"), expected("bob")]


async def test_many_blocking_tools_run_side_by_side_and_hold_nobody_up(tmp_path: Path) -> None:
    calls = [{"name": "meet", "args": {}} for _ in range(24)]
    rule = {"when": "^meet", "turns": [{"tool_calls": calls}, {"text": "met"}]}
    config = {**sections(MODELS[0], [rule]), "tools": [{"use": "support.tools:meet"}]}
    async with scripted_host(tmp_path, **config) as host:
        slow = await start(host, "meet")
        async with asyncio.timeout(20):
            while tools.meeting.n_waiting < 24:
                await asyncio.sleep(0.002)
        assert (await finished(host, "hello")).ending is not None
        await asyncio.to_thread(tools.meeting.wait)
        await slow.ended.wait()
    assert answer(slow) == "met"


async def test_a_synchronous_tool_gets_what_the_host_injects(tmp_path: Path) -> None:
    call = {"name": "injected", "args": {"word": "x"}, "id": "call-1"}
    rule = {"when": "^inject", "turns": [{"tool_calls": [call]}, {"text": "{tool_results}"}]}
    config = {**sections(MODELS[0], [rule]), "tools": [{"use": "support.tools:injected"}]}
    async with scripted_host(tmp_path, **config) as host:
        assert answer(await finished(host, "inject")) == "x call-1 2 ok"


class Looping(AgentMiddleware[Any, Any]):
    """Asynchronous only; keeps the event loops that its hook ran on."""

    def __init__(self) -> None:
        super().__init__()
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def awrap_model_call(self, request: Any, handler: Any) -> Any:
        self.loops.append(asyncio.get_running_loop())
        return await handler(request)


def test_async_hooks_of_blocking_callers_share_one_loop() -> None:
    # What a model's client keeps open between two of their calls belongs to the loop of the first.
    looping = Looping()
    graph = create_agent(
        ScriptedChatModel(rules=[{"when": "", "turns": [{"text": "hi"}]}]), middleware=fold([looping])
    )
    for _ in range(2):
        graph.invoke(GIVEN)
    first, second = looping.loops
    assert first is second and first.is_running()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("leave", "it tried to end the process (3)"),
        ("leave_awaited", "it tried to end the process (4)"),
        ("leaving", "it tried to end the process (5)"),
        ("panic", "it raised Panic: out of order"),
        ("panic_awaited", "it raised Panic: out of order"),
    ],
)
async def test_a_tool_that_tries_to_end_the_process_has_failed(tmp_path: Path, name: str, said: str) -> None:
    leave = [{"tool_calls": [{"name": name, "args": {}}]}, {"text": "{tool_results}"}]
    rules = [
        {"when": "^leave", "turns": leave},
        {
            "when": "^delegate",
            "turns": [{"tool_calls": [delegation("leave", "a")]}, {"text": "{tool_results}"}],
        },
    ]
    config = {**sections(MODELS[0], rules), "tools": [{"use": f"support.tools:{name}"}]}
    async with scripted_host(tmp_path, **config) as host:
        own = answer(await finished(host, "leave"))
        of_subagent = answer(await finished(host, "delegate"))
    assert own == f"{name} failed: ToolExitError: {said}"
    assert of_subagent == f"Task Succeeded. Result: {own}"


_STUCK = """
import threading
import time
from deerflow.client import DeerFlowClient
from langchain_core.tools import tool
import sys, types

began = threading.Event()

@tool
def hang() -> str:
    "Hang."
    began.set()
    time.sleep(600)

module = types.ModuleType("stuck")
module.hang = hang
sys.modules["stuck"] = module
rules = [{"when": "", "turns": [{"text": "go", "tool_calls": [{"name": "hang", "args": {}}]}]}]
model = {"name": "m", "use": "deerflow.models:ScriptedChatModel", "rules": rules}
config = {"models": [model], "tools": [{"use": "stuck:hang"}], "database": {"backend": "memory"}}
client = DeerFlowClient(config)
for event in client.stream("hello"):
    if event.type == "values" and event.data["messages"][-1]["type"] == "ai":
        assert began.wait(30)
        break
client.close()
print("closed")
"""


def test_a_tool_that_hangs_keeps_neither_the_client_nor_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _STUCK], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr
