"""How a thread gets its title: cut from its first message, or by asking a model."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from contextlib import suppress
from html import escape
from typing import Any

from deerflow_extension_api import SystemOperationKind, TaskOutcome
from langchain_core.messages import HumanMessage, SystemMessage, convert_to_messages

from deerflow.agents.run_scope import RunScope
from deerflow.agents.system_calls import SystemCall, try_system_call
from deerflow.cancellation import stop_task
from deerflow.config.schema import TitleConfig
from deerflow.errors import NotFoundError
from deerflow.runs.active import ActiveRun
from deerflow.runs.parts import RunParts

TITLE_KEY = "title"
TITLE_SECONDS = 10.0
STOP_GRACE_SECONDS = 1.0
_MAX_PROMPT_CHARACTERS = 4_000

_INSTRUCTIONS = (
    "You name conversations. Reply with a title of at most {max_words} words for the conversation that "
    "begins with the message below: the title alone, on one line, without quotes, in the language of the "
    "message. Do not answer the message."
)
_LABEL = re.compile(r"^\W*title\W*:\s*", re.IGNORECASE)
_ORNAMENTS = " \t#*_`\"'“”„‘’«»"


def begin_naming(run: ActiveRun, scope: RunScope, parts: RunParts) -> None:
    """Start finding a title beside the run, where its thread has none and a person says something."""
    config = parts.config.title
    if not config.enabled or run.request.temporary or run.thread.metadata.get(TITLE_KEY) is not None:
        return
    text = first_words(run.request.graph_input())
    if limited(text, config):
        name = f"title of run {run.run_id}"
        run.naming = asyncio.create_task(_name(run.thread_id, text, scope, parts), name=name)


async def finish_naming(naming: asyncio.Task[None], run: ActiveRun, parts: RunParts) -> None:
    """Wait for the title; where the run failed or is stopped, now or before, cut it from the message."""
    if run.ending is not None and run.ending.outcome is TaskOutcome.COMPLETED:
        stopped = asyncio.create_task(run.stopping.wait(), name=f"stop of run {run.run_id}")
        await asyncio.wait({naming, stopped}, timeout=TITLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
    await stop_task(naming, grace_seconds=STOP_GRACE_SECONDS)
    if not naming.done() or naming.cancelled():
        title = limited(first_words(run.request.graph_input()), parts.config.title)
        await _store(run.thread_id, title, parts)
    else:
        naming.result()


def first_words(graph_input: Any) -> str:
    """The text of the first message that a caller sends as a person; empty where there is none."""
    given = graph_input.get("messages") if isinstance(graph_input, Mapping) else None
    try:
        messages = convert_to_messages(given if isinstance(given, list) else [given or ""])
    except (ValueError, TypeError, KeyError, NotImplementedError):
        return ""  # the graph will say what is wrong with them
    return next((message.text for message in messages if isinstance(message, HumanMessage)), "")


def limited(text: str, config: TitleConfig) -> str:
    """The first words of a text on one line, as many as both limits allow."""
    words = text.split()[: config.max_words]
    while len(words) > 1 and len(" ".join(words)) > config.max_chars:
        words.pop()
    return " ".join(words)[: config.max_chars].strip()


def cleaned_title(answer: str, config: TitleConfig) -> str:
    """The title in a model's answer, without what models put around one; empty where there is none."""
    lines = (line.strip(_ORNAMENTS) for line in answer.splitlines())
    line = next(filter(None, lines), "")
    return limited(_LABEL.sub("", line).strip(_ORNAMENTS).rstrip("."), config)


async def _name(thread_id: str, text: str, scope: RunScope, parts: RunParts) -> None:
    config = parts.config.title
    title = limited(text, config)
    if config.model_name is not None:
        answer = await _ask(text, config.model_name, scope, parts)
        title = cleaned_title(answer or "", config) or title
    await _store(thread_id, title, parts)


async def _ask(text: str, model_name: str, scope: RunScope, parts: RunParts) -> str | None:
    message = escape(text[:_MAX_PROMPT_CHARACTERS], quote=False)
    call = SystemCall(
        kind=SystemOperationKind.TITLE,
        messages=(
            SystemMessage(_INSTRUCTIONS.format(max_words=parts.config.title.max_words)),
            HumanMessage(f"<message>\n{message}\n</message>"),
        ),
        model_name=model_name,
        snapshot=scope.snapshot,
        timeout_seconds=TITLE_SECONDS,
        scope=scope,
    )
    return await try_system_call(
        parts.assembler.system_models, call, otherwise="the title is cut from the message"
    )


async def _store(thread_id: str, title: str, parts: RunParts) -> None:
    with suppress(NotFoundError):  # the thread was deleted meanwhile
        await parts.stores.threads.merge_metadata(thread_id, {TITLE_KEY: title}, only_absent=True)
