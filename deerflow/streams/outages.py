"""Tell once that a server is away, and once that it is back."""

from __future__ import annotations

import logging
import time

logger = logging.getLogger(__name__)


class Outages:
    """What the log says of one server at `address`, which holds no secret."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._since_seconds: float | None = None
        self._refuses = False

    @property
    def answers(self) -> bool:
        """Whether the server answered last, and took what it was given."""
        return self._since_seconds is None and not self._refuses

    def failed(self, error: Exception) -> None:
        """The server did not answer."""
        if self._since_seconds is None:
            self._since_seconds = time.monotonic()
            logger.warning(
                "Redis at %s is away: %s; runs go on, and readers at other hosts learn of their ends only",
                self.address,
                self.text_of(error),
            )

    def answered(self) -> None:
        """The server did what it was asked for."""
        if self._since_seconds is not None:
            away_seconds = time.monotonic() - self._since_seconds
            self._since_seconds = None
            logger.warning("Redis at %s is back after %.1f s", self.address, away_seconds)

    def judged(self, refusal: Exception | None) -> None:
        """The server answered, and took everything but what it refused."""
        self.answered()
        if refusal is not None and not self._refuses:
            logger.warning(
                "Redis at %s refuses events: %s; readers at other hosts are told of a gap",
                self.address,
                self.text_of(refusal),
            )
        self._refuses = refusal is not None

    @staticmethod
    def text_of(error: Exception) -> str:
        """What went wrong, in one line."""
        text = (str(error).splitlines() or ["no further text"])[0]
        return f"{type(error).__name__}: {text.rstrip('.')}"
