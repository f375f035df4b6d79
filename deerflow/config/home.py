"""Where the host keeps its state: everything lies under one folder."""

from __future__ import annotations

import os
import re
from pathlib import Path

from deerflow.errors import InvalidRequestError

HOME_VARIABLE = "DEER_FLOW_HOME"
DEFAULT_HOME = ".deer-flow"
_SAFE_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")


def find_home() -> Path:
    """Return the folder that `DEER_FLOW_HOME` names, else `.deer-flow` in the working directory.

    A relative one stays relative: asking for the working directory would block an event loop.
    """
    return Path(os.environ.get(HOME_VARIABLE) or DEFAULT_HOME).expanduser()


def thread_folder(home: Path, thread_id: str) -> Path:
    """Return the folder of one thread. A thread id that could lead elsewhere: `InvalidRequestError`."""
    if not _SAFE_NAME.fullmatch(thread_id):
        raise InvalidRequestError(
            f"thread_id: {thread_id[:80]!r} is not allowed; allowed: up to 128 letters, digits, '-' and '_'"
        )
    return home / "threads" / thread_id
