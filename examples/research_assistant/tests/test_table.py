"""What can be asked of the table."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from research_assistant.table import CsvTable, Row, markdown


def table(path: Path | None = None) -> CsvTable:
    found = CsvTable(name="default", path=None if path is None else str(path))
    asyncio.run(found.start())
    return found


def names(rows: list[Row]) -> list[Any]:
    return [row["name"] for row in rows]


def test_rows_are_filtered_ordered_cut_and_reduced_to_columns() -> None:
    where = [
        {"column": "kind", "is": "=", "value": "terrestrial"},
        {"column": "mass_earths", "is": "<", "value": 1},
    ]
    rows = table().query(columns=["name"], where=where, order_by="mass_earths", descending=True, limit=2)
    assert rows == [{"name": "Venus"}, {"name": "Mars"}]


def test_without_arguments_everything_comes() -> None:
    rows = table().query()
    assert len(rows) == 8 and rows[2] == {
        "name": "Earth",
        "kind": "terrestrial",
        "distance_au": 1,
        "mass_earths": 1,
        "radius_km": 6371,
        "year_days": 365.2,
    }


@pytest.mark.parametrize(
    ("function", "expected"),
    [("sum", 413), ("count", 2), ("mean", 206.5), ("min", 95.2), ("max", 317.8)],
)
def test_groups_have_one_number_each(function: str, expected: float) -> None:
    rows = table().aggregate(group_by="kind", measure="mass_earths", function=function)
    assert {row["kind"]: row[f"{function} of mass_earths"] for row in rows}["gas giant"] == expected


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"columns": ["moons"]}, "there is no column 'moons'; there are: name, kind"),
        ({"order_by": "size"}, "there is no column 'size'"),
        ({"where": [{"column": "name", "is": "<", "value": 3}]}, "3 cannot be compared to it"),
    ],
)
def test_what_the_table_has_not_is_refused_with_what_it_has(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        table().query(**arguments)


def test_text_has_no_sum() -> None:
    with pytest.raises(ValueError, match="which is no number"):
        table().aggregate(group_by="kind", measure="name", function="sum")


def test_another_file_is_as_good(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("name,size\na,2\nb,1\n")
    assert names(table(tmp_path / "own.csv").query(order_by="size")) == ["b", "a"]


def test_rows_become_markdown() -> None:
    assert markdown([{"a": 1.5, "b": "x"}]) == "| a | b |\n| --- | --- |\n| 1.5 | x |"
    assert markdown([]) == "(no rows)"
