"""What is wrong with a configuration, as one line per field without secrets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from deerflow.config.drift import suggestion
from deerflow.config.fields import EnvironmentText
from deerflow.config.plugins import ExtensionSpec
from deerflow.errors import ConfigError

Path = tuple[Any, ...]

_SECRET_KEY = re.compile(
    r"(^|[_-])(key|apikey|token|password|passwd|secrets?|credentials?|authorization|cookie|headers|env)$",
    re.IGNORECASE,
)
_URL_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]*@")
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Problem:
    """One wrong field: where it stands, what is wrong, and what is allowed."""

    path: Path
    fault: str
    allowed: str

    def line(self, source: str) -> str:
        where = ": ".join(part for part in (source, dotted(self.path)) if part)
        return f"{where}: {self.fault}; {self.allowed}"


def dotted(path: Path) -> str:
    """Return `plugins[1].use` for `("plugins", 1, "use")`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: Any, path: Path = ()) -> str:
    """Return `value` for a message: short, in one line, and without what must stay secret."""
    if any(_SECRET_KEY.search(str(part)) for part in path):
        return "(a secret)"
    if isinstance(value, EnvironmentText):
        return _URL_CREDENTIALS.sub("***@", repr(value.reference))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    text = _URL_CREDENTIALS.sub("***@", repr(value))
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "..."


def config_error(problems: Iterable[Problem], source: str) -> ConfigError:
    """Return the error that lists every problem, each on a line of its own."""
    return ConfigError("\n".join(problem.line(source) for problem in problems))


def problems_of(error: ValidationError) -> Iterator[Problem]:
    """Yield one problem per wrong field of a failed validation."""
    for details in error.errors(include_url=False):
        context = details.get("ctx", {})
        if "problems" in context:
            for path, value in context["problems"]:
                yield Problem(path, f"{shown(value)} is not allowed", f"allowed: {details['msg']}")
            continue
        path = (*details["loc"], context["field"]) if "field" in context else details["loc"]
        yield _problem(path, details)


def _problem(path: Path, details: ErrorDetails) -> Problem:
    if details["type"] == "missing":
        return Problem(path, "is missing", "write it, or take the record out")
    if details["type"] == "extra_forbidden":
        known = ", ".join(ExtensionSpec.model_fields)
        return Problem(path, "is an unknown key", f"allowed: {known}{suggestion(path[-1], ExtensionSpec)}")
    value = details["input"]
    if isinstance(value, dict) and path != details["loc"]:  # a check across fields: show the field itself
        value = value.get(path[-1])
    return Problem(path, f"{shown(value, path)} is not allowed", f"allowed: {_allowed(details)}")


def _allowed(details: ErrorDetails) -> str:
    kinds = {
        "model_type": "a mapping",
        "dict_type": "a mapping",
        "tuple_type": "a list",
        "list_type": "a list",
        "string_type": "text",
        "too_short": "at least one entry",
    }
    return kinds.get(details["type"]) or details["msg"].removeprefix("Input should be ")
