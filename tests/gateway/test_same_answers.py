"""The Gateway answers LangGraph's client as LangGraph's own server does, but for what is documented."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from langgraph_sdk import get_client
from support.gateway_process import gateway_process
from support.langgraph_dev import ROOT, langgraph_dev
from support.sdk_script import RULES, differences, play

_PAGE = ROOT / "docs" / "reference" / "http.md"
_ROW = re.compile(r"^\| `(?P<pattern>[^`]+)` \| (?P<reason>[^|]+) \|$", re.MULTILINE)


def _documented() -> dict[str, re.Pattern[str]]:
    """The patterns of the table, each as a regular expression for the beginning of a difference."""
    section = _PAGE.read_text().partition("## Unlike LangGraph's server")[2].partition("\n## ")[0]
    return {
        row["pattern"]: re.compile(re.escape(row["pattern"]).replace(r"\*", ".*") + r"(?=[:.\[]|$)")
        for row in _ROW.finditer(section)
    }


async def _answers(url: str) -> dict[str, Any]:
    async with get_client(url=url, api_key=None, timeout=60) as client:
        return await play(client)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], dict[str, Any]]:
    """What the Gateway and `langgraph dev` answer to the script."""
    model = {"name": "scripted", "use": "deerflow.models:ScriptedChatModel", "rules": RULES}
    config = {"models": [model], "shutdown": {"drain_seconds": 0.2}}

    def folder(name: str) -> tuple[Path, dict[str, str]]:
        made = tmp_path_factory.mktemp(name)
        return made, {"DEER_FLOW_HOME": str(made / "home")}

    (here, our_environment), (there, their_environment) = folder("here"), folder("there")
    with gateway_process(here, config, environment=our_environment) as gateway:
        ours = asyncio.run(_answers(gateway.url))
    with langgraph_dev(there, config, environment=their_environment) as dev:
        theirs = asyncio.run(_answers(dev.url))
    return ours, theirs


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


# The Gateway has no stream of a whole thread.
NOT_PLAYED = {"threads.join_stream", "threads.stream"}
