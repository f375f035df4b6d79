"""Parts of paths, as the OpenAPI document describes them; what they may be is checked where they are used."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path

_UUID = {"format": "uuid"}

ThreadId = Annotated[str, Path(json_schema_extra=_UUID)]
RunId = Annotated[str, Path(json_schema_extra=_UUID)]
CheckpointId = Annotated[str, Path(json_schema_extra=_UUID)]
AssistantId = Annotated[str, Path(description="The UUID of an assistant, or the name of a graph.")]
