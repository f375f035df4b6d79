"""The page about the bridge says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from deerflow.axonx_bridge.calling import _EVENT_TYPES
from deerflow.axonx_bridge.options import PUBLIC, BridgeOptions

PAGE = (Path(__file__).parents[2] / "docs" / "bridge.md").read_text("utf-8")


def rows_after(heading: str) -> dict[str, str]:
    """The first two cells of the first table after a heading."""
    section = re.split(r"\n## ", PAGE.split(f"\n## {heading}\n")[1])[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")][2:]
    return {row[0].strip().strip("`"): row[1].strip() for row in rows}


def test_the_table_of_options_is_the_model() -> None:
    rows = rows_after("Options")
    assert list(rows) == list(BridgeOptions.model_fields)
    for name, field in BridgeOptions.model_fields.items():
        if field.is_required():
            assert rows[name] == "required"
        elif name == "jobs":
            assert rows[name] == f"`{PUBLIC}`"
        else:
            shown = f'"{field.default}"' if isinstance(field.default, str) else repr(field.default)
            assert rows[name] == f"`{shown}`"


def test_the_table_of_events_is_the_code() -> None:
    rows = rows_after("What clients see")
    assert {kind: re.findall("`(axonx_.*?)`", cell)[0] for kind, cell in rows.items()} == _EVENT_TYPES
