"""What a tool hands to programs beside its text: whole where a checkpoint can hold it, or not at all."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_SERIALIZER = JsonPlusSerializer()


def why_left_out(artifact: Any, max_bytes: int) -> str | None:
    """Why no checkpoint can hold `artifact`, None where it can; an artifact of `None` is none."""
    if artifact is None:
        return None
    kind = type(artifact).__name__
    try:
        size_bytes = len(_SERIALIZER.dumps_typed(artifact)[1])
    except Exception as error:  # noqa: BLE001 - an artifact may be anything, and fail in any way
        return f"the artifact of type {kind} cannot be stored: {type(error).__name__}: {error}"
    if size_bytes > max_bytes:
        return f"the artifact of type {kind} has {size_bytes} bytes, and {max_bytes} are the most"
    return None
