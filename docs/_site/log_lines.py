"""Every line that the host and AxonX may write to the log, read from the source."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LEVELS = ("error", "warning", "info")
_LEVEL_OF = {"exception": "error", **{level: level for level in LEVELS}}
_LOGGERS = {"logger", "_logger"}
_SLOT = re.compile(r"%(?:\.\d+)?[sdrgf]")


@dataclass(frozen=True, order=True)
class LogLine:
    """One line: what it says (an ellipsis for each value), how severe it is, and which module writes it."""

    package: str
    level: int
    text: str
    module: str


def log_lines(package: str) -> list[LogLine]:
    """The lines of `deerflow` or `axonx`, the most severe first; what only `DEBUG` shows is left out."""
    found = {line for path in (ROOT / package).rglob("*.py") for line in _lines_of(path)}
    return sorted(found)


def markdown() -> str:
    """Two tables, one for each package."""
    return "\n".join(line for package in ("deerflow", "axonx") for line in _table(package))


def _lines_of(path: Path) -> Iterator[LogLine]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            level = _LEVEL_OF.get(node.func.attr)
            text = _text(node.args[0])
            if level is not None and text is not None and _name(node.func.value) in _LOGGERS:
                yield LogLine(module.partition(".")[0], LEVELS.index(level), _SLOT.sub("…", text), module)


def _name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _table(package: str) -> Iterator[str]:
    yield from (f"### {package}", "", "| level | line | logger |", "|---|---|---|")
    for line in log_lines(package):
        text = line.text.replace("|", "\\|")
        yield f"| {LEVELS[line.level]} | `{text}` | `{line.module}` |"
    yield ""
