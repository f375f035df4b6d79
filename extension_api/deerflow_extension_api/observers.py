"""The model calls that the host makes for itself, which pass no contributed middleware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from .state import ExtensionData


class SystemOperationKind(StrEnum):
    """What the host called the model for."""

    GOAL = "goal"
    MEMORY = "memory"
    TITLE = "title"
    SUMMARIZATION = "summarization"


@dataclass(frozen=True)
class SystemModelRequest:
    """What was sent. `messages` is always a tuple; one prompt string becomes a tuple of one."""

    messages: Sequence[Any] = ()
    model_name: str | None = None
    invoke_config: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        messages = (self.messages,) if isinstance(self.messages, str) else tuple(self.messages)
        object.__setattr__(self, "messages", messages)


@dataclass(frozen=True)
class SystemModelResult:
    """What came back: `response` or `error`. A cancelled call's `error` is its `CancelledError`."""

    response: Any = None
    error: BaseException | None = None
    duration_ms: float | None = None


class SystemModelCallObserver(Protocol):
    """Learns of each call of the host's own.

    Awaited after success or failure, with 3 seconds for all observers together; fire-and-forget where the
    call was cancelled. Calls within a run carry that run's task store, memory extraction a detached one.
    """

    async def on_system_model_call(
        self,
        app_store: ExtensionData,
        task_store: ExtensionData,
        kind: SystemOperationKind,
        request: SystemModelRequest,
        result: SystemModelResult,
    ) -> None:
        """Take note of one call that is over."""
        return
