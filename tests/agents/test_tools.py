"""Which tools an agent has: names, owners, and lists of what is allowed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deerflow_extension_api import (
    AgentAssemblyDescriptor,
    AgentAssemblyObserver,
    AgentBuildContext,
    ExtensionData,
    MiddlewareContributor,
    MiddlewarePlacement,
    Placement,
)
from langchain.agents.middleware import AgentMiddleware
from langchain_core.tools import BaseTool, StructuredTool
from langchain_core.tools import tool as make_tool
from support import tools
from support.extensions import installed
from support.hosts import answer, delegation, finished, scripted_config, scripted_host

from deerflow.agents.lead import Assembler
from deerflow.errors import ConfigError
from deerflow.extensions import LoadedExtensions
from deerflow.host import HostOptions, open_host

USES = "support.tools:"


def calling(*names: str) -> dict[str, Any]:
    """A rule: on `use`, call these tools, then tell their results."""
    calls = [{"name": name, "args": {}} for name in names]
    return {"when": "^use", "turns": [{"tool_calls": calls}, {"text": "{tool_results}"}]}


def configured(*names: str) -> list[dict[str, str]]:
    return [{"use": f"{USES}{name}"} for name in names]


def made(name: str, says: str) -> BaseTool:
    return StructuredTool.from_function(lambda: says, name=name, description="Contributed.")


class Bringing(AgentMiddleware[Any, Any]):
    """A middleware that has tools and does nothing else."""

    def __init__(self, *brought: Any) -> None:
        super().__init__()
        self.tools = list(brought)


class Contributor(MiddlewareContributor, AgentAssemblyObserver):
    """Contributes one middleware with tools to every agent, and keeps how agents are described."""

    def __init__(self, *brought: Any) -> None:
        self.brought = brought
        self.described: list[AgentAssemblyDescriptor] = []

    def contribute_middlewares(
        self, app_store: ExtensionData, ctx: AgentBuildContext
    ) -> Sequence[MiddlewarePlacement]:
        return (MiddlewarePlacement(Bringing(*self.brought), Placement.STANDARD),)

    def on_agent_assembled(self, app_store: ExtensionData, descriptor: AgentAssemblyDescriptor) -> None:
        self.described.append(descriptor)

    def sources(self) -> dict[str, str]:
        return {tool.name: tool.source for tool in self.described[0].tools}


def contributing(**contributors: Contributor) -> LoadedExtensions:
    named = tuple((f"{name}:install", contributor) for name, contributor in contributors.items())
    return LoadedExtensions(middleware_contributors=named, agent_assembly_observers=named)


async def ask_tools(home: Path, rule: dict[str, Any], loaded: LoadedExtensions, **sections: Any) -> str:
    with installed(loaded):
        async with scripted_host(home, [rule], **sections) as host:
            return answer(await finished(host, "use"))


async def test_the_first_of_two_configured_tools_wins_and_a_warning_names_both(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    said = await ask_tools(
        tmp_path,
        calling("search"),
        LoadedExtensions(),
        tools=configured("search", "other_search", "read_file", "task"),
    )
    assert said == "found  for nobody"
    warnings = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert warnings == [
        "tools[1] (support.tools:other_search): its tool 'search' is left out: "
        "tools[0] (support.tools:search) has one of this name",
        "tools[2] (support.tools:read_file): its tool 'read_file' is left out: the host has one of this name",
        "tools[3] (support.tools:task): its tool 'task' is left out: the host has one of this name",
    ]


def test_one_tool_configured_twice_is_a_clash_of_two_entries(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    Assembler(scripted_config(tmp_path, tools=configured("search", "search")))
    assert "tools[1] (support.tools:search): its tool 'search' is left out" in caplog.text


async def test_contributed_tools_clash_visibly_with_each_other_and_with_the_operators(tmp_path: Path) -> None:
    first = Contributor(made("shared", "first"), made("search", "contributed"), made("ls", "contributed"))
    second = Contributor(made("shared", "second"), made("own", "own"))
    loaded = contributing(first=first, second=second)
    said = await ask_tools(tmp_path, calling("shared", "search", "own"), loaded, tools=configured("search"))
    assert said == "first\nfound  for nobody\nown"
    assert [(d.level, d.source, d.message) for d in loaded.diagnostics] == [
        (
            "warning",
            "first:install",
            "its tool 'search' is left out: tools[0] (support.tools:search) has one of this name",
        ),
        ("warning", "first:install", "its tool 'ls' is left out: the host has one of this name"),
        (
            "warning",
            "second:install",
            "its tool 'shared' is left out: extension first:install has one of this name",
        ),
    ]
    sources = first.sources()
    assert (sources["shared"], sources["search"], sources["own"]) == (
        "first:install",
        "config",
        "second:install",
    )
    assert (sources["ls"], sources["task"]) == ("host", "host")


@pytest.mark.parametrize("made_tool", [False, True], ids=["function", "tool"])
async def test_one_tool_that_two_middlewares_of_an_extension_bring_is_no_clash(
    tmp_path: Path, made_tool: bool
) -> None:
    class Twice(Contributor):
        def contribute_middlewares(
            self, app_store: ExtensionData, ctx: AgentBuildContext
        ) -> Sequence[MiddlewarePlacement]:
            middlewares = (Bringing(*self.brought), Bringing(*self.brought))
            return tuple(MiddlewarePlacement(one, Placement.STANDARD) for one in middlewares)

    def shared() -> str:
        """Say so."""
        return "shared"

    twice = Twice(make_tool(shared) if made_tool else shared)
    loaded = contributing(acme=twice)
    assert await ask_tools(tmp_path, calling("shared"), loaded) == "shared"
    assert loaded.diagnostics == []
    assert [tool.name for tool in twice.described[0].tools].count("shared") == 1


async def test_a_contributed_tool_takes_no_name_of_the_host_in_a_subagent(tmp_path: Path) -> None:
    inner = {
        "when": "^inner",
        "turns": [{"tool_calls": [{"name": "task", "args": {}}]}, {"text": "{tool_results}"}],
    }
    outer = {
        "when": "^use",
        "turns": [{"tool_calls": [delegation("inner", "a")]}, {"text": "{tool_results}"}],
    }
    loaded = contributing(acme=Contributor(made("task", "smuggled in"), made("read_file", "smuggled in")))
    with installed(loaded):
        async with scripted_host(tmp_path, [inner, outer]) as host:
            said = answer(await finished(host, "use"))
    assert "task is not a valid tool" in said
    assert len(loaded.diagnostics) == 2


async def test_a_contributed_tool_with_a_name_that_none_can_have_is_left_out(tmp_path: Path) -> None:
    loaded = contributing(acme=Contributor(tools.odd_name, made("fine", "fine")))
    assert await ask_tools(tmp_path, calling("fine"), loaded) == "fine"
    (diagnostic,) = loaded.diagnostics
    assert diagnostic.source == "acme:install"
    assert "its tool 'odd </name>' is left out: a tool's name is 1 to 64" in diagnostic.message


def test_a_configured_tool_with_a_name_that_none_can_have_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tools\[0\]\.use: .* is named 'odd </name>'; a name is 1 to 64"):
        Assembler(scripted_config(tmp_path, tools=configured("odd_name")))


async def test_an_applications_middleware_loses_to_a_configured_tool(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    mine = Bringing(made("search", "the middleware's"), made("own", "own"))
    options = HostOptions(drain_seconds=0.0, middlewares=[mine])
    async with scripted_host(
        tmp_path, [calling("search", "own")], options, tools=configured("search")
    ) as host:
        assert answer(await finished(host, "use")) == "found  for nobody\nown"
    assert "middleware Bringing: its tool 'search' is left out: tools[0]" in caplog.text
    assert [tool.name for tool in mine.tools] == ["search", "own"]


@pytest.mark.parametrize(
    ("allowed", "names"),
    [
        ([], ["contributed"]),
        (["search", "ls"], ["ls", "search", "contributed"]),
        (None, ["ls", "read_file", "write_file", "edit_file", "glob", "grep", "search", "contributed"]),
    ],
)
async def test_a_list_of_tools_allows_what_it_names_and_extensions_keep_their_own(
    tmp_path: Path, allowed: list[str] | None, names: list[str]
) -> None:
    contributor = Contributor(made("contributed", "contributed"))
    agent = {"description": "Reviews.", "system_prompt": "Review."}
    if allowed is not None:
        agent["tools"] = allowed  # type: ignore[assignment]
    call = {"name": "task", "args": {"prompt": "inner", "subagent_type": "reviewer"}, "id": "a"}
    rule = {"when": "^use", "turns": [{"tool_calls": [call]}, {"text": "{tool_results}"}]}
    with installed(contributing(acme=contributor)):
        async with scripted_host(
            tmp_path, [rule], tools=configured("search"), subagents={"custom_agents": {"reviewer": agent}}
        ) as host:
            await finished(host, "use")
            await finished(host, "hello", context={"agent_name": "reviewer", "subagent_enabled": False})
    _, subagent, lead = contributor.described
    assert [tool.name for tool in subagent.tools] == names
    assert [tool.name for tool in lead.tools] == names


async def test_a_misspelt_name_of_a_tool_to_approve_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with scripted_host(tmp_path) as host:
        await finished(host, "hello", context={"approve_tools": ["write_flie", "write_file"]})
    assert "approve_tools names what the agent has not: write_flie" in caplog.text


async def test_a_class_of_tools_is_made_of_its_keys_for_each_host(tmp_path: Path) -> None:
    record = {"use": "support.tools:Greeter", "config": {"greeting": "Hello", "marks": ["?"]}}
    config = scripted_config(tmp_path, [calling("greet")], tools=[record])
    for _ in range(2):
        async with open_host(config, HostOptions(drain_seconds=0.0)) as host:
            assert answer(await finished(host, "use")) == "Hello, ?!"


@pytest.mark.parametrize(
    ("use", "keys", "said"),
    [
        ("Greeter", {}, "tools[0].use: 'support.tools:Greeter' refuses its keys (none): greeting: Field req"),
        ("Greeter", {"greeting": ["secret"]}, "refuses its keys (greeting): greeting: Input should be"),
        ("search", {"greeting": "secret"}, "tools[0].config: 'support.tools:search' is no class; take the"),
    ],
)
def test_keys_that_do_not_fit_a_class_of_tools_are_named_without_their_values(
    tmp_path: Path, use: str, keys: dict[str, Any], said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        Assembler(scripted_config(tmp_path, tools=[{"use": f"support.tools:{use}", "config": keys}]))
    assert said in str(refused.value) and "secret" not in str(refused.value)
