"""A table that is read once, and what can be asked of it."""

from __future__ import annotations

import asyncio
import csv
import operator
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from axonx import BaseComponent, provider

Value = str | float
Row = dict[str, Value]

SHIPPED = files("research_assistant") / "planets.csv"

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FUNCTIONS: dict[str, Callable[[list[float]], float]] = {
    "count": len,
    "sum": sum,
    "mean": statistics.fmean,
    "min": min,
    "max": max,
}


@provider("csv_table")
class CsvTable(BaseComponent):
    """Holds a CSV file with a line of column names. Option `path`; without it the planets that come along."""

    component_type = "table"

    def __init__(self, path: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._path = path
        self.rows: list[Row] = []

    async def _start(self) -> None:
        text = await asyncio.to_thread((Path(self._path) if self._path else SHIPPED).read_text, "utf-8")
        self.rows = [
            {name: _value(text) for name, text in row.items()} for row in csv.DictReader(text.splitlines())
        ]

    async def _close(self) -> None:
        self.rows = []

    def query(
        self,
        *,
        columns: Sequence[str] = (),
        where: Iterable[Mapping[str, Any]] = (),
        order_by: str | None = None,
        descending: bool = False,
        limit: int = 100,
    ) -> list[Row]:
        """Rows with some of their columns. `ValueError` for a column that there is not."""
        rows = self._matching(where)
        if order_by is not None:
            rows.sort(key=lambda row: self._cell(row, order_by), reverse=descending)
        return [{name: self._cell(row, name) for name in columns or row} for row in rows[:limit]]

    def aggregate(
        self,
        *,
        group_by: str,
        measure: str,
        function: str,
        where: Iterable[Mapping[str, Any]] = (),
    ) -> list[Row]:
        """One row for each value of `group_by`, largest first. `ValueError` for what is no number."""
        groups: dict[Value, list[float]] = {}
        for row in self._matching(where):
            number = self._cell(row, measure)
            if isinstance(number, str):
                raise ValueError(f"column {measure!r} holds {number!r}, which is no number")
            groups.setdefault(self._cell(row, group_by), []).append(number)
        name = f"{function} of {measure}"
        rows: list[Row] = [
            {group_by: group, name: round(_FUNCTIONS[function](numbers), 6)}
            for group, numbers in groups.items()
        ]
        return sorted(rows, key=lambda row: row[name], reverse=True)

    def _matching(self, where: Iterable[Mapping[str, Any]]) -> list[Row]:
        conditions = list(where)
        return [row for row in self.rows if all(self._holds(row, condition) for condition in conditions)]

    def _holds(self, row: Row, condition: Mapping[str, Any]) -> bool:
        found, wanted = self._cell(row, condition["column"]), condition["value"]
        if isinstance(found, str) != isinstance(wanted, str):
            raise ValueError(
                f"column {condition['column']!r} holds {found!r}; {wanted!r} cannot be compared to it"
            )
        return _COMPARISONS[condition["is"]](found, wanted)

    def _cell(self, row: Row, column: str) -> Value:
        if column not in row:
            raise ValueError(f"there is no column {column!r}; there are: {', '.join(row)}")
        return row[column]


def markdown(rows: Sequence[Row]) -> str:
    """Rows as a Markdown table."""
    if not rows:
        return "(no rows)"
    names = list(rows[0])
    lines = [names, ["---"] * len(names), *([str(row[name]) for name in names] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _value(text: str) -> Value:
    try:
        return float(text)
    except ValueError:
        return text
