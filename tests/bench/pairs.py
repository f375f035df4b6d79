"""Time two things in turn, so that a machine whose speed drifts treats both alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Pair:
    """Medians in milliseconds of a thing and its reference, and the median of their ratios."""

    ours_ms: float
    reference_ms: float
    ratio: float


def compare(
    ours: Callable[[], object], reference: Callable[[], object], *, rounds: int, warmup: int = 5
) -> Pair:
    """Run both `rounds` times in turn after a warm-up."""
    for _ in range(warmup):
        ours()
        reference()
    pairs = [(_timed(ours), _timed(reference)) for _ in range(rounds)]
    return Pair(
        ours_ms=statistics.median(a for a, _ in pairs),
        reference_ms=statistics.median(b for _, b in pairs),
        ratio=statistics.median(a / b for a, b in pairs),
    )


def _timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return (time.perf_counter() - began) * 1000


def show(name: str, pair: Pair, aim: str) -> None:
    """Print one line of the report."""
    print(f"{name:<58} {pair.ours_ms:8.2f} ms  {pair.reference_ms:8.2f} ms  {pair.ratio:5.2f}x  (aim {aim})")
