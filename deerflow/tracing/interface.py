"""What the host asks of tracing, whatever stands behind it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol, TypeAlias, TypeVar

from deerflow.extensions.outcomes import HookOutcome

T = TypeVar("T")

Value: TypeAlias = str | bool | int | float | Sequence[str]
Attributes: TypeAlias = Mapping[str, Value | None]
"""By name; those that are None are left out."""


@dataclass(frozen=True)
class SpanStart:
    """How a span begins. `leaves_process`: what it stands for is done elsewhere, by a provider say."""

    name: str
    attributes: Attributes
    leaves_process: bool = False


class Span(Protocol):
    """A span under way."""

    @property
    def is_recorded(self) -> bool:
        """Whether anybody will see it; attributes that are dear to make are made only then."""

    def set(self, attributes: Attributes) -> None:
        """Add what is known by now."""

    def fail(self, kind: str, text: str = "") -> None:
        """Let it end as failed; `text` is kept only where contents are."""


class Tracing(Protocol):
    """Makes spans. Nothing that goes wrong in there reaches whoever is traced."""

    with_content: bool
    """Whether messages, arguments, results and the texts of errors are to be recorded."""

    def span(self, start: SpanStart) -> AbstractContextManager[Span]:
        """A span around the block, below the one that is current, and current within.

        An error that leaves the block makes it failed; a graph that pauses or jumps does not.
        """

    def streamed(
        self, start: SpanStart, parts: AsyncGenerator[T], note_end: Callable[[Span], None]
    ) -> AsyncGenerator[T]:
        """What `parts` yields, each made within a span, as in `span`; it ends with them, after `note_end`.

        For generators: between two parts their consumer goes on outside of it.
        """

    def hook_ended(self, outcome: HookOutcome) -> None:
        """A span of a hook that has just ended, where it belongs to a trace of this host."""
