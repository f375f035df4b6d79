"""What a dry run of the extensions found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal


class Fate(StrEnum):
    """What starting the host would do with an entry."""

    LOADED = "ok"
    REDUCED = "loaded without a part of it"
    DROPPED = "not loaded"
    DISABLED = "disabled"
    STOPS_HOST = "keeps the host from starting"


@dataclass(frozen=True)
class Finding:
    """One problem of one entry. An error is lost at start or at each call; a warning may be intended."""

    level: Literal["error", "warning"]
    text: str


@dataclass(frozen=True)
class EntryReport:
    """One record, at `index` of the list. `contributions` and `routes` are what it registers, a line each."""

    index: int
    label: str
    use: str
    fate: Fate
    contract: str = ""
    contributions: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()
    table_prefix: str | None = None
    import_seconds: float = 0.0
    install_seconds: float = 0.0
    findings: tuple[Finding, ...] = ()

    def lines(self) -> Iterator[str]:
        """The entry as text."""
        name = self.use if self.label == self.use else f"{self.label} ({self.use})"
        yield f"{name}: {self.fate}"
        rows = {
            "contract": self.contract,
            "registers": "; ".join(self.contributions),
            "routes": "; ".join(self.routes),
            "tables": f"{self.table_prefix}*" if self.table_prefix else "",
            "time": self._times(),
        }
        for title, text in rows.items():
            if text:
                yield f"  {title:<10} {text}"
        for finding in self.findings:
            yield f"  {finding.level + ':':<10} {finding.text}"

    def _times(self) -> str:
        if self.fate is Fate.DISABLED:
            return ""
        return f"import {self.import_seconds:.2f} s, install {self.install_seconds:.2f} s"


@dataclass(frozen=True)
class CheckReport:
    """All records of one configuration. `problems` are those of the file itself, which stop the host."""

    source: str
    problems: tuple[str, ...] = ()
    entries: tuple[EntryReport, ...] = field(default=())

    @property
    def ok(self) -> bool:
        """Whether the host would start, and lose nothing."""
        return not self.problems and self.error_count == 0

    @property
    def error_count(self) -> int:
        """How many errors the entries have."""
        return sum(finding.level == "error" for entry in self.entries for finding in entry.findings)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        yield from self.problems
        for entry in self.entries:
            yield from entry.lines()
        if not self.entries and not self.problems:
            yield f"{self.source}: no plugins"
