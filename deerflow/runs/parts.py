"""What every run of a host shares."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver, CheckpointTuple

from deerflow.agents.lead import Assembler
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions, get_loaded_extensions
from deerflow.runs.active import ActiveRun
from deerflow.runs.checkpoint_gate import CheckpointGate
from deerflow.runs.hosts.presence import Presence
from deerflow.runs.hosts.relay import EventRelay
from deerflow.runs.memory import MemoryService
from deerflow.runs.stores import RunStores

RollBack = Callable[[str, str, CheckpointTuple | None], Awaitable[None]]


def _alone() -> Presence:
    return Presence(None, lease_seconds=math.inf)


@dataclass(frozen=True)
class RunParts:
    """The parts that runs are made of. `mounts` are read-only names in every workspace; without `memory`
    nothing is remembered across threads; `roll_back` removes a run's checkpoints (thread id, run id, the
    checkpoint that it went on from); `on_run_end` is told of every run, once it has ended; `relay` is where
    hosts read the events of each other's runs."""

    config: AppConfig
    stores: RunStores
    assembler: Assembler
    mounts: Mapping[str, Path] = field(default_factory=dict)
    resolve_snapshot: Callable[[], LoadedExtensions] = get_loaded_extensions
    checkpointer: BaseCheckpointSaver[Any] | None = None
    memory: MemoryService | None = None
    presence: Presence = field(default_factory=_alone)
    gate: CheckpointGate = field(default_factory=lambda: CheckpointGate(_alone()))
    roll_back: RollBack | None = None
    on_run_end: Callable[[ActiveRun], None] | None = None
    relay: EventRelay | None = None

    @property
    def host_id(self) -> str:
        """What this host is called in the records of its runs."""
        return self.presence.host_id
