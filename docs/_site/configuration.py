"""The tables of the configuration reference, from the schema and the comments of `config.example.yaml`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import yaml
from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from deerflow.config import AppConfig
from deerflow.config.drift import section_in
from deerflow.config.fields import Section

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
_EMPTY_KEY = re.compile(r"( *)([\w-]+): (\[\]|\{\})(.*)$")
_COMMENTED = re.compile(r" *# ")
# Sections whose keys are explained where another one stands in the example.
_EXPLAINED_AT = {"TokenBudget": "token_budget", "Agent": "subagents.agents.general-purpose"}
_PLAIN_WORDS = {"text of at least one character": "text", "Input should be a valid string": "text"}
_TRAILING_COMMENT = re.compile(r"\s#\s(.*)$")


@dataclass(frozen=True)
class Row:
    """One key: its path below the top, what may stand there, its default, and what it means."""

    path: str
    allowed: str
    default: str
    meaning: str


@dataclass(frozen=True)
class Table:
    """One top-level key with all keys below it."""

    key: str
    about: str
    rows: tuple[Row, ...]


def tables() -> list[Table]:
    """A table for each top-level key, in the order of the schema."""
    written = meanings()
    found = []
    for key, field in AppConfig.model_fields.items():
        section = section_in(field.annotation)
        assert section is not None, f"{key} is no section"
        path = _child(key, field)
        rows = tuple(_rows(section, path, written))
        found.append(Table(key, _about(section), rows))
    return found


def markdown() -> str:
    """The tables of every section as Markdown."""
    return "\n".join(line for table in tables() for line in _lines(table))


def meanings() -> dict[str, str]:
    """The comment beside each key of the example, by the key's path; list items are `[]`.

    A comment belongs to the first key of its line.
    """
    text = _uncommented(EXAMPLE.read_text("utf-8"))
    lines = dict(enumerate(text.splitlines()))
    found: dict[str, str] = {}
    for path, line_number in _keys(yaml.compose(text), ""):
        comment = _TRAILING_COMMENT.search(lines.pop(line_number, ""))
        if comment:
            found.setdefault(path, comment[1].strip())
    return found


def _uncommented(text: str) -> str:
    """The example with the commented records below empty keys written out, columns kept."""
    written: list[str] = []
    is_example = False
    for line in text.splitlines():
        empty = _EMPTY_KEY.match(line)
        is_example = empty is not None or (is_example and _COMMENTED.match(line) is not None)
        if empty:
            line = f"{empty[1]}{empty[2]}:{empty[4]}"
        elif is_example:
            line = line.replace("# ", "  ", 1)
        written.append(line)
    return "\n".join(written)


def _keys(node: yaml.Node | None, path: str) -> Iterator[tuple[str, int]]:
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _keys(item, f"{path}[]")
    elif isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = f"{path}.{key.value}".lstrip(".")
            yield here, key.start_mark.line
            yield from _keys(value, here)


def _rows(section: type[Section], path: str, written: Mapping[str, str]) -> Iterator[Row]:
    for key, field in section.model_fields.items():
        here = f"{path}.{key}"
        inner = section_in(field.annotation)
        yield Row(here, _allowed(field), _default(field), _meaning(section, here, written, inner))
        if inner is not None:
            yield from _rows(inner, _child(here, field), written)


def _child(path: str, field: FieldInfo) -> str:
    container = get_origin(field.annotation)
    return f"{path}[]" if container is tuple else f"{path}.NAME" if container is dict else path


def _meaning(
    section: type[Section], path: str, written: Mapping[str, str], inner: type[Section] | None
) -> str:
    """What the example says of the key, or of the same key elsewhere; else what its section is."""
    pattern = re.compile(re.escape(path).replace("NAME", r"[\w-]+") + "$")
    own = next((text for found, text in written.items() if pattern.match(found)), "")
    if own or inner is not None:
        return own or _about(inner)
    name, key = section.__name__, path.rpartition(".")[2]
    elsewhere = next((place for kind, place in _EXPLAINED_AT.items() if kind in name), None)
    if elsewhere is not None:
        return written.get(f"{elsewhere}.{key}", "")
    return _about(section)


def _about(section: type[BaseModel]) -> str:
    return " ".join((section.__doc__ or "").split())


def _allowed(field: FieldInfo) -> str:
    """What the message about a wrong value says is allowed."""
    inner = section_in(field.annotation)
    container = get_origin(field.annotation)
    if inner is not None:
        return {tuple: "a list of records", dict: "records by name"}.get(container or object, "a section")
    if container is dict:
        return "a mapping"
    said = _kind(field.annotation, field.metadata)
    return f"{said}, or `null`" if type(None) in get_args(field.annotation) else said


def _kind(annotation: Any, metadata: Iterable[Any]) -> str:
    parts = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is tuple:
        return f"a list of {_refusal(parts[0], ())}"
    if len(parts) == 1 and get_origin(parts[0]) is tuple:  # a list that may be missing
        return _kind(parts[0], ())
    return _refusal(annotation, metadata)


def _refusal(annotation: Any, metadata: Iterable[Any]) -> str:
    """What pydantic says of a value that fits nowhere."""
    for constraint in metadata:
        annotation = Annotated[annotation, constraint]
    try:
        TypeAdapter(annotation).validate_python(object())
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
    else:
        return "anything"
    if problem["type"] == "literal_error":
        return problem["msg"].removeprefix("Input should be ").replace("'", "`")
    return _PLAIN_WORDS.get(problem["msg"], problem["msg"])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if section_in(field.annotation) is not None:
        return "" if isinstance(value, BaseModel) else _json(value)
    return _json(value)


def _json(value: Any) -> str:
    plain = TypeAdapter(Any).dump_python(value, mode="json")
    return f"`{json.dumps(plain)}`"


def _lines(table: Table) -> Iterator[str]:
    yield from (f"## {table.key}", "", table.about, "")
    yield from ("| key | allowed | default | meaning |", "|---|---|---|---|")
    for row in table.rows:
        cells = (f"`{row.path}`", row.allowed, row.default, row.meaning)
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
    yield ""
