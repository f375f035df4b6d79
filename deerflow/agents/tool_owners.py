"""Whose tools an agent has: each name belongs to one owner, the first that offers it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from langchain_core.tools import BaseTool

from deerflow.extensions import Diagnostic, LoadedExtensions
from deerflow.extensions.diagnostics import report

logger = logging.getLogger(__name__)

ALLOWED_NAMES = "1 to 64 letters, digits, '_' or '-'"

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True)
class ToolOwner:
    """Who brings a tool: `label` for people, `source` for what describes an agent.

    `extension` is the entry point of the extension that contributed it.
    """

    label: str
    source: str
    extension: str | None = None
    mcp_server: str | None = None
    mcp_transport: str | None = None


HOST = ToolOwner("the host", "host")


@dataclass(frozen=True, eq=False)
class OwnedTool:
    """A tool with its owner."""

    tool: BaseTool
    owner: ToolOwner

    @property
    def name(self) -> str:
        return self.tool.name


Complaint = Callable[[ToolOwner, str], None]
"""Is told of an owner's tool that is left out, and why."""


def is_tool_name(name: str) -> bool:
    """Whether every provider takes this name of a tool."""
    return _NAME.fullmatch(name) is not None


def one_per_name(
    offers: Iterable[OwnedTool], complain: Complaint, *, taken: Mapping[str, ToolOwner]
) -> list[OwnedTool]:
    """The first offer of each name, in order; what is left out is complained of.

    A `taken` name is its owner's alone. One and the same tool may be offered again by its owner.
    """
    kept: dict[str, OwnedTool] = {}
    for offer in offers:
        name, owner = offer.name, offer.owner
        earlier = kept.get(name)
        holder = taken.get(name, owner) if earlier is None else earlier.owner
        if not is_tool_name(name):
            complain(owner, f"its tool {name[:100]!r} is left out: a tool's name is {ALLOWED_NAMES}")
        elif earlier is None and holder == owner:
            kept[name] = offer
        elif earlier is None or earlier.tool is not offer.tool or holder != owner:
            complain(owner, f"its tool {name!r} is left out: {holder.label} has one of this name")
    return list(kept.values())


class Complaints:
    """Says each complaint once: an extension's to its diagnostics, any other in the log."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def of(self, snapshot: LoadedExtensions) -> Complaint:
        """Where complaints go while an agent of `snapshot` is built."""

        def complain(owner: ToolOwner, message: str) -> None:
            if owner.extension is None:
                self.warn(owner, message)
            elif Diagnostic("warning", owner.extension, message) not in snapshot.diagnostics:
                report(snapshot.diagnostics, "warning", owner.extension, message)

        return complain

    def warn(self, owner: ToolOwner, message: str) -> None:
        """Say it in the log."""
        if (owner.label, message) not in self._said:
            self._said.add((owner.label, message))
            logger.warning("%s: %s", owner.label, message)
