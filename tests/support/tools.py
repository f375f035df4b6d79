"""Tools of an application, for `tools:` of a configuration."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any

from langchain.tools import ToolRuntime
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, StructuredTool, tool
from langgraph.types import interrupt
from pydantic import Field

user: contextvars.ContextVar[str] = contextvars.ContextVar("user", default="nobody")
threads: list[str] = []
"""Names of the threads that ran a synchronous tool."""


@tool
def search(query: str = "") -> str:
    """Search."""
    threads.append(threading.current_thread().name)
    return f"found {query} for {user.get()}"


@tool
async def fetch(query: str = "") -> str:
    """Fetch, asynchronously only."""
    await asyncio.sleep(0)
    return f"fetched {query} for {user.get()}"


@tool
async def wait(name: str = "", seconds: float = 30.0) -> str:
    """Wait without blocking."""
    began.append(name)
    await asyncio.sleep(seconds)
    return f"waited {name}"


began: list[str] = []
"""Names that `wait` was called with, as it began; what `flaky` and `insist` note as well."""


let_go = threading.Event()
"""What `insist` waits for, however often it is cancelled."""


@tool
async def insist() -> str:
    """Wait, whoever cancels."""
    began.append("insist")
    while not let_go.is_set():
        try:
            await asyncio.sleep(0.005)
        except asyncio.CancelledError:
            continue
    return "insisted"


meeting = threading.Barrier(25, timeout=20)


@tool
def meet() -> str:
    """Block until 25 are there."""
    meeting.wait()
    return "met"


@tool
def injected(runtime: ToolRuntime[Any, Any], config: RunnableConfig, word: str = "") -> str:
    """Tell what the host gives to a tool beside its arguments."""
    state = len(runtime.state["messages"])
    return f"{word} {runtime.tool_call_id} {state} {config['configurable']['thread_id'][:0]}ok"


@tool(response_format="content_and_artifact")
def measured(word: str = "") -> tuple[str, dict[str, Any]]:
    """Give a text for the model and an artifact for the program."""
    return f"measured {word}", {"length": len(word), "parts": [word]}


@tool
def leave() -> str:
    """Try to end the process."""
    raise SystemExit(3)


@tool
async def leave_awaited() -> str:
    """Try to end the process, on the event loop."""
    raise SystemExit(4)


class Panic(BaseException):
    """What extensions written in other languages raise."""


@tool
def panic() -> str:
    """Fail in a way that no `except Exception` catches."""
    raise Panic("out of order")


@tool
async def panic_awaited() -> str:
    """The same on the event loop."""
    raise Panic("out of order")


class Leaving(BaseTool):
    """A tool as a class that tries to end the process, asynchronously."""

    name: str = "leaving"
    description: str = "Leave."

    def _run(self) -> str:
        raise NotImplementedError

    async def _arun(self) -> str:
        raise SystemExit(5)


leaving = Leaving()


@tool
def ask(question: str = "") -> str:
    """Ask a person."""
    asked.append(question)
    return f"answered: {interrupt({'question': question})}"


asked: list[str] = []
"""Questions of `ask`, once for each time that it began."""


@tool
def tell(runtime: ToolRuntime[Any, Any]) -> str:
    """Tell the stream of the run how far it is."""
    runtime.stream_writer({"type": "halfway", "percentage": 50})
    return "told"


failures: list[str] = []
"""What `flaky` raises from now on, one text for each call; without any it works."""


@tool
def flaky(word: str = "") -> str:
    """Fail as often as `failures` says."""
    began.append(word)
    if failures:
        raise ConnectionError(failures.pop())
    return f"worked {word}"


class Lookup(BaseTool):
    """A tool as a class, synchronous only."""

    name: str = "lookup"
    description: str = "Look up."

    def _run(self, word: str = "", run_manager: CallbackManagerForToolRun | None = None) -> str:
        assert type(run_manager) is CallbackManagerForToolRun
        threads.append(threading.current_thread().name)
        return f"looked up {word} for {user.get()}"


lookup = Lookup()


class Greeter(BaseTool):
    """A class of tools, with keys of its own."""

    name: str = "greet"
    description: str = "Greet."
    greeting: str
    marks: list[str] = Field(default_factory=list)

    def _run(self, name: str = "") -> str:
        self.marks.append("!")
        return f"{self.greeting}, {name}{''.join(self.marks)}"


def _named(name: str, says: str) -> BaseTool:
    return StructuredTool.from_function(lambda: says, name=name, description="Clashes.")


other_search = _named("search", "the second search")
read_file = _named("read_file", "not the host's")
task = _named("task", "not the host's")
odd_name = _named("odd </name>", "never")
