"""How a thread gets its title: cut from its first message, or by asking a model beside the run."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from html import escape
from typing import Any

from deerflow_extension_api import SystemOperationKind
from langchain_core.messages import HumanMessage, SystemMessage, convert_to_messages

from deerflow.agents.run_scope import RunScope
from deerflow.agents.system_calls import SystemCall, SystemModels, try_system_call
from deerflow.cancellation import stop_task
from deerflow.config.schema import TitleConfig
from deerflow.runs.record import ThreadRecord
from deerflow.runs.request import RunRequest

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


class Naming:
    """The search for one thread's title. `local` is the title that needs no model."""

    def __init__(self, local: str, answer: asyncio.Task[str | None] | None, config: TitleConfig) -> None:
        self._local = local
        self._answer = answer
        self._config = config

    @property
    def done(self) -> bool:
        """Whether `metadata` holds the final title."""
        return self._answer is None or self._answer.done()

    @property
    def metadata(self) -> dict[str, Any]:
        """The thread's metadata to be set where it is absent."""
        answer = self._answer
        asked = "" if answer is None or not answer.done() or answer.cancelled() else answer.result() or ""
        return {TITLE_KEY: cleaned_title(asked, self._config) or self._local}

    async def settle(self, stopping: asyncio.Event) -> None:
        """Wait for the model's answer, until it has taken too long or the run is told to stop."""
        if self._answer is None:
            return
        stopped = asyncio.create_task(stopping.wait(), name=f"stop of {self._answer.get_name()}")
        either: set[asyncio.Task[Any]] = {self._answer, stopped}
        await asyncio.wait(either, timeout=TITLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        await self.give_up()

    async def give_up(self) -> None:
        """Wait no longer: the local title is final unless the answer is there."""
        if self._answer is not None:
            await stop_task(self._answer, grace_seconds=STOP_GRACE_SECONDS)


def begin_naming(
    request: RunRequest, thread: ThreadRecord, scope: RunScope, config: TitleConfig, models: SystemModels
) -> Naming | None:
    """Begin to look for a title, where the thread has none and a person says something."""
    if not config.enabled or request.temporary or thread.metadata.get(TITLE_KEY) is not None:
        return None
    text = first_words(request.graph_input())
    local = limited(text, config)
    if not local:
        return None
    answer = None
    if config.model_name is not None:
        call = _call(text, config.model_name, config, scope)
        asking = try_system_call(models, call, otherwise="the title is cut from the message")
        answer = asyncio.create_task(asking, name=f"title of run {request.run_id}")
    return Naming(local, answer, config)


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


def _call(text: str, model_name: str, config: TitleConfig, scope: RunScope) -> SystemCall:
    message = escape(text[:_MAX_PROMPT_CHARACTERS], quote=False)
    return SystemCall(
        kind=SystemOperationKind.TITLE,
        messages=(
            SystemMessage(_INSTRUCTIONS.format(max_words=config.max_words)),
            HumanMessage(f"<message>\n{message}\n</message>"),
        ),
        model_name=model_name,
        snapshot=scope.snapshot,
        timeout_seconds=TITLE_SECONDS,
        scope=scope,
    )
