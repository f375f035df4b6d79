"""Loading extensions once per process for embedded clients, and who of them runs the services."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AsyncExitStack
from threading import Lock

from deerflow.config import ExtensionSpec
from deerflow.extensions.loader import load_extensions
from deerflow.extensions.notification_loop import is_served
from deerflow.extensions.snapshot import LoadedExtensions, get_loaded_extensions, set_loaded_extensions


class _Process:
    def __init__(self) -> None:
        self.lock = Lock()
        self.loaded: LoadedExtensions | None = None
        self.serving: set[LoadedExtensions] = set()


_process = _Process()


def load_once(specs: Sequence[ExtensionSpec]) -> LoadedExtensions:
    """Load `specs` into the process-wide set, unless an earlier call did and its set is still in force.

    The set of a Gateway that serves in this process stays in force too: its runs would lose their services.
    """
    with _process.lock:
        current = get_loaded_extensions()
        if is_served(current):
            return current
        if _process.loaded is None or current is not _process.loaded:
            _process.loaded, _ = load_extensions(specs)
            set_loaded_extensions(_process.loaded)
        return _process.loaded


def claim_services(loaded: LoadedExtensions, until: AsyncExitStack) -> LoadedExtensions | None:
    """`loaded`, where nobody in this process runs its services yet; given back when `until` closes."""
    with _process.lock:
        if loaded in _process.serving or is_served(loaded):
            return None
        _process.serving.add(loaded)
    until.callback(_give_back, loaded)
    return loaded


def _give_back(loaded: LoadedExtensions) -> None:
    with _process.lock:
        _process.serving.discard(loaded)
