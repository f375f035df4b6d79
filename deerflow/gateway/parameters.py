"""Parameters of several routes; what ids may be is checked where they are used."""

from __future__ import annotations

from typing import Annotated

import orjson
from fastapi import Path

from deerflow.errors import InvalidRequestError

_UUID = {"format": "uuid"}

ThreadId = Annotated[str, Path(json_schema_extra=_UUID)]
RunId = Annotated[str, Path(json_schema_extra=_UUID)]
CheckpointId = Annotated[str, Path(json_schema_extra=_UUID)]
AssistantId = Annotated[str, Path(description="The UUID of an assistant, or the name of a graph.")]


def listed_modes(given: list[str] | None) -> list[str]:
    """Modes may be repeated, or stand in one parameter as a JSON list."""
    modes = [mode for mode in given or [] if mode]
    if len(modes) == 1 and modes[0].startswith("["):
        try:
            listed = orjson.loads(modes[0])
        except orjson.JSONDecodeError:
            listed = None
        if not isinstance(listed, list) or not all(isinstance(mode, str) for mode in listed):
            raise InvalidRequestError("stream_mode: names of stream modes are needed, or a JSON list of them")
        return listed
    return modes
