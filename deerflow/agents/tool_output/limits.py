"""How much a tool may put into the transcript."""

from __future__ import annotations

from dataclasses import dataclass

_MIN_TEXT_CHARACTERS = 1000


@dataclass(frozen=True)
class OutputLimits:
    """What of one tool message goes on: its texts together, its payloads (images and the like) together.

    `artifact_bytes` are counted as a checkpoint holds them; `kept_characters` bounds the file that keeps what
    was cut.
    """

    text_characters: int = 50_000
    payload_characters: int = 8_000_000
    blocks: int = 1000
    artifact_bytes: int = 8_000_000
    kept_characters: int = 20_000_000

    def __post_init__(self) -> None:
        if self.text_characters < _MIN_TEXT_CHARACTERS:
            raise ValueError(f"text_characters must be at least {_MIN_TEXT_CHARACTERS}: a notice needs room")
