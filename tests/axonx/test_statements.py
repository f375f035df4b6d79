"""Every statement of the documentation has tests, and the tests that it names exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "axonx" / "statements.md"
_ROW = re.compile(r"^\| (\d+) \| (.+) \| (.*) \|$", re.MULTILINE)
_TEST = re.compile(r"`([\w/]+\.py)::(test_\w+)`")

STATEMENTS = {int(number): (text, tests) for number, text, tests in _ROW.findall(PAGE.read_text("utf-8"))}


@cache
def functions_in(file: str) -> frozenset[str]:
    """The names of a file's test functions; none for a file that does not exist."""
    path = HERE / file
    if not path.is_file():
        return frozenset()
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return frozenset(
        node.name for node in ast.parse(path.read_text("utf-8")).body if isinstance(node, functions)
    )


def test_statements_are_numbered_one_after_another() -> None:
    rows = re.findall(r"^\| \d", PAGE.read_text("utf-8"), re.MULTILINE)
    assert len(rows) == len(STATEMENTS) > 50
    assert list(STATEMENTS) == list(range(1, len(STATEMENTS) + 1))


def test_no_statement_stands_twice() -> None:
    texts = [text for text, _ in STATEMENTS.values()]
    assert len(set(texts)) == len(texts)


def test_every_statement_names_tests_that_exist() -> None:
    missing = []
    for number, (_, tests) in STATEMENTS.items():
        named = _TEST.findall(tests)
        if not named or len(named) != tests.count("`") // 2:
            missing.append(f"{number}: names no test, or something else")
        missing += [f"{number}: {file}::{name}" for file, name in named if name not in functions_in(file)]
    assert missing == []
