"""Naming who held up the event loop: a hook that is async and does not await."""

from __future__ import annotations

import logging
from collections.abc import Coroutine, Generator
from functools import partial
from time import monotonic
from types import coroutine
from typing import Any, TypeVar

from deerflow.extensions.diagnostics import SLOW_CALL_SECONDS

logger = logging.getLogger(__name__)

T = TypeVar("T")


@coroutine
def watched(inner: Coroutine[Any, Any, T], source: str, hook: str) -> Generator[Any, Any, T]:
    """Await `inner`; log with the entry's name each time that it kept the loop for over 1 s."""
    resume = partial(inner.send, None)
    while True:
        began = monotonic()
        try:
            pending = resume()
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]
        finally:
            seconds = monotonic() - began
            if seconds > SLOW_CALL_SECONDS:
                logger.warning("Extension %s: %s blocked the event loop for %.1f s", source, hook, seconds)
        try:
            resume = partial(inner.send, (yield pending))
        except BaseException as error:  # noqa: BLE001 - a cancellation, say: it is the inner one's to judge
            resume = partial(inner.throw, error)
