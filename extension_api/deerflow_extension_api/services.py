"""Long-lived work of an extension, started and stopped with the host."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from .evidence import RunEvidenceReader
from .policy import HostPolicySnapshot
from .state import ExtensionData


@dataclass(frozen=True)
class ExtensionRuntimeDeps:
    """What the host lends to a service. Everything may be missing, depending on how the host runs.

    `session_factory` makes SQLAlchemy async sessions; it is `None` without a database.
    """

    app_store: ExtensionData | None = None
    policy: HostPolicySnapshot = field(default_factory=HostPolicySnapshot)
    session_factory: Any = None
    run_evidence_reader: RunEvidenceReader | None = None


class ExtensionService(Protocol):
    """Something that lives as long as the host, on its serving loop."""

    async def start(self, deps: ExtensionRuntimeDeps) -> None:
        """Start and return; the host takes no run before. Where it raises, the host goes on without it."""
        return

    async def stop(self) -> None:
        """Stop within 30 seconds. Called once `start` was entered, even where that failed."""
        return
