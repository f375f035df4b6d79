"""Read conversations for facts some time after their runs, and show what is known to the next ones."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from deerflow_extension_api import SystemOperationKind
from langchain_core.messages import BaseMessage
from langgraph.store.base import BaseStore

from deerflow.agents.system_calls import SystemCall, SystemModels, or_warn, system_call
from deerflow.cancellation import stop_task
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions
from deerflow.runs.excerpt import excerpt, latest_exchange
from deerflow.runs.memory.block import facts_block
from deerflow.runs.memory.extraction import extraction_messages, read_notes
from deerflow.runs.memory.facts import FactBook

logger = logging.getLogger(__name__)

MEMORY_SECONDS = 60.0
LOCAL_USER = "local"
MAX_QUEUED = 1_000
MAX_AT_ONCE = 2
STOP_GRACE_SECONDS = 1.0
_MAX_EXCHANGES = 20
_MAX_EXCHANGE_CHARACTERS = 8_000

_Key = tuple[str, str]


@dataclass(frozen=True)
class Conversation:
    """A run that ended well: whose it was, on which thread, and what was said."""

    user_id: str | None
    thread_id: str
    snapshot: LoadedExtensions
    messages: Sequence[BaseMessage]


@dataclass(frozen=True)
class FlushReport:
    """How many conversations were read, could not be read, and were given up at the time limit."""

    read: int = 0
    failed: int = 0
    given_up: int = 0


@dataclass
class _Queued:
    snapshot: LoadedExtensions
    timer: asyncio.TimerHandle
    exchanges: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_EXCHANGES))


class MemoryService:
    """The memory of one host; belongs to its event loop."""

    def __init__(self, config: AppConfig, store: BaseStore, models: SystemModels) -> None:
        self._config = config.memory
        self._model_name = config.memory.model_name or config.models[0].name
        self._models = models
        self._book = FactBook(store, max_facts=config.memory.max_facts)
        self._queued: dict[_Key, _Queued] = {}
        self._reading: set[asyncio.Task[bool]] = set()
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._writing: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def known(self, user_id: str | None) -> str:
        """What is known about a user, as a block for a system prompt; empty where that is nothing."""
        facts = await or_warn(
            self._book.read(user_id or LOCAL_USER),
            "reading what is known about the user",
            otherwise="the run goes on without it",
        )
        return facts_block(facts or (), max_tokens=self._config.max_injection_tokens)

    def queue(self, conversation: Conversation) -> None:
        """Read the latest exchange for facts once its thread has been quiet for `debounce_seconds`."""
        text = excerpt(latest_exchange(conversation.messages), max_characters=_MAX_EXCHANGE_CHARACTERS)
        if not text:
            return
        key = (conversation.user_id or LOCAL_USER, conversation.thread_id)
        if key not in self._queued and len(self._queued) >= MAX_QUEUED:
            logger.warning("%d conversations wait to be read for facts; one more is not", MAX_QUEUED)
            return
        timer = asyncio.get_running_loop().call_later(self._config.debounce_seconds, self._begin, key)
        queued = self._queued.get(key)
        if queued is None:
            queued = self._queued[key] = _Queued(conversation.snapshot, timer)
        else:
            queued.timer.cancel()
            queued.timer, queued.snapshot = timer, conversation.snapshot
        queued.exchanges.append(text)

    async def flush(self, timeout_seconds: float) -> FlushReport:
        """Read at once what is queued, and wait for that and for what is being read, within the time."""
        for key in list(self._queued):
            self._begin(key)
        reading = set(self._reading)
        if not reading:
            return FlushReport()
        _, late = await asyncio.wait(reading, timeout=timeout_seconds)
        await asyncio.gather(*(stop_task(work, grace_seconds=STOP_GRACE_SECONDS) for work in late))
        read = sum(work.result() for work in reading - late)
        report = FlushReport(read, len(reading) - len(late) - read, len(late))
        if report.failed or report.given_up:
            logger.warning(
                "memory: of %d conversations %d could not be read for facts and %d were given up after %g s",
                *(len(reading), report.failed, report.given_up, timeout_seconds),
            )
        return report

    def _begin(self, key: _Key) -> None:
        queued = self._queued.pop(key)
        queued.timer.cancel()
        work = asyncio.create_task(self._read(key, queued), name=f"memory of thread {key[1]}")
        self._reading.add(work)
        work.add_done_callback(self._reading.discard)

    async def _read(self, key: _Key, queued: _Queued) -> bool:
        async with self._places:
            what = f"reading thread {key[1]} for facts"
            done = await or_warn(self._note(key[0], queued), what, otherwise="they are not remembered")
        return done is not None

    async def _note(self, user_id: str, queued: _Queued) -> bool:
        # One reading of a user's conversations at a time: each is told what the one before has noted.
        lock = self._writing.setdefault(user_id, asyncio.Lock())
        async with lock:
            known = await self._book.read(user_id)
            call = SystemCall(
                kind=SystemOperationKind.MEMORY,
                messages=extraction_messages("\n".join(queued.exchanges), known),
                model_name=self._model_name,
                snapshot=queued.snapshot,
                timeout_seconds=MEMORY_SECONDS,
            )
            answer = await system_call(self._models, call)
            notes = read_notes(answer, known)
            if notes is None:
                # Not its text: what users say does not belong into logs.
                raise ValueError(f"the answer, of {len(answer)} characters, holds no notes")
            await self._book.note(user_id, notes.facts, outdated=notes.outdated)
        return True
