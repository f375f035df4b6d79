"""Who wrote a message of a conversation: a person, a model or tool, or the host and its extensions."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

from deerflow_extension_api import read_provenance
from langchain_core.messages import BaseMessage, HumanMessage, RemoveMessage
from langgraph.graph.message import REMOVE_ALL_MESSAGES

_SOURCE_KEY = "lc_source"
_SUMMARY = "summarization"


def is_summary(message: BaseMessage) -> bool:
    """Whether the message stands in the place of older ones, ours or one of LangChain's own middleware."""
    return message.additional_kwargs.get(_SOURCE_KEY) == _SUMMARY


def is_from_person(message: BaseMessage) -> bool:
    """Whether a person (or whoever called the host) said this."""
    return isinstance(message, HumanMessage) and not is_summary(message) and read_provenance(message) is None


def added_messages(
    node_update: Any, known_ids: Callable[[], Container[str | None]] = frozenset
) -> Iterator[BaseMessage]:
    """The messages that one node of a graph added, without removals and summaries.

    `node_update` is what `stream_mode="updates"` says of one node: a mapping, or a list of them. A node may
    write the whole conversation anew: `known_ids` then tells which messages had been there.
    """
    for part in node_update if isinstance(node_update, list) else (node_update,):
        messages = part.get("messages") if isinstance(part, Mapping) else None
        if not isinstance(messages, list):
            continue
        known = known_ids() if any(map(_removes_all, messages)) else ()
        for message in messages:
            if isinstance(message, BaseMessage) and message.id not in known and not _is_bookkeeping(message):
                yield message


def _is_bookkeeping(message: BaseMessage) -> bool:
    return isinstance(message, RemoveMessage) or is_summary(message)


def _removes_all(message: Any) -> bool:
    return isinstance(message, RemoveMessage) and message.id == REMOVE_ALL_MESSAGES
