"""What every run of a host shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver

from deerflow.agents.lead import Assembler
from deerflow.config.schema import AppConfig
from deerflow.extensions import LoadedExtensions, get_loaded_extensions
from deerflow.runs.memory import MemoryService
from deerflow.runs.stores import RunStores


@dataclass(frozen=True)
class RunParts:
    """The parts that runs are made of. `mounts` are read-only names in every workspace; without `memory`
    nothing is remembered across threads."""

    config: AppConfig
    stores: RunStores
    assembler: Assembler
    mounts: Mapping[str, Path] = field(default_factory=dict)
    resolve_snapshot: Callable[[], LoadedExtensions] = get_loaded_extensions
    checkpointer: BaseCheckpointSaver[Any] | None = None
    memory: MemoryService | None = None
