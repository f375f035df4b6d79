"""The wrap hook that replaces the older part of a long conversation by a summary.

When, how much and with which prompt is LangChain's `SummarizationMiddleware`. That is a node of the graph,
which costs a step and a checkpoint at every model call, due or not; here the same decision is taken around
the call, and the state changes together with the model's answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, cast

from deerflow_extension_api import (
    CompactionEvent,
    ContentKind,
    SystemOperationKind,
    canonical_hash,
    provenance_kwargs,
    read_provenance,
)
from langchain.agents.middleware import (
    AgentMiddleware,
    AgentState,
    ExtendedModelResponse,
    ModelRequest,
    ModelResponse,
    SummarizationMiddleware,
)
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import (
    AIMessage,
    AnyMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
)
from langgraph.types import Command

from deerflow.agents.authorship import is_from_person, is_summary
from deerflow.agents.hook_bridge import run_async_hook
from deerflow.agents.run_scope import RunScope
from deerflow.agents.system_calls import SystemCall, SystemModels, or_warn, system_call
from deerflow.config.schema import ContextSize
from deerflow.extensions import notify_compaction

SUMMARY_SECONDS = 120.0
SHORT_CHARACTERS = 4_000
"""A longer summary must be at most half of what the writer was sent: else a thread grows with each one."""

TRANSFORM_KIND = "summarization"
TRANSFORM_VERSION = "1"

# What was injected to last is not summarised away; of each producer the newest stays.
_LASTING = frozenset({ContentKind.DURABLE_CONTEXT, ContentKind.MEMORY})


@dataclass(frozen=True)
class Compacting:
    """What one agent's compaction needs.

    `agent_model` is whose window counts, `model_name` who writes the summaries; any `trigger` suffices.
    """

    trigger: Sequence[ContextSize]
    keep: ContextSize
    agent_model: BaseChatModel
    model_name: str
    models: SystemModels
    scope_of: Callable[[Any], RunScope]


class Compaction(AgentMiddleware[Any, Any]):
    """Summarises what is old before a model call that would be too long.

    The person's question that is being answered always stays, and so do tool calls with their results.
    Where the summary fails, nothing is removed and the call is made as it is.
    """

    def __init__(self, compacting: Compacting) -> None:
        super().__init__()
        self._compacting = compacting
        self._summarizer = _Summarizer(
            compacting.agent_model,
            trigger=[cast(Any, (size.type, size.value)) for size in compacting.trigger],
            keep=cast(Any, (compacting.keep.type, compacting.keep.value)),
            trim_tokens_to_summarize=None,
        )

    def release_policy_parameters(self) -> dict[str, Any]:
        """What of the configuration decides when this compacts, and who writes."""
        return {
            "trigger": [size.model_dump() for size in self._compacting.trigger],
            "keep": self._compacting.keep.model_dump(),
            "model_name": self._compacting.model_name,
        }

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        if not self._summarizer.is_due(request.messages):
            return handler(request)
        return cast(ExtendedModelResponse[Any], run_async_hook(self.awrap_model_call, request, handler))

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any] | ExtendedModelResponse[Any]:
        compacted = await self._compact(request) if self._summarizer.is_due(request.messages) else None
        if compacted is None:
            return await handler(request)
        snapshot = self._compacting.scope_of(request.runtime).snapshot
        event = compacted.event() if snapshot.context_compaction_observers else None
        response = await handler(request.override(messages=compacted.messages))
        if event is not None:
            notify_compaction(snapshot, event)
        return ExtendedModelResponse(response, Command(update={"messages": compacted.changes()}))

    async def _compact(self, request: ModelRequest[Any]) -> _Compacted | None:
        messages = request.messages
        summarizer = self._summarizer.writing(_Writer(self._compacting, request.runtime))
        state = cast(AgentState[Any], {"messages": messages})
        update = await or_warn(
            summarizer.abefore_model(state, request.runtime),
            f"the summary of {len(messages)} messages by model {self._compacting.model_name!r}",
            otherwise="nothing is removed from the conversation",
        )
        if update is None:
            return None
        _, summary, *kept = update["messages"]
        return _Compacted.of(messages, summary, cutoff=len(messages) - len(kept))


@dataclass(frozen=True)
class _Compacted:
    """A conversation in which `summary` stands in the place of the first of the `removed` messages."""

    originals: Sequence[AnyMessage]
    removed: Sequence[AnyMessage]
    summary: HumanMessage

    @classmethod
    def of(cls, messages: Sequence[AnyMessage], summary: BaseMessage, *, cutoff: int) -> _Compacted:
        removed = _removable(messages, cutoff)
        marks = provenance_kwargs(ContentKind.DURABLE_CONTEXT, TRANSFORM_KIND)
        marked = HumanMessage(
            summary.content, id=removed[0].id, additional_kwargs={**summary.additional_kwargs, **marks}
        )
        return cls(messages, removed, marked)

    @property
    def messages(self) -> list[AnyMessage]:
        """The conversation as it goes on."""
        gone = {message.id for message in self.removed}
        first = self.removed[0]
        return [
            self.summary if message is first else message
            for message in self.originals
            if message is first or message.id not in gone
        ]

    def changes(self) -> list[AnyMessage | RemoveMessage]:
        """The same as an update of the state. Changes by id leave alone what others add to it."""
        return [self.summary, *(RemoveMessage(id=str(message.id)) for message in self.removed[1:])]

    def event(self) -> CompactionEvent:
        """What observers are told; hashes are of the contents as they are now."""
        return CompactionEvent(
            transform_kind=TRANSFORM_KIND,
            transform_version=TRANSFORM_VERSION,
            source_content_hashes=tuple(_content_hash(message) for message in self.removed),
            output_content_hash=_content_hash(self.summary),
            compacted_message_count=len(self.removed),
            kept_message_count=len(self.originals) - len(self.removed),
        )


class _Summarizer(SummarizationMiddleware):
    """LangChain's, which asks a writer of ours and does not ask where nothing new would be summarised."""

    def is_due(self, messages: list[AnyMessage]) -> bool:
        """Whether the conversation is too long, and something in it may go."""
        too_long = self._should_summarize(messages, self.token_counter(messages))
        return too_long and self._determine_cutoff_index(messages) > 0

    def writing(self, writer: _Writer) -> _Summarizer:
        """One that is good for one call."""
        summarizer = copy(self)
        summarizer._summary_model = cast(Any, writer)
        return summarizer

    def _determine_cutoff_index(self, messages: list[AnyMessage]) -> int:
        cutoff = super()._determine_cutoff_index(messages)
        return cutoff if any(not is_summary(message) for message in _removable(messages, cutoff)) else 0


class _Writer:
    """Writes summaries in the name of the execution that `runtime` belongs to."""

    def __init__(self, compacting: Compacting, runtime: Any) -> None:
        self._compacting = compacting
        self._runtime = runtime

    async def ainvoke(self, prompt: str, config: Any = None) -> AIMessage:
        scope = self._compacting.scope_of(self._runtime)
        call = SystemCall(
            kind=SystemOperationKind.SUMMARIZATION,
            messages=(HumanMessage(prompt),),
            model_name=self._compacting.model_name,
            snapshot=scope.snapshot,
            timeout_seconds=SUMMARY_SECONDS,
            scope=scope,
        )
        text = await system_call(self._compacting.models, call)
        if not text:
            raise ValueError("the summary is empty")
        if len(text) > SHORT_CHARACTERS and len(text) > len(prompt) / 2:
            raise ValueError(
                f"the summary of {len(prompt)} characters has {len(text)}, which saves too little"
            )
        return AIMessage(text)


def _removable(messages: Sequence[AnyMessage], cutoff: int) -> list[AnyMessage]:
    """Those before `cutoff` that may go: not the question being answered, not what was put there to last."""
    staying = _question(messages) | _lasting(messages)
    return [message for position, message in enumerate(messages[:cutoff]) if position not in staying]


def _question(messages: Sequence[AnyMessage]) -> set[int]:
    """Positions of the newest messages of a person, which may be several in a row, and of a later prompt."""
    prompts = [i for i, m in enumerate(messages) if isinstance(m, HumanMessage) and not is_summary(m)]
    last = next((i for i in reversed(prompts) if is_from_person(messages[i])), None)
    staying = set(prompts[-1:])
    while last is not None and last >= 0 and is_from_person(messages[last]):
        staying.add(last)
        last -= 1
    return staying


def _lasting(messages: Sequence[AnyMessage]) -> set[int]:
    """Positions of the newest message of each producer that is marked as lasting context."""
    newest: dict[Any, int] = {}
    for position, message in enumerate(messages):
        marks = read_provenance(message)
        lasting = marks is not None and marks.content_kind in _LASTING
        if lasting and isinstance(message, HumanMessage | SystemMessage) and not is_summary(message):
            newest[marks] = position
    return set(newest.values())


def _content_hash(message: BaseMessage) -> str:
    try:
        return canonical_hash(message.content)
    except (TypeError, ValueError):  # an application may put into a message what JSON cannot hold
        return canonical_hash(repr(message.content))
