"""What a tool hands to programs beside its text: whole where a checkpoint can hold it, or not at all."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

_SERIALIZER = JsonPlusSerializer()


_FEW_VALUES = 100
_FEW_CHARACTERS = 10_000


def is_small(artifact: Any) -> bool:
    """Whether it is JSON so short that nobody has to ask whether a checkpoint can hold it."""
    pending, characters = [artifact], 0
    for _ in range(_FEW_VALUES):
        if not pending:
            return True
        value = pending.pop()
        if isinstance(value, dict | list) and len(value) < _FEW_VALUES:
            pending += [*value, *value.values()] if isinstance(value, dict) else value
        elif isinstance(value, str) and characters + len(value) < _FEW_CHARACTERS:
            characters += len(value)
        elif not _is_short_scalar(value):
            return False
    return not pending


def _is_short_scalar(value: Any) -> bool:
    return value is None or isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**63)


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
