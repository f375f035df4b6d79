"""References to environment variables in configuration values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deerflow.config.fields import EnvironmentText
from deerflow.config.problems import Path, Problem

_REFERENCE = re.compile(
    r"""\$(?: (?P<escape>\$)
          | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
          | \{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}
          | (?P<broken>\{))""",
    re.VERBOSE,
)


@dataclass
class Expansion:
    """One pass over parsed values: `problems` holds one entry per reference that could not be replaced."""

    environment: Mapping[str, str]
    problems: list[Problem] = field(default_factory=list)
    _seen: dict[int, Any] = field(default_factory=dict)

    def apply(self, value: Any, path: Path = ()) -> Any:
        """Return `value` with `$NAME` and `${NAME:-default}` replaced at every depth, `$$` being a dollar.

        Keys stay as they are, and so does what comes out of the environment. Mappings and lists are new ones.
        """
        if isinstance(value, str):
            return self._text(value, path)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if id(value) in self._seen:  # a YAML alias, or a cycle
            return self._seen[id(value)]
        if isinstance(value, Mapping):
            mapping = self._seen.setdefault(id(value), {})
            mapping.update((key, self.apply(item, (*path, key))) for key, item in value.items())
            return mapping
        items = self._seen.setdefault(id(value), [])
        items.extend(self.apply(item, (*path, index)) for index, item in enumerate(value))
        return items

    def _text(self, text: str, path: Path) -> str:
        if "$" not in text:
            return text
        matches = list(_REFERENCE.finditer(text))
        expanded = _REFERENCE.sub(lambda match: self._replacement(match, path), text)
        if any(match["name"] or match["braced"] for match in matches):
            return EnvironmentText.of(expanded, reference=text)
        return expanded

    def _replacement(self, match: re.Match[str], path: Path) -> str:
        if match["escape"]:
            return "$"
        if match["broken"]:
            allowed = "${NAME} or ${NAME:-default} with a default without braces; $$ for a dollar"
            self.problems.append(Problem(path, "has a broken reference", allowed))
            return match[0]
        name = match["name"] or match["braced"]
        found = self.environment.get(name)
        if match["default"] is not None:
            return found or match["default"]  # as in a shell, an empty variable takes the default
        if found is None:
            allowed = f"set it, write ${{{name}:-default}}, or $$ for a dollar"
            self.problems.append(Problem(path, f"environment variable {name} is not set", allowed))
            return match[0]
        return found
