"""The Gateway answers LangGraph's client as LangGraph's own server does, but for what is documented."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from support.gateway_process import gateway_process
from support.langgraph_dev import ROOT, langgraph_dev
from support.node import client_folder, run_script
from support.sdk_script import RULES, Play, differences, play

pytestmark = pytest.mark.timeout(300)  # two servers are started, and each plays two scripts

_PAGE = ROOT / "docs" / "reference" / "http.md"
_ROW = re.compile(r"^\| `(?P<pattern>[^`]+)` \| (?P<reason>[^|]+) \|$", re.MULTILINE)


def _documented() -> dict[str, re.Pattern[str]]:
    """The patterns of the table, each as a regular expression for the beginning of a difference."""
    section = _PAGE.read_text().partition("## Unlike LangGraph's server")[2].partition("\n## ")[0]
    return {
        row["pattern"]: re.compile(re.escape(row["pattern"]).replace(r"\*", ".*") + r"(?=[:.\[]|$)")
        for row in _ROW.finditer(section)
    }


def _javascript_answers(url: str) -> tuple[dict[str, Any], list[str]]:
    """The same of LangGraph's JavaScript client, and the names of all of its verbs."""
    found = run_script(client_folder(), "answers.mjs", url)
    script = Play(get_client(url=url, api_key=None))
    for identifier, name in found["names"].items():
        script.name(name, identifier)
    for step, answer in found["answers"].items():
        script.note(step, answer)
    return script.answers, found["verbs"]


async def _answers(url: str) -> dict[str, Any]:
    async with get_client(url=url, api_key=None, timeout=60) as client:
        return await play(client)


@dataclass(frozen=True)
class Played:
    """What one server answers to both scripts; of the JavaScript one none where it cannot be run."""

    python: dict[str, Any]
    javascript: dict[str, Any]
    javascript_verbs: list[str]
    why_not: str = ""


def _play(url: str) -> Played:
    python = asyncio.run(_answers(url))
    try:
        return Played(python, *_javascript_answers(url))
    except pytest.skip.Exception as reason:
        return Played(python, {}, [], str(reason))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> tuple[Played, Played]:
    """What the Gateway and `langgraph dev` answer."""
    model = {"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": RULES}
    config = {"models": [model], "shutdown": {"drain_seconds": 0.2}}

    def folder(name: str) -> tuple[Path, dict[str, str]]:
        made = tmp_path_factory.mktemp(name)
        return made, {"DEER_FLOW_HOME": str(made / "home")}

    (here, our_environment), (there, their_environment) = folder("here"), folder("there")
    with gateway_process(here, config, environment=our_environment) as gateway:
        ours = _play(gateway.url)
    with langgraph_dev(there, config, environment=their_environment) as dev:
        theirs = _play(dev.url)
    return ours, theirs


@pytest.fixture
def both(servers: tuple[Played, Played]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers of both to the Python client."""
    return servers[0].python, servers[1].python


@pytest.fixture
def both_javascript(servers: tuple[Played, Played]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The answers of both to the JavaScript client."""
    if servers[0].why_not:
        pytest.skip(servers[0].why_not)
    return servers[0].javascript, servers[1].javascript


def test_answers_differ_only_where_that_is_documented(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    documented = _documented()
    found = sorted(set(differences(*both)))
    assert [line for line in found if not any(p.match(line) for p in documented.values())] == []
    unused = [name for name, p in documented.items() if not any(p.match(line) for line in found)]
    assert unused == [], "these differences are gone: take them out of the page"


def test_script_calls_every_verb_of_the_client(both: tuple[dict[str, Any], dict[str, Any]]) -> None:
    client = get_client(url="http://localhost", api_key=None)
    resources = {name: getattr(client, name) for name in ("assistants", "threads", "runs", "store")}
    verbs = {
        f"{resource}.{verb}"
        for resource, part in resources.items()
        for verb in dir(part)
        if not verb.startswith("_") and callable(getattr(part, verb))
    }
    played = {step.partition(":")[0] for step in both[0]}
    assert verbs - played == NOT_PLAYED
    assert len(both[0]) > 100


# Streams of threads have tests of their own.
NOT_PLAYED = {"threads.join_stream", "threads.stream"}


def test_answers_to_the_javascript_client_differ_only_in_the_same_places(
    both_javascript: tuple[dict[str, Any], dict[str, Any]],
) -> None:
    documented = _documented().values()
    found = sorted(set(differences(*both_javascript)))
    assert [line for line in found if not any(p.match(line) for p in documented)] == []


def test_script_calls_every_verb_of_the_javascript_client(
    servers: tuple[Played, Played], both_javascript: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    verbs = {re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", verb) for verb in servers[0].javascript_verbs}
    played = {step.partition(":")[0] for step in both_javascript[0]}
    assert verbs - played == NOT_PLAYED
    assert len(both_javascript[0]) >= 80
