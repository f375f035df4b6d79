"""Each statement that the host makes to extensions is judged by tests that exist."""

from __future__ import annotations

import ast
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TABLES = ("statements.toml", "contract_statements.toml")
"""The statements of the runtime model chapter, and those of the tables and contract beside it."""


def _read(table: str) -> list[dict[str, Any]]:
    statements: list[dict[str, Any]] = tomllib.loads(Path(__file__).with_name(table).read_text())["statement"]
    return statements


@cache
def _tests_in(path: str) -> frozenset[str]:
    """The names of the tests in a file, with the class before those that stand in one."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    names = set()
    for node in ast.parse(file.read_text()).body:
        inner = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}::" if isinstance(node, ast.ClassDef) else ""
        functions = (one for one in inner if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))
        names |= {prefix + one.name for one in functions if one.name.startswith("test_")}
    return frozenset(names)


@pytest.mark.parametrize("table", TABLES)
def test_numbers_have_no_hole_and_no_repetition(table: str) -> None:
    numbers = [statement["number"] for statement in _read(table)]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize("table", TABLES)
def test_every_statement_says_something_of_its_own(table: str) -> None:
    said = [statement["says"] for statement in _read(table)]
    assert all(len(text.split()) > 2 and text.endswith(".") for text in said)
    assert len(set(said)) == len(said)


@pytest.mark.parametrize("table", TABLES)
def test_every_statement_has_tests_and_all_of_them_exist(table: str) -> None:
    faults = []
    for statement in _read(table):
        if not statement["tests"]:
            faults.append(f"{statement['number']}: no test")
        for node_id in statement["tests"]:
            path, _, name = node_id.partition("::")
            if name not in _tests_in(path):
                faults.append(f"{statement['number']}: {node_id} does not exist")
    assert not faults, "\n".join([f"{table}:", *faults])
