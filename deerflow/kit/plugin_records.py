"""The `plugins:` records of a configuration's text, with the place of each; nothing is resolved or loaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import yaml
from pydantic import ValidationError

from deerflow.config import ExtensionSpec
from deerflow.config.environment import Expansion
from deerflow.config.problems import problems_of
from deerflow.kit.errors import KitError, WrongUseError

PLUGINS: Final = "plugins"
BREAKS: Final = "\r\n\x85\u2028\u2029"
"""What ends a line in YAML 1.1."""

_STRING: Final = "tag:yaml.org,2002:str"
_NULL: Final = "tag:yaml.org,2002:null"


@dataclass(frozen=True)
class PluginRecord:
    """One record as it is written: `fields` before environment variables are put in.

    `problem` says why the host would refuse it, in one line; None where it is fine.
    """

    index: int
    fields: Mapping[str, Any]
    problem: str | None
    node: yaml.Node = field(repr=False, compare=False)

    @property
    def label(self) -> str:
        """What it is called in commands: its name, package, entry point, or position."""
        return next(iter(self.names), f"plugins[{self.index}]")

    @property
    def names(self) -> tuple[str, ...]:
        """Everything that it may be called."""
        values = (self.text(key) for key in ("name", "package", "use"))
        return tuple(value for value in values if value)

    @property
    def enabled(self) -> bool:
        """Whether the host would load it; a value that is no truth value counts as true."""
        return self.fields.get("enabled") is not False

    def text(self, key: str) -> str | None:
        """The text of one field; None where it is missing or no text."""
        value = self.fields.get(key)
        return value.replace("$$", "$") if isinstance(value, str) else None


class PluginsText:
    """The text of a configuration file, read for its `plugins:`.

    Raises `KitError` where it is no YAML mapping, or where its plugins cannot be edited without a doubt.
    What is wrong with single records, or anywhere else, does not matter here.
    """

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.root = self._compose()
        pairs = [pair for pair in self.root.value if _is_plugins(pair[0])] if self.root else []
        if len(pairs) > 1:
            lines = ", ".join(str(key.start_mark.line + 1) for key, _ in pairs)
            raise self.refuse(f"plugins stands {len(pairs)} times (lines {lines}); keep one of them")
        self.key: yaml.Node | None = pairs[0][0] if pairs else None
        self.value: yaml.Node | None = pairs[0][1] if pairs else None
        self._check_value()

    @cached_property
    def records(self) -> tuple[PluginRecord, ...]:
        """All records in order, broken ones included."""
        nodes = self.value.value if isinstance(self.value, yaml.SequenceNode) else []
        return tuple(_record(index, node) for index, node in enumerate(nodes))

    @cached_property
    def tokens(self) -> tuple[yaml.Token, ...]:
        """The tokens of the text, for the places of dashes, commas and colons."""
        return tuple(yaml.scan(self.text, Loader=yaml.SafeLoader))

    def find(self, name: str) -> PluginRecord:
        """Return the record that is called `name`. Raises `WrongUseError` for none or several."""
        for key in ("name", "package", "use"):
            found = [record for record in self.records if record.text(key) == name]
            if len(found) == 1:
                return found[0]
            if found:
                places = ", ".join(f"line {record.node.start_mark.line + 1}" for record in found)
                raise WrongUseError(
                    f"{self.source}: {len(found)} plugins are called {name!r} ({places}); "
                    "give each a name of its own"
                )
        nameless = [record for record in self.records if not record.names and record.label == name]
        if nameless:
            return nameless[0]
        known = ", ".join(record.label for record in self.records) or "none"
        raise WrongUseError(f"{self.source}: no plugin is called {name!r}; there are: {known}")

    def refuse(self, problem: str) -> KitError:
        """The error that says where an edit is not possible."""
        return KitError(f"{self.source}: {problem}")

    def _compose(self) -> yaml.MappingNode | None:
        try:
            root = yaml.compose(self.text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
            raise self.refuse(f"{where}{error.problem}; correct it first") from error
        except (yaml.YAMLError, RecursionError) as error:
            problem = " ".join(str(error).split())
            raise self.refuse(f"is not valid YAML: {problem}; correct it first") from error
        if root is None or _is_null(root):
            return None
        if not isinstance(root, yaml.MappingNode):
            raise self.refuse("holds no mapping of sections; correct it first")
        return root

    def _check_value(self) -> None:
        value = self.value
        if value is None or self.key is None:
            return
        if value.start_mark.index < self.key.end_mark.index:
            raise self.refuse("plugins is an alias (*); write the list itself")
        if not isinstance(value, yaml.SequenceNode) and not _is_null(value):
            raise self.refuse("plugins is no list; write a list of records")


def shape(node: yaml.Node | None, _seen: tuple[int, ...] = ()) -> Any:
    """Return what a node says, without its place and style, to be compared."""
    if node is None:
        return None
    if id(node) in _seen:
        return "cycle"
    seen = (*_seen, id(node))
    if isinstance(node, yaml.MappingNode):
        return node.tag, tuple((shape(key, seen), shape(value, seen)) for key, value in node.value)
    if isinstance(node, yaml.SequenceNode):
        return node.tag, tuple(shape(item, seen) for item in node.value)
    return node.tag, node.value


def is_null(node: yaml.Node) -> bool:
    """Whether a node says nothing."""
    return _is_null(node)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == _NULL


def _is_plugins(key: yaml.Node) -> bool:
    return isinstance(key, yaml.ScalarNode) and key.tag == _STRING and key.value == PLUGINS


def _record(index: int, node: yaml.Node) -> PluginRecord:
    if not isinstance(node, yaml.MappingNode):
        return PluginRecord(index, {}, "is no mapping; write `use: module:install`", node)
    keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    loader = yaml.SafeLoader("")
    try:
        fields = loader.construct_document(node)
    except (yaml.YAMLError, ValueError, TypeError) as error:
        return PluginRecord(index, {}, f"cannot be read: {str(error).splitlines()[0]}", node)
    finally:
        loader.dispose()
    problem = f"{twice[0]} stands twice; keep one" if twice else _problem(fields)
    return PluginRecord(index, fields, problem, node)


def _problem(fields: dict[str, Any]) -> str | None:
    """What the host would say about a record by itself; the first problem of several."""
    expansion = Expansion(os.environ)
    expanded = expansion.apply(fields)
    problems = list(expansion.problems)
    try:
        ExtensionSpec.model_validate(expanded)
    except ValidationError as error:
        problems += problems_of(error)
    return problems[0].line("") if problems else None
