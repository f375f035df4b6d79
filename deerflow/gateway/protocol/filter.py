"""Which events of a thread a client of the streaming protocol asks for."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, StrictInt, field_validator

from deerflow.gateway.protocol.events import Namespace, ProtocolEvent

CHANNELS: Final = frozenset(
    {"checkpoints", "custom", "input", "lifecycle", "messages", "tasks", "tools", "updates", "values"}
)
_CUSTOM: Final = "custom:"

Text = Annotated[str, Field(max_length=1000)]


class EventStreamBody(BaseModel):
    """What to send. `namespaces` are beginnings, and `depth` is how far below one of them events may lie.

    `since` is the number of the last event that the client has.
    """

    model_config = ConfigDict(extra="ignore")

    channels: Annotated[list[Text], Field(min_length=1, max_length=100)]
    namespaces: (
        Annotated[list[Annotated[list[Text], Field(max_length=100)]], Field(max_length=100)] | None
    ) = None
    depth: Annotated[StrictInt, Field(ge=0)] | None = None
    since: Annotated[StrictInt, Field(ge=0)] | None = None

    @field_validator("channels")
    @classmethod
    def _are_known(cls, channels: list[str]) -> list[str]:
        # The protocol calls the channel `input` and its events `input.requested`; either is understood.
        named = ["input" if channel == "input.requested" else channel for channel in channels]
        for channel in named:
            if channel not in CHANNELS and not (channel.startswith(_CUSTOM) and channel != _CUSTOM):
                known = ", ".join(sorted(CHANNELS))
                raise ValueError(f"{channel[:100]!r} is no channel; there are {known}, and custom:<name>")
        return named

    def wants(self, event: ProtocolEvent) -> bool:
        """Whether the client asked for an event, and has not got it yet."""
        if self.since is not None and event.seq <= self.since:
            return False
        return self._has_channel(event) and self._has_namespace(event.namespace)

    def _has_channel(self, event: ProtocolEvent) -> bool:
        if event.channel in self.channels:
            return True
        name = event.data.get("name") if event.channel == "custom" else None
        return name is not None and f"{_CUSTOM}{name}" in self.channels

    def _has_namespace(self, namespace: Namespace) -> bool:
        if not self.namespaces:
            return True
        return any(
            _begins_with(namespace, beginning)
            and (self.depth is None or len(namespace) - len(beginning) <= self.depth)
            for beginning in self.namespaces
        )


def _begins_with(namespace: Namespace, beginning: list[str]) -> bool:
    """Segments are `name:id`; a client may leave the id out."""
    if len(beginning) > len(namespace):
        return False
    pairs = zip(namespace, beginning, strict=False)
    return all(wanted in (segment, segment.partition(":")[0]) for segment, wanted in pairs)
