"""What AxonX costs beside the published package of that name, each in an interpreter of its own."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.bench.axonx_environments import REFERENCE, Environment, environments
from tests.bench.axonx_measures import CHAIN, CONCURRENT, EVENTS

_SCRIPT = Path(__file__).with_name("axonx_measures.py")
_CLOCK, _CPU = 0, 1


@dataclass(frozen=True)
class _Row:
    key: str
    what: str
    unit: str
    per_second: float
    aim: str


_TIMES = (
    _Row("import", "axonx: import of Application, BaseStep, ...", "s", 1, "<= 0.25 s"),
    _Row("one_step", "axonx: run_job with one Step", "us", 1e6, "<= 0.7"),
    _Row("ten_steps", "axonx: run_job with ten Steps", "us", 1e6, "<= 0.7"),
    _Row("concurrent", f"axonx: {CONCURRENT} calls at the same time", "ms", 1e3, "<= 1"),
    _Row("stream", f"axonx: {EVENTS:,} streamed ProgressEvents", "ms", 1e3, "<= 0.5"),
    _Row("construct_one", "axonx: constructor with one component", "ms", 1e3, "<= 1"),
    _Row("construct_chain", f"axonx: constructor with a chain of {CHAIN}", "ms", 1e3, "<= 1"),
    _Row("live_one", "axonx: start and close of one component", "ms", 1e3, "-"),
    _Row("live_chain", f"axonx: start and close of a chain of {CHAIN}", "ms", 1e3, "<= 1"),
)
_SIZES = (
    _Row("resident_mib", "axonx: resident memory after the import", "MiB", 1, "<= 60 MiB"),
    _Row("peak_mib", "axonx: most resident memory of all this", "MiB", 1, "-"),
)


def run(rounds: int = 5) -> None:
    """Print the medians of `rounds` processes of each, started in turn, and of their ratios."""
    ours, reference = environments()
    if reference is not None:
        print(f"axonx: the reference is {REFERENCE}")
    found: list[Mapping[str, Any]] = []
    beside: list[Mapping[str, Any]] = []
    for _ in range(rounds):
        found.append(_measured(ours))
        if reference is not None:
            beside.append(_measured(reference))
    for row in _TIMES:
        wall, cpu = (_ratio(row, found, beside, column) for column in (_CLOCK, _CPU))
        columns = [_shown(_median(row, values), row) for values in (found, beside)]
        print(f"{row.what:<58} {columns[0]}  {columns[1]}  {wall}  (aim {row.aim}; {cpu.strip()} of CPU)")
    for row in _SIZES:
        columns = [_shown(_median(row, values), row) for values in (found, beside)]
        print(f"{row.what:<58} {columns[0]}  {columns[1]}  {'':6}  (aim {row.aim})")


def _measured(environment: Environment) -> Mapping[str, Any]:
    measures: Mapping[str, Any] = json.loads(environment.run(_SCRIPT).splitlines()[-1])
    return measures


def _median(row: _Row, values: Sequence[Mapping[str, Any]]) -> float | None:
    if not values:
        return None
    found = [value[row.key] for value in values]
    return statistics.median(entry[_CLOCK] if isinstance(entry, list) else entry for entry in found)


def _ratio(
    row: _Row, ours: Sequence[Mapping[str, Any]], reference: Sequence[Mapping[str, Any]], column: int
) -> str:
    if not reference:
        return f"{'-':>6}"
    pairs = zip(ours, reference, strict=True)
    return f"{statistics.median(a[row.key][column] / b[row.key][column] for a, b in pairs):5.2f}x"


def _shown(value: float | None, row: _Row) -> str:
    if value is None:
        return f"{'-':>12}"
    scaled = value * row.per_second
    decimals = next((digits for digits, least in enumerate((100, 10, 1)) if scaled >= least), 3)
    return f"{scaled:8.{decimals}f} {row.unit:<3}"
